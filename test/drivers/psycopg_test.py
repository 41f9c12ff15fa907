"""Drives a server with psycopg 3 and psycopg2, the way a program does.

Connects with the PG* environment variables. Prints one line per check and `ok` at the end; a failed check is an
exception and a non-zero exit.
"""

import datetime
import decimal
import sys
import uuid

TABLE = "CREATE TABLE {} (id int4 NOT NULL, name text, price numeric(10,2), at timestamptz, tags text[], key uuid, ok bool, raw bytea, data jsonb)"
ROW = (
    1,
    "ünï 'quoted'",
    decimal.Decimal("12.50"),
    datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
    ["a", None, "b c"],
    uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    True,
    b"\x00\xff",
)


def check(name, actual, expected):
    if actual != expected:
        raise AssertionError(f"{name}: expected {expected!r}, got {actual!r}")
    print(f"  {name}")


def check_error(name, connection, sql, sqlstate, errors):
    try:
        connection.cursor().execute(sql)
    except errors as error:
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        connection.rollback()
        check(name, code, sqlstate)
        return
    raise AssertionError(f"{name}: {sql} did not fail")


def crud(connection, table, errors, adapt):
    """What both versions share: parameters, transactions, errors."""
    cursor = connection.cursor()
    cursor.execute(TABLE.format(table))
    connection.commit()
    places = ", ".join(["%s"] * 8)
    cursor.execute(f"INSERT INTO {table} (id, name, price, at, tags, key, ok, raw) VALUES ({places})", adapt(ROW))
    check("insert counts", cursor.rowcount, 1)
    connection.commit()
    cursor.executemany(f"INSERT INTO {table} (id, name) VALUES (%s, %s)", [(i, f"n{i}") for i in range(2, 12)])
    connection.commit()
    cursor.execute(f"SELECT id, name, price, at, tags, key, ok, raw FROM {table} WHERE id = %s", (1,))
    row = list(cursor.fetchone())
    row[5], row[7] = uuid.UUID(str(row[5])), bytes(row[7])
    check("select returns what was inserted", tuple(row), ROW)
    check("column names", [column[0] for column in cursor.description][:3], ["id", "name", "price"])
    cursor.execute(f"SELECT count(*), sum(id) FROM {table}")
    check("aggregates", cursor.fetchone(), (11, 66))
    cursor.execute(f"SELECT id FROM {table} WHERE id = ANY(%s) ORDER BY id", ([3, 5, 99],))
    check("array parameter", cursor.fetchall(), [(3,), (5,)])
    cursor.execute(f"SELECT id FROM {table} WHERE name = %s", ("n4",))
    check("text parameter", cursor.fetchall(), [(4,)])
    cursor.execute(f"SELECT id FROM {table} WHERE name IS NULL OR id < %s ORDER BY 1 LIMIT %s", (100, 2))
    check("limit parameter", cursor.fetchall(), [(1,), (2,)])
    connection.commit()
    cursor.execute(f"UPDATE {table} SET name = %s, price = %s WHERE id = %s", ("changed", decimal.Decimal("0.01"), 2))
    check("update counts", cursor.rowcount, 1)
    connection.commit()
    cursor.execute(f"SELECT name, price FROM {table} WHERE id = 2")
    check("update is visible", cursor.fetchone(), ("changed", decimal.Decimal("0.01")))
    connection.commit()
    cursor.execute(f"DELETE FROM {table} WHERE id > %s", (5,))
    check("delete counts", cursor.rowcount, 6)
    connection.commit()
    cursor.execute(f"INSERT INTO {table} (id) VALUES (100)")
    cursor.execute(f"INSERT INTO {table} (id) VALUES (101)")
    connection.rollback()
    cursor.execute(f"SELECT count(*) FROM {table} WHERE id >= 100")
    check("rollback", cursor.fetchone(), (0,))
    connection.commit()
    check_error("unknown table", connection, "SELECT * FROM nosuch_table", "42P01", errors)
    check_error("division by zero", connection, "SELECT 1/0", "22012", errors)
    check_error("not null", connection, f"INSERT INTO {table} (name) VALUES ('x')", "23502", errors)
    cursor.execute("SELECT 1")
    check("the session goes on", cursor.fetchone(), (1,))
    connection.commit()


def psycopg3():
    import psycopg

    print(f"psycopg {psycopg.__version__}")
    with psycopg.connect("") as connection:
        crud(connection, "py3", psycopg.Error, lambda row: row)
        # After five runs psycopg prepares a statement under a name; the eighth must be like the first.
        for round_number in range(8):
            row = connection.execute("SELECT name FROM py3 WHERE id = %s", (3,)).fetchone()
            check(f"prepared, run {round_number}", row, ("n3",))
        connection.commit()
        with connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT id, name, price, at, key, ok, raw FROM py3 WHERE id = %s", (1,))
            check("binary results", cursor.fetchone(), (ROW[0], ROW[1], ROW[2], ROW[3], ROW[5], ROW[6], ROW[7]))
        connection.commit()
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int4 + 1", (i,)) for i in range(20)]
        check("pipeline", [cursor.fetchone()[0] for cursor in cursors], list(range(1, 21)))
        connection.commit()
        with connection.cursor() as cursor:
            with cursor.copy("COPY py3 (id, name) FROM STDIN") as copy:
                for i in range(200, 210):
                    copy.write_row((i, f"copied {i}"))
            cursor.execute("SELECT count(*) FROM py3 WHERE id >= 200")
            check("copy in", cursor.fetchone(), (10,))
            with cursor.copy("COPY (SELECT id FROM py3 WHERE id >= 208 ORDER BY id) TO STDOUT") as copy:
                check("copy out", b"".join(bytes(part) for part in copy), b"208\n209\n")
        connection.commit()
        with connection.transaction():
            connection.execute("INSERT INTO py3 (id) VALUES (300)")
        check("transaction block", connection.execute("SELECT count(*) FROM py3 WHERE id = 300").fetchone(), (1,))
        connection.commit()
        connection.execute("DROP TABLE py3")


def psycopg2_test():
    import psycopg2
    import psycopg2.extras

    print(f"psycopg2 {psycopg2.__version__}")
    psycopg2.extras.register_uuid()
    connection = psycopg2.connect("")
    crud(connection, "py2", psycopg2.Error, lambda row: row)
    cursor = connection.cursor()
    psycopg2.extras.execute_values(cursor, "INSERT INTO py2 (id, name) VALUES %s", [(i, "many") for i in range(500, 1500)])
    connection.commit()
    cursor.execute("SELECT count(*) FROM py2 WHERE name = 'many'")
    check("execute_values", cursor.fetchone(), (1000,))
    connection.commit()  # a change of the catalog is a transaction of its own
    cursor.execute("DROP TABLE py2")
    connection.commit()
    connection.close()


if __name__ == "__main__":
    for name in sys.argv[1:] or ["psycopg", "psycopg2"]:
        {"psycopg": psycopg3, "psycopg2": psycopg2_test}[name]()
    print("ok")
