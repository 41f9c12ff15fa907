"""psycopg 3: parameters in text and binary, server-side cursors, pipelines, COPY, cancellation, savepoints, asyncio."""

import asyncio
import threading
import time

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.json import Json, Jsonb

from common import ENDLESS, VALUES, check, check_fails


def connecting(connection):
    check("TLS", connection.pgconn.ssl_in_use, True)
    check("a password was asked for", bool(connection.pgconn.used_password), True)
    check("encoding", connection.info.encoding, "utf-8")
    check("server version", connection.info.server_version >= 140000, True)
    check_fails(None, psycopg.connect, password="wrong")


def types(connection):
    for binary in (False, True):
        # %t and %b name the format of the parameter, `binary` that of the result.
        place = "%b" if binary else "%t"
        with connection.cursor(binary=binary) as cursor:
            for ty, values in VALUES:
                for value in values:
                    got = cursor.execute(f"SELECT {place}::{ty}", (value,)).fetchone()[0]
                    assert got == value, (ty, binary, value, got)
                assert cursor.execute(f"SELECT {place}::{ty}", (None,)).fetchone() == (None,), ty
            for wrap, ty in ((Json, "json"), (Jsonb, "jsonb")):
                value = {"a": [1, None, "x"], "b": {"c": 1.5}}
                assert cursor.execute(f"SELECT {place}::{ty}", (wrap(value),)).fetchone()[0] == value
        print(f"  values of every type, binary={binary}")
    # Without a cast the server finds the type, from what is beside the parameter.
    check("int2 beside int4", connection.execute("SELECT 1::int4 + %s", (1,)).fetchone(), (2,))
    check("numeric beside int", connection.execute("SELECT %s + 1", (2**40,)).fetchone(), (2**40 + 1,))
    check("unknown beside date", connection.execute("SELECT date '2024-01-01' = %s", ("2024-01-01",)).fetchone(), (True,))
    check("list in ANY", connection.execute("SELECT 3 = ANY(%s)", ([1, 2, 3],)).fetchone(), (True,))
    check("empty list", connection.execute("SELECT 3 = ANY(%s)", ([],)).fetchone(), (False,))
    check("array_length", connection.execute("SELECT array_length(%s, 1)", ([1, 2],)).fetchone(), (2,))


def statements(connection):
    connection.execute("CREATE TABLE items (id int4 NOT NULL, name text, at timestamptz, data jsonb)")
    connection.commit()
    cursor = connection.cursor(row_factory=dict_row)
    cursor.executemany("INSERT INTO items (id, name) VALUES (%s, %s)", [(i, f"n{i}") for i in range(20)])
    check("executemany counts", cursor.rowcount, 20)
    cursor.executemany("INSERT INTO items (id) VALUES (%s) RETURNING id", [(20,), (21,)], returning=True)
    check("executemany returns", [cursor.fetchone()["id"], cursor.nextset() and cursor.fetchone()["id"]], [20, 21])
    connection.commit()
    # The sixth run has a name on the server; all must be alike.
    for i in range(12):
        row = cursor.execute("SELECT name FROM items WHERE id = %s", (i,)).fetchone()
        assert row == {"name": f"n{i}"}, row
    prepared = [query for query, _ in connection._prepared._names]
    check("prepared after five runs", b"SELECT name FROM items WHERE id = $1" in prepared, True)
    connection.commit()
    connection.execute("CREATE INDEX items_id ON items (id)")
    connection.commit()
    row = cursor.execute("SELECT name FROM items WHERE id = %s", (3,)).fetchone()
    check("a prepared statement after DDL", row, {"name": "n3"})
    cursor.execute("UPDATE items SET name = %s WHERE id >= %s", ("new", 18))
    check("update counts", (cursor.rowcount, cursor.statusmessage), (4, "UPDATE 4"))
    cursor.execute("SELECT id, name FROM items WHERE false")
    check("description", [(c.name, c.type_code) for c in cursor.description], [("id", 23), ("name", 25)])
    query = sql.SQL("SELECT {} FROM {} WHERE id = {}").format(
        sql.Identifier("name"), sql.Identifier("items"), sql.Literal(1)
    )
    check("composed", cursor.execute(query).fetchone(), {"name": "n1"})
    connection.commit()


def cursors(connection):
    with connection.cursor(name="c") as cursor:
        cursor.execute("SELECT id FROM items ORDER BY id")
        check("fetchone", cursor.fetchone(), (0,))
        check("fetchmany", cursor.fetchmany(3), [(1,), (2,), (3,)])
        check("fetchall", len(cursor.fetchall()), 18)
    with connection.cursor(name="binary", binary=True) as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT id FROM items WHERE id < %s ORDER BY id", (20,))
        check("iteration", [id for (id,) in cursor], list(range(20)))
    connection.commit()
    with connection.cursor(name="held", withhold=True) as cursor:
        cursor.execute("SELECT id FROM items ORDER BY id LIMIT 2")
        connection.commit()
        check("with hold", cursor.fetchall(), [(0,), (1,)])
    connection.commit()
    streamed = [row[0] for row in connection.cursor().stream("SELECT * FROM generate_series(1, 1000)")]
    check("stream", streamed, list(range(1, 1001)))
    connection.commit()


def pipelines(connection):
    with connection.pipeline() as pipeline:
        cursors = [connection.execute("SELECT %s::int4 + 1", (i,)) for i in range(50)]
        connection.execute("INSERT INTO items (id) VALUES (900)")
        pipeline.sync()
        check("pipeline", [cursor.fetchone()[0] for cursor in cursors], list(range(1, 51)))
    connection.rollback()
    connection.autocommit = True
    try:
        with connection.pipeline():
            first = connection.execute("SELECT 1")
            connection.execute("SELECT 1/0")
            connection.execute("INSERT INTO items (id) VALUES (901)")
        raise AssertionError("the pipeline did not fail")
    except psycopg.Error as error:
        check("a failed pipeline", error.sqlstate, "22012")
    check("what came before the failure", first.fetchone(), (1,))
    check("what came after it", connection.execute("SELECT count(*) FROM items WHERE id = 901").fetchone(), (0,))
    connection.autocommit = False


def copying(connection):
    rows = [(100, "tab\there \\ \n", None), (101, None, None), (102, "", None)]
    with connection.cursor() as cursor:
        with cursor.copy("COPY items (id, name, at) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        check("copy counts", cursor.rowcount, 3)
        with cursor.copy("COPY (SELECT id, name, at FROM items WHERE id >= 100 ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "timestamptz"])
            check("copy text", list(copy.rows()), rows)
        with cursor.copy("COPY items (id, name) FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text"])
            copy.write_row((103, "binary"))
        with cursor.copy("COPY (SELECT id, name FROM items WHERE id >= 103) TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text"])
            check("copy binary", list(copy.rows()), [(103, "binary")])
        with cursor.copy("COPY items (id, name) FROM STDIN (FORMAT CSV, HEADER)") as copy:
            copy.write('id,name\n104,"a, b"\n')
        with cursor.copy("COPY (SELECT id, name FROM items WHERE id >= 103 ORDER BY id) TO STDOUT (FORMAT CSV, HEADER)") as copy:
            check("copy csv", b"".join(bytes(part) for part in copy), b'id,name\n103,binary\n104,"a, b"\n')
    connection.commit()

    def bad_row():
        with connection.cursor().copy("COPY items (id) FROM STDIN") as copy:
            copy.write("x\n")

    check_fails("22P02", bad_row)
    connection.rollback()

    def gives_up():
        with connection.cursor().copy("COPY items (id) FROM STDIN") as copy:
            copy.write("200\n")
            raise ZeroDivisionError

    try:
        gives_up()
    except ZeroDivisionError:
        check("copy given up", connection.info.transaction_status.name, "INERROR")
    connection.rollback()


def transactions(connection):
    def count():
        return connection.execute("SELECT count(*) FROM items WHERE id >= 1000").fetchone()[0]

    with connection.transaction():
        connection.execute("INSERT INTO items (id) VALUES (1000)")
        try:
            with connection.transaction():
                connection.execute("INSERT INTO items (id) VALUES (1001)")
                check("inside a savepoint", count(), 2)
                connection.execute("SELECT 1/0")
        except psycopg.Error as error:
            check("the savepoint fails", error.sqlstate, "22012")
        check("back at the savepoint", count(), 1)
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO items (id) VALUES (1002)")
        with connection.transaction():
            connection.execute("INSERT INTO items (id) VALUES (1003)")
    check("committed", count(), 2)
    connection.rollback()
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    connection.read_only = True
    check_fails("25006", connection.execute, "INSERT INTO items (id) VALUES (1)")
    connection.rollback()
    connection.isolation_level = connection.read_only = None
    check_fails("22012", connection.execute, "SELECT 1/0")
    check_fails("25P02", connection.execute, "SELECT 1")
    connection.rollback()
    # What a program's first lines do: a table and its rows in one transaction.
    connection.execute("CREATE TABLE fresh (id int4)")
    connection.execute("INSERT INTO fresh VALUES (1), (2)")
    check("DDL and rows in one transaction", connection.execute("SELECT count(*) FROM fresh").fetchone(), (2,))
    connection.commit()
    check("after the commit", connection.execute("SELECT count(*) FROM fresh").fetchone(), (2,))
    connection.execute("DROP TABLE fresh")
    connection.rollback()
    check("a DROP rolled back", connection.execute("SELECT count(*) FROM fresh").fetchone(), (2,))
    connection.execute("DROP TABLE fresh")
    connection.commit()


def errors(connection):
    for code, query in [
        ("42P01", "SELECT * FROM nosuch_table"),
        ("42703", "SELECT nosuch FROM items"),
        ("42883", "SELECT nosuch(1)"),
        ("42601", "SELEC 1"),
        ("22012", "SELECT 1/0"),
        ("22003", "SELECT 2147483647::int4 + 1::int4"),
        ("22P02", "SELECT 'x'::int4"),
        ("23502", "INSERT INTO items (name) VALUES ('x')"),
        ("42P07", "CREATE TABLE items (id int4)"),
    ]:
        check_fails(code, connection.execute, query)
        connection.rollback()
    error = check_fails("42601", connection.execute, "SELECT 1 FRM x y")
    check("the position of an error", error.diag.statement_position is not None, True)
    connection.rollback()
    notices = []
    connection.add_notice_handler(lambda diag: notices.append((diag.severity, diag.sqlstate)))
    connection.autocommit = True
    connection.execute("DROP TABLE IF EXISTS nosuch_table")
    check("notices", notices, [("NOTICE", "00000")])
    connection.execute("SET client_min_messages = warning")
    connection.execute("DROP TABLE IF EXISTS nosuch_table")
    check("notices held back", len(notices), 1)
    connection.execute("RESET client_min_messages")
    connection.autocommit = False


def cancelling(connection):
    def cancel():
        # Until the query runs there is nothing to cancel.
        while not done.is_set():
            connection.cancel_safe(timeout=20)
            time.sleep(0.02)

    done = threading.Event()
    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        check_fails("57014", connection.execute, ENDLESS)
    finally:
        done.set()
        thread.join()
    connection.rollback()
    check("after a cancellation", connection.execute("SELECT 1").fetchone(), (1,))
    connection.rollback()


async def asynchronously():
    async with await psycopg.AsyncConnection.connect() as connection:
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT %s::text", ("async",))
            check("asyncio", await cursor.fetchone(), ("async",))
        async with connection.pipeline():
            cursors = [await connection.execute("SELECT %s::int8", (i,)) for i in range(20)]
        check("asyncio pipeline", [(await cursor.fetchone())[0] for cursor in cursors], list(range(20)))


def main():
    print(f"psycopg {psycopg.__version__}, libpq {psycopg.pq.version()}")
    with psycopg.connect() as connection:
        for part in (connecting, types, statements, cursors, pipelines, copying, transactions, errors, cancelling):
            part(connection)
        connection.execute("DROP TABLE items")
    asyncio.run(asynchronously())
    print("ok")


if __name__ == "__main__":
    main()
