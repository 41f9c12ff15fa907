// Cube's own clients, as they are: @cubejs-client/core by fetch, @cubejs-client/ws-transport, and the query builder of
// @cubejs-client/react. Numbers are compared with SQL over the tables, through pg.
//
// GLIMPSE_HTTP is the address, GLIMPSE_JWT_SECRET signs tokens, and the model is test/cubes/reference.yml.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import cubePackage from "@cubejs-client/core";
import transportPackage from "@cubejs-client/ws-transport";
import reactPackage from "@cubejs-client/react";
import pg from "pg";
import React from "react";
import renderer from "react-test-renderer";
import { check, tls } from "./common.mjs";

const { GLIMPSE_HTTP, GLIMPSE_JWT_SECRET } = process.env;
const cube = cubePackage.default ?? cubePackage;
const WebSocketTransport = transportPackage.default ?? transportPackage;
const { CubeProvider, QueryBuilder } = reactPackage;
globalThis.IS_REACT_ACT_ENVIRONMENT = true;

// A token as a backend makes one for Cube: claims and an end, and no word of a role.
function token(claims) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const message = `${part({ alg: "HS256", typ: "JWT" })}.${part({ exp: 4102444800, ...claims })}`;
  return `${message}.${createHmac("sha256", GLIMPSE_JWT_SECRET).update(message).digest("base64url")}`;
}

const apiUrl = `${GLIMPSE_HTTP}/cubejs-api/v1`;
const api = cube(token({ tenant: "a" }), { apiUrl });
const client = new pg.Client({ ssl: tls });
await client.connect();
const rows = async (text) => (await client.query({ text, rowMode: "array" })).rows;
const eventually = async (holds) => {
  for (let tries = 0; tries < 600; tries++) {
    if (await holds()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail(`it did not happen: ${JSON.stringify([state?.query, state?.error, state?.resultSet?.query()])}`);
};
let state;

// The three forms of an answer are one.
const daily = {
  measures: ["orders.count", "orders.total_amount_sum"],
  timeDimensions: [{ dimension: "orders.updated_at", granularity: "day", dateRange: ["2024-01-01", "2024-01-14"] }],
};
const days = await rows(
  "SELECT date_trunc('day', updated_at AT TIME ZONE 'UTC')::date::text, count(*)::int, sum(total_amount)::float8 FROM raw.orders " +
    "WHERE updated_at >= '2024-01-01 00:00+00' AND updated_at < '2024-01-15 00:00+00' GROUP BY 1 ORDER BY 1",
);
for (const format of ["default", "compact", "columnar"]) {
  const result = await api.load(daily, {}, undefined, format);
  const pivot = result.chartPivot();
  const charted = pivot.map((row) => [row.x.slice(0, 10), row["orders.count"], row["orders.total_amount_sum"]]);
  check(`a chart, ${format}`, charted, days);
  const [series] = result.series();
  check(`a series, ${format}`, [series.title, series.series.length], ["Orders Count", 14]);
}
// Days of which there is nothing are filled in.
const sparse = {
  ...daily,
  filters: [{ member: "orders.market_code", operator: "equals", values: ["FI"] }],
  timeDimensions: [{ dimension: "orders.updated_at", granularity: "day", dateRange: ["2024-05-30", "2024-06-02"] }],
};
const filled = (await api.load(sparse)).chartPivot().map((row) => [row.x.slice(0, 10), row["orders.count"]]);
check("missing days", filled, [["2024-05-30", 0], ["2024-05-31", 0], ["2024-06-01", 1], ["2024-06-02", 0]]);
const casted = await api.load({ measures: ["orders.count"], dimensions: ["orders.market_code"], limit: 2, total: true }, { castNumerics: true });
check("numbers", typeof casted.tablePivot()[0]["orders.count"], "number");
check("a total", casted.totalRows(), (await rows("SELECT count(*)::int FROM (SELECT DISTINCT market_code FROM raw.orders) m"))[0][0]);
check("columns", casted.tableColumns().map((column) => column.shortTitle), ["Market Code", "Count"]);

// Ranges beside each other; what is behind a number; a query that is too long for an address.
const compared = await api.load({
  measures: ["orders.count"],
  timeDimensions: [{ dimension: "orders.updated_at", granularity: "month", compareDateRange: [["2024-01-01", "2024-02-29"], ["2024-03-01", "2024-04-30"]] }],
});
check("a comparison", compared.seriesNames().length, 2);
assert.equal(compared.decompose().length, 2);
const drilled = (await api.load(daily)).drillDown({ xValues: ["2024-01-03T00:00:00.000"], yValues: ["orders.count"] });
const behind = (await api.load(drilled)).tablePivot();
check("a drill down", behind.length, days[2][1]);
const values = Array.from({ length: 400 }, (_, at) => `brand number ${at}`);
const long = { measures: ["orders.count"], filters: [{ member: "orders.brand_code", operator: "notEquals", values }] };
const all = (await rows("SELECT count(*) FROM raw.orders"))[0][0];
check("a long query", (await api.load(long)).rawData()[0]["orders.count"], all);
check("and a short one after it", (await api.load({ measures: ["orders.count"] })).rawData()[0]["orders.count"], all);

// What there is, what a query means, and errors.
const meta = await api.meta();
check("a member", meta.resolveMember("orders.avg_amount", "measures").shortTitle, "Average amount");
const offered = meta.membersForQuery({ measures: ["orders.count"] }, "dimensions").map((member) => member.name);
assert.ok(offered.includes("orders.market_code"));
check("a default", meta.defaultTimeDimensionNameFor("orders.count"), "orders.updated_at");
check("views", (await api.meta({ onlyViews: true })).cubes.map((view) => view.name), ["sales"]);
check("a dry run", (await api.dryRun(daily)).queryOrder, [{ "orders.updated_at": "asc" }]);
const statement = (await api.sql({ measures: ["orders.count"] })).sql();
check("its statement", (await rows(statement))[0][0], all);
for (const [query, message] of [
  [{ measures: ["orders.foo"] }, /'orders.foo' not found for path 'orders.foo'/],
  [{ measures: ["orders.count"], limit: 60000 }, /The query limit has been exceeded/],
]) {
  await assert.rejects(api.load(query), (error) => message.test(error.message) && error.status === 400);
}
await assert.rejects(cube("x.y.z", { apiUrl }).load(daily), (error) => error.status === 403);
await assert.rejects(cube(undefined, { apiUrl }).load(daily), (error) => error.status === 403);

// SQL, as one answer and as a stream.
const answer = await api.cubeSql("SELECT market_code, MEASURE(count) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 2");
check("SQL", answer.data, (await rows("SELECT market_code, count(*) FROM raw.orders GROUP BY 1 ORDER BY 1 LIMIT 2")));
check("nothing", (await api.cubeSql("SELECT id FROM orders WHERE false")).data, []);
check("no order to ask again", (await api.cubeSql("SELECT 'Continue wait'")).data, [["Continue wait"]]);
let streamed = 0;
for await (const chunk of api.cubeSqlStream("SELECT id, brand_code FROM orders")) streamed += chunk.data?.length ?? 0;
check("a stream", streamed, Number(all));
await assert.rejects(api.cubeSql("SELECT nothing FROM orders"), /nothing/);

// Followed by fetch, which asks again; and by WebSocket, which is told.
const polled = [];
const polling = cube(token({}), { apiUrl, pollInterval: 0.05 });
const counting = (market) => ({ measures: ["orders.count"], filters: [{ member: "orders.market_code", operator: "equals", values: [market] }] });
const stop = polling.subscribe(counting("polled"), { subscribe: true }, (error, result) => polled.push(error ?? result.rawData()[0]["orders.count"]));
await eventually(() => polled.length > 0);
await client.query("INSERT INTO raw.orders (id, market_code) VALUES (8001, 'polled')");
await eventually(() => polled.at(-1) === "1");
await stop.unsubscribe();

const transport = new WebSocketTransport({ authorization: token({}), apiUrl: `${GLIMPSE_HTTP.replace("https", "wss")}/`, heartBeatInterval: 1 });
const live = cube({ transport, apiUrl });
check("by WebSocket", (await live.load({ measures: ["orders.count"] })).rawData()[0]["orders.count"], String(Number(all) + 1));
await assert.rejects(live.load({ measures: ["orders.foo"] }), /not found/);
// What is too long is said to be, and the next message comes over another socket.
const huge = { measures: ["orders.count"], filters: [{ member: "orders.brand_code", operator: "equals", values: ["x".repeat(5 << 20)] }] };
await assert.rejects(live.load(huge), (error) => error.status === 413);
// Who is not let in is told, and does not come again and again.
const stranger = cube({ transport: new WebSocketTransport({ authorization: "junk", apiUrl: `${GLIMPSE_HTTP.replace("https", "wss")}/` }), apiUrl });
await assert.rejects(stranger.load({ measures: ["orders.count"] }), (error) => error.status === 403);
const told = [];
const following = live.subscribe(counting("told"), { subscribe: true }, (error, result) => told.push(error ?? result.rawData()[0]["orders.count"]));
await eventually(() => told.length === 1);
await client.query("INSERT INTO raw.orders (id, market_code) VALUES (8002, 'told')");
await eventually(() => told.length === 2);
// Heartbeats send it again, and begin nothing anew.
await new Promise((resolve) => setTimeout(resolve, 2500));
await client.query("INSERT INTO raw.orders (id, market_code) VALUES (8003, 'told')");
await eventually(() => told.length === 3);
check("what was told", told, ["0", "1", "2"]);
await following.unsubscribe();
await transport.close();

// A page with a query builder.
const page = React.createElement(
  CubeProvider,
  { cubeApi: api },
  React.createElement(QueryBuilder, {
    render: (given) => {
      state = given;
      return null;
    },
  }),
);
let mounted;
await renderer.act(async () => (mounted = renderer.create(page)));
const acts = async (act, holds) => {
  await renderer.act(async () => act());
  await eventually(async () => {
    await renderer.act(async () => new Promise((resolve) => setTimeout(resolve, 20)));
    return holds();
  });
};
await acts(() => {}, () => state.availableMeasures?.length > 0);
await acts(() => state.updateMeasures.add(state.availableMeasures.find((measure) => measure.name === "orders.count")), () => state.resultSet?.query().measures[0] === "orders.count");
await acts(
  () => state.updateDimensions.add(state.availableDimensions.find((dimension) => dimension.name === "orders.market_code")),
  () => state.resultSet?.query().dimensions[0] === "orders.market_code",
);
check("a built query", state.resultSet.tablePivot().length, (await rows("SELECT count(DISTINCT coalesce(market_code, '')) FROM raw.orders"))[0][0] * 1);
// The builder has taken the time that the meta names first.
const time = () => state.timeDimensions.find((known) => known.dimension.name === "orders.updated_at");
await acts(
  () => state.updateTimeDimensions.update(time(), { dimension: time().dimension, granularity: "year" }),
  () => state.resultSet?.query().timeDimensions?.[0]?.granularity === "year",
);
const ordered = state.orderMembers.filter((member) => member.order !== "none").map((member) => [member.id, member.order]);
check("its order", ordered, [["orders.count", "desc"]]);
await renderer.act(async () => mounted.unmount());

await client.end();
console.log("ok");
process.exit(0);
