"""Goal: tables of dataclasses and of dicts store what they are given, and take part in transactions.
Method: each operation on both kinds."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, Optional

import pytest

import ermine_db
from ermine_db import Database


@dataclasses.dataclass
class OrderLine:
    id: int
    item: str
    price: Optional[float] = None
    tags: list[str] = dataclasses.field(default_factory=list)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    at: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


def test_rows_are_dataclasses(db: Database) -> None:
    lines = db.table(OrderLine, key="id")
    tea = OrderLine(1, "tea", 2.5, ["hot"], {"sugar": 2})
    lines.put(tea)
    assert lines.get(1) == tea
    assert lines.get(2) is None
    lines.put(dataclasses.replace(tea, price=None))
    assert lines.get(1) == OrderLine(1, "tea", None, ["hot"], {"sugar": 2})
    with pytest.raises(ermine_db.IntegrityError):
        lines.insert(tea)
    for id in (5, 3, 4):
        lines.insert(OrderLine(id, "milk"))
    assert [line.id for line in lines.scan()] == [1, 3, 4, 5]
    assert [line.id for line in lines.scan(3, 5)] == [3, 4]
    assert [line.id for line in lines.scan(start=3, reverse=True)] == [5, 4, 3]
    assert (lines.delete(3), lines.delete(3), len(lines)) == (True, False, 3)
    # The table is one of SQL, and is found again.
    assert db.sql("SELECT count(*) FROM order_line").value() == 3
    assert db.table(OrderLine, key="id").get(4) == OrderLine(4, "milk")


def test_rows_are_dicts(accounts: Database) -> None:
    table = accounts.table("accounts", key="id")
    assert list(table.scan()) == [{"id": 1, "balance": 100}, {"id": 2, "balance": 0}]
    table.put({"id": 1, "balance": 90})
    assert table.get(1) == {"id": 1, "balance": 90}
    with pytest.raises(ermine_db.IntegrityError):
        table.put({"id": 3})
    with pytest.raises(ermine_db.InterfaceError, match="no column color"):
        table.put({"id": 3, "color": "red"})


def test_tables_take_part_in_transactions(accounts: Database) -> None:
    table = accounts.table("accounts", key="id")

    @accounts.transaction
    def fail() -> None:
        table.delete(1)
        assert table.get(1) is None
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert table.get(1) is not None


def test_what_is_no_table_is_an_error(db: Database) -> None:
    @dataclasses.dataclass
    class Odd:
        id: int
        what: object

    with pytest.raises(ermine_db.InterfaceError, match="the field what"):
        db.table(Odd, key="id")
    with pytest.raises(ermine_db.InterfaceError, match="no field nothing"):
        db.table(OrderLine, key="nothing")
    with pytest.raises(ermine_db.InterfaceError, match="not a dataclass"):
        db.table(int, key="id")
    with pytest.raises(ermine_db.ProgrammingError):
        db.table("nothing", key="id")


def test_a_table_may_have_a_schema(db: Database) -> None:
    db.sql("CREATE SCHEMA shop; CREATE TABLE shop.tea (id integer PRIMARY KEY, name text)")
    teas = db.table("shop.tea", key="id")
    teas.put({"id": 1, "name": "green"})
    assert db.sql("SELECT name FROM shop.tea").value() == "green"
    db.table(OrderLine, key="id", name="shop.lines").put(OrderLine(1, "tea"))
    assert db.sql("SELECT count(*) FROM shop.lines").value() == 1
