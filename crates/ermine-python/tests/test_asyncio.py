"""Goal: coroutines use a database without blocking the event loop.
Method: statements and transactions of concurrent tasks."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import ermine_db
from ermine_db import Database


def test_statements_and_transactions_are_awaited(accounts: Database) -> None:
    async def main() -> None:
        async with accounts.atransaction() as txn:
            await txn.sql("UPDATE accounts SET balance = $1 WHERE id = 1", (50,))
            other = await accounts.asql("SELECT balance FROM accounts WHERE id = 1")
            assert other.value() == 100, "a statement of its own"
        assert (await accounts.asql("SELECT balance FROM accounts WHERE id = $1", (1,))).value() == 50
        with pytest.raises(KeyError):
            async with accounts.atransaction() as txn:
                await txn.sql("DELETE FROM accounts")
                raise KeyError
        assert (await accounts.asql("SELECT count(*) FROM accounts")).value() == 2
        with pytest.raises(ermine_db.Conflict):
            async with accounts.atransaction() as txn:
                await txn.sql("SELECT balance FROM accounts")
                await accounts.asql("UPDATE accounts SET balance = 7 WHERE id = 2")
                await txn.sql("UPDATE accounts SET balance = 8 WHERE id = 2")
        with pytest.raises(ermine_db.InterfaceError, match="not open"):
            await txn.sql("SELECT 1")

    asyncio.run(main())


def test_functions_are_retried(accounts: Database) -> None:
    def increment() -> None:
        (balance,) = accounts.sql("SELECT balance FROM accounts WHERE id = 1").one()
        accounts.sql("UPDATE accounts SET balance = $1 WHERE id = 1", (balance + 1,))

    async def main() -> None:
        await asyncio.gather(*(accounts.arun(increment) for _ in range(50)))

    asyncio.run(main())
    assert accounts.sql("SELECT balance FROM accounts WHERE id = 1").value() == 150


def test_the_event_loop_goes_on(db: Database) -> None:
    async def main() -> None:
        db.sql("CREATE TABLE done (a integer)")

        async def wait() -> None:
            while (await db.asql("SELECT pg_sleep(0.001), count(*) FROM done")).one()[1] == 0:
                pass

        async def end() -> None:
            await db.asql("INSERT INTO done VALUES (1)")

        await asyncio.gather(wait(), end())

    asyncio.run(main())


async def until_running(db: Database, text: str) -> None:
    """Waits until a statement runs."""
    active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = $1"
    while (await db.asql(active, (text,))).value() == 0:
        pass


def test_a_cancelled_transaction_ends_with_its_statements(accounts: Database) -> None:
    long = "SELECT pg_sleep(600)"

    async def both() -> None:
        async with accounts.atransaction() as txn:
            await txn.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
            await asyncio.gather(txn.sql(long), txn.sql("UPDATE accounts SET balance = 2 WHERE id = 2"))

    async def one() -> None:
        async with accounts.atransaction() as txn:
            await txn.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
            statement = asyncio.ensure_future(txn.sql(long))
            await until_running(accounts, long)
            statement.cancel()
            with pytest.raises(asyncio.CancelledError):
                await statement
            with pytest.raises(ermine_db.DatabaseError, match="has ended"):
                await txn.sql("UPDATE accounts SET balance = 2 WHERE id = 2")

    async def main() -> None:
        task = asyncio.ensure_future(both())
        await until_running(accounts, long)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ermine_db.InterfaceError, match="was cancelled"):
            await one()

    asyncio.run(main())
    assert accounts.sql("SELECT balance FROM accounts ORDER BY id").fetchall() == [(100,), (0,)]


def test_a_transaction_needs_no_thread_of_the_loop(accounts: Database) -> None:
    free = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        taken = asyncio.get_running_loop().run_in_executor(None, free.wait)
        async with accounts.atransaction() as txn:
            await txn.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
        free.set()
        await taken

    asyncio.run(main())
    assert accounts.sql("SELECT balance FROM accounts WHERE id = 1").value() == 1


def test_functions_whose_bodies_run_later_are_refused(accounts: Database) -> None:
    async def change() -> None:
        accounts.sql("DELETE FROM accounts")

    def generate() -> Iterator[int]:
        accounts.sql("DELETE FROM accounts")
        yield 1

    async def generate_later() -> AsyncIterator[int]:
        accounts.sql("DELETE FROM accounts")
        yield 1

    for decorated in (change, generate, generate_later, functools.partial(generate)):
        with pytest.raises(TypeError, match="would run after its transaction"):
            accounts.transaction(decorated)
        with pytest.raises(TypeError, match="would run after its transaction"):
            accounts.transaction(isolation="read committed")(decorated)
    functions: list[Callable[[], object]] = [change, lambda: change(), generate, lambda: generate_later()]
    for function in functions:
        with pytest.raises(TypeError, match="would run after its transaction"):
            accounts.run(function)
        with pytest.raises(TypeError, match="would run after its transaction"), accounts.transaction():
            accounts.run(function)
    assert accounts.sql("SELECT count(*) FROM accounts").value() == 2


def test_a_block_belongs_to_its_task(accounts: Database) -> None:
    uses: list[Callable[[], object]] = [
        lambda: accounts.sql("UPDATE accounts SET balance = 7 WHERE id = 2"),
        lambda: accounts.sql_many("UPDATE accounts SET balance = $1 WHERE id = 2", [(7,)]),
        lambda: accounts.run(lambda: None),
        lambda: accounts.transaction().__enter__(),
        lambda: accounts.snapshot().__enter__(),
    ]

    async def other(txn: ermine_db.Transaction) -> None:
        for use in uses:
            with pytest.raises(ermine_db.InterfaceError, match="another task"):
                use()
        assert (await accounts.asql("SELECT balance FROM accounts WHERE id = 1")).value() == 100
        assert txn.sql("SELECT balance FROM accounts WHERE id = 1").value() == 1

    async def main() -> None:
        with accounts.transaction() as txn:
            accounts.sql("UPDATE accounts SET balance = 1 WHERE id = 1")
            await asyncio.create_task(other(txn))
            loop = asyncio.get_running_loop()
            failure: asyncio.Future[BaseException] = loop.create_future()
            loop.set_exception_handler(lambda _, context: failure.set_result(context["exception"]))
            loop.call_soon(uses[0])
            assert isinstance(await failure, ermine_db.InterfaceError), "a callback is no part of the task"
            accounts.sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        await asyncio.create_task(free())

    async def free() -> None:
        accounts.sql("UPDATE accounts SET balance = 3 WHERE id = 2")

    asyncio.run(main())
    with accounts.transaction():
        with pytest.raises(ermine_db.InterfaceError, match="another task"):
            asyncio.run(free())
    assert accounts.sql("SELECT balance FROM accounts ORDER BY id").fetchall() == [(2,), (3,)]


def test_work_in_a_pool_joins_no_transaction_that_its_thread_has_open(accounts: Database) -> None:
    balance = "SELECT balance FROM accounts WHERE id = 1"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        block = accounts.transaction()
        await loop.run_in_executor(None, block.__enter__)
        await loop.run_in_executor(None, block.sql, "UPDATE accounts SET balance = 1 WHERE id = 1")
        assert (await accounts.asql(balance)).value() == 100
        assert await accounts.arun(lambda: accounts.sql(balance).value()) == 100
        assert (await loop.run_in_executor(None, accounts.sql, balance)).value() == 1, "the block of the thread"
        await loop.run_in_executor(None, block.__exit__, None, None, None)
        assert (await accounts.asql(balance)).value() == 1

        with pytest.raises(ermine_db.InterfaceError, match="left a transaction open"):
            await accounts.asql("BEGIN; UPDATE accounts SET balance = 2 WHERE id = 1")
        with pytest.raises(ermine_db.DataError):
            await accounts.asql("BEGIN; SELECT 1 / 0")
        assert (await accounts.asql(balance)).value() == 1

    asyncio.run(main())
