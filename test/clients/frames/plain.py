"""Values of every type, and those of Arrow as psycopg has them."""

import datetime
import os
import sys

import pyarrow

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from common import VALUES  # noqa: E402


def typed(session):
    """For each type: its name, a query of values of it and NULL, and what psycopg makes of that. They are in `typed (at, v)` meanwhile."""
    for name, values in VALUES:
        session.execute("DROP TABLE IF EXISTS typed")
        session.execute(f"CREATE TABLE typed (at int, v {name})")
        for at, value in enumerate([*values, None]):
            session.execute(f"INSERT INTO typed VALUES (%s, %s::{name})", (at, value))
        query = "SELECT v FROM typed ORDER BY at"
        yield name, query, read(session, query)


def read(session, query):
    return [row[0] for row in session.execute(query, prepare=False)]


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, pyarrow.MonthDayNano):
        return datetime.timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds / 1000)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc)
    return value
