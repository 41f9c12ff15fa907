// The Flight SQL JDBC driver of Apache Arrow: values of every type beside those that pgjdbc reads, parameters, updates, metadata, sizes. Run with
// both drivers on the class path; connects with the PG* environment variables and GLIMPSE_FLIGHT, over TLS and with a password. A failed
// check ends it with a non-zero exit; the last line of a run that passed is `ok`.

import java.math.BigDecimal;
import java.net.URI;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Properties;
import java.util.TimeZone;

public final class FlightJdbc {
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
      if (!String.valueOf(error).contains("SQLSTATE " + code) && !String.valueOf(error.getCause()).contains("SQLSTATE " + code)) {
        throw new AssertionError("expected " + code, error);
      }
      System.out.println("  fails with " + code);
      return;
    }
    throw new AssertionError("it did not fail with " + code);
  }

  static String env(String name) {
    return Objects.requireNonNull(System.getenv(name), name);
  }

  static Connection flight(String password, String... others) throws SQLException {
    URI address = URI.create(env("GLIMPSE_FLIGHT"));
    Properties properties = new Properties();
    properties.put("user", env("PGUSER"));
    properties.put("password", password);
    properties.put("useEncryption", "true");
    properties.put("tlsRootCerts", env("PGSSLROOTCERT"));
    properties.put("useSystemTrustStore", "false");
    for (int at = 0; at < others.length; at += 2) {
      properties.put(others[at], others[at + 1]);
    }
    return DriverManager.getConnection("jdbc:arrow-flight-sql://" + address.getHost() + ":" + address.getPort(), properties);
  }

  static Connection postgres() throws SQLException {
    Properties properties = new Properties();
    properties.put("user", env("PGUSER"));
    properties.put("password", env("PGPASSWORD"));
    properties.put("sslmode", "verify-full");
    properties.put("sslrootcert", env("PGSSLROOTCERT"));
    return DriverManager.getConnection("jdbc:postgresql://" + env("PGHOST") + ":" + env("PGPORT") + "/" + env("PGDATABASE"), properties);
  }

  /** The first column of all rows, as `read` has it. */
  interface Read {
    Object of(ResultSet rows) throws SQLException;
  }

  static List<Object> all(Connection connection, String query, Read read) throws SQLException {
    List<Object> values = new ArrayList<>();
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(query)) {
      while (rows.next()) {
        Object value = read.of(rows);
        values.add(rows.wasNull() ? null : value instanceof byte[] bytes ? Arrays.toString(bytes) : value);
      }
    }
    return values;
  }

  static void values(Connection flight, Connection postgres) throws SQLException {
    Read texts = rows -> rows.getString(1);
    Read plain = rows -> {
      BigDecimal value = rows.getBigDecimal(1);
      return value == null ? null : value.stripTrailingZeros();
    };
    Object[][] types = {
      {"bool", "true", "false", (Read) rows -> rows.getBoolean(1)},
      {"int2", "-32768", "32767", (Read) rows -> rows.getInt(1)},
      {"int4", "-2147483648", "2147483647", (Read) rows -> rows.getInt(1)},
      {"int8", "-9223372036854775808", "9223372036854775807", (Read) rows -> rows.getLong(1)},
      {"float4", "1.5", "-2.25", (Read) rows -> rows.getFloat(1)},
      {"float8", "1.1", "-1e300", (Read) rows -> rows.getDouble(1)},
      {"numeric", "-12.50", "12345678901234567890.123456789", plain},
      {"numeric(10,2)", "-12.50", "0.01", plain},
      {"text", "", "ünï ''quoted'' 日本語", texts},
      {"varchar(9)", "", "v", texts},
      {"bytea", "\\x", "\\x00ff275c", (Read) rows -> rows.getBytes(1)},
      {"date", "2024-02-29", "1970-01-01", (Read) rows -> rows.getDate(1)},
      {"time", "00:00:00", "23:59:59", (Read) rows -> rows.getTime(1)},
      {"timestamp", "2024-01-02 03:04:05.678", "1970-01-01 00:00:00", (Read) rows -> rows.getTimestamp(1)},
      {"timestamptz", "2024-01-02 03:04:05.678+00", "1970-01-01 00:00:00+00", (Read) rows -> rows.getTimestamp(1)},
    };
    for (Object[] type : types) {
      String name = (String) type[0];
      try (Statement statement = postgres.createStatement()) {
        statement.execute("DROP TABLE IF EXISTS typed");
        statement.execute("CREATE TABLE typed (at int, v " + name + ")");
        statement.execute("INSERT INTO typed VALUES (1, '" + type[1] + "'), (2, '" + type[2] + "'), (3, NULL)");
      }
      String query = "SELECT v FROM typed ORDER BY at";
      check(name, all(flight, query, (Read) type[3]), all(postgres, query, (Read) type[3]));
    }
  }

  static void statements(Connection flight) throws Exception {
    try (Statement statement = flight.createStatement()) {
      statement.executeUpdate("DROP TABLE IF EXISTS jdbc");
      statement.executeUpdate("CREATE TABLE jdbc (a int PRIMARY KEY, b text)");
      check("an update", statement.executeUpdate("INSERT INTO jdbc SELECT x, 'row ' || x FROM generate_series(1, 20000) x"), 20000);
      check("another", statement.executeUpdate("DELETE FROM jdbc WHERE a > 10000"), 10000);
    }
    try (PreparedStatement select = flight.prepareStatement("SELECT b FROM jdbc WHERE a = ?".replace("?", "$1"))) {
      for (int at : new int[] {1, 9999}) {
        select.setInt(1, at);
        try (ResultSet rows = select.executeQuery()) {
          check("a row", rows.next() ? rows.getString(1) : null, "row " + at);
        }
      }
    }
    try (PreparedStatement insert = flight.prepareStatement("INSERT INTO jdbc VALUES ($1, $2)")) {
      insert.setInt(1, -1);
      insert.setString(2, "x");
      check("an insert", insert.executeUpdate(), 1);
    }
    check("all rows", all(flight, "SELECT count(*) FROM jdbc", rows -> rows.getLong(1)), List.of(10001L));
    checkFails("42P01", () -> all(flight, "SELECT * FROM nobody", rows -> rows.getString(1)));
    checkFails("22012", () -> all(flight, "SELECT 1 / (SELECT 0)", rows -> rows.getInt(1)));
  }

  static void metadata(Connection flight) throws SQLException {
    DatabaseMetaData metadata = flight.getMetaData();
    check("the server", metadata.getDatabaseProductName(), "Glimpse");
    check("its quotes", metadata.getIdentifierQuoteString(), "\"");
    List<String> found = new ArrayList<>();
    try (ResultSet tables = metadata.getTables(null, "public", "jdbc", null)) {
      while (tables.next()) {
        found.add(tables.getString("TABLE_NAME") + " " + tables.getString("TABLE_TYPE"));
      }
    }
    check("a table", found, List.of("jdbc TABLE"));
    found.clear();
    try (ResultSet columns = metadata.getColumns(null, "public", "jdbc", null)) {
      while (columns.next()) {
        found.add(columns.getString("COLUMN_NAME") + " " + columns.getString("TYPE_NAME") + " " + columns.getString("IS_NULLABLE"));
      }
    }
    check("its columns", found, List.of("a int4 NO", "b text YES"));
    found.clear();
    try (ResultSet keys = metadata.getPrimaryKeys(null, "public", "jdbc")) {
      while (keys.next()) {
        found.add(keys.getString("COLUMN_NAME") + " " + keys.getString("PK_NAME"));
      }
    }
    check("its key", found, List.of("a jdbc_pkey"));
  }

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    try (Connection flight = flight(env("PGPASSWORD")); Connection postgres = postgres()) {
      values(flight, postgres);
      statements(flight);
      metadata(flight);
    }
    String large = "SELECT repeat('x', 20000000)";
    Read length = rows -> rows.getString(1).length();
    try (Connection usual = flight(env("PGPASSWORD"))) {
      checkFails("54000", () -> all(usual, large, length));
    }
    try (Connection raised = flight(env("PGPASSWORD"), "glimpse-message-bytes-max", "67108864", "options", "{\"application_name\": \"java\"}")) {
      check("a cell of 20 MB", all(raised, large, length), List.of(20000000));
      check("a parameter of the session", all(raised, "SELECT current_setting('application_name')", rows -> rows.getString(1)), List.of("java"));
    }
    checkFails("28P01", () -> flight("wrong").close());
    System.out.println("ok");
    System.exit(0);
  }
}
