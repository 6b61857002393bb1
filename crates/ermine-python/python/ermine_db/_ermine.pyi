from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Optional, Protocol, TypeVar, Union, final

T = TypeVar("T")

class ArrowStream(Protocol):
    """An object that Arrow data can be read from, like a frame of pandas or polars, or a table or reader of pyarrow."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...

@final
class ArrowRows:
    """The rows of a result for libraries that read Arrow."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...

@final
class Database:
    def __new__(
        cls,
        path: Optional[Union[str, PathLike[str]]],
        *,
        scheme: str,
        order: str,
        durability: str,
        memory_limit: Optional[int],
        archive: Optional[Union[str, PathLike[str]]],
        create: bool,
    ) -> Database: ...
    def session(self) -> Session: ...
    def run(self, session: Session, begin: str, function: Callable[[], T]) -> T: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...

@final
class Session:
    def sql(self, text: str, parameters: Optional[Sequence[Any]] = None) -> Result: ...
    def sql_many(self, text: str, rows: Iterable[Sequence[Any]]) -> Result: ...
    def ingest(self, table: str, data: ArrowStream) -> int: ...
    def roll_back_certified(self) -> None: ...
    def cancel(self) -> None: ...
    def stop(self) -> None: ...
    def end(self) -> None: ...
    @property
    def status(self) -> str: ...

@final
class Result:
    """The result of a statement: an iterator over its rows, which are tuples."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns; empty if the statement returns no rows."""

    @property
    def types(self) -> list[str]:
        """The types of the columns, as SQL writes them."""

    @property
    def type_codes(self) -> list[int]:
        """PostgreSQL's numbers of the columns' types."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement has returned or changed; -1: it does neither."""

    @property
    def status(self) -> str:
        """What the statement has done, in PostgreSQL's words, as in "INSERT 0 2"."""

    @property
    def notices(self) -> list[str]:
        """The notices and warnings of the statement."""

    def fetchone(self) -> Optional[tuple[Any, ...]]:
        """Returns the next row; None: there is none."""

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        """Returns the next rows, at most `size`."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns all rows that are left."""

    def dicts(self) -> list[dict[str, Any]]:
        """Returns all rows that are left, each as a dict from the names of the columns."""

    def one(self) -> tuple[Any, ...]:
        """Returns the only row; fails if there is another number of rows."""

    def value(self) -> Any:
        """Returns the first value of the only row."""

    def fetch_arrow(self) -> ArrowRows:
        """Returns the rows that are left for any library that reads Arrow: it has `__arrow_c_stream__`."""

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...
    def __next__(self) -> tuple[Any, ...]: ...
