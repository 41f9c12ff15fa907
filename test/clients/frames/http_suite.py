"""HTTP and Arrow as data frames read and write them: pyarrow, pandas, polars and DuckDB, each against the same query through psycopg.

GLIMPSE_HTTP is the address, and the role and its password are PGUSER and PGPASSWORD.
"""

import base64
import gzip
import io
import json
import os
import ssl
import sys
import urllib.error
import urllib.request

import duckdb
import pandas
import polars
import psycopg
import pyarrow

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from common import check  # noqa: E402
from plain import plain, typed  # noqa: E402

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
TRUST = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
BASIC = base64.b64encode(f"{os.environ['PGUSER']}:{os.environ['PGPASSWORD']}".encode()).decode()


def ask(body, accept, **headers):
    request = urllib.request.Request(
        os.environ["GLIMPSE_HTTP"] + "/api/sql",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Accept": accept, "Authorization": f"Basic {BASIC}", **headers},
    )
    return urllib.request.urlopen(request, context=TRUST)


def table(query):
    with pyarrow.ipc.open_stream(ask({"query": query}, ARROW)) as reader:
        return reader.read_all()


def every_type(connection):
    for name, query, expected in typed(connection):
        arrow = table(query)
        check(f"{name} by pyarrow", [plain(value) for value in arrow["v"].to_pylist()], expected)
    json_query = """SELECT '{"a": [1.10, null]}'::jsonb AS v"""
    check("jsonb by pyarrow", json.loads(table(json_query)["v"].to_pylist()[0]), {"a": [1.1, None]})
    field = table("SELECT gen_random_uuid() AS v").schema.field("v")
    check("uuid is known as one", str(field.type), "extension<arrow.uuid>")


def frames(connection):
    connection.execute("DROP TABLE IF EXISTS framed")
    connection.execute("CREATE TABLE framed (a int8, b text, c numeric(12, 2), d timestamp, e float8, f bool)")
    connection.execute(
        "INSERT INTO framed SELECT x, 'row ' || x, x / 4.0, timestamp '2024-01-01' + x * interval '1 second', x / 8.0, x % 3 = 0"
        " FROM generate_series(1, 50000) x"
    )
    query = "SELECT * FROM framed ORDER BY a"
    rows = connection.execute(query).fetchall()
    arrow = table(query)
    check("50,000 rows by pyarrow", list(zip(*(column.to_pylist() for column in arrow.columns))), rows)
    frame = arrow.to_pandas()
    check("by pandas", (len(frame), frame["a"].sum(), frame["b"].iloc[-1]), (50000, 1250025000, "row 50000"))
    check("its times", frame["d"].iloc[0], pandas.Timestamp(rows[0][3]))
    frame = polars.from_arrow(arrow)
    check("by polars", frame.rows(), rows)
    check("by DuckDB", duckdb.sql("SELECT sum(a), max(b), sum(c), count(*) FILTER (f) FROM arrow").fetchall()[0], (
        sum(row[0] for row in rows), max(row[1] for row in rows), sum(row[2] for row in rows), sum(row[5] for row in rows)
    ))
    check("CSV by pandas", pandas.read_csv(ask({"query": query}, "text/csv"))["a"].sum(), 1250025000)
    lines = ask({"query": query}, "application/x-ndjson").read().splitlines()
    check("lines", [int(json.loads(line)["a"]) for line in lines], [row[0] for row in rows])
    packed = ask({"query": query}, "text/csv", **{"Accept-Encoding": "gzip"})
    check("compressed", packed.headers["Content-Encoding"], "gzip")
    check("and unpacked", gzip.decompress(packed.read()).count(b"\n"), 50001)


def load(body, form):
    """Loads rows into `loaded`, and returns the tag."""
    request = urllib.request.Request(
        os.environ["GLIMPSE_HTTP"] + "/api/copy?table=loaded", body, {"Content-Type": form, "Authorization": f"Basic {BASIC}"}
    )
    return json.load(urllib.request.urlopen(request, context=TRUST))["results"][0]["ok"]


def loads(connection):
    connection.execute("DROP TABLE IF EXISTS loaded")
    connection.execute("CREATE TABLE loaded (a int8, b text, c numeric(12, 2), d timestamp, e float8, f bool)")
    query = "SELECT * FROM framed ORDER BY a"
    rows = connection.execute(query).fetchall()
    arrow = table(query)
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, arrow.schema) as writer:
        writer.write_table(arrow)
    frame = arrow.to_pandas()
    files = [io.BytesIO() for _ in range(3)]
    frame.to_parquet(files[0], index=False)
    polars.from_arrow(arrow).write_parquet(files[1], compression="zstd")
    frame.to_csv(files[2], index=False)
    bodies = [("an Arrow stream", stream.getvalue().to_pybytes(), ARROW)]
    forms = [("Parquet of pandas", PARQUET), ("Parquet of polars", PARQUET), ("CSV of pandas", "text/csv")]
    bodies += [(name, file.getvalue(), form) for (name, form), file in zip(forms, files)]
    bodies.append(("lines", ask({"query": query}, "application/x-ndjson").read(), "application/x-ndjson"))
    for name, body, form in bodies:
        connection.execute("DELETE FROM loaded")
        check(f"{name} is taken", load(body, form), "COPY 50000")
        check(name, connection.execute("SELECT * FROM loaded ORDER BY a").fetchall(), rows)
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, arrow.schema, options=pyarrow.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(arrow)
    try:
        load(stream.getvalue().to_pybytes(), ARROW)
        raise AssertionError("a compressed stream was taken")
    except urllib.error.HTTPError as error:
        check("a compressed stream", json.load(error)["error"]["code"], "0A000")
    wrong = pyarrow.table({"a": [1, 2], "b": ["x", "y"], "c": [1.5, float("inf")]})
    stream = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(stream, wrong.schema) as writer:
        writer.write_table(wrong)
    try:
        load(stream.getvalue().to_pybytes(), ARROW)
        raise AssertionError("an infinity became a numeric(12, 2)")
    except urllib.error.HTTPError as error:
        told = json.load(error)["error"]
        check("a wrong row", told["context"].split(":")[0], "COPY loaded, line 2, column c")


def errors():
    for body, status, code in [
        ({"query": "SELECT nosuch"}, 400, "42703"),
        ({"query": "SELECT 1 / (SELECT 0)"}, 400, "22012"),
        ({"queries": [{"query": "SELECT 1"}, {"query": "SELECT 2"}]}, 400, "42601"),
    ]:
        try:
            ask(body, ARROW)
            raise AssertionError(f"{body} was answered")
        except urllib.error.HTTPError as error:
            check(f"{code}", (error.code, json.load(error)["error"]["code"]), (status, code))
    parameter = {"queries": [{"query": "SELECT $1::int + 1 AS v", "params": ["41"]}]}
    with pyarrow.ipc.open_stream(ask(parameter, ARROW)) as reader:
        check("a parameter", reader.read_all()["v"].to_pylist(), [42])


with psycopg.connect(autocommit=True) as session:
    session.execute("SET TimeZone = 'UTC'")
    every_type(session)
    frames(session)
    loads(session)
    errors()
print("ok")
