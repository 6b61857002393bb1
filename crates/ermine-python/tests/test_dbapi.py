"""Goal: `ermine_db.dbapi` is what PEP 249 asks for, and SQLAlchemy works on it.
Method: each part of the interface; SQLAlchemy's core and ORM, if it is installed."""

from __future__ import annotations

import datetime as dt
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import ermine_db
from ermine_db import Database, dbapi


def test_the_module_has_what_the_standard_asks_for() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "pyformat")
    assert issubclass(dbapi.IntegrityError, dbapi.DatabaseError) and issubclass(dbapi.DatabaseError, dbapi.Error)
    assert not issubclass(dbapi.InterfaceError, dbapi.DatabaseError)
    assert dbapi.DateFromTicks(0) == dt.date.fromtimestamp(0)
    assert dbapi.TimeFromTicks(time.time()) is not None
    assert dbapi.Binary(b"x") == b"x"


def test_a_connection_is_a_transaction(accounts: Database) -> None:
    one, other = dbapi.connect(accounts), dbapi.connect(accounts)
    cursor = one.cursor()
    cursor.execute("UPDATE accounts SET balance = %s WHERE id = %s", (5, 1))
    assert (cursor.rowcount, cursor.description) == (1, None)
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchone()
    seen = other.cursor().execute("SELECT balance FROM accounts ORDER BY id").fetchall()
    assert seen == [(100,), (0,)]
    other.rollback()
    one.commit()
    assert other.cursor().execute("SELECT balance FROM accounts WHERE id = 1").fetchone() == (5,)
    one.close()
    assert one.closed
    with pytest.raises(dbapi.InterfaceError):
        one.cursor()
    with pytest.raises(ZeroDivisionError), dbapi.connect(accounts) as third:
        third.cursor().execute("DELETE FROM accounts")
        raise ZeroDivisionError
    assert accounts.sql("SELECT count(*) FROM accounts").value() == 2


def test_a_failed_transaction_does_not_commit(accounts: Database) -> None:
    connection = dbapi.connect(accounts)
    cursor = connection.cursor()
    cursor.execute("DELETE FROM accounts")
    with pytest.raises(dbapi.DataError):
        cursor.execute("SELECT 1 / 0")
    with pytest.raises(dbapi.InternalError):
        connection.commit()
    assert cursor.execute("SELECT count(*) FROM accounts").fetchone() == (2,)


def test_cursors_fetch_and_describe(accounts: Database) -> None:
    cursor = dbapi.connect(accounts).cursor()
    cursor.execute("SELECT i AS n, i::text AS t, now() AS at FROM generate_series(1, 6) i")
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["n", "t", "at"]
    assert [column[1] == kind for column, kind in zip(cursor.description, (dbapi.NUMBER, dbapi.STRING, dbapi.DATETIME))]
    assert cursor.description[0][1] != dbapi.STRING
    assert cursor.fetchone()[0] == 1  # type: ignore[index]
    assert [row[0] for row in cursor.fetchmany()] == [2]
    assert [row[0] for row in cursor.fetchmany(2)] == [3, 4]
    assert [row[0] for row in cursor] == [5, 6]
    cursor.executemany("INSERT INTO accounts VALUES (%(id)s, %(balance)s)", [{"id": i, "balance": i} for i in (7, 8)])
    assert cursor.rowcount == 2
    cursor.executemany("INSERT INTO accounts VALUES (%s, %s)", [])
    assert cursor.rowcount == 0
    with cursor:
        pass
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute("SELECT 1")


def test_placeholders_are_those_of_psycopg(accounts: Database) -> None:
    cursor = dbapi.connect(accounts, autocommit=True).cursor()
    assert cursor.execute("SELECT %s || '%%', %s", ("a", "b")).fetchone() == ("a%", "b")
    assert cursor.execute("SELECT %(x)s || %(x)s || %(y)s", {"x": "a", "y": "b", "z": 1}).fetchone() == ("aab",)
    assert cursor.execute("SELECT '%s'").fetchone() == ("%s",)
    wrong: list[tuple[str, dbapi.Parameters]] = [("SELECT %d", (1,)), ("SELECT %s, %(a)s", (1,))]
    wrong += [("SELECT %(a)s", (1,)), ("SELECT %(a)s", {})]
    for text, parameters in wrong:
        with pytest.raises(dbapi.ProgrammingError):
            cursor.execute(text, parameters)


def test_connections_to_a_directory_share_it(tmp_path: Path) -> None:
    one = dbapi.connect(tmp_path / "shop", durability="async")
    with dbapi.connect(tmp_path / "shop") as other:
        other.cursor().execute("CREATE TABLE t (a integer)")
    assert one.cursor().execute("SELECT count(*) FROM t").fetchone() == (0,)
    with pytest.raises(dbapi.InterfaceError, match="other options"):
        dbapi.connect(tmp_path / "shop", durability="durable")
    one.close()
    # The last one has closed the database.
    with ermine_db.open(tmp_path / "shop") as db:
        assert db.sql("SELECT count(*) FROM t").value() == 0


def test_closing_cancels_what_another_thread_runs(tmp_path: Path) -> None:
    connection = dbapi.connect(tmp_path / "shop")
    connection.cursor().execute("CREATE TABLE t (a integer)")
    connection.commit()
    errors: list[dbapi.Error] = []

    def run() -> None:
        try:
            connection.cursor().execute("INSERT INTO t SELECT 1 FROM pg_sleep(600)")
        except dbapi.Error as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    with dbapi.connect(tmp_path / "shop", autocommit=True) as other:
        thread.start()
        active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'INSERT%'"
        while other.cursor().execute(active).fetchone() == (0,):
            pass
        connection.close()
        thread.join()
        assert [error.sqlstate for error in errors] == ["57014"]
        assert other.cursor().execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_directory_that_is_opened_or_closed_holds_up_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, closing, go_on = threading.Event(), threading.Event(), threading.Event()
    close = Database.close

    def opened(path: Any, **options: Any) -> Database:
        if str(path).endswith("slow"):
            opening.set()
            go_on.wait()
        return ermine_db.open(path, **options)

    def closed(database: Database) -> None:
        closing.set()
        go_on.wait()
        close(database)

    def use(name: str) -> None:
        with dbapi.connect(tmp_path / name, durability="async") as connection:
            connection.cursor().execute("SELECT 1")

    slow = [threading.Thread(target=use, args=("slow",)) for _ in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(dbapi, "_open", opened)
        slow[0].start()
        opening.wait()
        slow[1].start()
        use("other")
        go_on.set()
        for thread in slow:
            thread.join()

    go_on.clear()
    last = dbapi.connect(tmp_path / "slow", durability="async")
    with monkeypatch.context() as patch:
        patch.setattr(Database, "close", closed)
        ending = threading.Thread(target=last.close)
        ending.start()
        closing.wait()
    again = threading.Thread(target=use, args=("slow",))
    again.start()
    use("other")
    go_on.set()
    ending.join()
    again.join()
    ermine_db.open(tmp_path / "slow").close()


def test_a_directory_that_cannot_be_opened_can_be_later(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(dbapi.Error):
            dbapi.connect(tmp_path / "shop", create=False)
    dbapi.connect(tmp_path / "shop").close()


def test_a_garbage_collection_may_end_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*arguments: Any, **options: Any) -> Database:
        lost = [dbapi.connect(tmp_path / "one")]
        lost.append(lost)  # type: ignore[arg-type]
        del lost
        gc.collect()
        return ermine_db.open(*arguments, **options)

    with dbapi.connect(tmp_path / "one", durability="async"):
        with monkeypatch.context() as patch:
            patch.setattr(dbapi, "_open", opened)
            other = dbapi.connect(tmp_path / "other", durability="async")
        assert other.cursor().execute("SELECT 1").fetchone() == (1,)
        other.close()
    ermine_db.open(tmp_path / "one").close()
