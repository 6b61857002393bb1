"""Statements for asyncio: each runs in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Optional, TypeVar

from . import _ermine
from ._ending import end
from .errors import InterfaceError

T = TypeVar("T")


class AsyncTransaction:
    """A transaction with a session of its own, which `Database.atransaction` returns: an asynchronous context manager.

    It commits at its end, or rolls back if an exception leaves it, and raises `Conflict` if it has lost one. A
    statement whose task is cancelled ends, and the transaction is rolled back.
    """

    def __init__(self, native: _ermine.Database, begin: str) -> None:
        self._native = native
        self._begin = begin
        self._session: Optional[_ermine.Session] = None
        self._stopped = False

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _stop(self, session: _ermine.Session) -> None:
        self._stopped = True
        session.stop()

    async def sql(self, text: str, parameters: Optional[Sequence[Any]] = None) -> _ermine.Result:
        """Runs a statement in the transaction."""
        session = self._session
        if session is None:
            raise InterfaceError("the transaction is not open: use it inside of its async with block")
        try:
            return await self._in_thread(session.sql, text, parameters)
        except asyncio.CancelledError:
            # The statement may be running; after it, its transaction can only roll back.
            self._stop(session)
            raise

    async def __aenter__(self) -> AsyncTransaction:
        if self._session is not None:
            raise InterfaceError("the transaction has begun already: call db.atransaction() for another one")
        session = self._native.session()
        # A thread of its own: its statements keep their order, and its COMMIT waits for no statement of a transaction
        # that waits for this one.
        self._thread = ThreadPoolExecutor(1, "ermine_db")
        self._stopped = False
        try:
            await self._in_thread(session.sql, self._begin)
        except BaseException:
            session.stop()
            self._thread.shutdown(wait=False)
            raise
        self._session = session
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        session, self._session = self._session, None
        assert session is not None
        try:
            if error is not None and not isinstance(error, Exception):
                self._stop(session)
            if not self._stopped:
                await self._in_thread(end, session, error)
                return
            await self._in_thread(session.end)
            if error is None:
                raise InterfaceError("a statement was cancelled: the transaction is rolled back")
        finally:
            self._thread.shutdown(wait=False)
