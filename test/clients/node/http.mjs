// HTTP as a page has it: fetch, a WebSocket (ws), an EventSource (eventsource), and Arrow (apache-arrow), each against the same query
// through pg.
//
// GLIMPSE_HTTP is the address; whom fetch and ws trust is in NODE_EXTRA_CA_CERTS.

import assert from "node:assert/strict";
import { tableFromIPC } from "apache-arrow";
import { EventSource } from "eventsource";
import pg from "pg";
import WebSocket from "ws";
import { check, tls } from "./common.mjs";

const { GLIMPSE_HTTP, PGUSER, PGPASSWORD } = process.env;
const authorization = `Basic ${Buffer.from(`${PGUSER}:${PGPASSWORD}`).toString("base64")}`;

function ask(body, accept = "application/json") {
  const headers = { "Content-Type": "application/json", Accept: accept, Authorization: authorization };
  return fetch(`${GLIMPSE_HTTP}/api/sql`, { method: "POST", headers, body: JSON.stringify(body) });
}

async function results(query) {
  const response = await ask({ query });
  assert.equal(response.status, 200);
  return (await response.json()).results;
}

const client = new pg.Client({ ssl: tls });
await client.connect();

// Values: a row through pg, all of it as text, is the row through fetch.
const values =
  "SELECT 1::int2 AS a, 9223372036854775807::int8 AS b, 1.50::numeric(9,2) AS c, 'ünï \"x\"' AS d, '\\x00ff'::bytea AS e, " +
  "'2024-02-29 12:00:00.000001'::timestamp AS f, '1 day 02:00'::interval AS g, NULL::text AS h, 1.5::float8 AS i, " +
  "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS j";
const text = { getTypeParser: () => (value) => value };
const viaPg = await client.query({ text: values, rowMode: "array", types: text });
const [viaFetch] = await results(values);
assert.deepEqual(viaFetch.rows, viaPg.rows);
assert.deepEqual(
  viaFetch.desc.columns.map((column) => [column.name, column.type_oid]),
  viaPg.fields.map((field) => [field.name, field.dataTypeID]),
);
console.log("  values by fetch");

const [special] = await results("SELECT true AS a, ARRAY[1, NULL] AS b, '{\"x\": [1, null]}'::jsonb AS c");
assert.deepEqual(special.rows, [[true, ["1", null], { x: [1, null] }]]);
const [, failed] = await results("SELECT 1; SELECT nosuch");
assert.equal(failed.error.code, "42703");
console.log("  results by fetch");

// A body that breaks off is an error for who reads it.
const broken = await ask({ query: "SELECT x, 1 / (x - 500000) FROM generate_series(1, 1000000) x" });
await assert.rejects(broken.text());
console.log("  what breaks off is no answer");

// A large body, read as it comes.
let lines = 0;
const large = await ask({ query: "SELECT x, repeat('y', 100) AS y FROM generate_series(1, 300000) x" }, "application/x-ndjson");
for await (const piece of large.body.pipeThrough(new TextDecoderStream())) {
  lines += piece.split("\n").length - 1;
}
assert.equal(lines, 300000);
console.log("  300,000 lines by fetch");

// Arrow.
const arrow = tableFromIPC(
  await ask(
    { query: "SELECT x::int4 AS a, 'row ' || x AS b, x / 2.0::float8 AS c FROM generate_series(1, 10000) x ORDER BY x" },
    "application/vnd.apache.arrow.stream",
  ).then((response) => response.arrayBuffer()),
);
assert.equal(arrow.numRows, 10000);
assert.deepEqual(arrow.get(9999).toJSON(), { a: 10000, b: "row 10000", c: 5000 });
console.log("  apache-arrow");

// A WebSocket: a session, and changes as they happen.
const socket = new WebSocket(`${GLIMPSE_HTTP.replace("http", "ws")}/api/experimental/sql`);
const waiting = [];
const arrived = [];
socket.on("message", (data) => {
  const message = JSON.parse(data);
  if (waiting.length > 0) waiting.shift()(message);
  else arrived.push(message);
});
const next = () => (arrived.length > 0 ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve)));
const until = async (type) => {
  for (;;) {
    const message = await next();
    if (message.type === type) return message.payload;
  }
};
await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
socket.send(JSON.stringify({ user: PGUSER, password: PGPASSWORD }));
assert.equal(await until("ReadyForQuery"), "I");
socket.send(JSON.stringify({ queries: [{ query: "SELECT $1::int + 1", params: ["41"] }] }));
assert.deepEqual(await until("Row"), ["42"]);
assert.equal(await until("ReadyForQuery"), "I");
socket.send(JSON.stringify({ query: "CREATE TEMPORARY TABLE mine (a int); BEGIN" }));
assert.equal(await until("ReadyForQuery"), "T");
socket.send(JSON.stringify({ query: "ROLLBACK" }));
assert.equal(await until("ReadyForQuery"), "I");
await client.query("DROP TABLE IF EXISTS followed");
await client.query("CREATE TABLE followed (a int)");
socket.send(JSON.stringify({ query: "SUBSCRIBE followed" }));
await until("Rows");
for (const a of [1, 2, 3]) {
  await client.query(`INSERT INTO followed VALUES (${a})`);
  assert.deepEqual((await until("Row")).slice(1), ["1", String(a)]);
}
socket.close();
console.log("  ws");

// An EventSource, which goes on by itself where it was cut off, and has in the end what is there.
const address = `${GLIMPSE_HTTP}/api/subscribe?query=${encodeURIComponent("SUBSCRIBE followed")}`;
const withName = (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: authorization } });
const source = new EventSource(address, { fetch: withName });
const counts = new Map();
let [parts, complete, opened] = [[], 0, 0];
source.addEventListener("open", () => opened++);
source.addEventListener("message", ({ data }) => {
  const event = JSON.parse(data);
  parts.push(...event.rows);
  if (!event.complete) return;
  assert.equal(event.snapshot, complete++ === 0);
  for (const { a, mz_diff } of parts) counts.set(a, (counts.get(a) ?? 0) + Number(mz_diff));
  parts = [];
});
const eventually = async (holds) => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
};
await eventually(() => counts.size === 3);
for (let a = 4; a < 24; a++) {
  await client.query(`INSERT INTO followed VALUES (${a})`);
  if (a === 10) {
    const cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SUBSCRIBE%'";
    assert.notEqual((await client.query(cut)).rows[0].count, "0");
  }
}
await eventually(() => counts.size === 23);
source.close();
assert.ok(opened > 1);
assert.ok([...counts.values()].every((count) => count === 1));
console.log("  eventsource");

await client.end();
console.log("ok");
