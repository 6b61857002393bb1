"""The end of a transaction whose block is left."""

from __future__ import annotations

from typing import Optional

from . import _ermine
from .errors import InterfaceError


def end(session: _ermine.Session, error: Optional[BaseException]) -> None:
    """Commits the transaction of a session, or rolls it back because of the exception that has left its block."""
    status = session.status
    if error is None and status == "failed":
        session.sql("ROLLBACK")
        raise InterfaceError(
            "a statement of the transaction has failed, and its exception was ignored: the transaction is rolled back. "
            "Let the exception pass, or run the statement in a transaction inside of this one."
        )
    elif error is None:
        session.sql("COMMIT")
    elif status != "idle" and isinstance(error, Exception):
        # Raises Conflict instead, if the exception may follow from reads that are no possible state.
        session.roll_back_certified()
    elif status != "idle":
        session.sql("ROLLBACK")
