"""Clients of a cluster whose machines fail: they look for the primary again and again, and know what was acknowledged
to them. All of them end with their `Run`.

A transaction whose connection was lost before its COMMIT was sent has not happened; if it was lost behind that, or the
server has said that the outcome is unknown (40003), it may have happened or not.
"""

import os
import random
import socket
import threading
import time

import psycopg

import list_append
from machines import PORT

ACCOUNTS = 20
AMOUNT = 100
# The most seconds of a session: a client that looks for the primary again may find another one than those that have not
# noticed yet that there is another one.
SESSION_SECONDS_MAX = 4
# Seconds that a client waits for an answer before it looks for another primary: one that is stopped keeps connections.
PATIENCE = 5
PAUSE = 0.02
TABLES = """
    CREATE TABLE lists (id integer PRIMARY KEY, v integer[] NOT NULL);
    CREATE TABLE accounts (id integer PRIMARY KEY, amount bigint NOT NULL);
    CREATE TABLE sent (client integer, number integer, source integer, target integer, line bigserial,
        PRIMARY KEY (client, number));
    CREATE TABLE large (id integer PRIMARY KEY, line text NOT NULL);
    INSERT INTO large VALUES (1, '');
"""
# Of a row that is written again and again while a device is full: what was reserved before is used up in seconds.
LARGE_BYTES = 100_000


class Patience(threading.Thread):
    """Ends connections on which an answer takes too long."""

    def __init__(self):
        super().__init__(daemon=True)
        self.lock, self.waiting = threading.Lock(), {}
        self.start()

    def run(self):
        while True:
            time.sleep(0.2)
            with self.lock:
                for conn, until in self.waiting.items():
                    if time.monotonic() > until and not conn.closed:
                        with socket.socket(fileno=os.dup(conn.fileno())) as connection:
                            try:
                                connection.shutdown(socket.SHUT_RDWR)
                            except OSError:
                                pass

    def begin(self, conn):
        with self.lock:
            self.waiting[conn] = time.monotonic() + PATIENCE

    def end(self, conn):
        with self.lock:
            del self.waiting[conn]


class Waiting:
    """A block that ends its connection if it takes too long."""

    def __init__(self, patience, conn):
        self.patience, self.conn = patience, conn

    def __enter__(self):
        self.patience.begin(self.conn)

    def __exit__(self, *_):
        self.patience.end(self.conn)


class Histories:
    """What clients and readers of standbys did, as `ermine check` reads it: one history for each level that it has to
    satisfy. A process that does not know the outcome of its operation does nothing more under its number.
    """

    def __init__(self, directory):
        self.lock, self.processes = threading.Lock(), 0
        names = ["strict-serializable", "serializable", "si"]
        self.paths = {name: os.path.join(directory, f"{name}.edn") for name in names}
        self.files = {name: list_append.History(path) for name, path in self.paths.items()}
        self.appended = set()

    def process(self):
        with self.lock:
            self.processes += 1
            return self.processes

    def note(self, kind, process, steps):
        """Notes an operation on the primary."""
        for history in self.files.values():
            history.note(kind, process, steps)
        if kind == "ok":
            with self.lock:
                self.appended.update((key, value) for what, key, value in steps if what == "append")

    def at(self, *names):
        """Returns what notes operations on standbys, of which only some levels are demanded."""
        return Standby([self.files[name] for name in names])

    def close(self):
        for history in self.files.values():
            history.file.close()


class Standby:
    def __init__(self, files):
        self.files = files

    def note(self, kind, process, steps):
        for history in self.files:
            history.note(kind, process, steps)


class Run:
    """Clients that run until they are told to end."""

    def __init__(self, machines, histories, seed, synchronous):
        self.machines, self.histories, self.seed, self.synchronous = machines, histories, seed, synchronous
        self.keys, self.patience = list_append.Keys(5), Patience()
        self.is_over, self.faults, self.threads = False, [], []
        # Of the bank: the numbers of the rows that were acknowledged, and the last one that was sent, of each client.
        self.rows, self.last = {}, {}
        # How often transactions were acknowledged, and standbys were read, by what they were.
        self.counts = {}
        self.lock, self.writes_much = threading.Lock(), threading.Event()

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def acknowledged(self):
        return self.counts.get("append", 0) + self.counts.get("transfer", 0)

    def begin(self):
        work = [self.append] * 5 + [self.transfer] * 3 + [self.write_much]
        work += [lambda number: self.read(number, "SERIALIZABLE", "serializable", "si")]
        work += [lambda number: self.read(number, "REPEATABLE_READ", "si")]
        for number, what in enumerate(work):
            self.threads.append(threading.Thread(target=self._guarded, args=(what, number), daemon=True))
            self.threads[-1].start()

    def end(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def _guarded(self, what, number):
        try:
            what(number)
        except Exception as error:
            self.faults.append(f"client {number}: {error!r}")

    def connect(self, chance, attributes):
        """Returns a connection to a node that serves, or nothing."""
        nodes = self.machines.nodes
        for node in chance.sample(nodes, len(nodes)):
            conn = self.connect_to(node, attributes)
            if conn:
                return conn
        time.sleep(PAUSE)
        return None

    def connect_to(self, node, attributes="any"):
        try:
            return psycopg.connect(
                host=node.address,
                port=PORT,
                user="me",
                dbname="me",
                connect_timeout=2,
                target_session_attrs=attributes,
                options=f"-c synchronous_commit={self.synchronous}",
            )
        except psycopg.Error:
            return None

    def sessions(self, number, attributes, use):
        """Calls `use` with one connection after the other until the run is over; it asks whether it is to go on."""
        chance = random.Random(f"{self.seed}/client {number}")
        while not self.is_over:
            conn = self.connect(chance, attributes)
            if conn is None:
                continue
            until = time.monotonic() + chance.uniform(0, SESSION_SECONDS_MAX)
            try:
                use(conn, chance, lambda: not self.is_over and time.monotonic() < until)
            except psycopg.Error as error:
                self.count(f"error {error.sqlstate or 'of the connection'}")
                time.sleep(PAUSE)
            finally:
                conn.close()

    def append(self, number):
        def use(conn, chance, goes_on):
            conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            process = self.histories.process()
            while goes_on():
                with Waiting(self.patience, conn):
                    steps = self.keys.plan(chance)
                    is_committed = list_append.transact(conn, chance, self.histories, process, steps)
                self.count("append" if is_committed else "lost conflict")

        self.sessions(number, "read-write", use)

    def transfer(self, number):
        """Moves money, and notes each transfer in a numbered row of the same transaction."""
        known = self.rows[number] = set()
        self.last[number] = 0

        def use(conn, chance, goes_on):
            conn.autocommit = True
            while goes_on():
                self.last[number] += 1
                row, source, target = self.last[number], chance.randrange(ACCOUNTS), chance.randrange(ACCOUNTS)
                text = f"""BEGIN; INSERT INTO sent VALUES ({number}, {row}, {source}, {target});
                    UPDATE accounts SET amount = amount - 1 WHERE id = {source};
                    UPDATE accounts SET amount = amount + 1 WHERE id = {target}; COMMIT"""
                with Waiting(self.patience, conn):
                    try:
                        conn.execute(text)
                    except psycopg.Error as error:
                        if error.sqlstate not in list_append.RETRYABLE:
                            raise
                        conn.execute("ROLLBACK")
                        self.count("lost conflict")
                        continue
                known.add(row)
                self.count("transfer")

        self.sessions(number, "read-write", use)

    def write_much(self, number):
        def use(conn, chance, goes_on):
            conn.autocommit = True
            while goes_on():
                if self.writes_much.wait(0.05):
                    with Waiting(self.patience, conn):
                        conn.execute("UPDATE large SET line = repeat('x', %s) WHERE id = 1", (LARGE_BYTES,))
                    self.count("large write")
                    time.sleep(PAUSE)

        self.sessions(number, "read-write", use)

    def read(self, number, level, *judged_by):
        """Reads standbys: a snapshot of lists, which is judged, and of the bank, whose sum never changes."""
        history = self.histories.at(*judged_by)

        def use(conn, chance, goes_on):
            conn.isolation_level = psycopg.IsolationLevel[level]
            process, rows_before = self.histories.process(), 0
            while goes_on():
                with Waiting(self.patience, conn):
                    if not conn.execute("SELECT pg_is_in_recovery()").fetchone()[0]:
                        # It has just become the primary; there may be no table yet.
                        time.sleep(PAUSE)
                        return
                    steps = [("r", key, None) for key in self.keys.current]
                    list_append.transact(conn, chance, history, process, steps)
                    total, rows = conn.execute(
                        "SELECT (SELECT sum(amount)::bigint FROM accounts), (SELECT count(*) FROM sent)"
                    ).fetchone()
                    conn.commit()
                if total != ACCOUNTS * AMOUNT:
                    self.faults.append(f"a standby shows a sum of {total} at {level}")
                if rows < rows_before:
                    self.faults.append(f"a standby shows {rows} rows after {rows_before} at {level}")
                rows_before = rows
                self.count(f"read at {level.replace('_', ' ')}")
                time.sleep(PAUSE)

        self.sessions(number, "any", use)


def make_tables(conn):
    conn.execute(TABLES)
    conn.execute("INSERT INTO accounts SELECT number, %s FROM generate_series(0, %s) AS number", (AMOUNT, ACCOUNTS - 1))
    conn.commit()


def state_of(conn):
    """Returns the rows of all tables, in the order of their keys."""
    tables = [("lists", "id"), ("accounts", "id"), ("sent", "client, number"), ("large", "id")]
    return {table: conn.execute(f"SELECT * FROM {table} ORDER BY {key}").fetchall() for table, key in tables}
