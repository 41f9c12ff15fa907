"""What the Python suites share: checks that print a line each, and values of every type.

Suites connect with the PG* environment variables, over TLS and with a password. A failed check is an exception and a
non-zero exit; the last line of a suite that passed is `ok`.
"""

import datetime
import decimal
import ipaddress  # noqa: F401 (some drivers import it lazily, which would be timed as a query)
import uuid

UTC = datetime.timezone.utc

# A query that ends only when it is cancelled.
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"

# Type, and values that a driver sends and gets back unchanged.
VALUES = [
    ("bool", [True, False]),
    ("int2", [0, -32768, 32767]),
    ("int4", [0, -(2**31), 2**31 - 1]),
    ("int8", [0, -(2**63), 2**63 - 1]),
    ("float4", [0.0, 1.5, -2.25]),
    ("float8", [0.0, 1.1, -1e300]),
    ("numeric", [decimal.Decimal("0"), decimal.Decimal("-12.50"), decimal.Decimal("12345678901234567890.123456789")]),
    ("text", ["", "ünï 'quoted' \\ \"x\"", "日本語"]),
    ("varchar", ["", "v"]),
    ("bytea", [b"", b"\x00\xff'\\"]),
    ("uuid", [uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    ("date", [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)]),
    ("time", [datetime.time(0, 0), datetime.time(23, 59, 59, 999999)]),
    ("timestamp", [datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)]),
    ("timestamptz", [datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)]),
    ("interval", [datetime.timedelta(days=3, seconds=5, microseconds=7), datetime.timedelta(days=-1)]),
    ("int4[]", [[], [1, None, 3]]),
    ("int8[]", [[2**40]]),
    ("text[]", [["a", None, 'b "c", {d}', ""]]),
    ("bool[]", [[True, None, False]]),
    ("float8[]", [[1.5, None]]),
    ("numeric[]", [[decimal.Decimal("1.50"), None]]),
    ("uuid[]", [[uuid.UUID(int=1), None]]),
    ("date[]", [[datetime.date(2024, 2, 29), None]]),
    ("timestamptz[]", [[datetime.datetime(2024, 1, 2, tzinfo=UTC), None]]),
]


def check(name, actual, expected):
    """Compares, and prints the name."""
    if actual != expected:
        raise AssertionError(f"{name}: expected {expected!r}, got {actual!r}")
    print(f"  {name}")


def sqlstate(error):
    """The code of an error of any driver, also through the exceptions of SQLAlchemy."""
    error = getattr(error, "orig", error)
    error = getattr(error, "__cause__", None) if type(error).__module__.startswith("sqlalchemy") else error
    return getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)


def check_fails(code, act, *args, **kwargs):
    """Checks that a call fails with an SQLSTATE."""
    try:
        act(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 (every driver has its own)
        if sqlstate(error) != code:
            raise AssertionError(f"expected {code}, got {sqlstate(error)}: {error!r}") from error
        print(f"  fails with {code}")
        return error
    raise AssertionError(f"{args} did not fail with {code}")
