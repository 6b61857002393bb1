"""Tables whose rows are dataclasses or dicts, over SQL."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import re
import typing
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Generic, Optional, TypeVar

from . import _ermine
from .errors import InterfaceError

R = TypeVar("R")

_TYPES: dict[Any, str] = {
    bool: "boolean",
    int: "bigint",
    float: "double precision",
    str: "text",
    bytes: "bytea",
    decimal.Decimal: "numeric",
    dt.date: "date",
    dt.time: "time",
    dt.datetime: "timestamp with time zone",
    dt.timedelta: "interval",
    uuid.UUID: "uuid",
    dict: "jsonb",
}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _qualified(name: str) -> str:
    """Returns the name of a table, with or without a schema, as statements quote it."""
    return ".".join(map(_quoted, name.split(".")))


def _column(name: str, hint: Any) -> str:
    """Returns the definition of a column for the type of a field."""
    null = " NOT NULL"
    inner = [argument for argument in typing.get_args(hint) if argument is not type(None)]
    if len(inner) == 1 and len(typing.get_args(hint)) == 2 and typing.get_origin(hint) is not dict:
        null, hint = "", inner[0]
    origin = typing.get_origin(hint)
    if origin is dict:
        hint = dict
    elif origin is list and typing.get_args(hint)[0] in _TYPES:
        return f"{_quoted(name)} {_TYPES[typing.get_args(hint)[0]]}[]{null}"
    if hint not in _TYPES:
        raise InterfaceError(f"the field {name} has the type {hint}, for which there is no type of SQL")
    return f"{_quoted(name)} {_TYPES[hint]}{null}"


def _name_of(cls: type) -> str:
    """Returns the name of the table of a class: `OrderLine` is `order_line`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()


class Table(Generic[R]):
    """A table by its key, as `Database.table` returns it. Each method is a statement, which is in the transaction of
    the thread if there is one."""

    def __init__(
        self,
        sql: Callable[[str, Optional[list[Any]]], _ermine.Result],
        row_class: Optional[type[R]],
        name: Optional[str],
        key: str,
    ) -> None:
        self._sql = sql
        if row_class is None:
            self._name = _qualified(name or "")
            self._names = sql(f"SELECT * FROM {self._name} LIMIT 0", None).columns
            self._make: Callable[[tuple[Any, ...]], Any] = lambda row: dict(zip(self._names, row))
            self._values: Callable[[Any], list[Any]] = self._of_dict
        else:
            if not dataclasses.is_dataclass(row_class):
                raise InterfaceError(f"{row_class.__name__} is not a dataclass: pass one, or the name of a table")
            made: Callable[..., Any] = row_class
            self._name = _qualified(name or _name_of(row_class))
            self._names = [field.name for field in dataclasses.fields(row_class)]
            self._make = lambda row: made(*row)
            self._values = lambda row: [getattr(row, name) for name in self._names]
        if key not in self._names:
            raise InterfaceError(f"there is no field {key}: the key is one of {', '.join(self._names)}")
        self._key, self._key_at = _quoted(key), self._names.index(key)
        if row_class is not None:
            self._create(row_class)
        self._prepare()

    def _create(self, row_class: type) -> None:
        hints = typing.get_type_hints(row_class)
        columns = [_column(name, hints[name]) for name in self._names]
        columns[self._key_at] += " PRIMARY KEY"
        self._sql(f"CREATE TABLE IF NOT EXISTS {self._name} ({', '.join(columns)})", None)

    def _prepare(self) -> None:
        columns = ", ".join(map(_quoted, self._names))
        places = ", ".join(f"${at + 1}" for at in range(len(self._names)))
        others = [_quoted(name) for at, name in enumerate(self._names) if at != self._key_at]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        self._select = f"SELECT {columns} FROM {self._name}"
        self._get = f"{self._select} WHERE {self._key} = $1"
        self._insert = f"INSERT INTO {self._name} ({columns}) VALUES ({places})"
        self._put = f"{self._insert} ON CONFLICT ({self._key}) DO {f'UPDATE SET {changes}' if changes else 'NOTHING'}"
        self._delete = f"DELETE FROM {self._name} WHERE {self._key} = $1"

    def _of_dict(self, row: dict[str, Any]) -> list[Any]:
        unknown = row.keys() - set(self._names)
        if unknown:
            raise InterfaceError(f"the table has no column {', '.join(sorted(unknown))}")
        return [row.get(name) for name in self._names]

    def get(self, key: Any) -> Optional[R]:
        """Returns the row with a key; None: there is none."""
        row = self._sql(self._get, [key]).fetchone()
        return None if row is None else self._make(row)

    def put(self, row: R) -> None:
        """Inserts a row, or replaces the one with its key."""
        self._sql(self._put, self._values(row))

    def insert(self, row: R) -> None:
        """Inserts a row; fails with an `IntegrityError` if there is one with its key."""
        self._sql(self._insert, self._values(row))

    def delete(self, key: Any) -> bool:
        """Deletes the row with a key; returns whether there was one."""
        return self._sql(self._delete, [key]).rowcount > 0

    def scan(self, start: Any = None, stop: Any = None, *, reverse: bool = False) -> Iterator[R]:
        """Returns the rows from the key `start` on and before `stop`, in the order of their keys."""
        bounds = [(">=", start), ("<", stop)]
        bounds = [(operator, bound) for operator, bound in bounds if bound is not None]
        conditions = [f"{self._key} {operator} ${at + 1}" for at, (operator, _) in enumerate(bounds)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {self._key}{' DESC' if reverse else ''}"
        return map(self._make, self._sql(f"{self._select}{where}{order}", [bound for _, bound in bounds]))

    def __len__(self) -> int:
        count = self._sql(f"SELECT count(*) FROM {self._name}", None).value()
        assert isinstance(count, int)
        return count
