"""Goal: values of Python's classes become values of SQL's types and come back as they were.
Method: round trips through typed parameters, tables, and parameters whose types nothing determines."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Any

import pytest

import ermine_db
from ermine_db import Database, Json

UTC = dt.timezone.utc
ID = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")

VALUES: list[tuple[str, Any]] = [
    ("boolean", True),
    ("smallint", -32768),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("real", 0.5),
    ("double precision", 0.1),
    ("double precision", math.inf),
    ("numeric", Decimal("12345678901234567890.0123456789")),
    ("numeric(10, 2)", Decimal("-1.50")),
    ("text", "Ærø \U0001f9a6 ''"),
    ("varchar(5)", "short"),
    ("bytea", b"\x00\xff"),
    ("date", dt.date(1, 1, 1)),
    ("date", dt.date(9999, 12, 31)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timetz", dt.time(1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=-5)))),
    ("timestamp", dt.datetime(1969, 7, 20, 20, 17, 40, 1)),
    ("timestamp", dt.datetime(1, 1, 1)),
    ("timestamp", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("timestamptz", dt.datetime(2026, 3, 1, 12, 0, tzinfo=UTC)),
    ("interval", dt.timedelta(days=-3, seconds=5, microseconds=7)),
    ("uuid", ID),
    ("json", {"a": [1, 2.5, None], "b": "x"}),
    ("jsonb", {"a": [1, 2.5, None], "b": "x"}),
    ("jsonb", [1, "two", {"three": 3}]),
    ("jsonb", 5),
    ("integer[]", [1, None, 3]),
    ("integer[]", []),
    ("integer[]", [[1, 2], [3, 4], [5, 6]]),
    ("text[]", ["a", "", None, 'q"q']),
    ("date[]", [dt.date(2000, 1, 1)]),
    ("numeric[]", [Decimal("1.1"), Decimal("2")]),
    ("inet", "10.0.0.1/8"),
    ("bit(3)", "101"),
]


@pytest.mark.parametrize(("ty", "value"), VALUES)
def test_values_come_back(db: Database, ty: str, value: Any) -> None:
    for _ in range(2):
        got = db.sql(f"SELECT $1::{ty}", (value,)).value()
        assert (got, type(got)) == (value, type(value))
    db.sql(f"CREATE TABLE t (a {ty})")
    db.sql("INSERT INTO t VALUES ($1), ($2)", (value, None))
    assert db.sql("SELECT a FROM t").fetchall() == [(value,), (None,)]


@pytest.mark.parametrize(
    "value",
    [True, 7, 2**40, 2**70, 0.1, "x", b"x", Decimal("1.5"), dt.date(2026, 1, 2), dt.time(1, 2), dt.timedelta(1), ID]
    + [dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 2, tzinfo=UTC), {"a": 1}, [1, 2], ["a", None], [1.5, 2.5]],
)
def test_types_that_nothing_determines_are_those_of_the_values(db: Database, value: Any) -> None:
    # Alternately, so that one text has several plans.
    for other in (value, 1, value, "one", value):
        assert db.sql("SELECT $1", (other,)).value() == other
    assert db.sql("SELECT $1 IS NULL", (value,)).value() is False


def test_a_transaction_survives_the_search_for_types(db: Database) -> None:
    with db.transaction():
        assert db.sql("SELECT abs($1)", (-5,)).value() == 5
        assert db.sql("SELECT $1 + $2", (1, 2.5)).value() == 3.5


def test_casts_are_those_of_sql(db: Database) -> None:
    db.sql("CREATE TABLE t (id integer PRIMARY KEY, price numeric(6, 2), day date, at timestamptz)")
    noon = dt.datetime(2026, 3, 1, 12, 0)
    db.sql("INSERT INTO t VALUES ($1, $2, $3, $4)", (1, 9.999, noon, noon))
    assert db.sql("SELECT price, day, at FROM t").one() == (Decimal("10.00"), noon.date(), noon.replace(tzinfo=UTC))
    # A number beyond the column's type is compared, and cannot be stored.
    assert db.sql("SELECT count(*) FROM t WHERE id = $1", (2**40,)).value() == 0
    with pytest.raises(ermine_db.DataError) as caught:
        db.sql("INSERT INTO t (id) VALUES ($1)", (2**40,))
    assert caught.value.sqlstate == "22003"
    # So is a float beyond a real.
    db.sql("ALTER TABLE t ADD COLUMN weight real")
    for beyond in (1e300, 1e-300):
        with pytest.raises(ermine_db.DataError) as caught:
            db.sql("UPDATE t SET weight = $1", (beyond,))
        assert caught.value.sqlstate == "22003"
    db.sql("UPDATE t SET weight = $1", (float("-inf"),))
    # A text is read as a literal is.
    assert db.sql("SELECT id FROM t WHERE day = $1", ("2026-03-01",)).value() == 1
    with pytest.raises(ermine_db.ProgrammingError):
        db.sql("INSERT INTO t (id) VALUES ($1)", (True,))


def test_enumerations_are_texts(db: Database) -> None:
    db.sql("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE t (m mood, all_of mood[])")
    db.sql("INSERT INTO t VALUES ($1, $2)", ("glad", ["sad", None]))
    result = db.sql("SELECT m, all_of FROM t WHERE m = $1", ("glad",))
    assert result.types == ["mood", "mood[]"]
    assert result.one() == ("glad", ["sad", None])
    with pytest.raises(ermine_db.DataError, match="invalid input value for enum mood"):
        db.sql("INSERT INTO t (m) VALUES ($1)", ("bad",))


def test_json_is_marked_where_it_is_not_clear(db: Database) -> None:
    db.sql("CREATE TABLE t (j jsonb)")
    for value in ("text", None, True, [1]):
        assert db.sql("INSERT INTO t VALUES ($1) RETURNING j", (Json(value),)).value() == value
    assert db.sql("SELECT count(*) FROM t WHERE j IS NULL").value() == 0
    assert db.sql("SELECT $1::jsonb", ('"text"',)).value() == "text"


def test_what_python_cannot_represent_is_an_error(db: Database) -> None:
    for text in ("'infinity'::date", "'4713-01-01 BC'::timestamp", "'24:00'::time"):
        with pytest.raises(ermine_db.DataError, match="not representable in Python"):
            db.sql(f"SELECT {text}").fetchall()
    assert db.sql("SELECT 'infinity'::date::text").value() == "infinity"
    assert db.sql("SELECT interval '1 year 2 months 3 days'").value() == dt.timedelta(days=365 + 60 + 3)


def test_lists_that_are_no_arrays_are_errors(db: Database) -> None:
    deep: Any = 1
    for _ in range(1000):
        deep = [deep]
    for value in ([[1], [2, 3]], [1, [2]], [[1], 2], deep):
        with pytest.raises(ermine_db.InterfaceError, match="cannot be an array"):
            db.sql("SELECT $1::integer[]", (value,))


def test_integers_of_other_classes_are_integers(db: Database) -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    assert db.sql("SELECT $1::bigint", (Seven(),)).value() == 7
