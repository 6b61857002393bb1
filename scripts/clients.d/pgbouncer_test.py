"""psycopg through pgbouncer against PGHOST and PGPORT: pools of transactions, of sessions and of statements."""

import contextlib
import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import psycopg
from known_gap import known_gap
from psycopg import errors

logging.getLogger("psycopg").setLevel(logging.ERROR)
HOST, SERVER_PORT, USER, DATABASE = (os.environ[name] for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"))
PROGRAM = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
VERSION = tuple(map(int, re.search(r"(\d+)\.(\d+)", subprocess.check_output([PROGRAM, "--version"], text=True)).groups()))
SETTINGS = f"""
[databases]
transactions = host={HOST} port={SERVER_PORT} dbname={DATABASE} pool_mode=transaction pool_size=2
one = host={HOST} port={SERVER_PORT} dbname={DATABASE} pool_mode=transaction pool_size=1
sessions = host={HOST} port={SERVER_PORT} dbname={DATABASE} pool_mode=session pool_size=1
statements = host={HOST} port={SERVER_PORT} dbname={DATABASE} pool_mode=statement pool_size=1
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
admin_users = {USER}
server_reset_query = DISCARD ALL
server_check_delay = 0
server_check_query = SELECT 1
query_wait_timeout = 30
log_connections = 0
log_disconnections = 0
"""
if VERSION >= (1, 21):
    SETTINGS += "max_prepared_statements = 100\n"
port = None


def setUpModule():
    """Starts pgbouncer. It does not run as root, and then reads its files as another user."""
    global port
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    os.chmod(directory.name, 0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    users, settings = (os.path.join(directory.name, name) for name in ("users", "settings"))
    with open(users, "w", encoding="utf8") as file:
        file.write(f'"{USER}" ""\n')
    with open(settings, "w", encoding="utf8") as file:
        file.write(SETTINGS % (port, users))
    command = [PROGRAM, "--quiet", *(["--user=nobody"] if os.getuid() == 0 else []), settings]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    unittest.addModuleCleanup(program.stderr.close)
    unittest.addModuleCleanup(program.wait)
    unittest.addModuleCleanup(program.terminate)
    for _ in range(100):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if program.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("pgbouncer does not run: " + program.stderr.read())


def connect(database="transactions", **options):
    options = {"autocommit": True, "prepare_threshold": None, "user": USER, **options}
    return psycopg.connect(host="127.0.0.1", port=port, dbname=database, **options)


def direct(**options):
    return psycopg.connect(host=HOST, port=SERVER_PORT, user=USER, dbname=DATABASE, autocommit=True, **options)


def value(conn, text, *arguments):
    return conn.execute(text, *arguments).fetchone()[0]


def pid(conn):
    return value(conn, "SELECT pg_backend_pid()")


class Base(unittest.TestCase):
    def setUp(self):
        with direct() as conn:
            conn.execute("CREATE TABLE pooled (id int PRIMARY KEY, value int NOT NULL)")
        self.addCleanup(self.drop)

    def drop(self):
        with direct() as conn:
            conn.execute("DROP TABLE pooled")

    def rows(self):
        with direct() as conn:
            return conn.execute("SELECT id, value FROM pooled ORDER BY id").fetchall()

    def open(self, *arguments, **options):
        conn = connect(*arguments, **options)
        self.addCleanup(conn.close)
        return conn


class Transactions(Base):
    def test_many_clients_share_few_connections(self):
        with direct() as conn:
            conn.execute("INSERT INTO pooled SELECT n, 0 FROM generate_series(0, 8) AS n")
        servers, failures = set(), []

        def client(number):
            try:
                with connect() as conn:
                    done = 0
                    while done < 20:
                        try:
                            with conn.transaction():
                                servers.add(pid(conn))
                                conn.execute("UPDATE pooled SET value = value + 1 WHERE id = %s", [number])
                                conn.execute("UPDATE pooled SET value = value + 1 WHERE id = 0")
                                servers.add(pid(conn))
                            done += 1
                        except errors.SerializationFailure:
                            pass
            except BaseException as failure:
                failures.append(failure)

        clients = [threading.Thread(target=client, args=[number]) for number in range(1, 9)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join(60)
        self.assertEqual(failures, [])
        self.assertEqual(self.rows(), [(0, 160)] + [(number, 20) for number in range(1, 9)])
        self.assertEqual(len(servers), 2)

    def test_transactions_are_kept_apart(self):
        first, second = self.open(), self.open()
        first.execute("BEGIN")
        first.execute("INSERT INTO pooled VALUES (1, 1)")
        first.execute("SET LOCAL statement_timeout = '7s'")
        place = pid(first)
        second.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        self.assertNotEqual(pid(second), place)
        self.assertEqual(value(second, "SELECT count(*) FROM pooled"), 0)
        self.assertEqual(value(second, "SHOW statement_timeout"), "0")
        third = self.open()
        waits = threading.Thread(target=third.execute, args=["INSERT INTO pooled VALUES (3, 3)"])
        waits.start()
        waits.join(0.2)
        # Both connections to the server are taken.
        self.assertTrue(waits.is_alive())
        self.assertEqual(pid(first), place)
        first.execute("COMMIT")
        waits.join(30)
        self.assertEqual(value(second, "SELECT count(*) FROM pooled"), 2)
        second.execute("ROLLBACK")
        self.assertEqual(value(first, "SHOW statement_timeout"), "0")

    def test_errors_are_passed_on(self):
        conn, other = self.open("one"), self.open("one")
        conn.execute("INSERT INTO pooled VALUES (1, 1)")
        with self.assertRaises(errors.UniqueViolation) as raised:
            conn.execute("INSERT INTO pooled VALUES (1, 1)")
        self.assertEqual(raised.exception.diag.constraint_name, "pooled_pkey")
        conn.execute("BEGIN")
        with self.assertRaises(errors.DivisionByZero):
            conn.execute("SELECT 1 / (value - 1) FROM pooled")
        with self.assertRaises(errors.InFailedSqlTransaction):
            conn.execute("SELECT 1")
        conn.execute("ROLLBACK")
        self.assertEqual(value(other, "SELECT 1"), 1)
        with conn.transaction():
            conn.execute("INSERT INTO pooled VALUES (2, 2)")
            with contextlib.suppress(errors.UniqueViolation), conn.transaction():
                conn.execute("INSERT INTO pooled VALUES (3, 3), (3, 3)")
        self.assertEqual(self.rows(), [(1, 1), (2, 2)])

    def test_a_client_that_leaves_in_a_transaction_is_rolled_back(self):
        conn = connect("one")
        conn.execute("BEGIN")
        conn.execute("INSERT INTO pooled VALUES (1, 1)")
        conn.pgconn.finish()
        after = self.open("one")
        after.execute("INSERT INTO pooled VALUES (1, 2)")
        self.assertEqual(self.rows(), [(1, 2)])

    def test_parameters_follow_the_client(self):
        """pgbouncer sets those that the server reports before another client's transaction."""
        first = self.open("one", application_name="first")
        second = self.open("one", application_name="second")
        second.execute("SET TimeZone = 'Europe/Berlin'")
        second.execute("SET DateStyle = 'German'")
        moment = "SELECT '2024-07-01 12:00:00+00'::timestamptz::text"
        for _ in range(3):
            self.assertEqual(pid(first), pid(second))
            self.assertEqual(value(first, "SHOW application_name"), "first")
            self.assertEqual(value(second, "SHOW application_name"), "second")
            self.assertEqual(value(second, moment), "01.07.2024 14:00:00 CEST")
            self.assertNotEqual(value(first, moment), "01.07.2024 14:00:00 CEST")
        first.execute("SET application_name = 'renamed'")
        self.assertEqual(value(second, "SHOW application_name"), "second")
        self.assertEqual(value(first, "SHOW application_name"), "renamed")

    @known_gap("client_encoding is UTF8 only")
    def test_encodings_follow_the_client(self):
        first, second = self.open("one"), self.open("one", client_encoding="latin1")
        for _ in range(3):
            self.assertEqual(value(first, "SHOW client_encoding"), "UTF8")
            self.assertEqual(value(second, "SHOW client_encoding"), "LATIN1")
            self.assertEqual(value(second, "SELECT 'ä'::text"), "ä")

    def test_copies_cursors_and_pipelines(self):
        conn = self.open("one")
        with conn.transaction(), conn.cursor() as cursor, cursor.copy("COPY pooled FROM STDIN") as copy:
            for number in range(1000):
                copy.write_row((number, number * number))
        with conn.cursor() as cursor, cursor.copy("COPY (SELECT * FROM pooled WHERE id < 3) TO STDOUT") as copy:
            self.assertEqual(list(copy.rows()), [("0", "0"), ("1", "1"), ("2", "4")])
        with self.assertRaises(errors.UniqueViolation), conn.cursor() as cursor:
            with cursor.copy("COPY pooled FROM STDIN") as copy:
                copy.write_row((1, 1))
        with conn.transaction(), conn.cursor("some") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT value FROM pooled ORDER BY id DESC")
            self.assertEqual(sum(row[0] for row in cursor), sum(number * number for number in range(1000)))
        with conn.pipeline(), conn.transaction():
            for number in range(100):
                conn.execute("UPDATE pooled SET value = %s WHERE id = %s", (-number, number))
            total = conn.execute("SELECT sum(value)::int FROM pooled WHERE id < 100")
        self.assertEqual(total.fetchone(), (-4950,))
        with self.assertRaises(errors.DivisionByZero), conn.pipeline():
            conn.execute("DELETE FROM pooled")
            conn.execute("SELECT 1 / (%s::int - 1)", [1])
        self.assertEqual(value(conn, "SELECT count(*) FROM pooled"), 1000)

    def test_statements_are_prepared(self):
        """In pools of transactions since version 1.21; before, only without a name."""
        clients = [self.open("one", prepare_threshold=0 if VERSION >= (1, 21) else None) for _ in range(3)]
        for number, conn in enumerate(clients * 3):
            conn.execute("INSERT INTO pooled VALUES (%s, %s)", (number, number), binary=True)
            self.assertEqual(value(conn, "SELECT value FROM pooled WHERE id = %s", [number]), number)

    def test_statements_are_cancelled(self):
        conn = self.open()
        timer = threading.Timer(0.3, conn.cancel_safe)
        timer.start()
        began = time.monotonic()
        with self.assertRaises(errors.QueryCanceled):
            conn.execute("SELECT pg_sleep(60)")
        self.assertLess(time.monotonic() - began, 20)
        timer.join()
        self.assertEqual(value(conn, "SELECT 7"), 7)
        # Two on one connection to the server: the request reaches the one that is meant.
        first, second = self.open("one"), self.open("one")
        self.assertEqual(value(first, "SELECT 1"), 1)
        timer = threading.Timer(0.3, second.cancel_safe)
        timer.start()
        with self.assertRaises(errors.QueryCanceled):
            second.execute("SELECT pg_sleep(60)")
        timer.join()
        self.assertEqual(value(first, "SELECT 1"), 1)


class Sessions(Base):
    def test_sessions_are_reset(self):
        with connect("sessions") as conn:
            place = pid(conn)
            conn.execute("SET search_path = pg_catalog")
            conn.execute("SET statement_timeout = '9s'")
            conn.execute("CREATE TEMP TABLE mine (a int)")
            conn.execute("PREPARE mine AS SELECT 1")
            conn.execute("DECLARE mine CURSOR WITH HOLD FOR SELECT 1")
            conn.execute("LISTEN mine")
            conn.execute("SELECT pg_advisory_lock(4711)")
            conn.execute("CREATE TEMP SEQUENCE numbers")
            self.assertEqual(value(conn, "SELECT nextval('numbers')"), 1)
        conn = self.open("sessions")
        self.assertEqual(pid(conn), place)
        self.assertEqual(value(conn, "SHOW statement_timeout"), "0")
        self.assertIn("public", value(conn, "SHOW search_path"))
        self.assertEqual(value(conn, "SELECT to_regclass('mine')"), None)
        for table in ("pg_prepared_statements", "pg_cursors", "pg_listening_channels()"):
            self.assertEqual(conn.execute(f"SELECT * FROM {table} AS t").fetchall()[1:], [], table)
        with self.assertRaises(errors.ObjectNotInPrerequisiteState):
            conn.execute("SELECT lastval()")
        with direct() as other:
            self.assertTrue(value(other, "SELECT pg_try_advisory_lock(4711)"))
        with self.assertRaises(errors.ActiveSqlTransaction), conn.transaction():
            conn.execute("DISCARD ALL")
        conn.execute("SET statement_timeout = '9s'")
        conn.execute("DISCARD ALL")
        self.assertEqual(value(conn, "SHOW statement_timeout"), "0")

    def test_statements_are_prepared_anew(self):
        places = set()
        for number in range(3):
            with connect("sessions", prepare_threshold=0) as conn:
                places.add(pid(conn))
                for _ in range(3):
                    conn.execute("INSERT INTO pooled VALUES (%s, 1) ON CONFLICT DO NOTHING", [number])
        self.assertEqual(len(places), 1)
        self.assertEqual(self.rows(), [(0, 1), (1, 1), (2, 1)])


class Statements(Base):
    def test_a_pool_of_statements(self):
        conn = self.open("statements")
        for number in range(5):
            conn.execute("INSERT INTO pooled VALUES (%s, 1)", [number])
        self.assertEqual(value(conn, "SELECT sum(value) FROM pooled"), 5)
        # pgbouncer ends the connection of a client that begins a transaction.
        with self.assertRaises(psycopg.Error):
            conn.execute("BEGIN")
            conn.execute("SELECT 1")


class Console(unittest.TestCase):
    def test_pools_are_shown_and_paused(self):
        with connect("pgbouncer", cursor_factory=psycopg.ClientCursor) as console, connect("one") as conn:
            place = pid(conn)
            self.assertIn("PgBouncer", value(console, "SHOW VERSION"))
            cursor = console.execute("SHOW SERVERS")
            columns = [column.name for column in cursor.description]
            remote = [row[columns.index("remote_pid")] for row in cursor if row[columns.index("database")] == "one"]
            self.assertEqual(remote, [place])
            console.execute("PAUSE one")
            waits = threading.Thread(target=conn.execute, args=["SELECT 1"])
            waits.start()
            waits.join(0.2)
            self.assertTrue(waits.is_alive())
            console.execute("RESUME one")
            waits.join(30)
            self.assertFalse(waits.is_alive())
            console.execute("RECONNECT one")
            self.assertNotEqual(pid(conn), place)


if __name__ == "__main__":
    unittest.main()
