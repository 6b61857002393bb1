"""Goal: transactions are atomic and serializable, conflicts are retried, and threads do not disturb one another.
Method: transactions that are interleaved by hand, and threads that increment and transfer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import ermine_db
from ermine_db import Conflict, Database


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """Runs a function in threads; raises what the first of them has raised."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure


def balances(db: Database) -> list[int]:
    return [balance for (balance,) in db.sql("SELECT balance FROM accounts ORDER BY id")]


def test_a_block_commits_or_rolls_back(accounts: Database) -> None:
    with accounts.transaction() as txn:
        txn.sql("UPDATE accounts SET balance = 90 WHERE id = 1")
        assert balances(accounts) == [90, 0], "the thread's statements are in its transaction"
        in_threads(1, lambda _: None if balances(accounts) == [100, 0] else pytest.fail("seen before its commit"))
    assert balances(accounts) == [90, 0]
    with pytest.raises(KeyError), accounts.transaction():
        accounts.sql("UPDATE accounts SET balance = 0")
        raise KeyError
    assert balances(accounts) == [90, 0]
    with pytest.raises(ermine_db.InterfaceError, match="not open"):
        txn.sql("SELECT 1")


def test_a_block_inside_of_a_block_is_a_savepoint(accounts: Database) -> None:
    with accounts.transaction():
        accounts.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
        with pytest.raises(ermine_db.IntegrityError), accounts.transaction():
            accounts.sql("UPDATE accounts SET balance = 2 WHERE id = 2")
            accounts.sql("UPDATE accounts SET balance = -1 WHERE id = 2")
        with accounts.transaction():
            accounts.sql("UPDATE accounts SET balance = 7 WHERE id = 2")
    assert balances(accounts) == [1, 7]


def test_an_exception_that_is_ignored_is_not_forgotten(accounts: Database) -> None:
    with pytest.raises(ermine_db.InterfaceError, match="was ignored"):
        with accounts.transaction():
            accounts.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
            with pytest.raises(ermine_db.DataError):
                accounts.sql("SELECT 1 / 0")
    assert balances(accounts) == [100, 0]

    @accounts.transaction
    def ignore() -> None:
        with pytest.raises(ermine_db.DataError):
            accounts.sql("SELECT 1 / 0")

    with pytest.raises(ermine_db.InterfaceError, match="has ignored its exception"):
        ignore()
    assert accounts.sql("SELECT 1").value() == 1


def test_a_lost_conflict_is_an_exception(accounts: Database) -> None:
    def overwrite(_: int) -> None:
        accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")

    with pytest.raises(Conflict) as caught, accounts.transaction():
        accounts.sql("SELECT balance FROM accounts WHERE id = 1")
        in_threads(1, overwrite)
        accounts.sql("UPDATE accounts SET balance = 0 WHERE id = 1")
    assert caught.value.sqlstate == "40001"
    assert balances(accounts) == [101, 0]


def test_a_function_is_called_again_after_a_lost_conflict(accounts: Database) -> None:
    attempts = []

    @accounts.transaction
    def add(amount: int) -> int:
        (balance,) = accounts.sql("SELECT balance FROM accounts WHERE id = 1").one()
        attempts.append(balance)
        if len(attempts) < 20:
            in_threads(1, lambda _: accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1"))
        accounts.sql("UPDATE accounts SET balance = $1 WHERE id = 1", (balance + amount,))
        return amount

    assert add.__name__ == "add"
    assert add(1000) == 1000
    assert attempts == list(range(100, 120))
    assert balances(accounts)[0] == 1119


def test_a_conflict_that_the_function_hides_is_retried(accounts: Database) -> None:
    attempts = []

    def hide() -> None:
        attempts.append(1)
        accounts.sql("SELECT balance FROM accounts")
        if len(attempts) == 1:
            in_threads(1, lambda _: accounts.sql("UPDATE accounts SET balance = 1 WHERE id = 1"))
        try:
            accounts.sql("UPDATE accounts SET balance = 2 WHERE id = 1")
        except Conflict as conflict:
            raise RuntimeError("in other words") from conflict

    accounts.run(hide)
    assert len(attempts) == 2


def test_an_exception_that_no_order_explains_is_not_passed_on() -> None:
    # Where rows are changed in place, a transaction may see a state that never was, until it is certified.
    with ermine_db.open(scheme="silo") as db:
        db.sql("CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t VALUES (1, 0), (2, 0)")
        attempts = []

        def compare() -> None:
            attempts.append(1)
            one = db.sql("SELECT v FROM t WHERE id = 1").value()
            if len(attempts) == 1:
                in_threads(1, lambda _: db.sql("UPDATE t SET v = v + 1"))
            if one != db.sql("SELECT v FROM t WHERE id = 2").value():
                raise ValueError("the rows differ")

        db.run(compare)
        assert len(attempts) == 2
        attempts.clear()
        with pytest.raises(Conflict), db.transaction():
            compare()


def test_other_exceptions_roll_back_and_are_not_retried(accounts: Database) -> None:
    attempts = []

    def fail(how: BaseException) -> None:
        attempts.append(how)
        accounts.sql("UPDATE accounts SET balance = 0")
        raise how

    for how in (ValueError("no"), KeyboardInterrupt()):
        with pytest.raises(type(how)):
            accounts.run(fail, how)
    assert len(attempts) == 2
    assert balances(accounts) == [100, 0]


def test_functions_inside_of_a_transaction_join_it(accounts: Database) -> None:
    @accounts.transaction(isolation="serializable")
    def move(amount: int) -> None:
        accounts.sql("UPDATE accounts SET balance = balance - $1 WHERE id = 1", (amount,))
        accounts.sql("UPDATE accounts SET balance = balance + $1 WHERE id = 2", (amount,))

    def both() -> None:
        move(10)
        move(20)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        accounts.run(both)
    assert balances(accounts) == [100, 0]
    move(30)
    assert balances(accounts) == [70, 30]


def test_a_snapshot_stays_and_does_not_write(accounts: Database) -> None:
    with accounts.snapshot() as snapshot:
        assert balances(accounts) == [100, 0]
        in_threads(1, lambda _: accounts.sql("UPDATE accounts SET balance = 1"))
        assert balances(accounts) == [100, 0]
        with pytest.raises(ermine_db.InternalError) as caught:
            snapshot.sql("DELETE FROM accounts")
        assert caught.value.sqlstate == "25006"
        snapshot.sql("ROLLBACK")
    assert balances(accounts) == [1, 1]
    with pytest.raises(ermine_db.InterfaceError, match="inside of a transaction"), accounts.transaction():
        with accounts.snapshot():
            pass


@pytest.mark.parametrize("scheme", ["si-ssn", "silo", "2pl-nowait"])
def test_threads_lose_no_update(scheme: str) -> None:
    threads, rounds = 4, 50
    with ermine_db.open(scheme=scheme) as db:
        db.sql("CREATE TABLE counters (id integer PRIMARY KEY, n integer); INSERT INTO counters VALUES (1, 0), (2, 0)")

        @db.transaction
        def increment() -> None:
            for id in (1, 2):
                (n,) = db.sql("SELECT n FROM counters WHERE id = $1", (id,)).one()
                db.sql("UPDATE counters SET n = $1 WHERE id = $2", (n + 1, id))

        def work(_: int) -> None:
            for _ in range(rounds):
                increment()

        in_threads(threads, work)
        assert db.sql("SELECT n FROM counters ORDER BY id").fetchall() == [(threads * rounds,)] * 2


def test_each_thread_has_its_session(db: Database) -> None:
    db.sql("SET application_name = 'main'; CREATE TEMP TABLE own (a integer)")

    def other(_: int) -> None:
        assert db.sql("SHOW application_name").value() == ""
        with pytest.raises(ermine_db.ProgrammingError):
            db.sql("SELECT * FROM own")

    in_threads(2, other)
    assert db.sql("SHOW application_name").value() == "main"
    assert db.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'ermine'").value() == 1


def test_python_runs_while_a_statement_runs(db: Database) -> None:
    began, done = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        began.set()
        # Ends when the main thread, which needs Python's lock for it, has set the row.
        while db.sql("SELECT pg_sleep(0.001), count(*) FROM done").one()[1] == 0:
            pass
        done.set()

    db.sql("CREATE TABLE done (a integer)")
    thread = threading.Thread(target=wait, args=(0,))
    thread.start()
    began.wait()
    db.sql("INSERT INTO done VALUES (1)")
    thread.join()
    assert done.is_set()


def test_closing_ends_what_other_threads_run(db: Database) -> None:
    began = threading.Event()
    errors: list[ermine_db.Error] = []

    def count() -> None:
        db.sql("CREATE TABLE n AS SELECT i FROM generate_series(1, 3000) i")
        began.set()
        try:
            db.sql("SELECT count(*) FROM n a, n b, n c WHERE a.i + b.i + c.i = 0")
        except ermine_db.Error as error:
            errors.append(error)

    thread = threading.Thread(target=count)
    thread.start()
    began.wait()
    db.close()
    thread.join()
    assert [error.sqlstate for error in errors] in (["57014"], ["08003"])


def test_a_block_may_be_left_in_another_thread(accounts: Database) -> None:
    block = accounts.transaction()
    block.__enter__()

    def leave(_: int) -> None:
        block.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
        block.__exit__(None, None, None)

    in_threads(1, leave)
    with accounts.transaction():
        accounts.sql("UPDATE accounts SET balance = 2 WHERE id = 2")
    in_threads(1, lambda _: None if balances(accounts) == [1, 2] else pytest.fail("not committed"))


def test_a_conflict_passes_through_all_blocks(accounts: Database) -> None:
    with pytest.raises(Conflict), accounts.transaction(), accounts.transaction():
        accounts.sql("SELECT balance FROM accounts WHERE id = 1")
        in_threads(1, lambda _: accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1"))
        accounts.sql("UPDATE accounts SET balance = 0 WHERE id = 1")
    assert balances(accounts) == [101, 0]


def test_a_stopped_session_runs_nothing(accounts: Database) -> None:
    session = accounts._native.session()
    session.sql("BEGIN")
    session.sql("UPDATE accounts SET balance = 1")
    session.stop()
    for _ in range(2):
        with pytest.raises(ermine_db.OperationalError, match="has ended"):
            session.sql("COMMIT")
    session.end()
    assert balances(accounts) == [100, 0]
