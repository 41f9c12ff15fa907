"""Values of Arrow as psycopg has them."""

import datetime

import pyarrow


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, pyarrow.MonthDayNano):
        return datetime.timedelta(days=value.months * 30 + value.days, microseconds=value.nanoseconds / 1000)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc)
    return value
