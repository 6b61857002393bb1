import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** The server that the environment names, as for libpq. */
final class Server {
  static final String USER = System.getenv("PGUSER");
  static final String URL =
      "jdbc:postgresql://"
          + System.getenv("PGHOST")
          + ":"
          + System.getenv("PGPORT")
          + "/"
          + System.getenv("PGDATABASE");

  /** With parameters of the address, such as `currentSchema=shop`. */
  static Connection connect(String... parameters) throws SQLException {
    return DriverManager.getConnection(URL + "?user=" + USER + "&" + String.join("&", parameters));
  }

  static boolean isErmined() throws SQLException {
    try (Connection conn = connect()) {
      return query(conn, "SELECT version()").get(0).contains("Ermine");
    }
  }

  static void run(Connection conn, String... texts) throws SQLException {
    try (Statement statement = conn.createStatement()) {
      for (String text : texts) {
        statement.execute(text);
      }
    }
  }

  /** Makes an empty schema. */
  static void make(String schema) throws SQLException {
    try (Connection conn = connect()) {
      run(conn, "DROP SCHEMA IF EXISTS " + schema + " CASCADE", "CREATE SCHEMA " + schema);
    }
  }

  static void drop(String schema) throws SQLException {
    try (Connection conn = connect()) {
      run(conn, "DROP SCHEMA " + schema + " CASCADE");
    }
  }

  /**
   * The values of some columns (all, if none is named) as texts, those of a row with commas
   * between.
   */
  static List<String> rows(ResultSet rows, String... columns) throws SQLException {
    List<String> all = new ArrayList<>();
    try (rows) {
      int count = columns.length > 0 ? columns.length : rows.getMetaData().getColumnCount();
      while (rows.next()) {
        List<String> row = new ArrayList<>();
        for (int at = 0; at < count; at++) {
          row.add(
              String.valueOf(
                  columns.length > 0 ? rows.getString(columns[at]) : rows.getString(at + 1)));
        }
        all.add(String.join(",", row));
      }
    }
    return all;
  }

  static List<String> query(Connection conn, String text) throws SQLException {
    try (Statement statement = conn.createStatement()) {
      return rows(statement.executeQuery(text));
    }
  }

  static List<String> list(String... texts) {
    return Arrays.asList(texts);
  }
}
