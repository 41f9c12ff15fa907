"""cube-http-client, as it is: its models of Cube's answers take ours, and its numbers are those of SQL over the tables.

GLIMPSE_HTTP is the address, GLIMPSE_JWT_SECRET signs tokens, and the model is test/cubes/reference.yml.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import ssl

import cube_http
import httpx
import psycopg
from common import check
from cube_http.exc.v1 import V1LoadError

TRUST = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
URL = f"{os.environ['GLIMPSE_HTTP']}/cubejs-api"


def token(claims):
    def part(value):
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    message = part(b'{"alg":"HS256"}') + b"." + part(json.dumps({"exp": 4102444800, **claims}).encode())
    secret = os.environ["GLIMPSE_JWT_SECRET"].encode()
    return (message + b"." + part(hmac.new(secret, message, hashlib.sha256).digest())).decode()


def client(kind, http, **claims):
    return kind({"token": token(claims), "url": URL, "http_client": http(verify=TRUST)})


db = psycopg.connect(autocommit=True)
cube = client(cube_http.Client, httpx.Client, tenant="a")

meta = cube.v1.meta({})
check("cubes", [of.name for of in meta.cubes], ["orders", "customers", "items", "payments", "sales"])
check("a measure", next(of for of in meta.cubes[0].measures if of.name == "orders.count").drill_members, ["orders.id", "orders.market_code"])

query = {
    "measures": ["orders.count", "orders.total_amount_sum"],
    "dimensions": ["orders.market_code"],
    "timeDimensions": [{"dimension": "orders.updated_at", "granularity": "quarter", "dateRange": ["2024-01-01", "2024-12-31"]}],
    "filters": [{"member": "orders.brand_code", "operator": "set"}],
    "order": [["orders.updated_at", "asc"], ["orders.market_code", "asc"]],
}
loaded = cube.v1.load({"query": query})
result = loaded.results[0]
rows = [(row["orders.updated_at.quarter"][:10], row["orders.market_code"], int(row["orders.count"]), float(row["orders.total_amount_sum"])) for row in result.data]
expected = db.execute(
    "SELECT date_trunc('quarter', updated_at AT TIME ZONE 'UTC')::date::text, market_code, count(*), sum(total_amount)::float8 FROM raw.orders"
    " WHERE brand_code IS NOT NULL AND updated_at >= '2024-01-01 00:00+00' AND updated_at < '2025-01-01 00:00+00' GROUP BY 1, 2 ORDER BY 1, 2"
).fetchall()
check("rows", rows, expected)
check("the query", (loaded.query_type, result.query.limit, result.query.timezone), ("regularQuery", 10000, "UTC"))
check("members", result.annotation.measures["orders.count"]["shortTitle"], "Count")
assert result.last_refresh_time is not None

statement = cube.v1.sql({"query": {"measures": ["orders.count"]}})
check("a statement", db.execute(statement.sql.sql[0]).fetchone()[0], db.execute("SELECT count(*) FROM raw.orders").fetchone()[0])

for wrong, status in [({"measures": ["orders.foo"]}, 400), ({"measures": ["orders.count"], "limit": 100000}, 400)]:
    try:
        cube.v1.load({"query": wrong})
        raise AssertionError(wrong)
    except V1LoadError as error:
        assert "not found" in str(error) or "limit" in str(error), error


async def many():
    async_cube = client(cube_http.AsyncClient, httpx.AsyncClient)
    answers = await asyncio.gather(*(async_cube.v1.load({"query": {**query, "offset": at, "limit": 1}}) for at in range(20)))
    return [answer.results[0].data[0]["orders.market_code"] for answer in answers]


check("at once", asyncio.run(many()), [row[1] for row in expected[:20]])
print("ok")
