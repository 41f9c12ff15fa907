// postgres.js: tagged queries, helpers, pipelining, cursors, COPY, savepoints, cancellation, errors.

import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createRequire } from "node:module";
import postgres from "postgres";
import { check, checkFails, ENDLESS, tls } from "./common.mjs";

const version = createRequire(import.meta.url)("postgres").version ?? "";
const notices = [];
// A query that is cancelled once ends by itself if that came too early.
const connection = { statement_timeout: 20000 };
const options = { connection, ssl: { ...tls, servername: "localhost" }, max: 4, onnotice: (notice) => notices.push(notice.code) };
const sql = postgres(options);

async function types() {
  const date = new Date("2024-01-02T03:04:05.678Z");
  const [row] = await sql`
    SELECT ${true}::bool AS b, ${7}::int2 AS i2, ${-2147483648}::int4 AS i4, ${"9223372036854775807"}::int8 AS i8,
      ${1.5}::float4 AS f4, ${-1e300}::float8 AS f8, ${"12.50"}::numeric(8,2) AS n, ${"ünï 'q' \\"}::text AS t,
      ${Buffer.from([0, 255])}::bytea AS raw, ${"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}::uuid AS u,
      ${date}::timestamptz AS at, ${sql.json({ a: [1, null] })}::jsonb AS j, ${null}::text AS nothing,
      ${sql.array([1, 2, 3], 1007)} AS ints, ${sql.array(["a", "b c"], 1009)} AS texts`;
  check("values", row, {
    b: true, i2: 7, i4: -2147483648, i8: "9223372036854775807", f4: 1.5, f8: -1e300, n: "12.50", t: "ünï 'q' \\",
    raw: Buffer.from([0, 255]), u: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", at: date, j: { a: [1, null] }, nothing: null,
    ints: [1, 2, 3], texts: ["a", "b c"],
  });
}

async function statements() {
  await sql`CREATE TABLE items (id int4 NOT NULL, name text)`;
  const rows = [...Array(200).keys()].map((id) => ({ id, name: `n${id}` }));
  check("insert helper", (await sql`INSERT INTO items ${sql(rows, "id", "name")}`).count, 200);
  for (let id = 0; id < 12; id++) {
    check(`prepared, run ${id}`, [...(await sql`SELECT name FROM items WHERE id = ${id}`)], [{ name: `n${id}` }]);
  }
  check("in helper", (await sql`SELECT id FROM items WHERE id IN ${sql([1, 3])} ORDER BY id`).map((r) => r.id), [1, 3]);
  check("update helper", (await sql`UPDATE items SET ${sql({ name: "x" })} WHERE id < ${2}`).count, 2);
  check("identifiers", (await sql`SELECT ${sql("name")} FROM ${sql("items")} WHERE id = 0`)[0].name, "x");
  const piped = await Promise.all([...Array(100).keys()].map((n) => sql`SELECT ${n}::int4 AS n`));
  check("pipelined", piped.map(([row]) => row.n), [...Array(100).keys()]);
  const described = await sql`SELECT id, name FROM items WHERE id = ${1}`.describe();
  check("described", [described.types, described.columns.map((column) => column.type)], [[23], [23, 25]]);
  check("simple", (await sql.unsafe("SELECT 1 AS a; SELECT 2 AS b")).map((result) => result[0]), [{ a: 1 }, { b: 2 }]);
}

async function cursors() {
  const seen = [];
  await sql`SELECT id FROM items ORDER BY id`.cursor(64, (rows) => {
    seen.push(rows.length);
  });
  check("cursor", seen, [64, 64, 64, 8]);
  let count = 0;
  for await (const rows of sql`SELECT id FROM items`.cursor(150)) {
    count += rows.length;
  }
  check("cursor by iteration", count, 200);
  const each = [];
  await sql`SELECT generate_series(1, 5) AS g`.forEach((row) => each.push(row.g));
  check("forEach", each, [1, 2, 3, 4, 5]);
}

async function copying() {
  const into = await sql`COPY items (id, name) FROM STDIN`.writable();
  await pipeline(Readable.from(["1000\ta\n", "1001\t\\N\n"]), into);
  const out = await sql`COPY (SELECT id, name FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT`.readable();
  check("copy", await text(out), "1000\ta\n1001\t\\N\n");
}

async function transactions() {
  const result = await sql.begin("isolation level serializable", async (sql) => {
    await sql`INSERT INTO items (id) VALUES (3000)`;
    await checkFails("22012", () =>
      sql.savepoint(async (sql) => {
        await sql`INSERT INTO items (id) VALUES (3001)`;
        await sql`SELECT 1/0`;
      }),
    );
    await sql.savepoint("named", (sql) => sql`INSERT INTO items (id) VALUES (3002)`);
    return sql`SELECT id FROM items WHERE id >= 3000 ORDER BY id`;
  });
  check("savepoints", result.map((row) => row.id), [3000, 3002]);
  await checkFails("25006", () => sql.begin("read only", (sql) => sql`DELETE FROM items`));
  const [row] = await sql.begin(async (sql) => {
    await sql`CREATE TABLE fresh (id int4)`;
    await sql`INSERT INTO fresh VALUES (${1})`;
    return sql`SELECT count(*)::int4 AS n FROM fresh`;
  });
  check("DDL and rows in one transaction", row.n, 1);
  await sql`DROP TABLE fresh`;
}

async function errors() {
  await checkFails("42P01", () => sql`SELECT * FROM nosuch_table`);
  await checkFails("42601", () => sql`SELEC 1`);
  await checkFails("22P02", () => sql`SELECT ${"x"}::text::int4`);
  await checkFails("23502", () => sql`INSERT INTO items (name) VALUES ('x')`);
  await sql`DROP TABLE IF EXISTS nosuch_table`;
  check("notices", notices, ["00000"]);
  const wrong = postgres({ ...options, password: "wrong", max: 1 });
  await checkFails("28P01", () => wrong`SELECT 1`);
  await wrong.end();
}

async function cancelling() {
  const endless = sql.unsafe(ENDLESS);
  const failing = checkFails("57014", () => endless);
  const [other] = await sql`SELECT 1 AS one`;
  endless.cancel();
  await failing;
  check("after a cancellation", [other.one, (await sql`SELECT 2 AS two`)[0].two], [1, 2]);
}

console.log(`postgres.js ${version}`);
for (const part of [types, statements, cursors, copying, transactions, errors, cancelling]) {
  await part();
}
await sql`DROP TABLE items`;
await sql.end();
console.log("ok");
