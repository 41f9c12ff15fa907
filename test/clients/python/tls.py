"""Connects with psycopg 3 in all of libpq's ways to TLS.

Connects with the PG* environment variables. Prints one line per check and `ok` at the end; a failed check is an
exception and a non-zero exit.
"""

import os

import psycopg


def is_encrypted(**options):
    with psycopg.connect(**options) as connection:
        assert connection.execute("SELECT count(*) FROM generate_series(1, 100000)").fetchone() == (100000,)
        return bool(connection.pgconn.ssl_in_use)


for mode, expected in [
    ("disable", False),
    ("allow", False),
    ("prefer", True),
    ("require", True),
    ("verify-ca", True),
    ("verify-full", True),
]:
    assert is_encrypted(sslmode=mode) is expected, mode
    print(f"  {mode}")

if os.environ.get("DIRECT_TLS") and psycopg.pq.version() >= 170000:
    assert is_encrypted(sslmode="verify-full", sslnegotiation="direct")
    print("  direct")

print("ok")
