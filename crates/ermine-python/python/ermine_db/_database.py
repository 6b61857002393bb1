"""Databases and transactions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from types import AsyncGeneratorType, GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union, overload

from . import _ermine
from ._asynchronous import AsyncTransaction
from ._ending import end
from ._tables import Table
from .errors import DatabaseError, InterfaceError

if TYPE_CHECKING:
    from ._ermine import ArrowStream

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
T = TypeVar("T")

_LEVELS = {
    "serializable": "SERIALIZABLE",
    "repeatable read": "REPEATABLE READ",
    "read committed": "READ COMMITTED",
}
_ASYNCHRONOUS = (
    "the function is asynchronous, and would run after its transaction: use async with db.atransaction(), or pass a "
    "function without async to db.arun"
)
_GENERATOR = (
    "the function is a generator, and would run after its transaction: return a list, or use with db.transaction() "
    "inside of it"
)
_OF_ANOTHER_TASK = (
    "another task has a transaction open in this thread: use its txn.sql to run a statement in it, and async with "
    "db.atransaction() for a block that awaits"
)
_LEFT_OPEN = "the function has left a transaction open: it is rolled back; use async with db.atransaction()"
_SNAPSHOT = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"


def open(
    path: Optional[Union[str, PathLike[str]]] = None,
    *,
    scheme: str = "si-ssn",
    durability: str = "durable",
    order: str = "strict",
    memory_limit: Optional[int] = None,
    archive: Optional[Union[str, PathLike[str]]] = None,
    create: bool = True,
) -> Database:
    """Opens a database in this process.

    path: the directory of the database, which belongs to one process at a time; None: a new database in memory.
    scheme: the concurrency control; `si-ssn` is serializable, and the one to choose.
    durability: when a commit returns: `durable`, when it is on the device; `async`, at once: a crash may lose the last
        moments; `none`: nothing is written at all.
    order: the order of transactions that is kept: `strict`, `session` or `none`.
    memory_limit: bytes that the database may take; None: three quarters of the machine's memory.
    archive: the directory in which the log is kept, for restores to any moment.
    create: whether a database is created where there is none.
    """
    native = _ermine.Database(
        path,
        scheme=scheme,
        order=order,
        durability=durability,
        memory_limit=memory_limit,
        archive=archive,
        create=create,
    )
    return Database(native)


def _begin(isolation: str, read_only: bool) -> str:
    """Returns the statement that begins a transaction."""
    if isolation not in _LEVELS:
        raise InterfaceError(f'unknown isolation level "{isolation}": use one of {", ".join(_LEVELS)}')
    return f"BEGIN ISOLATION LEVEL {_LEVELS[isolation]}{' READ ONLY' if read_only else ''}"


def _task() -> Optional[asyncio.Task[Any]]:
    """Returns the task of asyncio that runs in this thread, if one does."""
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


class _Work:
    """A session, and the transactions in it. They belong to the task that has begun the outermost."""

    def __init__(self, session: _ermine.Session) -> None:
        self.session = session
        self.depth = 0
        self.task: Optional[asyncio.Task[Any]] = None

    @property
    def in_transaction(self) -> bool:
        return self.depth > 0 or self.session.status != "idle"

    def enter(self) -> None:
        if self.depth == 0:
            self.task = _task()
        self.depth += 1

    def leave(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.task = None


class _Local(threading.local):
    """The session of a thread."""

    work: Optional[_Work] = None


def _done(result: T) -> T:
    """Returns the result of a function; fails if the function's body is still to run, after the transaction."""
    if isinstance(result, (GeneratorType, AsyncGeneratorType)):
        raise TypeError(_GENERATOR)
    if hasattr(type(result), "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise TypeError(_ASYNCHRONOUS)
    return result


class Database:
    """A database that is open in this process; `open` returns it.

    Any number of threads may use it: each has a session of its own, and with it a transaction of its own. Of the tasks
    of asyncio that share a thread, only the one that has begun its transaction runs statements until it ends.
    """

    def __init__(self, native: _ermine.Database) -> None:
        self._native = native
        self._local = _Local()

    def _work(self) -> _Work:
        """Returns the session of this thread; fails if another task has a transaction in it."""
        work = self._local.work
        if work is None:
            work = self._local.work = _Work(self._native.session())
        elif work.depth > 0 and work.task is not _task():
            raise InterfaceError(_OF_ANOTHER_TASK)
        return work

    def _alone(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls a function in a thread of a pool, outside of any transaction that other work has left open there; ends
        one that the function leaves open."""
        other = self._local.work
        if other is not None and other.in_transaction:
            self._local.work = None
        else:
            other = None
        try:
            result = call(*args, **kwargs)
        except BaseException:
            self._end_left_open(other)
            raise
        if self._end_left_open(other):
            raise InterfaceError(_LEFT_OPEN)
        return result

    def _end_left_open(self, other: Optional[_Work]) -> bool:
        """Rolls back what a function has left open in this thread, if it has; restores the work that was put aside."""
        work = self._local.work
        if other is not None:
            self._local.work = other
        if work is None or self.closed or not work.in_transaction:
            return False
        work.session.sql("ROLLBACK")
        return True

    def sql(self, text: str, parameters: Optional[Sequence[Any]] = None) -> _ermine.Result:
        """Runs a statement, in the transaction of this thread if there is one; otherwise in one of its own, which is
        repeated when it loses a conflict.

        The parameters are those for `$1`, `$2` and so on. Without parameters, the text may have several statements;
        they are one transaction, and the result is that of the last one with rows.
        """
        work = self._local.work
        if work is None or work.depth > 0:
            work = self._work()
        return work.session.sql(text, parameters)

    def sql_many(self, text: str, rows: Iterable[Sequence[Any]]) -> int:
        """Runs a statement once for each sequence of parameters, all in one transaction; returns how many rows that has
        changed."""
        rows = list(rows)
        if not rows:
            return 0
        return self.run(lambda: self._work().session.sql_many(text, rows).rowcount)

    @overload
    def transaction(self, function: F) -> F: ...
    @overload
    def transaction(self, *, isolation: str = ..., read_only: bool = ...) -> Transaction: ...
    def transaction(
        self, function: Optional[F] = None, *, isolation: str = "serializable", read_only: bool = False
    ) -> Union[F, Transaction]:
        """A transaction of this thread, as a context manager or as a decorator.

        `with db.transaction():` commits at its end, or rolls back if an exception leaves it. It cannot be repeated: the
        program has to catch `Conflict`, and begin again. A transaction inside of a transaction is a savepoint.

        `@db.transaction` and `@db.transaction(..)` make a function a transaction, as `run` does: whenever it loses a
        conflict, it is rolled back and called again. Generators and `async` functions are refused: their bodies would
        run after the transaction.

        isolation: `serializable`, `repeatable read` or `read committed`.
        """
        transaction = Transaction(self, _begin(isolation, read_only))
        return transaction if function is None else transaction(function)

    def run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls a function in a transaction of this thread, again and again until the transaction commits or fails for
        good: within the limits of the engine's `run`, 1000 attempts and 30 seconds.

        So the function must have no effects beside those on the database. An exception that it raises rolls the
        transaction back, and is passed on once what the function has read is certified; otherwise the transaction has
        lost a conflict, too. Inside of a transaction the function is just called.
        """
        return self._run("BEGIN ISOLATION LEVEL SERIALIZABLE", function, args, kwargs)

    def _run(self, begin: str, function: Callable[..., T], args: Any, kwargs: Any) -> T:
        def call() -> T:
            return _done(function(*args, **kwargs))

        work = self._work()
        if work.in_transaction:
            return call()
        work.enter()
        try:
            return self._native.run(work.session, begin, call)
        finally:
            work.leave()

    def snapshot(self) -> Transaction:
        """A transaction of this thread that only reads, as a context manager. It reads one consistent state, costs
        other transactions nothing, and never loses a conflict."""
        return Transaction(self, _SNAPSHOT)

    def ingest(self, table: str, data: ArrowStream) -> int:
        """Inserts Arrow data into a table, by the names of their columns, in the transaction of this thread or else in
        one of its own, which is not repeated after a conflict; returns the number of rows.

        data: any object with `__arrow_c_stream__`: a frame of pandas or polars, a table or a reader of pyarrow.
        """
        with self.transaction():
            return self._work().session.ingest(table, data)

    @overload
    def table(self, rows: type[R], key: str, *, name: Optional[str] = None) -> Table[R]: ...
    @overload
    def table(self, rows: str, key: str) -> Table[dict[str, Any]]: ...
    def table(self, rows: Union[type[Any], str], key: str, *, name: Optional[str] = None) -> Table[Any]:
        """Returns a table whose rows are found by a key of one column.

        rows: a dataclass: the table has a column for each of its fields, is called like it (`OrderLine` is
            `order_line`), and is created if it does not exist; or the name of a table that exists: rows are dicts.
        """
        if isinstance(rows, str):
            return Table(self.sql, None, rows, key)
        return Table(self.sql, rows, name, key)

    async def asql(self, text: str, parameters: Optional[Sequence[Any]] = None) -> _ermine.Result:
        """Runs a statement in a thread, as a transaction of its own."""
        return await asyncio.to_thread(self._alone, self.sql, text, parameters)

    async def arun(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Runs a function, which is no coroutine, in a thread and in a transaction that is repeated: see `run`."""
        return await asyncio.to_thread(self._alone, self.run, function, *args, **kwargs)

    def atransaction(self, *, isolation: str = "serializable", read_only: bool = False) -> AsyncTransaction:
        """A transaction as an asynchronous context manager, with a session of its own; `await txn.sql(..)` runs a
        statement in it."""
        return AsyncTransaction(self._native, _begin(isolation, read_only))

    def close(self) -> None:
        """Closes the database: ends the statements and rolls back the transactions of all threads, and returns when
        what was committed is on the device."""
        self._native.close()

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._native.closed

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class Transaction:
    """A transaction, which `Database.transaction` and `Database.snapshot` return."""

    def __init__(self, database: Database, begin: str) -> None:
        self._database = database
        self._begin = begin
        self._work: Optional[_Work] = None
        self._savepoint: Optional[str] = None

    def __call__(self, function: F) -> F:
        database, begin = self._database, self._begin
        if inspect.iscoroutinefunction(function):
            raise TypeError(_ASYNCHRONOUS)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(_GENERATOR)

        @functools.wraps(function)
        def transaction(*args: Any, **kwargs: Any) -> Any:
            return database._run(begin, function, args, kwargs)

        return transaction  # type: ignore[return-value]

    def __enter__(self) -> Transaction:
        if self._work is not None:
            raise InterfaceError("the transaction has begun already: call db.transaction() for another one")
        work = self._database._work()
        session = work.session
        if not work.in_transaction:
            session.sql(self._begin)
        elif self._begin == _SNAPSHOT:
            raise InterfaceError("a snapshot cannot be taken inside of a transaction: take it before, or in a thread")
        else:
            self._savepoint = f"ermine_{work.depth}"
            session.sql(f"SAVEPOINT {self._savepoint}")
        # The block may be left in another thread.
        work.enter()
        self._work = work
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        session, savepoint = self._open(), self._savepoint
        assert self._work is not None
        self._work.leave()
        self._work = self._savepoint = None
        if self._database.closed:
            return
        if savepoint is None:
            end(session, error)
        elif error is None:
            session.sql(f"RELEASE SAVEPOINT {savepoint}")
        elif session.status != "idle":
            # After a lost conflict there is nothing to roll back to, and the exception that says so passes.
            with contextlib.suppress(DatabaseError):
                session.sql(f"ROLLBACK TO SAVEPOINT {savepoint}; RELEASE SAVEPOINT {savepoint}")

    def _open(self) -> _ermine.Session:
        if self._work is None:
            raise InterfaceError("the transaction is not open: use it inside of its with block")
        return self._work.session

    def sql(self, text: str, parameters: Optional[Sequence[Any]] = None) -> _ermine.Result:
        """Runs a statement in the transaction. Inside of the block, `Database.sql` does the same in its thread and task;
        this method does it in any."""
        return self._open().sql(text, parameters)

    def sql_many(self, text: str, rows: Iterable[Sequence[Any]]) -> int:
        """Runs a statement once for each sequence of parameters; returns how many rows that has changed."""
        return max(0, self._open().sql_many(text, rows).rowcount)
