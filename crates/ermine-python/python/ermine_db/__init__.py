"""Ermine in process: a memory-optimized transaction engine with SQL, serializable and durable.

    import ermine_db

    with ermine_db.open() as db:
        db.sql("CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL)")
        db.sql("INSERT INTO accounts VALUES ($1, $2)", (1, 100))
        print(db.sql("SELECT id, balance FROM accounts").fetchall())
"""

from ._asynchronous import AsyncTransaction
from ._database import Database, Transaction, open
from ._ermine import ArrowRows, Result
from ._tables import Table
from ._values import Json
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
)

__all__ = [
    "ArrowRows",
    "AsyncTransaction",
    "Conflict",
    "DataError",
    "Database",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Json",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Result",
    "Table",
    "Transaction",
    "open",
]
