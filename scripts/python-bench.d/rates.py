"""Rates of ermine_db beside sqlite3, duckdb, lmdb, and psycopg with PostgreSQL, for scripts/python-bench.

Each engine keeps its data in a directory. By default, a commit returns when it is on the device (Ermine `durable`,
SQLite's WAL with synchronous=FULL, LMDB sync=True, PostgreSQL synchronous_commit=on, duckdb always). With --lazy, it
returns before, and a crash may lose the last moments: Ermine `async`, SQLite synchronous=NORMAL, LMDB sync=False,
PostgreSQL synchronous_commit=off; duckdb cannot, and is left out. Isolation is serializable, except for duckdb, which
has snapshots only; a transaction that loses a conflict is run again.

The engines take turns in each round. A ratio is the median of the rounds' ratios. Every result is checked: what was
read, the sum after the transactions, the rows after ingestion and in the Arrow table.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shutil
import sqlite3
import statistics
import struct
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

import ermine_db

KEYS_A_TRANSACTION = 10


class Missing(Exception):
    """Why an engine is left out."""


class Ermine:
    name = "ermine_db"

    def __init__(self, directory: Path, lazy: bool) -> None:
        self.db = ermine_db.open(directory / "ermine", durability="async" if lazy else "durable")

    def create(self) -> None:
        self.db.sql("CREATE TABLE t (id bigint PRIMARY KEY, n bigint NOT NULL, name text NOT NULL)")

    def clear(self) -> None:
        self.db.sql("DROP TABLE t")

    def ingest(self, table: pa.Table) -> None:
        self.db.ingest("t", table)

    def session(self) -> Ermine:
        return self

    def get(self, key: int) -> int:
        return self.db.sql("SELECT n FROM t WHERE id = $1", (key,)).fetchone()[0]

    def add(self, keys: list[int]) -> None:
        self.db.run(self._add, keys)

    def _add(self, keys: list[int]) -> None:
        sql = self.db.sql
        for key in keys:
            n = sql("SELECT n FROM t WHERE id = $1", (key,)).fetchone()[0]
            sql("UPDATE t SET n = $1 WHERE id = $2", (n + 1, key))

    def sum(self) -> int:
        return int(self.db.sql("SELECT sum(n) FROM t").value())

    def scan(self) -> pa.Table:
        return pa.table(self.db.sql("SELECT id, n, name FROM t").fetch_arrow())

    def close(self) -> None:
        self.db.close()


class Sqlite:
    name = "sqlite3"

    def __init__(self, directory: Path, lazy: bool) -> None:
        self.directory, self.lazy = directory, lazy
        self.db = sqlite3.connect(directory / "sqlite", isolation_level=None, timeout=60, check_same_thread=False)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {'NORMAL' if lazy else 'FULL'}")

    def create(self) -> None:
        self.db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL, name TEXT NOT NULL)")

    def clear(self) -> None:
        self.db.execute("DROP TABLE t")

    def ingest(self, table: pa.Table) -> None:
        self.db.execute("BEGIN")
        self.db.executemany("INSERT INTO t VALUES (?, ?, ?)", zip(*(column.to_pylist() for column in table.columns)))
        self.db.execute("COMMIT")

    def session(self) -> Sqlite:
        return Sqlite(self.directory, self.lazy)

    def get(self, key: int) -> int:
        return self.db.execute("SELECT n FROM t WHERE id = ?", (key,)).fetchone()[0]

    def add(self, keys: list[int]) -> None:
        # A transaction that begins to write later could lose, and would have to be run again.
        execute = self.db.execute
        execute("BEGIN IMMEDIATE")
        for key in keys:
            n = execute("SELECT n FROM t WHERE id = ?", (key,)).fetchone()[0]
            execute("UPDATE t SET n = ? WHERE id = ?", (n + 1, key))
        execute("COMMIT")

    def sum(self) -> int:
        return self.db.execute("SELECT sum(n) FROM t").fetchone()[0]

    def scan(self) -> pa.Table:
        rows = self.db.execute("SELECT id, n, name FROM t").fetchall()
        return pa.table(dict(zip(("id", "n", "name"), map(list, zip(*rows)))))

    def close(self) -> None:
        self.db.close()


class Duckdb:
    name = "duckdb"

    def __init__(self, directory: Path, lazy: bool, cursor: object = None) -> None:
        import duckdb

        if lazy:
            raise Missing("its commits are always durable")
        self.errors = (duckdb.TransactionException,)
        self.db = cursor or duckdb.connect(directory / "duckdb")

    def create(self) -> None:
        self.db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT NOT NULL, name VARCHAR NOT NULL)")

    def clear(self) -> None:
        self.db.execute("DROP TABLE t")

    def ingest(self, table: pa.Table) -> None:
        self.db.register("incoming", table)
        self.db.execute("INSERT INTO t SELECT * FROM incoming")
        self.db.unregister("incoming")

    def session(self) -> Duckdb:
        return Duckdb(Path(), False, self.db.cursor())

    def get(self, key: int) -> int:
        return self.db.execute("SELECT n FROM t WHERE id = ?", (key,)).fetchone()[0]

    def add(self, keys: list[int]) -> None:
        execute = self.db.execute
        while True:
            execute("BEGIN")
            try:
                for key in keys:
                    n = execute("SELECT n FROM t WHERE id = ?", (key,)).fetchone()[0]
                    execute("UPDATE t SET n = ? WHERE id = ?", (n + 1, key))
                return execute("COMMIT")
            except self.errors:
                try:
                    execute("ROLLBACK")
                except self.errors:
                    pass

    def sum(self) -> int:
        return int(self.db.execute("SELECT sum(n) FROM t").fetchone()[0])

    def scan(self) -> pa.Table:
        return pa.table(self.db.sql("SELECT id, n, name FROM t"))

    def close(self) -> None:
        self.db.close()


class Lmdb:
    name = "lmdb"
    row = struct.Struct("<q")

    def __init__(self, directory: Path, lazy: bool) -> None:
        import lmdb

        self.env = lmdb.open(str(directory / "lmdb"), map_size=4 << 30, sync=not lazy)

    @staticmethod
    def key(key: int) -> bytes:
        return key.to_bytes(8, "big")

    def create(self) -> None:
        pass

    def clear(self) -> None:
        with self.env.begin(write=True) as txn:
            txn.drop(self.env.open_db(txn=txn), delete=False)

    def ingest(self, table: pa.Table) -> None:
        with self.env.begin(write=True) as txn:
            for id, n, name in zip(*(column.to_pylist() for column in table.columns)):
                txn.put(self.key(id), self.row.pack(n) + name.encode())

    def session(self) -> Lmdb:
        return self

    def get(self, key: int) -> int:
        with self.env.begin() as txn:
            return self.row.unpack_from(txn.get(self.key(key)))[0]

    def add(self, keys: list[int]) -> None:
        with self.env.begin(write=True) as txn:
            for key in map(self.key, keys):
                value = txn.get(key)
                txn.put(key, self.row.pack(self.row.unpack_from(value)[0] + 1) + value[8:])

    def sum(self) -> int:
        with self.env.begin() as txn:
            return sum(self.row.unpack_from(value)[0] for _, value in txn.cursor())

    def scan(self) -> pa.Table:
        columns: tuple[list[object], list[object], list[object]] = ([], [], [])
        with self.env.begin() as txn:
            for key, value in txn.cursor():
                columns[0].append(int.from_bytes(key, "big"))
                columns[1].append(self.row.unpack_from(value)[0])
                columns[2].append(value[8:].decode())
        return pa.table(dict(zip(("id", "n", "name"), columns)))

    def close(self) -> None:
        self.env.close()


class Postgres:
    name = "psycopg"

    def __init__(self, directory: Path, lazy: bool) -> None:
        import psycopg

        if "PGPORT" not in os.environ:
            raise Missing("there is no server")
        self.lazy = lazy
        self.lost = psycopg.errors.SerializationFailure
        self.db = psycopg.connect(f"options='-c synchronous_commit={'off' if lazy else 'on'}'")
        self.db.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        self.db.autocommit = True

    def create(self) -> None:
        self.db.execute("CREATE TABLE t (id bigint PRIMARY KEY, n bigint NOT NULL, name text NOT NULL)")

    def clear(self) -> None:
        self.db.execute("DROP TABLE t")

    def ingest(self, table: pa.Table) -> None:
        with self.db.cursor() as cursor, cursor.copy("COPY t FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int8", "int8", "text"])
            for row in zip(*(column.to_pylist() for column in table.columns)):
                copy.write_row(row)

    def session(self) -> Postgres:
        return Postgres(Path(), self.lazy)

    def get(self, key: int) -> int:
        return self.db.execute("SELECT n FROM t WHERE id = %s", (key,)).fetchone()[0]

    def add(self, keys: list[int]) -> None:
        while True:
            try:
                with self.db.transaction():
                    for key in keys:
                        n = self.db.execute("SELECT n FROM t WHERE id = %s", (key,)).fetchone()[0]
                        self.db.execute("UPDATE t SET n = %s WHERE id = %s", (n + 1, key))
                return
            except self.lost:
                pass

    def sum(self) -> int:
        return int(self.db.execute("SELECT sum(n) FROM t").fetchone()[0])

    def scan(self) -> pa.Table:
        with self.db.cursor(binary=True) as cursor:
            rows = cursor.execute("SELECT id, n, name FROM t").fetchall()
        return pa.table(dict(zip(("id", "n", "name"), map(list, zip(*rows)))))

    def close(self) -> None:
        self.db.close()


def point_reads(engine, options) -> float:
    session, generator, reads = engine.session(), random.Random(options.seed), 0
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < options.seconds:
        for _ in range(100):
            if session.get(generator.randrange(options.rows)) != 0:
                raise SystemExit(f"{engine.name}: a wrong row")
        reads += 100
    return reads / took


def transactions(engine, options) -> float:
    before, failures, done = engine.sum(), [], [0] * options.threads
    began = time.perf_counter()

    def work(thread: int) -> None:
        try:
            session, generator = engine.session(), random.Random(options.seed + thread)
            while time.perf_counter() - began < options.seconds:
                session.add(sorted(generator.sample(range(options.rows), KEYS_A_TRANSACTION)))
                done[thread] += 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if failures or engine.sum() != before + sum(done) * KEYS_A_TRANSACTION:
        raise SystemExit(f"{engine.name}: {failures or 'an update was lost'}")
    return sum(done) / took


def ingestion(engine, options) -> float:
    ids = range(options.rows)
    table = pa.table({"id": ids, "n": [0] * options.rows, "name": [f"account {id}" for id in ids]})
    began = time.perf_counter()
    engine.ingest(table)
    return options.rows / (time.perf_counter() - began)


def scans(engine, options) -> float:
    began = time.perf_counter()
    table = engine.scan()
    took = time.perf_counter() - began
    if table.num_rows != options.rows or len(set(table.column("name").to_pylist())) != options.rows:
        raise SystemExit(f"{engine.name}: wrong rows")
    return options.rows / took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="where the engines keep their data")
    parser.add_argument("--lazy", action="store_true", help="commits return before they are on the device")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3, help="of reads, and of transactions, in each round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shutil.rmtree(options.directory, ignore_errors=True)
    options.directory.mkdir(parents=True)
    print(f"python {platform.python_version()}, {os.cpu_count()} processors, {vars(options)}", flush=True)
    engines = []
    for kind in (Ermine, Sqlite, Duckdb, Lmdb, Postgres):
        try:
            engines.append(kind(options.directory, options.lazy))
        except (ImportError, Missing) as missing:
            print(f"{kind.name} is left out: {missing}")
    measures = {"ingest": ingestion, "scan": scans, "point reads": point_reads, "transactions": transactions}
    rates = {(engine.name, measure): [] for engine in engines for measure in measures}
    for _ in range(options.rounds):
        for engine in engines:
            engine.create()
            for measure, run in measures.items():
                rates[engine.name, measure].append(run(engine, options))
            engine.clear()
    print(f"{'per second (spread)':20}" + "".join(f"{measure:>34}" for measure in measures))
    for engine in engines:
        cells = (rates[engine.name, measure] for measure in measures)
        shown = (f"{statistics.median(cell):,.0f} ({min(cell):,.0f}..{max(cell):,.0f})" for cell in cells)
        print(f"{engine.name:20}" + "".join(f"{cell:>34}" for cell in shown))
    print("ermine_db's rate, by that of the other:")
    for engine in engines[1:]:
        pairs = (zip(rates[Ermine.name, measure], rates[engine.name, measure]) for measure in measures)
        ratios = (statistics.median(own / other for own, other in pair) for pair in pairs)
        print(f"{engine.name:20}" + "".join(f"{ratio:>34.2f}" for ratio in ratios))
    for engine in engines:
        engine.close()
    shutil.rmtree(options.directory)


if __name__ == "__main__":
    sys.exit(main())
