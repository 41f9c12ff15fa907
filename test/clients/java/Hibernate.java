// Hibernate: entities that refer to each other, the tables that it makes of them (hbm2ddl create), its queries, cascades and
// errors, and a second version of the entities by hbm2ddl update, which validates and has nothing to do the second time. Run
// with its jars and pgjdbc's on the class path; connects with the PG* environment variables, over TLS and with a password. A
// failed check ends it with a non-zero exit; the last line of a run that passed is `ok`.

import jakarta.persistence.CascadeType;
import jakarta.persistence.CheckConstraint;
import jakarta.persistence.Column;
import jakarta.persistence.ElementCollection;
import jakarta.persistence.Entity;
import jakarta.persistence.EnumType;
import jakarta.persistence.Enumerated;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Index;
import jakarta.persistence.JoinColumn;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToMany;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.OneToOne;
import jakarta.persistence.OptimisticLockException;
import jakarta.persistence.PessimisticLockException;
import jakarta.persistence.Table;
import jakarta.persistence.UniqueConstraint;
import jakarta.persistence.Version;
import java.math.BigDecimal;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.annotations.OnDelete;
import org.hibernate.annotations.OnDeleteAction;
import org.hibernate.cfg.Configuration;
import org.hibernate.exception.ConstraintViolationException;

public final class Hibernate {
  public enum State {
    DRAFT,
    PRINTED
  }

  /** The first version. */
  static final class First {
    @Entity(name = "Author")
    @Table(name = "authors")
    static class Author {
      @Id @GeneratedValue Long id;

      @Column(nullable = false, length = 50)
      String name;

      @Column(unique = true)
      String email;

      @ManyToOne
      @OnDelete(action = OnDeleteAction.SET_NULL)
      Author mentor;

      @OneToMany(mappedBy = "mentor")
      List<Author> pupils = new ArrayList<>();

      @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true)
      List<Book> books = new ArrayList<>();

      @ElementCollection Set<String> nicknames = new HashSet<>();
      @Version int version;

      Author() {}

      Author(String name) {
        this.name = name;
        this.email = name + "@x.org";
      }

      Book write(String title, Tag... tags) {
        var book = new Book();
        book.title = title;
        book.author = this;
        book.tags.addAll(List.of(tags));
        books.add(book);
        return book;
      }
    }

    @Entity(name = "Publisher")
    @Table(name = "publishers")
    static class Publisher {
      @Id
      @GeneratedValue(strategy = GenerationType.IDENTITY)
      Integer id;

      String name;
    }

    @Entity(name = "Tag")
    @Table(name = "tags")
    static class Tag {
      @Id @GeneratedValue UUID id;

      @Column(unique = true)
      String name;

      @ManyToMany(mappedBy = "tags")
      Set<Book> books = new HashSet<>();

      Tag() {}

      Tag(String name) {
        this.name = name;
      }
    }

    @Entity(name = "Book")
    @Table(name = "books", check = @CheckConstraint(name = "book_price", constraint = "price >= 0"))
    static class Book {
      @Id
      @GeneratedValue(strategy = GenerationType.SEQUENCE)
      Long id;

      @Column(nullable = false)
      String title;

      @Column(precision = 8, scale = 2)
      BigDecimal price = BigDecimal.ZERO;

      @Enumerated(EnumType.STRING)
      State state = State.DRAFT;

      Instant added = Instant.parse("2024-01-02T03:04:05.678901Z");

      @ManyToOne(optional = false)
      Author author;

      @ManyToOne
      @OnDelete(action = OnDeleteAction.SET_NULL)
      Publisher publisher;

      @ManyToMany(cascade = CascadeType.PERSIST)
      Set<Tag> tags = new HashSet<>();

      @OneToOne(mappedBy = "book", cascade = CascadeType.ALL)
      Cover cover;
    }

    @Entity(name = "Cover")
    @Table(name = "covers")
    static class Cover {
      @Id @GeneratedValue Long id;

      @OneToOne(optional = false)
      @OnDelete(action = OnDeleteAction.CASCADE)
      Book book;
    }
  }

  /** The second version. */
  static final class Second {
    @Entity(name = "Author")
    @Table(name = "authors")
    static class Author {
      @Id @GeneratedValue Long id;

      @Column(nullable = false, length = 50)
      String name;

      @Column(unique = true)
      String email;

      @OneToMany(mappedBy = "author")
      List<Book> books = new ArrayList<>();

      @Version int version;
    }

    @Entity(name = "Book")
    @Table(
        name = "books",
        indexes = @Index(name = "book_title", columnList = "title, price"),
        uniqueConstraints = @UniqueConstraint(name = "book_once", columnNames = {"author_id", "title"}))
    static class Book {
      @Id
      @GeneratedValue(strategy = GenerationType.SEQUENCE)
      Long id;

      @Column(nullable = false)
      String title;

      @Column(precision = 8, scale = 2)
      BigDecimal price = BigDecimal.ZERO;

      @Column(length = 13, unique = true)
      String isbn;

      @ManyToOne(optional = false)
      Author author;

      @ManyToOne
      @JoinColumn(name = "editor_id")
      Author editor;

      @OneToMany(mappedBy = "book", cascade = CascadeType.ALL)
      List<Review> reviews = new ArrayList<>();
    }

    @Entity(name = "Review")
    @Table(name = "reviews")
    static class Review {
      @Id
      @GeneratedValue(strategy = GenerationType.IDENTITY)
      Long id;

      @ManyToOne(optional = false)
      Book book;

      short stars;
    }
  }

  static final Class<?>[] FIRST = {First.Author.class, First.Publisher.class, First.Tag.class, First.Book.class, First.Cover.class};
  static final Class<?>[] SECOND = {Second.Author.class, Second.Book.class, Second.Review.class};

  static void check(String name, Object actual, Object expected) {
    if (!Objects.deepEquals(actual, expected)) {
      throw new AssertionError(name + ": expected " + expected + ", got " + actual);
    }
    System.out.println("  " + name);
  }

  /** Checks that Hibernate raises its own error, which names the server's. */
  static void checkFails(String code, SessionFactory factory, Consumer<Session> act) {
    try {
      factory.inTransaction(act);
    } catch (RuntimeException error) {
      for (Throwable cause = error; cause != null; cause = cause.getCause()) {
        if (cause instanceof ConstraintViolationException violation) {
          check("ConstraintViolationException " + code, violation.getSQLState(), code);
          return;
        }
      }
      throw new AssertionError("expected " + code, error);
    }
    throw new AssertionError("it did not fail with " + code);
  }

  static SessionFactory open(String action, Class<?>... entities) {
    var env = System.getenv();
    var configuration = new Configuration();
    for (var entity : entities) {
      configuration.addAnnotatedClass(entity);
    }
    var url = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE");
    url += "?sslmode=" + env.get("PGSSLMODE") + "&sslrootcert=" + env.get("PGSSLROOTCERT");
    configuration.setProperty("hibernate.connection.url", url);
    configuration.setProperty("hibernate.connection.username", env.get("PGUSER"));
    configuration.setProperty("hibernate.connection.password", env.get("PGPASSWORD"));
    configuration.setProperty("hibernate.hbm2ddl.auto", action);
    configuration.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
    return configuration.buildSessionFactory();
  }

  static long count(Session session, String entity) {
    return session.createQuery("select count(*) from " + entity, Long.class).getSingleResult();
  }

  static List<String> strings(Session session, String query) {
    return session.createQuery(query, String.class).getResultList();
  }

  static void writes(SessionFactory factory) {
    factory.inTransaction(
        session -> {
          var ann = new First.Author("ann");
          var bob = new First.Author("bob");
          bob.mentor = ann;
          ann.nicknames.addAll(List.of("a", "nan"));
          var press = new First.Publisher();
          press.name = "press";
          var red = new First.Tag("red");
          var one = ann.write("one", red, new First.Tag("blue"));
          one.price = new BigDecimal("12.50");
          one.cover = new First.Cover();
          one.cover.book = one;
          one.publisher = press;
          bob.write("two", red).publisher = press;
          bob.write("three");
          session.persist(press);
          session.persist(ann);
          session.persist(bob);
          session.flush();
          check("keys come from the server", List.of(press.id, ann.id, bob.id), List.of(1, 1L, 2L));
        });
    factory.inTransaction(
        session -> {
          for (int i = 0; i < 120; i++) {
            session.persist(new First.Tag("t" + i));
          }
        });
    factory.inTransaction(
        session -> {
          var one = session.createQuery("from Book where title = 'one'", First.Book.class).getSingleResult();
          check("types", List.of(one.price, one.state, one.added), List.of(new BigDecimal("12.50"), State.DRAFT, Instant.parse("2024-01-02T03:04:05.678901Z")));
          session.lock(one, LockModeType.PESSIMISTIC_WRITE);
          one.title = "uno";
          one.state = State.PRINTED;
          one.tags.removeIf(tag -> tag.name.equals("blue"));
        });
    factory.inTransaction(
        session -> {
          // By a subquery: a path to another entity in the condition of an update becomes a join by ctid, which there is none of.
          int updated = session.createMutationQuery("update Book set price = price + 5 where author in (select a from Author a where a.name = 'bob')").executeUpdate();
          check("update", updated, 2);
        });
  }

  static void reads(SessionFactory factory) {
    factory.inTransaction(
        session -> {
          var books =
              session
                  .createQuery("select distinct b from Book b join fetch b.author left join fetch b.publisher left join fetch b.tags order by b.title", First.Book.class)
                  .getResultList();
          Function<First.Book, String> line = b -> b.title + " " + b.author.name + " " + (b.publisher == null) + " " + b.tags.size();
          check("join fetch", books.stream().map(line).toList(), List.of("three bob true 0", "two bob false 1", "uno ann false 1"));
          var ann = session.createQuery("from Author where name = 'ann'", First.Author.class).getSingleResult();
          check("lazy", List.of(ann.pupils.get(0).name, ann.books.size(), ann.nicknames), List.of("bob", 1, Set.of("a", "nan")));
          check("self reference", strings(session, "select a.name from Author a where a.mentor.email like 'ann%'"), List.of("bob"));
          check("member of", strings(session, "select b.title from Book b join b.tags t where t.name = 'red' order by b.title"), List.of("two", "uno"));
          check("exists", strings(session, "select a.name from Author a where not exists (select 1 from a.books b where b.price > 10)"), List.of("bob"));
          var rows =
              session
                  .createQuery("select a.name, count(b), sum(b.price), max(b.added) from Author a left join a.books b group by a.name order by a.name", Object[].class)
                  .getResultList();
          check("group", List.of(rows.get(0)[1], rows.get(1)[1], rows.get(1)[2]), List.of(1L, 2L, new BigDecimal("10.00")));
          var page = session.createQuery("select b.title from Book b order by b.title", String.class).setFirstResult(1).setMaxResults(1);
          check("page", page.getResultList(), List.of("two"));
          var builder = session.getCriteriaBuilder();
          var criteria = builder.createQuery(First.Book.class);
          var book = criteria.from(First.Book.class);
          criteria.where(builder.equal(book.get("state"), State.PRINTED), builder.isNotNull(book.get("publisher").get("name")));
          check("criteria", session.createQuery(criteria).getResultList().size(), 1);
          var found = session.findMultiple(First.Author.class, List.of(1L, 2L));
          check("several keys", found.stream().map(author -> author.name).toList(), List.of("ann", "bob"));
        });
  }

  static void violations(SessionFactory factory) {
    checkFails("23505", factory, session -> session.persist(new First.Author("ann")));
    checkFails(
        "23503",
        factory,
        session -> {
          var orphan = new First.Author("x").write("x");
          orphan.author = session.getReference(First.Author.class, 999L);
          session.persist(orphan);
        });
    checkFails("23502", factory, session -> session.createNativeMutationQuery("insert into authors (id, version) values (900, 0)").executeUpdate());
    checkFails("23514", factory, session -> session.createMutationQuery("update Book set price = -1").executeUpdate());
    checkFails("23514", factory, session -> session.createNativeMutationQuery("update books set state = 'LOST'").executeUpdate());
    checkFails("23503", factory, session -> session.createMutationQuery("delete Author where name = 'ann'").executeUpdate());
    // Where transactions are serializable unless they ask for less, the server finds the stale row first.
    check("stale row", List.of(OptimisticLockException.class, PessimisticLockException.class).contains(stale(factory, mine -> {})), true);
    Consumer<Session> weaken = mine -> mine.createNativeMutationQuery("set transaction isolation level read committed").executeUpdate();
    check("stale row at READ COMMITTED", stale(factory, weaken), OptimisticLockException.class);
  }

  /** Writes a row that another transaction has written since it was read. Returns what that fails with. */
  static Class<?> stale(SessionFactory factory, Consumer<Session> begin) {
    try {
      factory.inTransaction(
          mine -> {
            begin.accept(mine);
            var ann = mine.find(First.Author.class, 1L);
            factory.inTransaction(other -> other.find(First.Author.class, 1L).nicknames.add("n" + ann.version));
            ann.name = "anne";
          });
    } catch (RuntimeException error) {
      return error.getClass();
    }
    return null;
  }

  static void deletes(SessionFactory factory) {
    factory.inTransaction(session -> session.remove(session.find(First.Publisher.class, 1)));
    factory.inTransaction(session -> check("set null", strings(session, "select title from Book where publisher is not null"), List.of()));
    factory.inTransaction(session -> session.remove(session.find(First.Author.class, 1L)));
    factory.inTransaction(
        session -> {
          check("delete cascades", List.of(count(session, "Author"), count(session, "Book"), count(session, "Cover")), List.of(1L, 2L, 0L));
          check("set null in its own table", session.find(First.Author.class, 2L).mentor, null);
          session.find(First.Author.class, 2L).books.removeIf(book -> book.title.equals("three"));
        });
    factory.inTransaction(session -> check("orphan", count(session, "Book"), 1L));
  }

  static void second(SessionFactory factory) {
    factory.inTransaction(
        session -> {
          var book = session.createQuery("from Book", Second.Book.class).getSingleResult();
          check("rows are still there", List.of(book.title, book.author.name, book.isbn == null, book.editor == null), List.of("two", "bob", true, true));
          book.isbn = "9780000000000";
          book.editor = book.author;
          var review = new Second.Review();
          review.book = book;
          review.stars = 5;
          book.reviews.add(review);
        });
    Function<Session, Second.Book> another =
        session -> {
          var book = new Second.Book();
          book.author = session.find(Second.Author.class, 2L);
          book.title = "another";
          return book;
        };
    factory.inTransaction(session -> session.persist(another.apply(session)));
    checkFails("23505", factory, session -> session.persist(another.apply(session)));
    checkFails(
        "23505",
        factory,
        session -> {
          var book = another.apply(session);
          book.title = "third";
          book.isbn = "9780000000000";
          session.persist(book);
        });
    checkFails("23503", factory, session -> session.createMutationQuery("delete Book where title = 'two'").executeUpdate());
    factory.inTransaction(
        session -> {
          check("new reference", strings(session, "select r.book.editor.name from Review r"), List.of("bob"));
          var book = session.createQuery("from Book where title = 'two'", Second.Book.class).getSingleResult();
          session.createNativeMutationQuery("delete from books_tags").executeUpdate();
          session.remove(book);
        });
    factory.inTransaction(session -> check("new cascade", count(session, "Review"), 0L));
  }

  /** Columns, constraints and indexes. */
  static Set<String> schema(SessionFactory factory) {
    return factory.fromTransaction(
        session ->
            new TreeSet<>(
                session
                    .createNativeQuery(
                        "select table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable from information_schema.columns"
                            + " where table_schema = 'public'"
                            + " union all select conname || ' ' || pg_get_constraintdef(oid) from pg_constraint where connamespace = 'public'\\:\\:regnamespace"
                            + " union all select indexdef from pg_indexes where schemaname = 'public'",
                        String.class)
                    .getResultList()));
  }

  public static void main(String[] args) {
    // A program that is run from its source is not on the class path.
    Thread.currentThread().setContextClassLoader(Hibernate.class.getClassLoader());
    Logger.getLogger("org.hibernate").setLevel(Level.SEVERE);
    System.out.println("Hibernate " + org.hibernate.Version.getVersionString());
    try (var factory = open("create", FIRST)) {
      writes(factory);
      reads(factory);
      violations(factory);
      deletes(factory);
    }
    try (var factory = open("validate", FIRST)) {
      check("validated", count(factory.openSession(), "Author"), 1L);
    }
    System.out.println(" the second version");
    Set<String> updated;
    try (var factory = open("update", SECOND)) {
      updated = schema(factory);
      second(factory);
    }
    try (var factory = open("update", SECOND)) {
      check("updated again", schema(factory), updated);
    }
    open("validate", SECOND).close();
    System.out.println("  validated");
    try (var factory = open("create-drop", FIRST)) {
      check("made anew", factory.fromTransaction(session -> count(session, "Author")), 0L);
    }
    System.out.println("ok");
  }
}
