"""asyncpg: binary everywhere, prepared statements, cursors as portals, COPY, cancellation by timeout, pools, savepoints."""

import asyncio
import datetime
import io
import os
import ssl

import asyncpg

from common import ENDLESS, VALUES, check


async def check_fails(code, awaitable):
    try:
        await awaitable
    except asyncpg.PostgresError as error:
        check(f"fails with {code}", error.sqlstate, code)
        return error
    raise AssertionError(f"it did not fail with {code}")


async def types(connection):
    for ty, values in VALUES:
        for value in [*values, None]:
            got = await connection.fetchval(f"SELECT $1::{ty}", value)
            assert got == value, (ty, value, got)
    print("  values of every type")
    check("jsonb", await connection.fetchval("SELECT $1::jsonb", '{"a": 1}'), '{"a": 1}')
    check("json", await connection.fetchval("SELECT $1::json", '{"a":1}'), '{"a":1}')
    check("inferred", await connection.fetchval("SELECT $1 + 1::int8", 2**40), 2**40 + 1)
    check("two dimensions of text", await connection.fetchval("SELECT ARRAY['a','b']::text[]"), ["a", "b"])
    # A type that the driver does not know is looked up, with a recursive query.
    await connection.set_type_codec("jsonb", encoder=str, decoder=len, schema="pg_catalog")
    check("a codec of our own", await connection.fetchval("SELECT '{\"a\": 1}'::jsonb"), 8)
    await connection.reset_type_codec("jsonb", schema="pg_catalog")
    check("regclass", await connection.fetchval("SELECT 'pg_class'::regclass"), "pg_class")
    check("void", await connection.fetchval("SELECT pg_advisory_unlock_all()"), None)


async def statements(connection):
    await connection.execute("CREATE TABLE items (id int4 NOT NULL, name text, at timestamptz)")
    at = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
    await connection.executemany("INSERT INTO items VALUES ($1, $2, $3)", [(i, f"n{i}", at) for i in range(200)])
    statement = await connection.prepare("SELECT id, name FROM items WHERE id = $1")
    check("parameters", [p.name for p in statement.get_parameters()], ["int4"])
    check("attributes", [(a.name, a.type.name) for a in statement.get_attributes()], [("id", "int4"), ("name", "text")])
    for i in range(20):
        assert await statement.fetchrow(i) == (i, f"n{i}")
    for i in range(20):
        # The same text again comes out of the driver's cache.
        assert await connection.fetchval("SELECT name FROM items WHERE id = $1", i) == f"n{i}"
    print("  prepared statements")
    await connection.execute("CREATE INDEX items_id ON items (id)")
    check("prepared, after DDL", await statement.fetchval(7, column=1), "n7")
    check("status", await connection.execute("UPDATE items SET name = $1 WHERE id < $2", "new", 3), "UPDATE 3")
    rows = await connection.fetch("DELETE FROM items WHERE id = ANY($1::int4[]) RETURNING id", [198, 199])
    check("returning", sorted(row["id"] for row in rows), [198, 199])
    if hasattr(connection, "fetchmany"):
        rows = await connection.fetchmany("INSERT INTO items (id) VALUES ($1) RETURNING id", [(500,), (501,)])
        check("fetchmany", [row["id"] for row in rows], [500, 501])
        await connection.execute("DELETE FROM items WHERE id >= 500")
    # A table that has changed shape: the driver prepares the statement again.
    await connection.execute("CREATE TABLE shape (a int4)")
    check("before the change", await connection.fetch("SELECT * FROM shape"), [])
    await connection.execute("DROP TABLE shape; CREATE TABLE shape (a int4, b text)")
    await connection.execute("INSERT INTO shape VALUES (1, 'x')")
    check("after the change", [tuple(row) for row in await connection.fetch("SELECT * FROM shape")], [(1, "x")])
    await connection.execute("DROP TABLE shape")


async def cursors(connection):
    async with connection.transaction():
        ids = [row["id"] async for row in connection.cursor("SELECT id FROM items ORDER BY id", prefetch=7)]
        check("cursor", ids, list(range(198)))
        cursor = await connection.cursor("SELECT id FROM items WHERE id >= $1 ORDER BY id", 10)
        check("fetch", [row["id"] for row in await cursor.fetch(3)], [10, 11, 12])
        check("forward", await cursor.forward(5), 5)
        check("fetchrow", (await cursor.fetchrow())["id"], 18)


async def copying(connection):
    records = [(1000 + i, f"copied {i}", None) for i in range(500)]
    check("copy of records", await connection.copy_records_to_table("items", records=records), "COPY 500")
    out = io.BytesIO()
    await connection.copy_from_query("SELECT id, name FROM items WHERE id >= $1 ORDER BY id", 1498, output=out, format="csv")
    check("copy of a query", out.getvalue(), b"1498,copied 498\n1499,copied 499\n")
    out = io.BytesIO()
    await connection.copy_from_table("items", columns=["id"], output=out)
    check("copy of a table", len(out.getvalue().splitlines()), 698)
    source = io.BytesIO(b"id;name\n2000;x\n")
    said = await connection.copy_to_table("items", source=source, columns=["id", "name"], format="csv", delimiter=";", header=True)
    check("copy of a file", said, "COPY 1")
    await connection.execute("DELETE FROM items WHERE id >= 1000")


async def transactions(connection):
    async with connection.transaction(isolation="serializable"):
        await connection.execute("INSERT INTO items (id) VALUES (3000)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO items (id) VALUES (3001)")
                await connection.execute("SELECT 1/0")
        except asyncpg.DivisionByZeroError:
            print("  the savepoint fails")
        async with connection.transaction():
            await connection.execute("INSERT INTO items (id) VALUES (3002)")
    rows = await connection.fetch("SELECT id FROM items WHERE id >= 3000 ORDER BY id")
    check("savepoint", [row["id"] for row in rows], [3000, 3002])
    async with connection.transaction(readonly=True):
        await check_fails("25006", connection.execute("DELETE FROM items"))
        await check_fails("25P02", connection.fetch("SELECT 1"))


async def errors(connection):
    for code, query in [
        ("42P01", "SELECT * FROM nosuch_table"),
        ("42601", "SELEC 1"),
        ("22012", "SELECT 1/0"),
        ("23502", "INSERT INTO items (name) VALUES ('x')"),
    ]:
        await check_fails(code, connection.fetch(query))
    try:
        await connection.fetch("SELECT $1::int4", "x")
    except asyncpg.DataError:
        print("  a parameter of another type")
    # The driver asks once to cancel it; if that came too early, this ends it.
    await connection.execute("SET statement_timeout = '20s'")
    try:
        await connection.fetch(ENDLESS, timeout=0.5)
    except asyncio.TimeoutError:
        print("  cancelled after a timeout")
    check("the session goes on", await connection.fetchval("SELECT 1"), 1)
    await connection.execute("RESET statement_timeout")
    notices = []
    connection.add_log_listener(lambda _, message: notices.append(message.sqlstate))
    await connection.execute("DROP TABLE IF EXISTS nosuch_table")
    await connection.fetchval("SELECT 1")
    await asyncio.sleep(0)
    check("notices", notices, ["00000"])


async def pools():
    async with asyncpg.create_pool(min_size=2, max_size=4, ssl=context()) as pool:
        async def one(i):
            async with pool.acquire() as connection:
                return await connection.fetchval("SELECT $1::int4", i)

        check("pool", await asyncio.gather(*(one(i) for i in range(50))), list(range(50)))


def context():
    return ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])


async def main():
    print(f"asyncpg {asyncpg.__version__}")
    connection = await asyncpg.connect(ssl=context())
    check("TLS", connection._transport.get_extra_info("cipher") is not None, True)
    await check_fails("28P01", asyncpg.connect(ssl=context(), password="wrong"))
    for part in (types, statements, cursors, copying, transactions, errors):
        await part(connection)
    await connection.execute("DROP TABLE items")
    await connection.reset()
    await connection.close()
    await pools()
    print("ok")


if __name__ == "__main__":
    asyncio.run(main())
