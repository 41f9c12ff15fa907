"""Flight SQL as data frames speak it: ADBC's driver with pyarrow, pandas and polars, and pyarrow.flight by itself, each against the same query
through psycopg.

GLIMPSE_FLIGHT is the address, and the role and its password are PGUSER and PGPASSWORD.
"""

import decimal
import os
import sys

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import duckdb
import polars
import psycopg
import pyarrow
import pyarrow.flight
from adbc_driver_flightsql import DatabaseOptions

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from common import ENDLESS, check  # noqa: E402
from plain import plain, read, typed  # noqa: E402

with open(os.environ["PGSSLROOTCERT"]) as file:
    ROOT = file.read()
LARGE = 20_000_000


def connect(autocommit=True, **options):
    options = {
        DatabaseOptions.TLS_ROOT_CERTS.value: ROOT,
        "username": os.environ["PGUSER"],
        "password": os.environ["PGPASSWORD"],
        **options,
    }
    return flightsql.connect(os.environ["GLIMPSE_FLIGHT"], db_kwargs=options, autocommit=autocommit)


def fails(sqlstate, act):
    try:
        act()
    except adbc_driver_manager.Error as error:
        if f"SQLSTATE {sqlstate}" not in str(error):
            raise AssertionError(f"expected {sqlstate}, got {error}") from error
        print(f"  fails with {sqlstate}")
        return str(error)
    raise AssertionError(f"it did not fail with {sqlstate}")


def every_type(session, cursor):
    for name, query, expected in typed(session):
        cursor.execute(query)
        table = cursor.fetch_arrow_table()
        check(f"{name} by ADBC", [plain(value) for value in table["v"].to_pylist()], expected)
        # And back in, as values of parameters.
        session.execute("DELETE FROM typed")
        numbered = pyarrow.table({"at": pyarrow.array(range(table.num_rows), pyarrow.int32()), "v": table["v"]})
        cursor.executemany(f"INSERT INTO typed SELECT $1::int, $2::{name}", numbered)
        check("and back", read(session, query), expected)


def frames(session, connection, cursor):
    session.execute("DROP TABLE IF EXISTS framed")
    session.execute("CREATE TABLE framed (a int8, b text, c numeric(12, 2), d timestamp, e float8, f bool, g uuid, h jsonb)")
    session.execute(
        "INSERT INTO framed SELECT x, 'row ' || x, x / 4.0, timestamp '2024-01-01' + x * interval '1 second', x / 8.0, x % 3 = 0,"
        " gen_random_uuid(), '{\"a\": 1}' FROM generate_series(1, 50000) x"
    )
    query = "SELECT a, b, c, d, e, f FROM framed ORDER BY a"
    rows = session.execute(query).fetchall()
    cursor.execute(query)
    arrow = cursor.fetch_arrow_table()
    check("50,000 rows by ADBC", list(zip(*(column.to_pylist() for column in arrow.columns))), rows)
    cursor.execute(query)
    frame = cursor.fetch_df()
    check("by pandas", (len(frame), frame["a"].sum(), frame["b"].iloc[-1]), (50000, 1250025000, "row 50000"))
    check("by polars", polars.read_database(query, connection).rows(), rows)
    check("by DuckDB", duckdb.sql("SELECT sum(a), max(b) FROM arrow").fetchall()[0], (1250025000, "row 9999"))
    # In again, with the types that they were.
    cursor.execute("SELECT * FROM framed")
    whole = cursor.fetch_arrow_table()
    for mode, count in [("create", 50000), ("append", 100000), ("replace", 50000), ("create_append", 100000)]:
        check(f"{mode} is taken", cursor.adbc_ingest("ingested", whole, mode=mode), 50000)
        check(mode, session.execute("SELECT count(*) FROM ingested").fetchone()[0], count)
    fails("42P07", lambda: cursor.adbc_ingest("ingested", whole, mode="create"))
    types = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{}'::regclass AND attnum > 0"
    of = lambda table: session.execute(types.format(table)).fetchall()  # noqa: E731
    check("its types", of("ingested"), of("framed"))
    left = "SELECT count(*) FROM (SELECT DISTINCT * FROM ingested EXCEPT SELECT * FROM framed)"
    check("its rows", session.execute(left).fetchone()[0], 0)
    wrong = pyarrow.table({"a": [1, 2], "b": ["x", "y"], "c": [1.5, float("inf")]})
    told = fails("0A000", lambda: cursor.adbc_ingest("framed", wrong, mode="append"))
    check("a wrong row", "line 2, column c" in told, True)


def values(cursor):
    cursor.execute("SELECT $1::int + 1 AS v, $2::text AS w", (41, "x"))
    check("values", cursor.fetchall(), [(42, "x")])
    cursor.execute("SELECT $1::numeric(10, 2) AS v", (decimal.Decimal("1.25"),))
    check("a decimal", cursor.fetchall(), [(decimal.Decimal("1.25"),)])
    fails("42P01", lambda: cursor.execute("SELECT * FROM nobody"))
    fails("22012", lambda: (cursor.execute("SELECT 1 / (SELECT 0)"), cursor.fetchall()))
    fails("42601", lambda: cursor.execute("SELECT 1; SELECT 2"))
    check("a shape", cursor.adbc_execute_schema("SELECT 1::int8 AS a, 'x'::text AS b").names, ["a", "b"])


def transactions(session):
    session.execute("DROP TABLE IF EXISTS written")
    session.execute("CREATE TABLE written (a int)")
    with connect(autocommit=False) as connection:
        count = lambda: session.execute("SELECT count(*) FROM written").fetchone()[0]  # noqa: E731
        with connection.cursor() as cursor:
            for ends, left in [(connection.rollback, 0), (connection.commit, 3)]:
                cursor.executemany("INSERT INTO written VALUES ($1)", [(1,), (2,), (3,)])
                check("nobody else sees it", count(), 0)
                cursor.execute("SELECT count(*) FROM written")
                check("itself does", cursor.fetchone()[0], 3)
                ends()
                check("and then", count(), left)


def catalog(connection):
    found = connection.adbc_get_objects(depth="columns", catalog_filter="materialize", db_schema_filter="public").read_all().to_pylist()
    schemas = next(of for of in found if of["catalog_name"] == "materialize")["catalog_db_schemas"]
    tables = next(of for of in schemas if of["db_schema_name"] == "public")["db_schema_tables"]
    framed = next(of for of in tables if of["table_name"] == "framed")
    check("a table", (framed["table_type"], [of["column_name"] for of in framed["table_columns"]]), ("TABLE", list("abcdefgh")))
    check("its shape", connection.adbc_get_table_schema("framed", db_schema_filter="public").names, list("abcdefgh"))
    check("types of tables", "MATERIALIZED VIEW" in connection.adbc_get_table_types(), True)
    check("the server", connection.adbc_get_info()["vendor_name"], "Glimpse")


def cancels(connection):
    import threading

    with connection.cursor() as cursor:
        timer = threading.Timer(0.5, cursor.adbc_cancel)
        timer.start()
        try:
            cursor.execute(ENDLESS)
            cursor.fetchall()
            raise AssertionError("it was not cancelled")
        except adbc_driver_manager.Error as error:
            check("cancelled", "cancel" in str(error).lower(), True)
        timer.join()
    slow = connect(**{"adbc.flight.sql.rpc.call_header.options": '{"statement_timeout": "100ms"}'})
    with slow, slow.cursor() as cursor:
        fails("57014", lambda: (cursor.execute(ENDLESS), cursor.fetchall()))


def large(session, cursor):
    query = f"SELECT repeat('x', {LARGE}) AS v"
    told = fails("54000", lambda: (cursor.execute(query), cursor.fetchall()))
    check("names the option", "with_max_msg_size" in told and "glimpse-message-bytes-max" in told, True)
    raised = {
        DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 << 20),
        "adbc.flight.sql.rpc.call_header.glimpse-message-bytes-max": str(64 << 20),
    }
    with connect(**raised) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        check("a cell of 20 MB", len(cursor.fetchone()[0]), LARGE)
        cursor.execute("SELECT repeat('x', 1000) AS v FROM generate_series(1, 136000)")
        check("136 MB", cursor.fetch_arrow_table()["v"].combine_chunks().nbytes > 136_000_000, True)


def plain_flight(session):
    client = pyarrow.flight.connect(os.environ["GLIMPSE_FLIGHT"], tls_root_certs=ROOT)
    token = client.authenticate_basic_token(os.environ["PGUSER"], os.environ["PGPASSWORD"])
    options = pyarrow.flight.FlightCallOptions(headers=[token, (b"glimpse-message-bytes-max", b"67108864")])
    get = lambda text: client.do_get(client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(text), options).endpoints[0].ticket, options).read_all()  # noqa: E731
    rows = session.execute("SELECT a, b, c FROM framed ORDER BY a").fetchall()
    table = get("SELECT a, b, c FROM framed ORDER BY a")
    check("50,000 rows by pyarrow.flight", list(zip(*(column.to_pylist() for column in table.columns))), rows)
    check("a cell of 20 MB by pyarrow.flight", len(get(f"SELECT repeat('x', {LARGE}) AS v")["v"][0].as_py()), LARGE)
    try:
        client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command("SELECT 1"))
        raise AssertionError("it was let in without a token")
    except pyarrow.flight.FlightUnauthenticatedError as error:
        check("without a token", "28P01" in str(error), True)


def logins():
    try:
        connect(password="wrong").close()
        raise AssertionError("it was let in")
    except adbc_driver_manager.Error as error:
        check("a wrong password", "28P01" in str(error), True)


with psycopg.connect(autocommit=True) as session, connect() as connection, connection.cursor() as cursor:
    session.execute("SET TimeZone = 'UTC'")
    every_type(session, cursor)
    frames(session, connection, cursor)
    values(cursor)
    transactions(session)
    catalog(connection)
    cancels(connection)
    large(session, cursor)
    plain_flight(session)
    logins()
print("ok")
