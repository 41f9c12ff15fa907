"""What BI tools send over cubes, through SQLAlchemy as Superset does: texts, and statements over a reflected cube.

The model is test/cubes/reference.yml, the statements are test/cubes/bi.sql (CUBE_BI).
"""

import os

import sqlalchemy
from common import check
from sqlalchemy import MetaData, Table, case, func, inspect, literal_column, select, text

engine = sqlalchemy.create_engine("postgresql+psycopg2://", connect_args={})


def rows(connection, statement):
    return [tuple(row) for row in connection.execute(statement)]


with engine.connect() as db, open(os.environ["CUBE_BI"]) as file:
    for block in file.read().split("\n\n"):
        cube, tables = [line for line in block.splitlines() if not line.startswith("--")]
        # A colon before a word would be a parameter.
        got, expected = (rows(db, text(of.rstrip(";").replace(":", "\\:"))) for of in (cube, tables))
        assert expected, tables
        check(cube[:60], got, expected)

    # A cube is found and reflected as what a tool shows.
    known = inspect(engine)
    assert {"orders", "customers", "sales"} <= set(known.get_view_names()), known.get_view_names()
    columns = {column["name"]: column for column in known.get_columns("orders")}
    check("a measure's type", str(columns["count"]["type"]), "BIGINT")
    check("a dimension's", str(columns["market_code"]["type"]), "TEXT")
    check("a segment's", str(columns["taxed"]["type"]), "BOOLEAN")

    orders = Table("orders", MetaData(), autoload_with=engine)
    day = func.date_trunc("month", orders.c.updated_at)
    built = (
        select(day.label("month"), func.measure(orders.c.avg_amount), func.sum(orders.c.total_amount_sum), func.count(literal_column("*")))
        .where(orders.c.taxed, orders.c.market_code.in_(["DE", "SE"]), orders.c.updated_at < "2024-06-01")
        .group_by(day)
        .having(func.measure(orders.c["count"]) > 3)
        .order_by(day.desc())
        .limit(3)
    )
    expected = text(
        "SELECT date_trunc('month', updated_at), sum(total_amount) / count(*), sum(total_amount), count(*) FROM raw.orders"
        " WHERE tax_amount > 40 AND market_code IN ('DE', 'SE') AND updated_at < '2024-06-01' GROUP BY 1 HAVING count(*) > 3 ORDER BY 1 DESC LIMIT 3"
    )
    check("a built statement", rows(db, built), rows(db, expected))
    sub = select(orders.c.market_code, orders.c["count"].label("n"), orders.c.is_large).subquery()
    nested = select(sub.c.market_code, func.sum(sub.c.n), func.sum(case((sub.c.is_large, 1), else_=0))).group_by(sub.c.market_code).order_by(sub.c.market_code)
    expected = text("SELECT market_code, count(*), sum(CASE WHEN total_amount > 500 THEN 1 ELSE 0 END) FROM raw.orders GROUP BY 1 ORDER BY 1")
    check("a nested one", rows(db, nested), rows(db, expected))

print("ok")
