"""SQLAlchemy's models with keys and references, and Alembic: create_all, the ORM over them, and a second version whose
migration Alembic finds out by comparing, applies, takes back and applies again. What it has applied it finds no more.

Connects with the PG* environment variables, with the driver that SQLAlchemy takes by itself.
"""

import argparse
import contextlib
import datetime
import decimal
import io
import pathlib
import tempfile

import alembic
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Column, ForeignKey, Index, Numeric, String, Table, UniqueConstraint, func
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, aliased, contains_eager, joinedload, mapped_column, relationship, selectinload

from common import check, sqlstate


def models(version):
    """The classes of a version: a base of their own each time."""

    class Base(DeclarativeBase):
        pass

    book_tags = Table(
        "book_tags",
        Base.metadata,
        Column("book_id", ForeignKey("books.id", ondelete="CASCADE"), primary_key=True),
        Column("tag_id", ForeignKey("tags.id"), primary_key=True),
    )

    class Author(Base):
        __tablename__ = "authors"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(String(50 if version == 1 else 80), index=True)
        email: Mapped[str] = mapped_column(unique=True)
        mentor_id: Mapped[int | None] = mapped_column(ForeignKey("authors.id", ondelete="SET NULL"))
        joined: Mapped[datetime.datetime] = mapped_column(server_default=func.now())
        mentor: Mapped["Author | None"] = relationship(remote_side=[id], back_populates="pupils")
        pupils: Mapped[list["Author"]] = relationship(back_populates="mentor", passive_deletes=True)
        books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan", foreign_keys="Book.author_id")

    class Publisher(Base):
        __tablename__ = "publishers"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str]
        city: Mapped[str]
        __table_args__ = (UniqueConstraint("name", "city", name="publisher_once"),)

    class Tag(Base):
        __tablename__ = "tags"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(unique=True)

    class Book(Base):
        __tablename__ = "books"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]
        price: Mapped[decimal.Decimal] = mapped_column(Numeric(8, 2), default=0)
        author_id: Mapped[int] = mapped_column(ForeignKey("authors.id"))
        publisher_id: Mapped[int | None] = mapped_column(ForeignKey("publishers.id", ondelete="SET NULL"))
        author: Mapped[Author] = relationship(back_populates="books", foreign_keys=[author_id])
        publisher: Mapped[Publisher | None] = relationship()
        tags: Mapped[list[Tag]] = relationship(secondary=book_tags)
        editions: Mapped[list["Edition"]] = relationship(cascade="all, delete-orphan", passive_deletes=True)
        __table_args__ = [CheckConstraint("price >= 0", name="book_price")]
        if version == 2:
            isbn: Mapped[str | None] = mapped_column(String(13))
            editor_id: Mapped[int | None] = mapped_column(ForeignKey("authors.id", name="book_editor"))
            editor: Mapped[Author | None] = relationship(foreign_keys=[editor_id])
            __table_args__ += [
                Index("book_title", "title", "price"),
                UniqueConstraint("isbn", name="book_isbn"),
                UniqueConstraint("author_id", "title", name="book_once"),
            ]
        __table_args__ = tuple(__table_args__)

    class Edition(Base):
        __tablename__ = "editions"
        book_id: Mapped[int] = mapped_column(ForeignKey("books.id", ondelete="CASCADE"), primary_key=True)
        number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)

    names = [Base, Author, Publisher, Tag, Book, Edition]

    if version == 2:

        class Review(Base):
            __tablename__ = "reviews"
            id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
            book_id: Mapped[int]
            number: Mapped[int]
            stars: Mapped[int] = mapped_column(sa.SmallInteger, server_default="3")
            edition: Mapped[Edition] = relationship()
            __table_args__ = (sa.ForeignKeyConstraint(["book_id", "number"], ["editions.book_id", "editions.number"], ondelete="CASCADE"),)

        names.append(Review)
    return names


def check_integrity(code, engine, *rows):
    """Checks that SQLAlchemy raises its own error, which names the server's."""
    with Session(engine) as session:
        session.add_all(rows)
        try:
            session.commit()
        except (IntegrityError, DataError) as error:
            check(f"{type(error).__name__} {code}", sqlstate(error), code)
            return
    raise AssertionError(f"no error with {code}")


def orm(engine, classes):
    _, Author, Publisher, Tag, Book, Edition = classes
    with Session(engine) as session:
        ann, press = Author(name="ann", email="ann@x.org"), Publisher(name="press", city="bern")
        red, blue = Tag(name="red"), Tag(name="blue")
        bob = Author(name="bob", email="bob@x.org", mentor=ann)
        ann.books = [Book(title="one", price=decimal.Decimal("12.50"), publisher=press, tags=[red, blue], editions=[Edition(number=1), Edition(number=2)])]
        bob.books = [Book(title="two", publisher=press, tags=[red]), Book(title="three", editions=[Edition(number=1)])]
        session.add_all([ann, bob])
        session.commit()
        check("keys come from the server", (ann.id, bob.id, ann.joined.date() >= datetime.date(2024, 1, 1)), (1, 2, True))
        many = session.scalars(sa.insert(Tag).returning(Tag.id, sort_by_parameter_order=True), [{"name": f"t{n}"} for n in range(100)])
        check("insert of many returns keys", len(set(many)), 100)
        session.commit()
    with Session(engine) as session:
        query = sa.select(Book).options(joinedload(Book.author).joinedload(Author.mentor), joinedload(Book.publisher)).order_by(Book.title)
        found = [(book.title, book.author.mentor and book.author.mentor.name, book.publisher and book.publisher.city) for book in session.scalars(query)]
        check("joined load", found, [("one", None, "bern"), ("three", "ann", None), ("two", "ann", "bern")])
    with Session(engine) as session:
        query = sa.select(Author).options(selectinload(Author.books).selectinload(Book.tags), selectinload(Author.pupils)).order_by(Author.id)
        found = [(author.name, [[tag.name for tag in book.tags] for book in author.books], len(author.pupils)) for author in session.scalars(query)]
        check("select in load", [(name, sorted(map(sorted, tags)), pupils) for name, tags, pupils in found], [("ann", [["blue", "red"]], 1), ("bob", [[], ["red"]], 0)])
        mentor = aliased(Author)
        query = sa.select(Book.title).join(Book.author).join(mentor, Author.mentor).where(mentor.name == "ann", Book.tags.any(Tag.name == "red"))
        check("join, self join, any", session.scalars(query).all(), ["two"])
        query = sa.select(Author).join(Author.books).options(contains_eager(Author.books)).where(Book.title == "three").execution_options(populate_existing=True)
        check("contains eager", [book.title for book in session.scalars(query).unique().one().books], ["three"])
        query = sa.select(Author.name, func.count(Book.id), func.sum(Book.price)).outerjoin(Author.books).group_by(Author.name).order_by(Author.name)
        check("group", [tuple(row) for row in session.execute(query)], [("ann", 1, decimal.Decimal("12.50")), ("bob", 2, decimal.Decimal("0.00"))])
    with Session(engine) as session:
        one = session.scalars(sa.select(Book).where(Book.title == "one").with_for_update()).one()
        one.title, one.tags = "uno", [tag for tag in one.tags if tag.name == "red"]
        one.editions.pop()
        updated = session.execute(sa.update(Book).where(Book.title != "uno").values(price=Book.price + 5).returning(Book.price)).scalars()
        check("update", sorted(updated), [5, 5])
        session.commit()
        check("rows of the join", sorted(tag.name for tag in session.get(Book, one.id).tags), ["red"])
        check("orphan", [edition.number for edition in one.editions], [1])

    check_integrity("23505", engine, Author(name="eve", email="ann@x.org"))
    check_integrity("23503", engine, Book(title="none", author_id=999))
    check_integrity("23502", engine, Book(title="none"))
    check_integrity("23514", engine, Book(title="none", author_id=1, price=-1))
    check_integrity("22001", engine, Author(name="x" * 51, email="x@x.org"))
    with Session(engine) as session:
        try:
            session.execute(sa.delete(Author).where(Author.name == "ann"))
            raise AssertionError("a row that others refer to was deleted")
        except IntegrityError as error:
            check("deleted below others", sqlstate(error), "23503")
        session.rollback()
        session.delete(session.scalars(sa.select(Publisher)).one())
        session.commit()
        check("set null", session.scalar(sa.select(func.count()).where(Book.publisher_id.is_(None))), 3)
        session.delete(session.scalars(sa.select(Author).where(Author.name == "ann")).one())
        session.commit()
        left = [session.scalar(sa.select(func.count()).select_from(table)) for table in (Author, Book, Edition, Book.__mapper__.relationships.tags.secondary)]
        check("delete cascades", left, [1, 2, 1, 1])
        check("set null in its own table", session.scalars(sa.select(Author)).one().mentor, None)


def changed(engine, classes):
    """The second version, over the rows of the first."""
    _, Author, _, _, Book, Edition, Review = classes
    with Session(engine) as session:
        bob = session.scalars(sa.select(Author).options(selectinload(Author.books))).one()
        check("rows are still there", sorted((book.title, book.isbn, book.editor) for book in bob.books), [("three", None, None), ("two", None, None)])
        bob.name = "b" * 80
        three = next(book for book in bob.books if book.title == "three")
        three.isbn, three.editor = "9780000000000", bob
        review = Review(edition=three.editions[0])
        session.add(review)
        session.commit()
        check("new reference, new default", (review.stars, review.edition.number, three.editor.id), (3, 1, bob.id))
        author, book = bob.id, three.id
    check_integrity("23505", engine, Book(title="four", author_id=author, isbn="9780000000000"))
    check_integrity("23505", engine, Book(title="three", author_id=author))
    check_integrity("23503", engine, Review(book_id=book, number=2))
    with Session(engine) as session:
        session.get(Book, book).editor = None
        session.flush()
        session.delete(session.get(Author, author))
        session.commit()
        check("delete cascades", [session.scalar(sa.select(func.count()).select_from(table)) for table in (Book, Edition, Review)], [0, 0, 0])


def reflected(engine):
    inspector = sa.inspect(engine)
    keys = {(tuple(key["constrained_columns"]), key["referred_table"], key["options"].get("ondelete")) for key in inspector.get_foreign_keys("books")}
    check("foreign keys", keys, {(("author_id",), "authors", None), (("publisher_id",), "publishers", "SET NULL")})
    check("primary key", inspector.get_pk_constraint("editions")["constrained_columns"], ["book_id", "number"])
    check("unique constraints", [found["column_names"] for found in inspector.get_unique_constraints("publishers")], [["name", "city"]])
    check("check constraints", [found["name"] for found in inspector.get_check_constraints("books")], ["book_price"])
    check("indexes", [(found["name"], found["column_names"]) for found in inspector.get_indexes("authors") if not found.get("duplicates_constraint")], [("ix_authors_name", ["name"])])
    metadata = sa.MetaData()
    metadata.reflect(engine)
    order = [table.name for table in metadata.sorted_tables]
    check("reflected in the order of references", order.index("authors") < order.index("books") < order.index("editions"), True)


def differences(engine, metadata):
    """What Alembic finds different between the models and the database."""
    with engine.connect() as connection:
        return compare_metadata(MigrationContext.configure(connection), metadata)


def main():
    print(f"SQLAlchemy {sa.__version__}, Alembic {alembic.__version__}")
    engine = sa.create_engine("postgresql://")
    first, second = models(1), models(2)
    before, after = first[0].metadata, second[0].metadata
    before.create_all(engine)
    before.create_all(engine)
    check("nothing differs after create_all", differences(engine, before), [])
    orm(engine, first)
    reflected(engine)
    with tempfile.TemporaryDirectory() as directory:
        ini, quiet = pathlib.Path(directory) / "alembic.ini", argparse.Namespace(quiet=True)
        with contextlib.redirect_stdout(io.StringIO()):
            command.init(Config(ini), f"{directory}/migrations")
        ini.write_text(ini.read_text().replace("level = INFO", "level = WARNING"))
        config = Config(ini, cmd_opts=quiet)
        config.set_main_option("sqlalchemy.url", "postgresql://")
        # What everybody fills in.
        env = pathlib.Path(directory) / "migrations/env.py"
        env.write_text(env.read_text().replace("target_metadata = None", 'target_metadata = config.attributes["metadata"]'))

        def revision(name):
            """Has Alembic write a revision, and returns its upgrade."""
            script = command.revision(config, name, autogenerate=True)
            return pathlib.Path(script.path).read_text().split("def upgrade")[1].split("def downgrade")[0]

        config.attributes["metadata"] = after
        written = revision("second")
        for step in ("create_table('reviews'", "add_column('books', sa.Column('isbn'", "alter_column('authors', 'name'", "create_index", "create_unique_constraint", "create_foreign_key"):
            check(f"autogenerated {step.split('(')[0]}", step in written, True)
        command.upgrade(config, "head")
        check("nothing differs after the upgrade", differences(engine, after), [])
        command.upgrade(config, "head")
        command.check(config)
        check("the next revision is empty", "op." not in revision("third"), True)
        changed(engine, second)
        command.downgrade(config, "base")
        check("nothing differs after the downgrade", differences(engine, before), [])
        command.upgrade(config, "head")
        check("nothing differs after the second upgrade", differences(engine, after), [])
    after.drop_all(engine)
    check("drop_all", sa.inspect(engine).get_table_names(), ["alembic_version"])
    print("ok")


if __name__ == "__main__":
    main()
