"""SQLAlchemy over psycopg 3, psycopg 2 and asyncpg: reflection, ORM round trip, Core, nested transactions, streaming."""

import asyncio
import datetime
import decimal
import os
import ssl
import uuid

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

from common import UTC, check, check_fails


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    # Keys are the program's business: ids are given, not generated.
    id: Mapped[int] = mapped_column(autoincrement=False)
    name: Mapped[str] = mapped_column(sa.String(30))
    email: Mapped[str | None]
    joined: Mapped[datetime.datetime] = mapped_column(sa.DateTime(timezone=True))
    balance: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(12, 2))
    tags: Mapped[list[str]] = mapped_column(pg.ARRAY(sa.Text))
    data: Mapped[dict] = mapped_column(pg.JSONB)
    key: Mapped[uuid.UUID]
    __mapper_args__ = {"primary_key": [id]}
    orders: Mapped[list["Order"]] = relationship(
        primaryjoin="User.id == foreign(Order.user_id)", back_populates="user", order_by="Order.id"
    )


class Order(Base):
    __tablename__ = "user_orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, autoincrement=False)
    user_id: Mapped[int]
    paid: Mapped[bool] = mapped_column(server_default=sa.false())
    __mapper_args__ = {"primary_key": [id]}
    user: Mapped[User] = relationship(primaryjoin="User.id == foreign(Order.user_id)", back_populates="orders")


JOINED = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def user(id, **more):
    fields = dict(
        id=id,
        name=f"user {id}",
        joined=JOINED,
        balance=decimal.Decimal("12.50"),
        tags=["a", "b c"],
        data={"level": id, "list": [1, None]},
        key=uuid.UUID(int=id),
    )
    return User(**{**fields, **more})


def orm(engine):
    with Session(engine) as session:
        session.add_all([user(i) for i in range(1, 4)])
        session.add(user(4, name="it's", orders=[Order(id=1), Order(id=2, paid=True)]))
        session.commit()
    with Session(engine) as session:
        loaded = session.get(User, 4)
        check("get", (loaded.name, loaded.email, loaded.joined, loaded.balance), ("it's", None, JOINED, decimal.Decimal("12.50")))
        check("get, richer types", (loaded.tags, loaded.data, loaded.key), (["a", "b c"], {"level": 4, "list": [1, None]}, uuid.UUID(int=4)))
        check("lazy load", [(order.id, order.paid) for order in loaded.orders], [(1, False), (2, True)])
        query = sa.select(User).where(User.id.in_([2, 4])).options(selectinload(User.orders)).order_by(User.id)
        check("eager load", [len(found.orders) for found in session.scalars(query)], [0, 2])
        loaded.email = "a@b.c"
        session.delete(session.get(User, 1))
        session.commit()
        found = session.execute(
            sa.select(User.id, sa.func.count(Order.id))
            .outerjoin(Order, Order.user_id == User.id)
            .group_by(User.id)
            .having(User.id > 1)
            .order_by(sa.desc(User.id))
        ).all()
        check("join and group", [tuple(row) for row in found], [(4, 2), (3, 0), (2, 0)])
        found = session.scalars(sa.select(User.id).where(User.data["level"].as_integer() == 3)).all()
        check("json path", found, [3])
        found = session.scalars(sa.select(User.id).where(User.tags.any("b c")).order_by(User.id)).all()
        check("array", found, [2, 3, 4])
        found = session.scalars(sa.select(User.name).where(User.name.ilike("USER%")).order_by(User.id).limit(1).offset(1)).all()
        check("ilike, limit, offset", found, ["user 3"])


def nested(engine):
    with Session(engine) as session:
        session.add(Order(id=10, user_id=2))
        session.flush()
        try:
            with session.begin_nested():
                session.add(Order(id=11, user_id=2))
                session.flush()
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        with session.begin_nested():
            session.add(Order(id=12, user_id=2))
        session.commit()
    with engine.connect() as connection:
        ids = connection.scalars(sa.select(Order.id).where(Order.user_id == 2).order_by(Order.id)).all()
        check("nested transactions", ids, [10, 12])


def core(engine):
    table = User.__table__
    with engine.begin() as connection:
        rows = [dict(id=100 + i, name="many", joined=JOINED, balance=i, tags=[], data={}, key=uuid.UUID(int=i)) for i in range(250)]
        result = connection.execute(sa.insert(table).returning(table.c.id), rows)
        check("insert of many, returning", sorted(result.scalars()), list(range(100, 350)))
        result = connection.execute(sa.update(table).where(table.c.id >= 300).values(balance=table.c.balance + 1))
        check("update counts", result.rowcount, 50)
        result = connection.execute(sa.delete(table).where(table.c.id >= sa.bindparam("from_id")), {"from_id": 340})
        check("delete counts", result.rowcount, 10)
    with engine.connect().execution_options(stream_results=True, yield_per=50) as connection:
        ids = connection.scalars(sa.select(table.c.id).where(table.c.id >= 100).order_by(table.c.id)).all()
        check("streamed", ids, list(range(100, 340)))
    with engine.connect() as connection:
        for code, query in [("42P01", "SELECT * FROM nosuch_table"), ("22012", "SELECT 1/0"), ("23502", "INSERT INTO users (id) VALUES (1)")]:
            check_fails(code, connection.execute, sa.text(query))
            connection.rollback()
        window = sa.select(table.c.id, sa.func.row_number().over(order_by=table.c.id.desc())).order_by(table.c.id.desc()).limit(2)
        check("window", [tuple(row) for row in connection.execute(window)], [(339, 1), (338, 2)])
        recent = sa.select(table.c.id).where(table.c.id < 4).cte("recent")
        check("cte", connection.scalar(sa.select(sa.func.count()).select_from(recent)), 2)
        check("version", engine.dialect.server_version_info >= (14,), True)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("INSERT INTO user_orders (id, user_id) VALUES (900, 9)"))
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
        check("autocommit", connection.scalar(sa.text("SELECT count(*) FROM user_orders WHERE id = 900")), 1)


def reflection(engine):
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE INDEX users_name ON users (name)"))
        connection.execute(sa.text("CREATE VIEW user_names AS SELECT id, name FROM users"))
        connection.execute(sa.text("CREATE MATERIALIZED VIEW user_count AS SELECT count(*) AS n FROM users"))
        connection.execute(sa.text("COMMENT ON TABLE users IS 'who is who'"))
        connection.execute(sa.text("COMMENT ON COLUMN users.name IS 'what they are called'"))
    inspector = sa.inspect(engine)
    check("schemas", {"public", "information_schema"} <= set(inspector.get_schema_names()), True)
    check("default schema", inspector.default_schema_name, "public")
    check("tables", {"users", "user_orders"} <= set(inspector.get_table_names()), True)
    check("views", "user_names" in inspector.get_view_names(), True)
    check("materialized views", "user_count" in inspector.get_materialized_view_names(), True)
    check("has_table", (inspector.has_table("users"), inspector.has_table("nosuch")), (True, False))
    columns = {column["name"]: column for column in inspector.get_columns("users")}
    found = {name: str(column["type"].compile(engine.dialect)) for name, column in columns.items()}
    check(
        "columns",
        found,
        {
            "id": "INTEGER",
            "name": "VARCHAR(30)",
            "email": "VARCHAR",
            "joined": "TIMESTAMP WITH TIME ZONE",
            "balance": "NUMERIC(12, 2)",
            "tags": "TEXT[]",
            "data": "JSONB",
            "key": "UUID",
        },
    )
    check("nullable", (columns["id"]["nullable"], columns["email"]["nullable"]), (False, True))
    check("comments", (inspector.get_table_comment("users")["text"], columns["name"]["comment"]), ("who is who", "what they are called"))
    paid = {column["name"]: column for column in inspector.get_columns("user_orders")}["paid"]
    check("default", paid["default"], "false")
    index = {found["name"]: found for found in inspector.get_indexes("users")}["users_name"]
    check("index", (index["column_names"], bool(index["unique"])), (["name"], False))
    check("foreign keys", inspector.get_foreign_keys("users"), [])
    check("unique constraints", inspector.get_unique_constraints("users"), [])
    check("check constraints", inspector.get_check_constraints("users"), [])
    check("primary key", inspector.get_pk_constraint("users")["constrained_columns"], [])
    check("view definition", "users" in inspector.get_view_definition("user_names"), True)
    check("enums", inspector.get_enums(), [])
    check("sequences", inspector.get_sequence_names(), [])
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True, only=lambda name, _: name.startswith("user"))
    check("reflected", {"user_names", "user_orders", "users"} <= set(metadata.tables), True)
    with engine.begin() as connection:
        connection.execute(sa.text("DROP MATERIALIZED VIEW user_count"))
        connection.execute(sa.text("DROP VIEW user_names"))


def plain(metadata):
    """The tables without the constraint that SQLAlchemy makes of a mapper's key."""
    for table in metadata.tables.values():
        table.constraints = {c for c in table.constraints if not isinstance(c, sa.PrimaryKeyConstraint)}


async def asynchronously():
    context = ssl.create_default_context(cafile=os.environ["PGSSLROOTCERT"])
    url = sa.URL.create(
        "postgresql+asyncpg",
        os.environ["PGUSER"],
        os.environ["PGPASSWORD"],
        os.environ["PGHOST"],
        int(os.environ["PGPORT"]),
        os.environ["PGDATABASE"],
    )
    engine = create_async_engine(url, connect_args={"ssl": context})
    async with engine.begin() as connection:
        found = await connection.execute(sa.select(User.__table__.c.name).where(User.__table__.c.id == 2))
        check("over asyncpg", found.scalars().all(), ["user 2"])
        names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
        check("reflection over asyncpg", "users" in names, True)
    await engine.dispose()


def main():
    print(f"SQLAlchemy {sa.__version__}")
    plain(Base.metadata)
    for driver in ("psycopg", "psycopg2"):
        print(f" over {driver}")
        engine = sa.create_engine(f"postgresql+{driver}://")
        Base.metadata.create_all(engine)
        Base.metadata.create_all(engine)
        for part in (orm, nested, core, reflection):
            part(engine)
        if driver == "psycopg":
            asyncio.run(asynchronously())
        Base.metadata.drop_all(engine)
        engine.dispose()
    print("ok")


if __name__ == "__main__":
    main()
