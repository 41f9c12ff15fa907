// node-postgres: parameters, named statements, cursors, streams, COPY, pools, cancellation, errors, transactions.

import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createRequire } from "node:module";
import pg from "pg";
import Cursor from "pg-cursor";
import QueryStream from "pg-query-stream";
import copy from "pg-copy-streams";
import { check, checkFails, ENDLESS, meanwhile, tls } from "./common.mjs";

const version = createRequire(import.meta.url)("pg/package.json").version;
// libpq's own variables would be read again, without the certificate's name.
delete process.env.PGSSLMODE;

async function types(client) {
  const values = [
    ["bool", true, true],
    ["int2", -32768, -32768],
    ["int4", 2147483647, 2147483647],
    ["int8", "9223372036854775807", "9223372036854775807"],
    ["float4", 1.5, 1.5],
    ["float8", -1e300, -1e300],
    ["numeric(22,2)", "12345678901234567890.50", "12345678901234567890.50"],
    ["text", "ünï 'quoted' \\", "ünï 'quoted' \\"],
    ["varchar(3)", "abcdef", "abc"],
    ["bytea", Buffer.from([0, 255]), Buffer.from([0, 255])],
    ["uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    ["timestamptz", new Date("2024-01-02T03:04:05.678Z"), new Date("2024-01-02T03:04:05.678Z")],
    ["jsonb", { a: [1, null, "x"] }, { a: [1, null, "x"] }],
    ["json", JSON.stringify([1, 2]), [1, 2]],
    ["int4[]", [1, null, 3], [1, null, 3]],
    ["text[]", ["a", null, 'b "c", {d}', ""], ["a", null, 'b "c", {d}', ""]],
    ["float8[]", [1.5, 2], [1.5, 2]],
    ["bool[]", [true, false], [true, false]],
  ];
  for (const [type, given, expected] of values) {
    const { rows } = await client.query(`SELECT $1::${type} AS v, NULL::${type} AS n`, [given]);
    check(type, rows, [{ v: expected, n: null }]);
  }
  const { rows } = await client.query("SELECT date '2024-02-29' AS d, interval '1 day 02:03:04' AS i");
  check("date and interval", [rows[0].d.getDate(), rows[0].i.days, rows[0].i.hours], [29, 1, 2]);
  const binary = await client.query({ text: "SELECT $1::int4 AS i, $2::text AS t", values: [7, "x"], binary: true });
  check("binary results", binary.rows, [{ i: 7, t: "x" }]);
}

async function statements(client) {
  await client.query("CREATE TABLE items (id int4 NOT NULL, name text)");
  const inserted = await client.query(
    "INSERT INTO items SELECT g, 'n' || g FROM generate_series(0, $1::int4) g RETURNING id",
    [999],
  );
  check("returning", [inserted.rowCount, inserted.command], [1000, "INSERT"]);
  for (let id = 0; id < 12; id++) {
    const query = { name: "by-id", text: "SELECT name FROM items WHERE id = $1", values: [id] };
    check(`named, run ${id}`, (await client.query(query)).rows, [{ name: `n${id}` }]);
  }
  await client.query("CREATE INDEX items_id ON items (id)");
  const again = { name: "by-id", text: "SELECT name FROM items WHERE id = $1", values: [3] };
  check("named, after DDL", (await client.query(again)).rows, [{ name: "n3" }]);
  const several = await client.query("SELECT 1 AS a; SELECT 2 AS b; UPDATE items SET name = 'x' WHERE id < 2");
  check("several statements", several.map((result) => result.rowCount), [1, 1, 2]);
  const arrays = await client.query({ text: "SELECT 1, 'a'", rowMode: "array" });
  check("rows as arrays", arrays.rows, [[1, "a"]]);
  check("fields", arrays.fields.map((field) => field.dataTypeID), [23, 25]);
  const found = await client.query("SELECT id FROM items WHERE id = ANY($1) ORDER BY id", [[5, 3, 5000]]);
  check("array in ANY", found.rows, [{ id: 3 }, { id: 5 }]);
  // The client queues them; the server answers in order.
  const queued = await Promise.all([...Array(50).keys()].map((n) => client.query("SELECT $1::int4 + 1 AS n", [n])));
  check("queued", queued.map((result) => result.rows[0].n), [...Array(50).keys()].map((n) => n + 1));
}

async function cursors(client) {
  await client.query("BEGIN");
  const cursor = client.query(new Cursor("SELECT id FROM items WHERE id >= $1 ORDER BY id", [10]));
  check("cursor", (await cursor.read(3)).map((row) => row.id), [10, 11, 12]);
  check("cursor goes on", (await cursor.read(2)).map((row) => row.id), [13, 14]);
  await cursor.close();
  const ids = [];
  for await (const row of client.query(new QueryStream("SELECT id FROM items ORDER BY id", [], { batchSize: 64 }))) {
    ids.push(row.id);
  }
  check("stream", [ids.length, ids[999]], [1000, 999]);
  await client.query("COMMIT");
  const outside = client.query(new Cursor("SELECT id FROM items ORDER BY id"));
  check("cursor outside a transaction", (await outside.read(2000)).length, 1000);
  await outside.close();
}

async function copying(client) {
  const lines = [...Array(500).keys()].map((n) => `${2000 + n}\tcopied ${n}\n`);
  await pipeline(Readable.from(lines), client.query(copy.from("COPY items FROM STDIN")));
  const out = client.query(copy.to("COPY (SELECT * FROM items WHERE id >= 2498 ORDER BY id) TO STDOUT WITH (FORMAT csv)"));
  check("copy", await text(out), "2498,copied 498\n2499,copied 499\n");
  await checkFails("22P02", () =>
    pipeline(Readable.from(["x\n"]), client.query(copy.from("COPY items (id) FROM STDIN"))),
  );
}

async function transactions(client) {
  const ids = async () => (await client.query("SELECT id FROM items WHERE id >= 3000 ORDER BY id")).rows.map((r) => r.id);
  await client.query("BEGIN ISOLATION LEVEL SERIALIZABLE");
  await client.query("INSERT INTO items (id) VALUES (3000)");
  await client.query("SAVEPOINT a");
  await checkFails("23502", () => client.query("INSERT INTO items (name) VALUES ($1)", ["x"]));
  await checkFails("25P02", () => client.query("SELECT 1"));
  await client.query("ROLLBACK TO a");
  await client.query("INSERT INTO items (id) VALUES (3001)");
  await client.query("RELEASE a");
  check("inside", await ids(), [3000, 3001]);
  await client.query("COMMIT");
  check("committed", await ids(), [3000, 3001]);
  await client.query("BEGIN READ ONLY");
  await checkFails("25006", () => client.query("DELETE FROM items"));
  await client.query("ROLLBACK");
  await client.query("BEGIN");
  await client.query("CREATE TABLE fresh (id int4)");
  await client.query("INSERT INTO fresh VALUES ($1)", [1]);
  check("DDL and rows in one transaction", (await client.query("SELECT * FROM fresh")).rows, [{ id: 1 }]);
  await client.query("ROLLBACK");
  await checkFails("42P01", () => client.query("SELECT * FROM fresh"));
}

async function errors(client) {
  for (const [code, query] of [
    ["42P01", "SELECT * FROM nosuch_table"],
    ["42601", "SELEC 1"],
    ["22012", "SELECT 1/0"],
    ["22003", "SELECT 2147483647 + 1"],
    ["42883", "SELECT nosuch(1)"],
  ]) {
    const error = await checkFails(code, () => client.query(query));
    check("severity", error.severity, "ERROR");
  }
  await checkFails("22P02", () => client.query("SELECT $1::int4", ["x"]));
  await checkFails("08P01", () => client.query("SELECT $1::int4, $2::int4", [1]));
  const notices = [];
  client.on("notice", (notice) => notices.push(notice.code));
  await client.query("DROP TABLE IF EXISTS nosuch_table");
  check("notices", notices, ["00000"]);
}

async function cancelling(client, settings) {
  const other = await connected(settings);
  const endless = client.query(ENDLESS);
  const failing = checkFails("57014", () => endless);
  await meanwhile(failing, () => other.query("SELECT pg_cancel_backend($1)", [client.processID]));
  await failing;
  check("after a cancellation", (await client.query("SELECT 1 AS one")).rows, [{ one: 1 }]);
  await client.query("SET statement_timeout = 100");
  await checkFails("57014", () => client.query(ENDLESS));
  await client.query("RESET statement_timeout");
  await other.end();
}

async function pools(settings) {
  const pool = new pg.Pool({ ...settings, max: 4 });
  const answers = await Promise.all([...Array(40).keys()].map((n) => pool.query("SELECT $1::int8 AS n", [n])));
  check("pool", answers.map((answer) => answer.rows[0].n), [...Array(40).keys()].map(String));
  await pool.end();
}

async function connected(settings) {
  const client = new pg.Client(settings);
  await client.connect();
  return client;
}

console.log(`node-postgres ${version}`);
const settings = { ssl: tls };
const client = await connected(settings);
check("TLS", client.connection.stream.encrypted, true);
await checkFails("28P01", () => connected({ ...settings, password: "wrong" }));
for (const part of [types, statements, cursors, copying, transactions, errors, cancelling]) {
  await part(client, settings);
}
await client.query("DROP TABLE items");
await client.end();
await pools(settings);
console.log("ok");
