"""DB-API 2.0 (PEP 249) over `ermine_db`.

    from ermine_db import dbapi

    with dbapi.connect("shop") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT name FROM tea WHERE id = %s", (1,))

A connection is a session. Its transaction begins with the first statement after the last `commit` or `rollback`, unless
`connection.autocommit` is set. A lost conflict is a `Conflict` (`sqlstate` 40001): roll back, and run the transaction
again. Threads may share a connection: their calls wait for one another, except for `cancel` and `close`, which end the
statement that is running.
"""

from __future__ import annotations

import datetime as _dt
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Any, Optional, Union

from . import _ermine
from ._database import Database
from ._database import open as _open
from .errors import (
    Conflict,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)

__all__ = [
    "BINARY",
    "Binary",
    "Conflict",
    "Connection",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NUMBER",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ROWID",
    "STRING",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
paramstyle = "pyformat"

Parameters = Union[Sequence[Any], Mapping[str, Any]]

Date = _dt.date
Time = _dt.time
Timestamp = _dt.datetime
Binary = bytes
DateFromTicks = _dt.date.fromtimestamp
TimestampFromTicks = _dt.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> _dt.time:
    """Returns the local time of day of a number of seconds since 1970."""
    return _dt.datetime.fromtimestamp(ticks).time()


class _TypeObject:
    """Equal to the type codes of some types: PostgreSQL's numbers of them."""

    def __init__(self, *codes: int) -> None:
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        return other is self or other in self._codes

    def __hash__(self) -> int:
        return hash(self._codes)


STRING = _TypeObject(19, 25, 1042, 1043)
BINARY = _TypeObject(17)
NUMBER = _TypeObject(20, 21, 23, 700, 701, 1700)
DATETIME = _TypeObject(1082, 1083, 1114, 1184, 1186, 1266)
ROWID = _TypeObject(26)

_MARK = re.compile(r"%(?:%|s|\((?P<name>[^)]*)\)s|.?)", re.DOTALL)


@lru_cache(maxsize=1024)
def _translated(text: str) -> tuple[str, Optional[tuple[str, ...]]]:
    """Returns a text with `%s` or `%(name)s` as one with `$1`, `$2` .., and the names in their order, if there are any.
    As in psycopg, `%%` is a percent sign."""
    names: list[str] = []
    count = 0

    def replaced(mark: re.Match[str]) -> str:
        nonlocal count
        if mark[0] == "%%":
            return "%"
        if mark[0] == "%s":
            count += 1
            return f"${count}"
        if mark["name"] is None:
            raise ProgrammingError(f'the placeholder "{mark[0]}" is not known: use %s or %(name)s, and %% for a %')
        if mark["name"] not in names:
            names.append(mark["name"])
        return f"${names.index(mark['name']) + 1}"

    translated = _MARK.sub(replaced, text)
    if names and count:
        raise ProgrammingError("placeholders with names and without are mixed: use %s only, or %(name)s only")
    return translated, tuple(names) if names else None


def _bound(text: str, parameters: Parameters) -> tuple[str, Sequence[Any]]:
    """Returns a text and its parameters in the form of `Session.sql`."""
    translated, names = _translated(text)
    if isinstance(parameters, Mapping):
        try:
            return translated, [parameters[name] for name in names or ()]
        except KeyError as missing:
            raise ProgrammingError(f"the parameter {missing} is missing") from None
    if names is not None:
        raise ProgrammingError("the placeholders have names: pass the parameters as a mapping")
    return translated, parameters if isinstance(parameters, (tuple, list)) else tuple(parameters)


class _Shared:
    """A database that the connections to one directory share; it is closed with the last of them."""

    # A directory belongs to one process at a time, and within it to one open database.
    _of: dict[str, _Shared] = {}
    # Guards the databases and their counts, for moments only: a database is opened and closed without it. Reentrant, since
    # a garbage collection inside of it may end a connection; so `leave` never waits for it to be notified.
    _changed = threading.Condition(threading.RLock())

    def __init__(self, key: Optional[str], options: Mapping[str, Any]) -> None:
        self.key = key
        self.options = options
        self.database: Optional[Database] = None
        """None: it is being opened or closed."""
        self.connections = 1

    @classmethod
    def of(cls, path: Optional[str], options: Mapping[str, Any]) -> _Shared:
        """Returns the database of a path with one more connection."""
        key = None if path is None else os.path.realpath(path)
        with cls._changed:
            while key is not None and (known := cls._of.get(key)) is not None:
                if known.database is None:
                    cls._changed.wait()
                    continue
                if options and options != known.options:
                    message = "the directory is open with other options: connect without any, or with the same"
                    raise InterfaceError(message)
                known.connections += 1
                # A garbage collection may have ended the last connection meanwhile.
                if known.database is not None:
                    return known
            shared = cls(key, options)
            if key is not None:
                cls._of[key] = shared
        try:
            shared.database = _open(path, **options)
        finally:
            shared._notify(shared.database is None)
        return shared

    def session(self) -> _ermine.Session:
        assert self.database is not None, "a connection keeps it open"
        return self.database._native.session()

    def leave(self) -> None:
        with self._changed:
            self.connections -= 1
            if self.connections > 0:
                return
            database, self.database = self.database, None
        assert database is not None
        try:
            database.close()
        finally:
            self._notify(True)

    def _notify(self, gone: bool) -> None:
        """Lets go on what waits for the database to be open, or gone."""
        with self._changed:
            if gone and self.key is not None:
                del self._of[self.key]
            self._changed.notify_all()


def connect(
    database: Union[None, str, os.PathLike[str], Database] = None, *, autocommit: bool = False, **options: Any
) -> Connection:
    """Returns a connection: a new session.

    database: a directory, which is opened with the options of `ermine_db.open`, and shared with all connections of this
        process to it; an open `Database`; or None: a database in memory for this connection alone.
    """
    if isinstance(database, Database):
        return Connection(database._native.session(), autocommit, None)
    shared = _Shared.of(None if database is None else os.fspath(database), options)
    try:
        return Connection(shared.session(), autocommit, shared)
    except BaseException:
        shared.leave()
        raise


class Connection:
    """A session with a transaction."""

    def __init__(self, session: _ermine.Session, autocommit: bool, shared: Optional[_Shared]) -> None:
        self._session: Optional[_ermine.Session] = session
        self._shared = shared
        self.autocommit = autocommit
        """Whether each statement outside of a BEGIN is its own transaction, which is repeated after a conflict."""

    def _live(self) -> _ermine.Session:
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def _ready(self) -> _ermine.Session:
        """Returns the session, in a transaction unless statements commit on their own."""
        session = self._live()
        if not self.autocommit and session.status == "idle":
            session.sql("BEGIN")
        return session

    def cursor(self) -> Cursor:
        """Returns a new cursor."""
        self._live()
        return Cursor(self)

    def commit(self) -> None:
        """Commits the transaction, if there is one. A transaction that has failed is rolled back, with an error."""
        session = self._live()
        status = session.status
        if status == "idle":
            return
        session.sql("COMMIT")
        if status == "failed":
            raise InternalError("the transaction has failed, and is rolled back instead of committed")

    def rollback(self) -> None:
        """Rolls the transaction back, if there is one."""
        session = self._live()
        if session.status != "idle":
            session.sql("ROLLBACK")

    def cancel(self) -> None:
        """Ends the statement that another thread runs on this connection: it fails with 57014."""
        self._live().cancel()

    def close(self) -> None:
        """Rolls back and ends the session. A statement that another thread runs on it is cancelled, and fails."""
        session, shared = self._session, self._shared
        self._session = self._shared = None
        if session is not None:
            session.end()
        if shared is not None:
            shared.leave()

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return self._session is None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Commits, or rolls back after an exception, and closes the connection."""
        try:
            if error is None:
                self.commit()
        finally:
            self.close()

    def __del__(self) -> None:
        if self._shared is not None:
            self.close()


class Cursor:
    """Statements and their results, one after the other."""

    arraysize = 1

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._result: Optional[_ermine.Result] = None
        self._rowcount = -1
        self._closed = False

    @property
    def description(self) -> Optional[list[tuple[str, int, None, None, None, None, None]]]:
        """The columns of the result: name, PostgreSQL's number of the type, and nothing else."""
        result = self._result
        if result is None or not result.columns:
            return None
        columns = zip(result.columns, result.type_codes)
        return [(name, code, None, None, None, None, None) for name, code in columns]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement has returned or changed; -1: it does neither."""
        return self._rowcount

    def execute(self, operation: str, parameters: Optional[Parameters] = None) -> Cursor:
        """Runs a statement; placeholders are `%s` or `%(name)s`. Without parameters, the text may have several
        statements, and a percent sign is only that."""
        session = self._open()._ready()
        self._result, self._rowcount = None, -1
        if parameters is None:
            result = session.sql(operation)
        else:
            result = session.sql(*_bound(operation, parameters))
        self._result, self._rowcount = result, result.rowcount
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Runs a statement once for each set of parameters."""
        session = self._open()._ready()
        self._result, self._rowcount = None, -1
        rows = [_bound(operation, parameters) for parameters in seq_of_parameters]
        self._rowcount = session.sql_many(rows[0][0], [row for _, row in rows]).rowcount if rows else 0
        return self

    def _open(self) -> Connection:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        return self.connection

    def _rows(self) -> _ermine.Result:
        self._open()
        if self._result is None or not self._result.columns:
            raise ProgrammingError("the last statement has returned no rows to fetch")
        return self._result

    def fetchone(self) -> Optional[tuple[Any, ...]]:
        """Returns the next row; None: there is none."""
        return self._rows().fetchone()

    def fetchmany(self, size: Optional[int] = None) -> list[tuple[Any, ...]]:
        """Returns the next rows, at most `size`, or else `arraysize`."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all rows that are left."""
        return self._rows().fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing."""

    def setoutputsize(self, size: int, column: Optional[int] = None) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Ends the use of the cursor."""
        self._closed, self._result = True, None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()
