"""Django: a project's first hour. startproject and startapp, models, makemigrations and migrate with the apps that a project
starts with, the ORM, the admin's pages, fixtures, a second version of the models, back and forth, the test runner.

Connects with the PG* environment variables. The project is made in a directory of its own, by Django, which also writes the
SQL. A process reads models once, so each version of them has its own, `django_suite.py PART`.
"""

import datetime
import decimal
import io
import os
import pathlib
import subprocess
import sys
import tempfile

from common import check, sqlstate

DATABASES = """
import os
INSTALLED_APPS.append("shop")
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
"""

FIRST = """
from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=50)
    email = models.EmailField(unique=True)
    mentor = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="pupils")

    def __str__(self):
        return self.name


class Publisher(models.Model):
    name = models.CharField(max_length=50)


class Tag(models.Model):
    slug = models.SlugField(unique=True)


class Book(models.Model):
    title = models.CharField(max_length=100)
    author = models.ForeignKey(Author, models.CASCADE, related_name="books")
    publisher = models.ForeignKey(Publisher, models.SET_NULL, null=True, blank=True)
    tags = models.ManyToManyField(Tag, blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    pages = models.PositiveIntegerField(null=True, blank=True)
    data = models.JSONField(default=dict, blank=True)
    added = models.DateTimeField(auto_now_add=True)
"""

# What is replaced in the first version, and what is added to it.
CHANGES = [
    ("name = models.CharField(max_length=50)\n    email", "name = models.CharField(max_length=80)\n    email"),
    (
        "    added =",
        """    isbn = models.CharField(max_length=13, null=True, blank=True, unique=True)
    editor = models.ForeignKey(Author, models.SET_NULL, null=True, blank=True, related_name="edited")
    added =""",
    ),
]
ADDED = """
    class Meta:
        indexes = [models.Index(fields=["title", "-added"], name="book_title")]
        constraints = [
            models.UniqueConstraint(fields=["author", "title"], name="book_once"),
            models.CheckConstraint(condition=models.Q(price__gte=0), name="book_price"),
        ]


class Review(models.Model):
    book = models.ForeignKey(Book, models.CASCADE, related_name="reviews")
    user = models.ForeignKey("auth.User", models.PROTECT)
    stars = models.PositiveSmallIntegerField(db_index=True)
"""

ADMIN = """
from django.contrib import admin
from .models import Author, Book

admin.site.register([Author, Book])
"""

TESTS = """
from django.db import IntegrityError, transaction
from django.test import TestCase, TransactionTestCase
from .models import Author, Book


class InTransaction(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.author = Author.objects.create(name="ann", email="ann@x.org")

    def test_rows_of_a_test_are_its_own(self):
        Book.objects.create(title="one", author=self.author)
        self.assertEqual(Book.objects.count(), 1)

    def test_each_starts_anew(self):
        self.assertEqual(Book.objects.count(), 0)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Author.objects.create(name="ann", email="ann@x.org")


class Flushed(TransactionTestCase):
    def test_committed(self):
        Author.objects.create(name="bob", email="bob@x.org")
        self.assertEqual(Author.objects.count(), 1)
"""


def manage(*command):
    """A command of manage.py, and what it printed."""
    from django.core.management import call_command

    said = io.StringIO()
    call_command(*command, stdout=said, stderr=said)
    return said.getvalue()


def migrate(name, *expected):
    """Lets Django write a migration and apply what is not applied yet; the second time there is nothing to do."""
    said = manage("makemigrations", "shop", "--name", name)
    check(f"makemigrations {name}", [line for line in expected if line not in said], [])
    check("migrate", "OK" in manage("migrate"), True)
    check("migrate again", "No migrations to apply." in manage("migrate"), True)
    check("nothing to migrate", "No changes detected" in manage("makemigrations", "--check"), True)


def first():
    """The first version of the models, from an empty database."""
    migrate("first", "Create model Author", "Create model Book")
    print(" the first version")
    orm()
    os.environ["DJANGO_SUPERUSER_PASSWORD"] = "secret"
    manage("createsuperuser", "--noinput", "--username", "root", "--email", "root@x.org")
    print(" the admin")
    admin()


def second():
    """The second version, over the rows of the first."""
    print(" the second version")
    migrate("second", "Create model Review", "Add field isbn to book", "Alter field name on author", "Create constraint book_once")
    manage("migrate", "shop", "0001")
    manage("migrate")
    check("back and forth", "No migrations to apply." in manage("migrate"), True)
    left_out = [f"--exclude={name}" for name in ("contenttypes", "auth.permission", "sessions", "admin")]
    manage("dumpdata", "--natural-foreign", "--natural-primary", *left_out, "--output=rows.json")
    manage("flush", "--noinput")
    check("dumpdata, flush, loaddata", "Installed" in manage("loaddata", "rows.json"), True)
    changed()
    check("inspectdb", "author = models.ForeignKey(ShopAuthor, models.DO_NOTHING" in manage("inspectdb"), True)


def orm():
    """The ORM over the first version of the models."""
    from django.db import IntegrityError, connection, transaction
    from django.db.models import Count, F, Max, Q
    from shop.models import Author, Book, Publisher, Tag

    ann = Author.objects.create(name="ann", email="ann@x.org")
    bob = Author.objects.create(name="bob", email="bob@x.org", mentor=ann)
    check("keys come from the server", (ann.pk, bob.pk), (1, 2))
    press = Publisher.objects.create(name="press")
    one = ann.books.create(title="one", publisher=press, price=decimal.Decimal("12.50"), data={"lang": ["en"]})
    two, three = Book.objects.bulk_create([Book(title="two", author=bob, publisher=press), Book(title="three", author=bob)])
    check("bulk_create returns keys", (two.pk, three.pk), (2, 3))
    red, blue = Tag.objects.create(slug="red"), Tag.objects.create(slug="blue")
    one.tags.add(red, blue)
    two.tags.set([red])
    # Again: ON CONFLICT DO NOTHING.
    one.tags.add(red)
    red.book_set.add(three)
    check("many to many", sorted(one.tags.values_list("slug", flat=True)), ["blue", "red"])
    check("and from the other side", sorted(red.book_set.values_list("title", flat=True)), ["one", "three", "two"])
    with check_queries(1):
        found = [(book.title, book.author.name, book.publisher and book.publisher.name) for book in Book.objects.select_related("author", "publisher").order_by("pk")]
    check("select_related", found, [("one", "ann", "press"), ("two", "bob", "press"), ("three", "bob", None)])
    with check_queries(3):
        found = [(author.name, [[tag.slug for tag in book.tags.all()] for book in author.books.all()]) for author in Author.objects.prefetch_related("books__tags").order_by("pk")]
    check("prefetch_related", [(name, sorted(map(sorted, tags))) for name, tags in found], [("ann", [["blue", "red"]]), ("bob", [["red"], ["red"]])])
    check("filter across", list(Book.objects.filter(author__mentor__name="ann", tags__slug="red").order_by("title").values_list("title", flat=True)), ["three", "two"])
    check("self reference", [pupil.name for pupil in ann.pupils.all()], ["bob"])
    found = Author.objects.annotate(n=Count("books"), dear=Max("books__price")).order_by("name").values_list("name", "n", "dear")
    check("annotate", list(found), [("ann", 1, decimal.Decimal("12.50")), ("bob", 2, decimal.Decimal("0.00"))])
    check("json", Book.objects.get(data__lang__0="en").data, {"lang": ["en"]})
    check("ilike", Author.objects.filter(Q(name__icontains="NN") | Q(email__startswith="zz")).count(), 1)
    check("dates", Book.objects.filter(added__date__lte=datetime.date.today() + datetime.timedelta(days=1)).dates("added", "year").count(), 1)
    check("exists and subquery", Author.objects.exclude(books__publisher=None).count(), 1)
    check("update", Book.objects.filter(author=bob).update(price=F("price") + 5), 2)
    two.title = "zwei"
    two.save(update_fields=["title"])
    two.refresh_from_db()
    check("save", (two.title, two.price), ("zwei", decimal.Decimal("5.00")))
    check("get_or_create", (Tag.objects.get_or_create(slug="red")[1], Tag.objects.update_or_create(slug="green")[1]), (False, True))
    with transaction.atomic():
        locked = Book.objects.select_for_update().get(pk=one.pk)
        locked.pages = 100
        locked.save()
    check("select_for_update", Book.objects.get(pk=one.pk).pages, 100)
    check("iterator", sum(1 for _ in Book.objects.order_by("pk").iterator(chunk_size=1)), 3)

    check_integrity("23505", lambda: Author.objects.create(name="eve", email="ann@x.org"))
    check_integrity("23503", lambda: Book.objects.create(title="none", author_id=999))
    check_integrity("23502", lambda: Author.objects.create(name=None, email="n@x.org"))
    check_integrity("23514", lambda: Book.objects.filter(pk=one.pk).update(pages=-1))
    check_integrity("23503", lambda: Author.objects.filter(pk=ann.pk)._raw_delete("default"))
    check("nothing of that remains", (Author.objects.count(), Book.objects.count()), (2, 3))
    # Constraints are deferred: within a transaction the order does not matter.
    with transaction.atomic():
        Book.objects.create(pk=50, title="early", author_id=60)
        Author.objects.create(pk=60, name="late", email="late@x.org")
    check("deferred to the commit", Book.objects.get(pk=50).author.name, "late")
    with transaction.atomic():
        try:
            with transaction.atomic():
                Tag.objects.create(slug="red")
        except IntegrityError:
            pass
        Tag.objects.create(slug="white")
    check("savepoint", Tag.objects.filter(slug="white").exists(), True)
    try:
        with transaction.atomic():
            Book.objects.create(title="none", author_id=999)
            connection.check_constraints()
    except IntegrityError as error:
        check("check_constraints", sqlstate(error.__cause__), "23503")

    check("delete cascades", Author.objects.get(pk=60).delete(), (2, {"shop.Book": 1, "shop.Author": 1}))
    press.delete()
    check("set null", Book.objects.filter(publisher=None).count(), 3)
    check("rows of the join go along", one.delete(), (3, {"shop.Book_tags": 2, "shop.Book": 1}))
    ann.delete()
    bob.refresh_from_db()
    check("set null in its own table", bob.mentor, None)


def admin():
    """The admin's pages: a session, its forms, its log, what a delete takes along."""
    from django.contrib.admin.models import LogEntry
    from django.contrib.auth.models import Group, Permission, User
    from django.contrib.contenttypes.models import ContentType
    from django.contrib.sessions.models import Session
    from django.test import Client
    from shop.models import Author, Book

    # A fresh project allows localhost while it is debugged.
    client = Client(SERVER_NAME="localhost")
    check("log in", client.login(username="root", password="secret"), True)
    check("session", Session.objects.count(), 1)
    check("content types", ContentType.objects.filter(app_label="shop").count(), 4)
    check("permissions", Permission.objects.filter(content_type__app_label="shop").count(), 16)
    check("index", client.get("/admin/").status_code, 200)
    answer = client.post("/admin/shop/author/add/", {"name": "admin's", "email": "admin@x.org", "mentor": ""})
    check("add", (answer.status_code, Author.objects.filter(email="admin@x.org").count()), (302, 1))
    author = Author.objects.get(email="admin@x.org")
    form = {"title": "paged", "author": author.pk, "price": "1.00", "data": "{}", "publisher": "", "pages": "", "tags": []}
    check("add with references", client.post("/admin/shop/book/add/", form).status_code, 302)
    check("list", client.get("/admin/shop/book/").status_code, 200)
    check("what a delete takes along", b"Books: 1" in client.get(f"/admin/shop/author/{author.pk}/delete/").content, True)
    client.post(f"/admin/shop/author/{author.pk}/delete/", {"post": "yes"})
    check("deleted", (Author.objects.filter(pk=author.pk).count(), Book.objects.filter(title="paged").count()), (0, 0))
    check("log", list(LogEntry.objects.order_by("pk").values_list("action_flag", flat=True)), [1, 1, 3])
    user = User.objects.create_user("ann", "ann@x.org", "pw")
    user.groups.add(Group.objects.create(name="staff"))
    user.user_permissions.add(Permission.objects.get(codename="add_book"))
    check("permission", user.has_perm("shop.add_book"), True)


def changed():
    """The ORM over the second version, whose rows are of the first."""
    from django.contrib.auth.models import User
    from django.db.models import ProtectedError
    from shop.models import Author, Book, Review

    bob = Author.objects.get(email="bob@x.org")
    user = User.objects.get(username="ann")
    books = list(bob.books.order_by("pk"))
    check("rows are still there", [(book.title, book.isbn, book.editor) for book in books], [("zwei", None, None), ("three", None, None)])
    Author.objects.filter(pk=bob.pk).update(name="b" * 80)
    check_integrity("22001", lambda: Author.objects.filter(pk=bob.pk).update(name="b" * 81))
    books[0].isbn, books[0].editor = "9780000000000", bob
    books[0].save()
    books[0].reviews.create(user=user, stars=5)
    check("new reference", list(Review.objects.filter(book__author=bob).values_list("user__username", "stars")), [("ann", 5)])
    check_integrity("23505", lambda: Book.objects.filter(pk=books[1].pk).update(isbn="9780000000000"))
    check_integrity("23505", lambda: Book.objects.create(title="zwei", author=bob))
    check_integrity("23514", lambda: Book.objects.filter(pk=books[1].pk).update(price=-1))
    check_integrity("23503", lambda: Review.objects.create(book_id=999, user=user, stars=1))
    try:
        user.delete()
        raise AssertionError("a protected row was deleted")
    except ProtectedError:
        print("  protected")
    check("delete cascades", bob.delete()[1], {"shop.Review": 1, "shop.Book_tags": 2, "shop.Book": 2, "shop.Author": 1})


class check_queries:
    """Counts what Django sends."""

    def __init__(self, count):
        self.count = count

    def __enter__(self):
        from django.db import connection

        connection.force_debug_cursor = True
        self.before = len(connection.queries)

    def __exit__(self, kind, *_):
        from django.db import connection

        if kind is None:
            check(f"in {self.count} queries", len(connection.queries) - self.before, self.count)


def check_integrity(code, act):
    """Checks that Django raises its own error, which names the server's."""
    from django.db import DataError, IntegrityError

    try:
        act()
    except (IntegrityError, DataError) as error:
        check(f"{type(error).__name__} {code}", sqlstate(error.__cause__), code)
        return
    raise AssertionError(f"no error with {code}")


def run(project, *command):
    """Runs a process of the project, and returns what it printed."""
    done = subprocess.run([sys.executable, *command], cwd=project, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command}:\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def main():
    import django
    from django.core.management import execute_from_command_line

    print(f"Django {django.__version__}")
    with tempfile.TemporaryDirectory() as directory:
        project = pathlib.Path(directory)
        execute_from_command_line(["django-admin", "startproject", "hour", directory])
        (project / "shop").mkdir()
        execute_from_command_line(["django-admin", "startapp", "shop", str(project / "shop")])
        with open(project / "hour/settings.py", "a") as settings:
            settings.write(DATABASES)
        (project / "shop/models.py").write_text(FIRST)
        (project / "shop/admin.py").write_text(ADMIN)
        (project / "shop/tests.py").write_text(TESTS)
        print(run(project, __file__, "first"), end="")
        second = FIRST
        for old, new in CHANGES:
            assert old in second, old
            second = second.replace(old, new)
        (project / "shop/models.py").write_text(second + ADDED)
        print(run(project, __file__, "second"), end="")
        check("its own tests, in a database of their own", "\nOK\n" in run(project, "manage.py", "test", "--noinput"), True)
    print("ok")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        # A process of the project.
        sys.path.insert(0, os.getcwd())
        os.environ["DJANGO_SETTINGS_MODULE"] = "hour.settings"
        import django

        django.setup()
        {"first": first, "second": second}[sys.argv[1]]()
