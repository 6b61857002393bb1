"""psycopg 3 against the server of PGHOST and PGPORT: values, batches, pipelines, cursors, transactions, errors."""

import datetime as dt
import decimal
import logging
import threading
import unittest
import uuid

import psycopg
from psycopg import errors, sql
from psycopg.types.json import Jsonb

# Errors that a test expects are not logged a second time.
logging.getLogger("psycopg").setLevel(logging.ERROR)
UTC = dt.timezone.utc

# Types, and values of them in Python.
VALUES = [
    ("smallint", [0, -32768, 32767]),
    ("integer", [0, -(2**31), 2**31 - 1]),
    ("bigint", [0, -(2**63), 2**63 - 1]),
    ("real", [0.5, -1.5, float("inf")]),
    ("double precision", [0.1, -1e300, float("-inf")]),
    ("numeric", [decimal.Decimal("0"), decimal.Decimal("-12345678901234567890.000000001"), decimal.Decimal("1E+20")]),
    ("numeric(10,2)", [decimal.Decimal("12345678.90"), decimal.Decimal("-0.01")]),
    ("boolean", [True, False]),
    ("text", ["", "tea", "grüner Tee 🍵", "it's \\ \"quoted\"\n"]),
    ("varchar(10)", ["", "0123456789"]),
    ("char(3)", ["abc", "a  "]),
    ("bytea", [b"", bytes(range(256))]),
    ("date", [dt.date(2000, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    ("time", [dt.time(0, 0), dt.time(23, 59, 59, 999999)]),
    ("timestamp", [dt.datetime(1999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1)]),
    ("timestamptz", [dt.datetime(2026, 2, 28, 12, 30, tzinfo=UTC), dt.datetime(1969, 7, 20, tzinfo=UTC)]),
    ("interval", [dt.timedelta(), dt.timedelta(days=-3, seconds=7, microseconds=1)]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID("12345678-1234-5678-1234-567812345678")]),
    ("jsonb", [{"a": [1, None, "x"], "b": {"c": 1.5}}, [], "text", 7, True]),
    ("integer[]", [[], [1, None, 3]]),
    ("text[]", [["a,b", 'c"d', "", "null", None]]),
]


def connect(**options):
    return psycopg.connect(autocommit=True, **options)


class Base(unittest.TestCase):
    def setUp(self):
        self.conn = connect()
        self.addCleanup(self.conn.close)

    def table(self, columns, name=None):
        """A table that only this test uses."""
        name = name or self.id().rsplit(".", 1)[-1]
        self.conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
        self.conn.execute(sql.SQL("CREATE TABLE {} (" + columns + ")").format(sql.Identifier(name)))
        return name


class Values(Base):
    def test_values_come_back_as_text_and_binary(self):
        for number, (kind, values) in enumerate(VALUES):
            # A statement that is already prepared may not change its result types.
            name = self.table(f"id integer PRIMARY KEY, v {kind}", f"values_{number}")
            rows = list(enumerate([*values, None]))
            for binary in (False, True):
                with self.subTest(kind=kind, binary=binary), self.conn.cursor(binary=binary) as cursor:
                    cursor.execute(f"TRUNCATE {name}")
                    place = "%b" if binary else "%t"
                    for key, value in rows:
                        value = Jsonb(value) if kind == "jsonb" and value is not None else value
                        cursor.execute(f"INSERT INTO {name} VALUES (%s, {place}::{kind})", (key, value))
                    cursor.execute(f"SELECT id, v FROM {name} ORDER BY id")
                    self.assertEqual(cursor.fetchall(), rows)
                    # The same through a parameter that is not stored in a table.
                    for _, value in rows[:-1]:
                        value = Jsonb(value) if kind == "jsonb" else value
                        found = cursor.execute(f"SELECT id FROM {name} WHERE v = {place}::{kind}", (value,)).fetchall()
                        self.assertEqual(len(found), 1)

    def test_parameters_need_no_casts(self):
        name = self.table("id integer PRIMARY KEY, a bigint, b numeric, c text, d timestamptz, e boolean, f bytea")
        row = (1, 2, decimal.Decimal("3.4"), "five", dt.datetime(2026, 1, 1, tzinfo=UTC), True, b"\0\xff")
        self.conn.execute(f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
        found = self.conn.execute(
            f"SELECT * FROM {name} WHERE a = %s AND b = %s AND c = %s AND d <= %s AND e = %s AND f = %s", row[1:]
        )
        self.assertEqual(found.fetchone(), row)
        found = self.conn.execute(f"SELECT id FROM {name} WHERE id = ANY(%s)", ([1, 2, 3],))
        self.assertEqual(found.fetchall(), [(1,)])

    def test_columns_are_described(self):
        cursor = self.conn.execute("SELECT 1 AS one, 'x'::text AS two, 1.5::numeric(5,2) AS three, now() AS four")
        self.assertEqual([column.name for column in cursor.description], ["one", "two", "three", "four"])
        self.assertEqual([column.type_code for column in cursor.description], [23, 25, 1700, 1184])
        self.assertEqual((cursor.description[2].precision, cursor.description[2].scale), (5, 2))

    def test_time_zones_are_the_sessions(self):
        moment = dt.datetime(2026, 7, 1, 12, tzinfo=UTC)
        self.conn.execute("SET TimeZone = 'Europe/Berlin'")
        (found,) = self.conn.execute("SELECT %s::timestamptz", (moment,)).fetchone()
        self.assertEqual((found, found.utcoffset()), (moment, dt.timedelta(hours=2)))
        self.assertEqual(self.conn.info.timezone.key, "Europe/Berlin")


class Batches(Base):
    def test_executemany(self):
        name = self.table("id integer PRIMARY KEY, v text")
        with self.conn.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {name} VALUES (%s, %s)", [(n, str(n)) for n in range(500)])
            self.assertEqual(cursor.rowcount, 500)
            cursor.executemany(
                f"UPDATE {name} SET v = v || %s WHERE id = %s RETURNING v", [("!", n) for n in range(3)], returning=True
            )
            found = [cursor.fetchone()[0]]
            while cursor.nextset():
                found.append(cursor.fetchone()[0])
        self.assertEqual(found, ["0!", "1!", "2!"])
        self.assertEqual(self.conn.execute(f"SELECT count(*), max(id) FROM {name}").fetchone(), (500, 499))

    def test_pipelines(self):
        name = self.table("id integer PRIMARY KEY")
        with self.conn.pipeline() as pipeline:
            cursors = [self.conn.execute(f"INSERT INTO {name} VALUES (%s) RETURNING id", (n,)) for n in range(50)]
            pipeline.sync()
            self.assertEqual([cursor.fetchone()[0] for cursor in cursors], list(range(50)))

    def test_an_error_in_a_pipeline_undoes_what_is_before_its_sync(self):
        name = self.table("id integer PRIMARY KEY")
        with self.assertRaises(errors.UniqueViolation), self.conn.pipeline():
            for n in (1, 2, 1, 3):
                self.conn.execute(f"INSERT INTO {name} VALUES (%s)", (n,))
        self.assertEqual(self.conn.execute(f"SELECT id FROM {name}").fetchall(), [])
        with self.assertRaises(errors.UniqueViolation), self.conn.pipeline() as pipeline:
            self.conn.execute(f"INSERT INTO {name} VALUES (1)")
            pipeline.sync()
            for n in (2, 1, 3):
                self.conn.execute(f"INSERT INTO {name} VALUES (%s)", (n,))
        self.assertEqual(self.conn.execute(f"SELECT id FROM {name}").fetchall(), [(1,)])

    def test_statements_that_are_prepared_survive_changes_of_their_table(self):
        name = self.table("id integer PRIMARY KEY, v text")
        for n in range(10):
            self.conn.execute(f"INSERT INTO {name} (id, v) VALUES (%s, %s)", (n, "x"), prepare=True)
        self.conn.execute(f"ALTER TABLE {name} ADD COLUMN w integer DEFAULT 7")
        self.conn.execute(f"INSERT INTO {name} (id, v) VALUES (%s, %s)", (10, "y"), prepare=True)
        found = self.conn.execute(f"SELECT v, w FROM {name} WHERE id = %s", (10,), prepare=True).fetchone()
        self.assertEqual(found, ("y", 7))

    def test_a_text_of_several_statements(self):
        cursor = self.conn.execute("SELECT 1; SELECT 'two'; SELECT 3 WHERE false")
        self.assertEqual(cursor.fetchall(), [(1,)])
        self.assertTrue(cursor.nextset())
        self.assertEqual(cursor.fetchall(), [("two",)])
        self.assertTrue(cursor.nextset())
        self.assertEqual(cursor.fetchall(), [])
        self.assertFalse(cursor.nextset())


class Cursors(Base):
    def test_rows_come_one_by_one(self):
        with self.conn.cursor() as cursor:
            rows = list(cursor.stream("SELECT * FROM generate_series(1, 1000)"))
            self.assertEqual(rows, [(n,) for n in range(1, 1001)])

    def test_cursors_of_the_server(self):
        name = self.table("id integer PRIMARY KEY")
        self.conn.execute(f"INSERT INTO {name} SELECT * FROM generate_series(1, 100)")
        with self.conn.transaction():
            with self.conn.cursor(name="some") as cursor:
                cursor.execute(f"SELECT id FROM {name} WHERE id > %s ORDER BY id", (0,))
                self.assertEqual([column.name for column in cursor.description], ["id"])
                self.assertEqual(cursor.fetchmany(3), [(1,), (2,), (3,)])
                self.assertEqual(cursor.fetchone(), (4,))
                self.assertEqual(len(cursor.fetchall()), 96)
            with self.conn.cursor(name="some", binary=True) as cursor:
                cursor.itersize = 7
                cursor.execute(f"SELECT id FROM {name} ORDER BY id")
                self.assertEqual([id for (id,) in cursor], list(range(1, 101)))


class Transactions(Base):
    def test_blocks_commit_and_roll_back(self):
        name = self.table("id integer PRIMARY KEY")
        with self.conn.transaction():
            self.conn.execute(f"INSERT INTO {name} VALUES (1)")
        with self.assertRaises(ZeroDivisionError), self.conn.transaction():
            self.conn.execute(f"INSERT INTO {name} VALUES (2)")
            raise ZeroDivisionError
        with self.conn.transaction(force_rollback=True):
            self.conn.execute(f"INSERT INTO {name} VALUES (3)")
            self.assertEqual(self.conn.execute(f"SELECT count(*) FROM {name}").fetchone(), (2,))
        self.assertEqual(self.conn.execute(f"SELECT id FROM {name}").fetchall(), [(1,)])

    def test_connections_that_do_not_commit_by_themselves(self):
        name = self.table("id integer PRIMARY KEY")
        with psycopg.connect() as other:
            other.execute(f"INSERT INTO {name} VALUES (1)")
            self.assertEqual(other.info.transaction_status, psycopg.pq.TransactionStatus.INTRANS)
            other.rollback()
            other.execute(f"INSERT INTO {name} VALUES (2)")
        self.assertEqual(self.conn.execute(f"SELECT id FROM {name}").fetchall(), [(2,)])

    def test_savepoints(self):
        name = self.table("id integer PRIMARY KEY")
        with self.conn.transaction():
            self.conn.execute(f"INSERT INTO {name} VALUES (1)")
            with self.assertRaises(errors.UniqueViolation), self.conn.transaction():
                self.conn.execute(f"INSERT INTO {name} VALUES (2)")
                self.conn.execute(f"INSERT INTO {name} VALUES (1)")
            with self.conn.transaction():
                self.conn.execute(f"INSERT INTO {name} VALUES (3)")
        self.assertEqual(self.conn.execute(f"SELECT id FROM {name} ORDER BY id").fetchall(), [(1,), (3,)])

    def test_levels_are_asked_for(self):
        for level in psycopg.IsolationLevel:
            if level == psycopg.IsolationLevel.READ_UNCOMMITTED:
                continue
            self.conn.isolation_level = level
            with self.conn.transaction():
                (shown,) = self.conn.execute("SHOW transaction_isolation").fetchone()
                self.assertEqual(shown.upper(), level.name.replace("_", " "))

    def test_transactions_that_only_read(self):
        self.conn.read_only = True
        with self.assertRaises(errors.ReadOnlySqlTransaction), self.conn.transaction():
            self.conn.execute("CREATE TABLE never (id integer)")

    def test_a_lost_conflict_says_to_try_again(self):
        name = self.table("id integer PRIMARY KEY, v integer")
        self.conn.execute(f"INSERT INTO {name} VALUES (1, 0)")
        self.conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with connect() as other:
            with self.assertRaises(errors.SerializationFailure) as caught, self.conn.transaction():
                self.conn.execute(f"SELECT v FROM {name} WHERE id = 1").fetchone()
                other.execute(f"UPDATE {name} SET v = 1 WHERE id = 1")
                self.conn.execute(f"UPDATE {name} SET v = 2 WHERE id = 1")
            self.assertEqual(caught.exception.sqlstate, "40001")
        self.assertEqual(self.conn.execute(f"SELECT v FROM {name}").fetchall(), [(1,)])


class Errors(Base):
    def test_errors_have_their_codes_and_fields(self):
        name = self.table("id integer PRIMARY KEY, v text NOT NULL CHECK (length(v) < 5)")
        self.conn.execute(f"INSERT INTO {name} VALUES (1, 'x')")
        cases = [
            (f"INSERT INTO {name} VALUES (1, 'y')", errors.UniqueViolation, "constraint_name", f"{name}_pkey"),
            (f"INSERT INTO {name} VALUES (2, NULL)", errors.NotNullViolation, "column_name", "v"),
            (f"INSERT INTO {name} VALUES (2, 'xxxxx')", errors.CheckViolation, "constraint_name", f"{name}_v_check"),
            ("SELECT * FROM nowhere", errors.UndefinedTable, "message_primary", 'relation "nowhere" does not exist'),
            (
                f"SELECT nothing FROM {name}",
                errors.UndefinedColumn,
                "message_primary",
                'column "nothing" does not exist',
            ),
            (
                "SELECT nothing(1)",
                errors.UndefinedFunction,
                "message_primary",
                "function nothing(integer) does not exist",
            ),
            ("SELECT 1 +", errors.SyntaxError, "severity", "ERROR"),
            ("SELECT 1 / 0", errors.DivisionByZero, "severity", "ERROR"),
            ("SELECT 'x'::integer", errors.InvalidTextRepresentation, "severity", "ERROR"),
            ("SELECT 2147483647 + 1", errors.NumericValueOutOfRange, "severity", "ERROR"),
            (f"CREATE TABLE {name} (id integer)", errors.DuplicateTable, "severity", "ERROR"),
        ]
        for text, kind, field, expected in cases:
            with self.subTest(text=text):
                with self.assertRaises(kind) as caught:
                    self.conn.execute(text)
                self.assertEqual(caught.exception.sqlstate, kind.sqlstate)
                self.assertEqual(getattr(caught.exception.diag, field), expected)
        self.assertEqual(self.conn.execute(f"SELECT count(*) FROM {name}").fetchone(), (1,))

    def test_a_failed_transaction_wants_its_end(self):
        with self.assertRaises(errors.InFailedSqlTransaction), self.conn.transaction():
            with self.assertRaises(errors.DivisionByZero):
                self.conn.execute("SELECT 1 / 0")
            self.conn.execute("SELECT 1")
        self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))

    def test_statements_are_cancelled(self):
        self.conn.execute("SET statement_timeout = '100ms'")
        with self.assertRaises(errors.QueryCanceled):
            self.conn.execute("SELECT pg_sleep(30)")
        self.conn.execute("SET statement_timeout = 0")
        timer = threading.Timer(0.2, self.conn.cancel_safe)
        timer.start()
        with self.assertRaises(errors.QueryCanceled):
            self.conn.execute("SELECT pg_sleep(30)")
        timer.join()
        self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))


if __name__ == "__main__":
    unittest.main()
