import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Map;
import liquibase.Contexts;
import liquibase.LabelExpression;
import liquibase.Liquibase;
import liquibase.Scope;
import liquibase.database.Database;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.DiffResult;
import liquibase.diff.compare.CompareControl;
import liquibase.resource.DirectoryResourceAccessor;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.configuration.FluentConfiguration;
import org.flywaydb.database.postgresql.PostgreSQLConfigurationExtension;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Flyway and Liquibase: schemas moved forward and, by Liquibase, back. */
class MigrationsTest {
  @TempDir Path directory;

  @BeforeEach
  void make() throws SQLException {
    Server.make("moved");
  }

  @AfterEach
  void drop() throws SQLException {
    Server.drop("moved");
  }

  void write(String name, String text) throws IOException {
    Files.writeString(directory.resolve(name), text);
  }

  Flyway flyway() {
    FluentConfiguration configuration =
        Flyway.configure()
            .dataSource(Server.URL, Server.USER, "")
            .schemas("moved")
            .locations("filesystem:" + directory)
            .cleanDisabled(false);
    // Its lock would otherwise be a transaction that CREATE INDEX CONCURRENTLY waits for.
    configuration
        .getConfigurationExtension(PostgreSQLConfigurationExtension.class)
        .setTransactionalLock(false);
    return configuration.load();
  }

  @Test
  void flywayMigrates() throws Exception {
    write(
        "V1__pets.sql",
        "CREATE TABLE pets (id serial PRIMARY KEY, name text);\n"
            + "INSERT INTO pets (name) VALUES ('a;b');\n"
            + "COPY pets (name) FROM stdin;\n"
            + "copied\n"
            + "\\.\n");
    write(
        "V2__more.sql",
        "ALTER TABLE pets ADD born date DEFAULT '2024-02-29';\n"
            + "CREATE TYPE mood AS ENUM ('sad', 'happy');\n"
            + "CREATE SEQUENCE numbers;\n"
            + "CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS n FROM pets;\n"
            + "CREATE DOMAIN small AS int CHECK (VALUE < 10);");
    write("V3__index.sql", "CREATE INDEX CONCURRENTLY pets_name ON pets (name);");
    write("V3__index.sql.conf", "executeInTransaction=false");
    write("R__names.sql", "CREATE OR REPLACE VIEW names AS SELECT name FROM pets;");
    assertEquals(4, flyway().migrate().migrationsExecuted);
    assertEquals(0, flyway().migrate().migrationsExecuted);
    flyway().validate();
    assertEquals(4, flyway().info().applied().length);
    try (Connection conn = Server.connect("currentSchema=moved")) {
      assertEquals(
          Server.list("a;b,2024-02-29", "copied,2024-02-29"),
          Server.query(conn, "SELECT name, born FROM pets ORDER BY id"));
      assertEquals(Server.list("2"), Server.query(conn, "SELECT count(*) FROM names"));
      // One that fails leaves nothing behind.
      write("V4__wrong.sql", "CREATE TABLE later (a int);\nINSERT INTO pets (id) VALUES (1);");
      assertThrows(FlywayException.class, () -> flyway().migrate());
      assertEquals(
          Server.list("true"), Server.query(conn, "SELECT (to_regclass('later') IS NULL)::text"));
      Files.delete(directory.resolve("V4__wrong.sql"));
      write("V1__pets.sql", "SELECT 1;");
      assertThrows(FlywayException.class, () -> flyway().validate());
      flyway().repair();
      flyway().validate();
      flyway().clean();
      assertEquals(
          Server.list("0"),
          Server.query(
              conn,
              "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON"
                  + " n.oid = c.relnamespace WHERE nspname = 'moved'"));
      assertEquals(
          Server.list("0"),
          Server.query(
              conn,
              "SELECT count(*) FROM pg_type t JOIN pg_namespace n ON"
                  + " n.oid = t.typnamespace WHERE nspname = 'moved'"));
    }
  }

  @Test
  void flywayWaitsForItsLock() throws Exception {
    write("V1__slow.sql", "CREATE TABLE slow (a int);\nSELECT pg_sleep(0.3);");
    int[] counts = new int[3];
    Thread[] threads = new Thread[counts.length];
    for (int at = 0; at < threads.length; at++) {
      int number = at;
      threads[at] = new Thread(() -> counts[number] = flyway().migrate().migrationsExecuted);
      threads[at].start();
    }
    int sum = 0;
    for (int at = 0; at < threads.length; at++) {
      threads[at].join(60_000);
      sum += counts[at];
    }
    assertEquals(1, sum);
  }

  static final String CHANGES =
      """
databaseChangeLog:
- changeSet:
    id: 1
    author: a
    changes:
    - createTable:
        tableName: owners
        remarks: who pays
        columns:
        - column: {name: id, type: int, autoIncrement: true, constraints: {primaryKey: true}}
        - column: {name: name, type: varchar(40), constraints: {nullable: false, unique: true, uniqueConstraintName: one_name}}
        - column: {name: since, type: timestamp with time zone, defaultValueComputed: now()}
    - createTable:
        tableName: pets
        columns:
        - column: {name: id, type: bigint, constraints: {primaryKey: true}}
        - column: {name: owner, type: int, constraints: {nullable: false, foreignKeyName: of_owner, references: owners(id)}}
        - column: {name: weight, type: "decimal(8, 3)", defaultValueNumeric: 1.5}
        - column: {name: is_calm, type: boolean, defaultValueBoolean: true}
    - createSequence: {sequenceName: numbers, startValue: 5, incrementBy: 2}
    - createIndex: {indexName: by_weight, tableName: pets, columns: [column: {name: weight, descending: true}]}
    - createView: {viewName: calm, selectQuery: SELECT id FROM pets WHERE is_calm}
    - insert: {tableName: owners, columns: [column: {name: name, value: Anna}]}
- changeSet:
    id: 2
    author: b
    preConditions:
    - onFail: MARK_RAN
    - tableExists: {tableName: pets}
    - columnExists: {tableName: pets, columnName: weight}
    - foreignKeyConstraintExists: {foreignKeyTableName: pets, foreignKeyName: of_owner}
    - indexExists: {tableName: pets, indexName: by_weight}
    - primaryKeyExists: {tableName: pets}
    - sequenceExists: {sequenceName: numbers}
    - uniqueConstraintExists: {tableName: owners, constraintName: one_name}
    - viewExists: {viewName: calm}
    - sqlCheck: {expectedResult: 1, sql: SELECT count(*) FROM owners}
    changes:
    - addColumn: {tableName: pets, columns: [column: {name: note, type: text, value: none}]}
    - renameColumn: {tableName: pets, oldColumnName: is_calm, newColumnName: calm}
    - addNotNullConstraint: {tableName: pets, columnName: note, defaultNullValue: ''}
    - addDefaultValue: {tableName: pets, columnName: note, defaultValue: new}
    - addUniqueConstraint: {tableName: pets, columnNames: "owner, note", constraintName: one_note}
    - renameTable: {oldTableName: pets, newTableName: animals}
""";

  @Test
  void liquibaseMigratesAndGoesBack() throws Exception {
    write("changes.yaml", CHANGES);
    Scope.child(
        Map.of("liquibase.analytics.enabled", false),
        () -> {
          try (Connection conn = Server.connect("currentSchema=moved");
              Connection other = Server.connect("currentSchema=moved");
              DirectoryResourceAccessor files = new DirectoryResourceAccessor(directory)) {
            Database database =
                DatabaseFactory.getInstance()
                    .findCorrectDatabaseImplementation(new JdbcConnection(conn));
            database.setDefaultSchemaName("moved");
            Liquibase liquibase = new Liquibase("changes.yaml", files, database);
            Contexts contexts = new Contexts();
            assertEquals(2, liquibase.listUnrunChangeSets(contexts, new LabelExpression()).size());
            StringWriter text = new StringWriter();
            liquibase.update(contexts, text);
            assertTrue(text.toString().contains("CREATE TABLE moved.owners"));
            liquibase.update(contexts);
            assertEquals(0, liquibase.listUnrunChangeSets(contexts, new LabelExpression()).size());
            assertEquals(
                Server.list("1,EXECUTED", "2,EXECUTED"),
                Server.query(
                    other, "SELECT id, exectype FROM databasechangelog ORDER BY orderexecuted"));
            Server.run(
                other, "INSERT INTO animals (id, owner) SELECT nextval('numbers'), id FROM owners");
            assertEquals(
                Server.list("5,1,1.500,t,new"),
                Server.query(other, "SELECT id, owner, weight, calm, note FROM animals"));
            // What it finds in the schema is what it has made: nothing differs from a copy.
            Server.run(other, "DELETE FROM animals");
            liquibase.tag("here");
            Server.make("copied");
            try (Connection third = Server.connect("currentSchema=copied")) {
              Database copied =
                  DatabaseFactory.getInstance()
                      .findCorrectDatabaseImplementation(new JdbcConnection(third));
              copied.setDefaultSchemaName("copied");
              Liquibase again = new Liquibase("changes.yaml", files, copied);
              again.update(contexts);
              DiffResult difference = liquibase.diff(database, copied, CompareControl.STANDARD);
              assertTrue(
                  difference.areEqual(),
                  () ->
                      difference.getMissingObjects()
                          + " "
                          + difference.getUnexpectedObjects()
                          + " "
                          + difference.getChangedObjects());
              again.dropAll();
              assertEquals(
                  Server.list("0"),
                  Server.query(
                      third, "SELECT count(*) FROM pg_tables WHERE schemaname = 'copied'"));
            } finally {
              Server.drop("copied");
            }
            liquibase.validate();
            liquibase.forceReleaseLocks();
            liquibase.close();
          }
        });
  }

  @Test
  void liquibaseGoesBack() throws Exception {
    write(
        "changes.sql",
        """
        --liquibase formatted sql
        --changeset a:1
        CREATE TABLE one (a int);
        INSERT INTO one VALUES (1);
        --rollback DROP TABLE one;
        --changeset a:2 splitStatements:false
        ALTER TABLE one ADD b text DEFAULT 'x;y'; CREATE INDEX by_b ON one (b);
        --rollback ALTER TABLE one DROP b;
        --changeset a:3 runInTransaction:false
        CREATE INDEX CONCURRENTLY by_a ON one (a);
        --rollback DROP INDEX by_a;
        """);
    Scope.child(
        Map.of("liquibase.analytics.enabled", false),
        () -> {
          try (Connection conn = Server.connect("currentSchema=moved");
              Connection other = Server.connect("currentSchema=moved");
              DirectoryResourceAccessor files = new DirectoryResourceAccessor(directory)) {
            Database database =
                DatabaseFactory.getInstance()
                    .findCorrectDatabaseImplementation(new JdbcConnection(conn));
            database.setDefaultSchemaName("moved");
            Liquibase liquibase = new Liquibase("changes.sql", files, database);
            liquibase.update(new Contexts());
            assertEquals(Server.list("1,x;y"), Server.query(other, "SELECT * FROM one"));
            liquibase.rollback(2, "");
            assertEquals(Server.list("1"), Server.query(other, "SELECT * FROM one"));
            liquibase.update(new Contexts());
            liquibase.rollback(3, "");
            assertEquals(
                Server.list("true"),
                Server.query(other, "SELECT (to_regclass('one') IS NULL)::text"));
            liquibase.close();
          }
        });
  }
}
