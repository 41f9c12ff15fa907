// pgjdbc: parameters, server-side prepared statements beyond the threshold, fetch size, batches, COPY, metadata, savepoints,
// cancellation. Run with the driver on the class path; connects with the PG* environment variables, over TLS and with a
// password. A failed check ends it with a non-zero exit; the last line of a run that passed is `ok`.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.PGobject;

public final class PgJdbc {
  static final String ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";

  interface Act {
    void run() throws Exception;
  }

  static void check(String name, Object actual, Object expected) {
    if (!Objects.deepEquals(actual, expected)) {
      throw new AssertionError(name + ": expected " + expected + ", got " + actual);
    }
    System.out.println("  " + name);
  }

  static void checkFails(String code, Act act) throws Exception {
    try {
      act.run();
    } catch (SQLException error) {
      if (!code.equals(error.getSQLState())) {
        throw new AssertionError("expected " + code, error);
      }
      System.out.println("  fails with " + code);
      return;
    }
    throw new AssertionError("it did not fail with " + code);
  }

  static Connection connect(String... more) throws SQLException {
    var env = System.getenv();
    var settings = new Properties();
    settings.setProperty("user", env.get("PGUSER"));
    settings.setProperty("password", env.get("PGPASSWORD"));
    settings.setProperty("sslmode", env.get("PGSSLMODE"));
    settings.setProperty("sslrootcert", env.get("PGSSLROOTCERT"));
    for (int i = 0; i < more.length; i += 2) {
      settings.setProperty(more[i], more[i + 1]);
    }
    var url = "jdbc:postgresql://" + env.get("PGHOST") + ":" + env.get("PGPORT") + "/" + env.get("PGDATABASE");
    return DriverManager.getConnection(url, settings);
  }

  static List<Object> column(ResultSet rows) throws SQLException {
    var values = new ArrayList<>();
    while (rows.next()) {
      values.add(rows.getObject(1));
    }
    rows.close();
    return values;
  }

  static List<Object> query(Connection connection, String sql, Object... params) throws SQLException {
    try (var statement = connection.prepareStatement(sql)) {
      for (int i = 0; i < params.length; i++) {
        statement.setObject(i + 1, params[i]);
      }
      return column(statement.executeQuery());
    }
  }

  static int update(Connection connection, String sql) throws SQLException {
    try (var statement = connection.createStatement()) {
      return statement.executeUpdate(sql);
    }
  }

  static PGobject json(String type, String value) throws SQLException {
    var object = new PGobject();
    object.setType(type);
    object.setValue(value);
    return object;
  }

  /** Each value often enough that the statement gets a name, loses its Describe and comes back in binary. */
  static void types(Connection connection) throws Exception {
    var at = OffsetDateTime.of(2024, 1, 2, 3, 4, 5, 678901000, ZoneOffset.UTC);
    Object[][] values = {
      {"bool", true, Boolean.class},
      {"int2", (short) -32768, Short.class},
      {"int4", Integer.MAX_VALUE, Integer.class},
      {"int8", Long.MIN_VALUE, Long.class},
      {"float4", 1.5f, Float.class},
      {"float8", -1e300, Double.class},
      {"numeric(22,2)", new BigDecimal("12345678901234567890.50"), BigDecimal.class},
      {"text", "ünï 'quoted' \\", String.class},
      {"varchar", "", String.class},
      {"uuid", UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), UUID.class},
      {"date", LocalDate.of(2024, 2, 29), LocalDate.class},
      {"time", LocalTime.of(23, 59, 59, 999999000), LocalTime.class},
      {"timestamp", LocalDateTime.of(2024, 1, 2, 3, 4, 5, 678901000), LocalDateTime.class},
      {"timestamptz", at, OffsetDateTime.class},
    };
    for (var value : values) {
      try (var statement = connection.prepareStatement("SELECT ?::" + value[0] + ", NULL::" + value[0])) {
        for (int run = 0; run < 8; run++) {
          statement.setObject(1, value[1]);
          try (var rows = statement.executeQuery()) {
            rows.next();
            var got = rows.getObject(1, (Class<?>) value[2]);
            if (!value[1].equals(got) || rows.getObject(2) != null) {
              throw new AssertionError(value[0] + ", run " + run + ": expected " + value[1] + ", got " + got);
            }
          }
        }
      }
      System.out.println("  " + value[0]);
    }
    try (var statement = connection.prepareStatement("SELECT ?::bytea, ?::int4[], ?::text[], ?::jsonb, ?::interval")) {
      for (int run = 0; run < 8; run++) {
        statement.setBytes(1, new byte[] {0, -1});
        statement.setArray(2, connection.createArrayOf("int4", new Integer[] {1, null, 3}));
        statement.setArray(3, connection.createArrayOf("text", new String[] {"a", null, "b \"c\", {d}", ""}));
        statement.setObject(4, json("jsonb", "{\"a\": [1, null]}"));
        statement.setObject(5, json("interval", "1 day 02:03:04"));
        try (var rows = statement.executeQuery()) {
          rows.next();
          boolean same =
              Arrays.equals(rows.getBytes(1), new byte[] {0, -1})
                  && Arrays.equals((Object[]) rows.getArray(2).getArray(), new Integer[] {1, null, 3})
                  && Arrays.equals((Object[]) rows.getArray(3).getArray(), new String[] {"a", null, "b \"c\", {d}", ""})
                  && rows.getString(4).equals("{\"a\": [1, null]}")
                  && rows.getString(5).equals("1 day 02:03:04");
          if (!same) {
            throw new AssertionError("bytea, arrays, jsonb or interval, run " + run + ": " + rows.getString(5));
          }
        }
      }
    }
    System.out.println("  bytea, arrays, jsonb, interval");
  }

  static void statements(Connection connection) throws Exception {
    update(connection, "CREATE TABLE items (id int4 NOT NULL, name text, price numeric(10,2))");
    try (var insert = connection.prepareStatement("INSERT INTO items (id, name) VALUES (?, ?)")) {
      for (int id = 0; id < 500; id++) {
        insert.setInt(1, id);
        insert.setString(2, "n" + id);
        insert.addBatch();
      }
      check("batch", Arrays.stream(insert.executeBatch()).sum(), 500);
    }
    try (var select = connection.prepareStatement("SELECT name FROM items WHERE id = ?")) {
      for (int id = 0; id < 12; id++) {
        select.setInt(1, id);
        check("prepared, run " + id, column(select.executeQuery()), List.of("n" + id));
      }
      update(connection, "CREATE INDEX items_id ON items (id)");
      select.setInt(1, 7);
      check("prepared, after DDL", column(select.executeQuery()), List.of("n7"));
    }
    check("update counts", update(connection, "UPDATE items SET price = 1.5 WHERE id < 3"), 3);
    try (var insert = connection.prepareStatement("INSERT INTO items (id) VALUES (?)", new String[] {"id"})) {
      insert.setInt(1, 900);
      insert.executeUpdate();
      check("generated keys", column(insert.getGeneratedKeys()), List.of(900));
    }
    var array = connection.createArrayOf("int4", new Object[] {3, 5, 9999});
    check("ANY", query(connection, "SELECT id FROM items WHERE id = ANY(?) ORDER BY id", array), List.of(3, 5));
    check("limit", query(connection, "SELECT id FROM items ORDER BY id LIMIT ? OFFSET ?", 2, 1), List.of(1, 2));
    try (var statement = connection.createStatement()) {
      check("several statements", statement.execute("SELECT 1; UPDATE items SET name = 'x' WHERE id = 1; SELECT 2"), true);
      check("their results", statement.getMoreResults() || statement.getUpdateCount() != 1, false);
      check("the last one", statement.getMoreResults(), true);
    }
    try (var mixed = connection.prepareStatement("INSERT INTO items (id, name) VALUES (?, ?)")) {
      for (var name : new String[] {"good", "bad", "good"}) {
        if (name.equals("bad")) {
          mixed.setNull(1, Types.INTEGER);
        } else {
          mixed.setInt(1, 1000);
        }
        mixed.setString(2, name);
        mixed.addBatch();
      }
      try {
        mixed.executeBatch();
        throw new AssertionError("the batch did not fail");
      } catch (BatchUpdateException error) {
        check("a failed batch", error.getSQLState(), "23502");
      }
    }
  }

  static void fetching(Connection connection) throws Exception {
    connection.setAutoCommit(false);
    try (var statement = connection.prepareStatement("SELECT id FROM items WHERE id < ? ORDER BY id")) {
      statement.setFetchSize(50);
      for (int run = 0; run < 7; run++) {
        statement.setInt(1, 500);
        var ids = column(statement.executeQuery());
        if (ids.size() != 500 || !ids.get(499).equals(499)) {
          throw new AssertionError("fetch size, run " + run + ": " + ids.size());
        }
      }
      System.out.println("  fetch size");
      statement.setMaxRows(3);
      statement.setInt(1, 500);
      check("max rows", column(statement.executeQuery()), List.of(0, 1, 2));
    }
    connection.commit();
    connection.setAutoCommit(true);
  }

  static void copying(Connection connection) throws Exception {
    CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
    long count = copy.copyIn("COPY items (id, name) FROM STDIN", new StringReader("2000\ta\\tb\n2001\t\\N\n"));
    check("copy in", count, 2L);
    var out = new StringWriter();
    copy.copyOut("COPY (SELECT id, name FROM items WHERE id >= 2000 ORDER BY id) TO STDOUT WITH CSV", out);
    check("copy out", out.toString(), "2000,a\tb\n2001,\n");
    checkFails("22P02", () -> copy.copyIn("COPY items (id) FROM STDIN", new StringReader("x\n")));
  }

  static void metadata(Connection connection) throws Exception {
    update(connection, "CREATE VIEW named AS SELECT id, name FROM items");
    update(connection, "COMMENT ON TABLE items IS 'what there is'");
    DatabaseMetaData meta = connection.getMetaData();
    check("product", meta.getDatabaseProductName(), "PostgreSQL");
    var schemas = new ArrayList<String>();
    try (var rows = meta.getSchemas()) {
      while (rows.next()) {
        schemas.add(rows.getString("TABLE_SCHEM"));
      }
    }
    check("schemas", schemas.containsAll(List.of("public", "pg_catalog", "information_schema")), true);
    var tables = new ArrayList<String>();
    try (var rows = meta.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"})) {
      while (rows.next()) {
        tables.add(rows.getString("TABLE_NAME") + " " + rows.getString("TABLE_TYPE") + " " + rows.getString("REMARKS"));
      }
    }
    check("tables", tables, List.of("items TABLE what there is", "named VIEW null"));
    var columns = new ArrayList<String>();
    try (var rows = meta.getColumns(null, "public", "items", "%")) {
      while (rows.next()) {
        columns.add(
            String.join(
                " ",
                rows.getString("COLUMN_NAME"),
                rows.getString("TYPE_NAME"),
                rows.getString("COLUMN_SIZE"),
                rows.getString("DECIMAL_DIGITS"),
                rows.getString("IS_NULLABLE")));
      }
    }
    check("columns", columns, List.of("id int4 10 0 NO", "name text 2147483647 0 YES", "price numeric 10 2 YES"));
    try (var rows = meta.getIndexInfo(null, "public", "items", false, false)) {
      check("an index", rows.next() && rows.getString("INDEX_NAME").equals("items_id") && rows.getBoolean("NON_UNIQUE"), true);
      check("its column", rows.getString("COLUMN_NAME"), "id");
    }
    for (var rows :
        List.of(
            meta.getPrimaryKeys(null, "public", "items"),
            meta.getImportedKeys(null, "public", "items"),
            meta.getExportedKeys(null, "public", "items"),
            meta.getProcedures(null, "public", "%"),
            meta.getFunctions(null, "public", "%"))) {
      check("nothing", rows.next(), false);
      rows.close();
    }
    for (var rows :
        List.of(
            meta.getTypeInfo(),
            meta.getCatalogs(),
            meta.getTableTypes(),
            meta.getTablePrivileges(null, "public", "items"),
            meta.getColumnPrivileges(null, "public", "items", "%"),
            meta.getClientInfoProperties())) {
      check("something", rows.next(), true);
      rows.close();
    }
    check("best row identifier", meta.getBestRowIdentifier(null, "public", "items", 0, true).next(), false);
    check("keywords and functions", meta.getSQLKeywords().isEmpty() || meta.getNumericFunctions().isEmpty(), false);
    check("name length", meta.getMaxColumnNameLength(), 63);
    try (var statement = connection.prepareStatement("SELECT id, name, price FROM items WHERE id = ?")) {
      ResultSetMetaData described = statement.getMetaData();
      check("result's table", described.unwrap(org.postgresql.PGResultSetMetaData.class).getBaseTableName(1), "items");
      check("result's types", List.of(described.getColumnTypeName(1), described.getColumnTypeName(3)), List.of("int4", "numeric"));
      check("nullable", described.isNullable(1), ResultSetMetaData.columnNoNulls);
      check("parameter", statement.getParameterMetaData().getParameterTypeName(1), "int4");
    }
    check("valid", connection.isValid(5), true);
    check("schema", connection.getSchema(), "public");
    update(connection, "DROP VIEW named");
  }

  static void transactions(Connection connection) throws Exception {
    connection.setAutoCommit(false);
    connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
    check("isolation", connection.getTransactionIsolation(), Connection.TRANSACTION_SERIALIZABLE);
    update(connection, "INSERT INTO items (id) VALUES (3000)");
    Savepoint savepoint = connection.setSavepoint();
    update(connection, "INSERT INTO items (id) VALUES (3001)");
    checkFails("22012", () -> query(connection, "SELECT 1/0"));
    checkFails("25P02", () -> query(connection, "SELECT 1"));
    connection.rollback(savepoint);
    Savepoint named = connection.setSavepoint("named");
    update(connection, "INSERT INTO items (id) VALUES (3002)");
    connection.releaseSavepoint(named);
    connection.commit();
    check("savepoints", query(connection, "SELECT id FROM items WHERE id >= 3000 ORDER BY id"), List.of(3000, 3002));
    connection.rollback();
    connection.setReadOnly(true);
    checkFails("25006", () -> update(connection, "DELETE FROM items"));
    connection.rollback();
    connection.setReadOnly(false);
    update(connection, "CREATE TABLE fresh (id int4)");
    update(connection, "INSERT INTO fresh VALUES (1)");
    check("DDL and rows in one transaction", query(connection, "SELECT id FROM fresh"), List.of(1));
    connection.rollback();
    checkFails("42P01", () -> query(connection, "SELECT id FROM fresh"));
    connection.rollback();
    connection.setAutoCommit(true);
    // Every statement under a savepoint of its own.
    try (var careful = connect("autosave", "always")) {
      careful.setAutoCommit(false);
      update(careful, "INSERT INTO items (id) VALUES (4000)");
      checkFails("22012", () -> query(careful, "SELECT 1/0"));
      update(careful, "INSERT INTO items (id) VALUES (4001)");
      careful.commit();
      check("autosave", query(careful, "SELECT id FROM items WHERE id >= 4000 ORDER BY id"), List.of(4000, 4001));
      careful.rollback();
    }
  }

  /** Whether a query ended because its client cancelled it. The driver asks once, which is lost if it comes too early. */
  static boolean isCancelled(Statement statement, int afterMs) throws Exception {
    var thread =
        new Thread(
            () -> {
              try {
                Thread.sleep(afterMs);
                statement.cancel();
              } catch (SQLException | InterruptedException error) {
                System.out.println("  not cancelled: " + error);
              }
            });
    thread.start();
    try {
      statement.executeQuery(ENDLESS);
      throw new AssertionError("the query came to an end");
    } catch (SQLException error) {
      check("57014", error.getSQLState(), "57014");
      return error.getMessage().contains("user request");
    } finally {
      thread.join();
    }
  }

  static void cancelling(Connection connection) throws Exception {
    try (var statement = connection.createStatement()) {
      statement.execute("SET statement_timeout = 3000");
      int afterMs = 20;
      while (!isCancelled(statement, afterMs)) {
        afterMs *= 2;
        check("cancelled after less than " + afterMs, afterMs < 3000, true);
      }
      check("after a cancellation", column(statement.executeQuery("SELECT 1")), List.of(1));
      statement.execute("SET statement_timeout = 100");
      checkFails("57014", () -> statement.executeQuery(ENDLESS));
      statement.execute("RESET statement_timeout");
    }
  }

  static void errors(Connection connection) throws Exception {
    for (var each :
        new String[][] {
          {"42P01", "SELECT * FROM nosuch_table"},
          {"42601", "SELEC 1"},
          {"22012", "SELECT 1/0"},
          {"23502", "INSERT INTO items (name) VALUES ('x')"},
          {"42P07", "CREATE TABLE items (id int4)"},
        }) {
      checkFails(each[0], () -> update(connection, each[1]));
    }
    checkFails("22P02", () -> query(connection, "SELECT ?::int4", "x"));
    try (var statement = connection.createStatement()) {
      statement.execute("DROP TABLE IF EXISTS nosuch_table");
      check("notices", statement.getWarnings().getSQLState(), "00000");
    }
  }

  public static void main(String[] args) throws Exception {
    System.out.println("pgjdbc " + org.postgresql.Driver.class.getPackage().getImplementationVersion());
    checkFails("28P01", () -> connect("password", "wrong"));
    try (var connection = connect()) {
      types(connection);
      statements(connection);
      fetching(connection);
      copying(connection);
      metadata(connection);
      transactions(connection);
      cancelling(connection);
      errors(connection);
    }
    try (var simple = connect("preferQueryMode", "simple")) {
      check("simple protocol", query(simple, "SELECT ?::int4 + ?", 1, 2), List.of(3));
      types(simple);
    }
    try (var connection = connect("reWriteBatchedInserts", "true")) {
      try (var insert = connection.prepareStatement("INSERT INTO items (id, name) VALUES (?, ?)")) {
        for (int id = 5000; id < 5300; id++) {
          insert.setInt(1, id);
          insert.setString(2, "x");
          insert.addBatch();
        }
        insert.executeBatch();
      }
      check("rewritten batch", query(connection, "SELECT count(*) FROM items WHERE id >= 5000"), List.of(300L));
      update(connection, "DROP TABLE items");
    }
    System.out.println("ok");
  }
}
