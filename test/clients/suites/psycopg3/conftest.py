"""Lets test files of different ages run with one version of the driver: gives them the names that have moved since, or are newer."""

import contextlib
import functools
import gc
import math
import sys
import zoneinfo

import psycopg._compat
import psycopg.postgres
import pytest

psycopg._compat.cache = functools.cache
psycopg._compat.prod = math.prod
psycopg._compat.ZoneInfo = zoneinfo.ZoneInfo
psycopg.postgres.TEXT_OID = psycopg.postgres.types["text"].oid
for owner in (psycopg.Connection, psycopg.Cursor):
    owner.ConnStatus = psycopg.pq.ConnStatus
    owner.ExecStatus = psycopg.pq.ExecStatus
    owner.TransactionStatus = psycopg.pq.TransactionStatus

from tests import _test_cursor, utils  # noqa: E402

pytest_plugins = ("tests.fix_db", "tests.fix_pq", "tests.fix_psycopg", "tests.fix_crdb", "tests.fix_gc")


@contextlib.contextmanager
def raiseif(condition, *errors):
    with pytest.raises(*errors) if condition else contextlib.nullcontext() as raised:
        yield raised


sys.modules["tests.test_cursor"] = _test_cursor
utils.raiseif = raiseif
utils.gc_count = lambda: len(gc.get_objects())


@pytest.fixture
def anyio_backend():
    """Asked for by fixtures that the tests for asyncio share."""
    return "asyncio"
