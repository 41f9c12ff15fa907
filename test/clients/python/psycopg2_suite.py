"""psycopg 2: everything over the simple protocol; named cursors, execute_values, COPY, savepoints, cancellation."""

import io
import threading
import time
import uuid

import psycopg2
import psycopg2.errors
import psycopg2.extras

from common import ENDLESS, VALUES, check, check_fails


def types(connection):
    psycopg2.extras.register_uuid()
    cursor = connection.cursor()
    for ty, values in VALUES:
        for value in [*values, None]:
            cursor.execute(f"SELECT CAST(%s AS {ty})", (value,))
            got = cursor.fetchone()[0]
            if ty == "uuid[]" and got is not None:
                got = [item and uuid.UUID(str(item)) for item in got]
            got = bytes(got) if isinstance(got, memoryview) else got
            assert got == value, (ty, value, got)
    print("  values of every type")
    cursor.execute("SELECT %s", (psycopg2.extras.Json({"a": [1, "x"]}),))
    cursor.execute("SELECT %s::jsonb", (psycopg2.extras.Json({"a": [1, "x"]}),))
    check("json", cursor.fetchone()[0], {"a": [1, "x"]})
    cursor.execute("SELECT 2 IN %s", ((1, 2, 3),))
    check("IN of a tuple", cursor.fetchone(), (True,))
    connection.commit()


def statements(connection):
    cursor = connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor)
    cursor.execute("CREATE TABLE items (id int4 NOT NULL, name text)")
    connection.commit()
    rows = [(i, f"n{i}") for i in range(1000)]
    psycopg2.extras.execute_values(cursor, "INSERT INTO items (id, name) VALUES %s", rows)
    psycopg2.extras.execute_batch(cursor, "INSERT INTO items (id, name) VALUES (%s, %s)", [(1000, "b"), (1001, None)])
    cursor.execute("SELECT count(*) AS n, count(name) AS named FROM items")
    check("execute_values and execute_batch", dict(cursor.fetchone()), {"n": 1002, "named": 1001})
    connection.commit()
    cursor.execute("UPDATE items SET name = %s WHERE id = ANY(%s)", ("it's", [1, 2, 5000]))
    check("update counts", (cursor.rowcount, cursor.statusmessage), (2, "UPDATE 2"))
    cursor.execute("DELETE FROM items WHERE id >= %(from)s RETURNING id", {"from": 1000})
    check("delete returns", sorted(row["id"] for row in cursor.fetchall()), [1000, 1001])
    connection.commit()
    cursor.execute("PREPARE p (int4) AS SELECT name FROM items WHERE id = $1")
    for i in range(3, 12):
        cursor.execute("EXECUTE p (%s)", (i,))
        assert cursor.fetchone()["name"] == f"n{i}"
    cursor.execute("DEALLOCATE p")
    connection.commit()


def cursors(connection):
    with connection.cursor("named") as cursor:
        cursor.itersize = 100
        cursor.execute("SELECT id FROM items ORDER BY id")
        check("named cursor", [id for (id,) in cursor], list(range(1000)))
    connection.commit()
    with connection.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT id FROM items ORDER BY id LIMIT 3")
        connection.commit()
        check("with hold", cursor.fetchmany(2), [(0,), (1,)])
    connection.commit()


def copying(connection):
    cursor = connection.cursor()
    cursor.copy_from(io.StringIO("2000\ta\\tb\n2001\t\\N\n"), "items", columns=("id", "name"))
    out = io.StringIO()
    cursor.copy_expert("COPY (SELECT id, name FROM items WHERE id >= 2000 ORDER BY id) TO STDOUT WITH CSV HEADER", out)
    check("copy", out.getvalue(), "id,name\n2000,a\tb\n2001,\n")
    connection.commit()
    out = io.StringIO()
    cursor.copy_to(out, "items", columns=("id",))
    check("copy of a table", len(out.getvalue().splitlines()), 1002)
    connection.commit()


def transactions(connection):
    cursor = connection.cursor()
    cursor.execute("INSERT INTO items (id) VALUES (3000)")
    cursor.execute("SAVEPOINT a")
    check_fails("23502", cursor.execute, "INSERT INTO items (name) VALUES ('x')")
    check_fails("25P02", cursor.execute, "SELECT 1")
    cursor.execute("ROLLBACK TO SAVEPOINT a")
    cursor.execute("INSERT INTO items (id) VALUES (3001)")
    cursor.execute("RELEASE SAVEPOINT a")
    connection.commit()
    cursor.execute("SELECT id FROM items WHERE id >= 3000 ORDER BY id")
    check("savepoint", cursor.fetchall(), [(3000,), (3001,)])
    connection.rollback()
    with connection:
        cursor.execute("CREATE TABLE fresh (id int4)")
        cursor.execute("INSERT INTO fresh VALUES (1)")
    with connection:
        cursor.execute("SELECT * FROM fresh")
        check("DDL and rows in one transaction", cursor.fetchall(), [(1,)])
        cursor.execute("DROP TABLE fresh")
    connection.set_session(isolation_level="SERIALIZABLE", readonly=True)
    check_fails("25006", cursor.execute, "DELETE FROM items")
    connection.rollback()
    connection.set_session(isolation_level="DEFAULT", readonly=False)


def errors(connection):
    cursor = connection.cursor()
    for kind, query in [
        (psycopg2.errors.UndefinedTable, "SELECT * FROM nosuch_table"),
        (psycopg2.errors.DivisionByZero, "SELECT 1/0"),
        (psycopg2.errors.NotNullViolation, "INSERT INTO items (name) VALUES ('x')"),
        (psycopg2.errors.SyntaxError, "SELEC 1"),
        (psycopg2.errors.DuplicateTable, "CREATE TABLE items (id int4)"),
    ]:
        try:
            cursor.execute(query)
        except kind:
            print(f"  {kind.__name__}")
        else:
            raise AssertionError(query)
        connection.rollback()


def cancelling(connection):
    def cancel():
        while not done.is_set():
            connection.cancel()
            time.sleep(0.02)

    done = threading.Event()
    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        check_fails("57014", connection.cursor().execute, ENDLESS)
    finally:
        done.set()
        thread.join()
    connection.rollback()


def main():
    print(f"psycopg2 {psycopg2.__version__}")
    connection = psycopg2.connect("")
    check("TLS", connection.info.ssl_in_use, True)
    for part in (types, statements, cursors, copying, transactions, errors, cancelling):
        part(connection)
    connection.cursor().execute("DROP TABLE items")
    connection.commit()
    connection.close()
    print("ok")


if __name__ == "__main__":
    main()
