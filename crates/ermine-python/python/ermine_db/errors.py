"""The exceptions of this package: those of DB-API 2.0, and `Conflict`."""

from __future__ import annotations

from typing import Optional

__all__ = [
    "Conflict",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
]


# Python has a class of this name, too; DB-API 2.0 asks for it.
class Warning(Exception):
    """Part of DB-API 2.0; never raised."""


class Error(Exception):
    """The base of all exceptions of this package."""

    message: str
    sqlstate: Optional[str] = None
    """PostgreSQL's code of the error, like `23505`; None: the error is not a statement's."""
    detail: Optional[str] = None
    """Further details of the problem."""
    hint: Optional[str] = None
    """Advice on the remedy."""
    context: Optional[str] = None
    """The operation during which it happened."""
    position: Optional[int] = None
    """The place in the statement, in characters from 1 on."""
    schema: Optional[str] = None
    table: Optional[str] = None
    column: Optional[str] = None
    constraint: Optional[str] = None
    """The constraint that is violated."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"DETAIL: {self.detail}")
        if self.hint:
            parts.append(f"HINT: {self.hint}")
        return "\n".join(parts)


class InterfaceError(Error):
    """The package was used in a way that cannot work."""


class DatabaseError(Error):
    """The error of a statement or of the database."""


class DataError(DatabaseError):
    """A value is wrong: out of range, of the wrong form, a division by zero."""


class OperationalError(DatabaseError):
    """The database could not do it now: no memory, a full device, a cancellation, a conflict."""


class Conflict(OperationalError):
    """The transaction has lost a conflict with another one: run it again, as `Database.run` does."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """The state of the transaction or of the database does not permit it."""


class ProgrammingError(DatabaseError):
    """The statement is wrong: its syntax, a name, a type, a right."""


class NotSupportedError(DatabaseError):
    """The database does not have this feature."""


# By the codes of errors, or by their first two characters, which PostgreSQL calls classes.
_CLASSES: dict[str, type[DatabaseError]] = {
    "40001": Conflict,
    "40P01": Conflict,
    "0A": NotSupportedError,
    "20": ProgrammingError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "2B": InternalError,
    "34": ProgrammingError,
    "3B": InternalError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "42": ProgrammingError,
    "44": IntegrityError,
    "XX": InternalError,
}


def exception(
    sqlstate: str,
    message: str,
    *,
    detail: Optional[str] = None,
    hint: Optional[str] = None,
    context: Optional[str] = None,
    position: Optional[int] = None,
    schema: Optional[str] = None,
    table: Optional[str] = None,
    column: Optional[str] = None,
    constraint: Optional[str] = None,
) -> DatabaseError:
    """Returns the exception for the fields of an error; the native half calls it."""
    chosen = _CLASSES.get(sqlstate) or _CLASSES.get(sqlstate[:2], OperationalError)
    error = chosen(message)
    error.sqlstate, error.detail, error.hint = sqlstate, detail, hint
    error.context, error.position = context, position
    error.schema, error.table, error.column, error.constraint = schema, table, column, constraint
    return error
