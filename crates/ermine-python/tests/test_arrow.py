"""Goal: results are Arrow data, and Arrow data become rows, with every type as docs/python.md says.
Method: tables of pyarrow, frames of pandas and of polars, in both directions."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pytest

import ermine_db
from ermine_db import Database

pa = pytest.importorskip("pyarrow")

UTC = dt.timezone.utc


def test_results_have_arrows_types(db: Database) -> None:
    result = db.sql(
        "SELECT true AS b, 1::smallint AS i2, 2 AS i4, 3::bigint AS i8, 0.5::real AS f4, 0.25::double precision AS f8, "
        "1.5::numeric(6, 2) AS d, 12345.678 AS n, 'x' AS t, '\\x00ff'::bytea AS y, '2026-01-02'::date AS day, "
        "'01:02:03'::time AS time, '2026-01-02 03:04'::timestamp AS ts, '2026-01-02 03:04+00'::timestamptz AS tz, "
        "'1 month 2 days 3 seconds'::interval AS iv, '[1]'::jsonb AS j, ARRAY[1, NULL, 3] AS a, "
        "NULL::integer AS nothing"
    )
    table = pa.table(result.fetch_arrow())
    us = pa.timestamp("us")
    types = [
        pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(6, 2), pa.utf8(),
        pa.utf8(), pa.binary(), pa.date32(), pa.time64("us"), us, pa.timestamp("us", "UTC"),
        pa.month_day_nano_interval(), pa.utf8(), pa.list_(pa.int32()), pa.int32(),
    ]  # fmt: skip
    assert table.schema.types == types
    assert list(table.to_pylist()[0].values()) == [
        True, 1, 2, 3, 0.5, 0.25, decimal.Decimal("1.50"), "12345.678", "x", b"\x00\xff", dt.date(2026, 1, 2),
        dt.time(1, 2, 3), dt.datetime(2026, 1, 2, 3, 4), dt.datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        pa.scalar((1, 2, 3_000_000_000), pa.month_day_nano_interval()).as_py(), "[1]", [1, None, 3], None,
    ]  # fmt: skip


def test_long_results_are_several_batches(db: Database) -> None:
    result = db.sql("SELECT i, i::text AS t FROM generate_series(1, 150000) i ORDER BY i")
    assert result.fetchone() == (1, "1")
    rows = result.fetch_arrow()
    for _ in range(2):
        table = pa.table(rows)
        assert (table.num_rows, table.column("i").num_chunks) == (149_999, 3)
        assert table.column("i").to_pylist() == list(range(2, 150_001))
        assert table.column("t")[-1].as_py() == "150000"
    assert result.fetchone() is None
    assert pa.table(db.sql("SELECT 1 AS a WHERE false")).num_rows == 0
    assert pa.table(db.sql("SELECT 7 AS a")).to_pylist() == [{"a": 7}]


def test_what_arrow_cannot_represent_is_an_error(db: Database) -> None:
    for value in ("'infinity'::date", "'-infinity'::timestamp", "ARRAY[[1], [2]]", "'NaN'::numeric(4, 1)"):
        with pytest.raises(Exception, match='column "a": .*a::text'):
            pa.table(db.sql(f"SELECT {value} AS a").fetch_arrow())


def every_type() -> Any:
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 6)
    return pa.table(
        {
            "b": pa.array([True, None]),
            "i8": pa.array([1, None], pa.int8()),
            "i16": pa.array([-2, None], pa.int16()),
            "u16": pa.array([65535, None], pa.uint16()),
            "u64": pa.array([7, None], pa.uint64()),
            "f4": pa.array([0.5, None], pa.float32()),
            "f8": pa.array([0.25, None], pa.float64()),
            "d": pa.array([decimal.Decimal("-1.05"), None], pa.decimal128(10, 2)),
            "t": pa.array(["x", None]),
            "lt": pa.array(["y", None], pa.large_utf8()),
            "vt": pa.array(["a text beyond the length that is inline", None], pa.string_view()),
            "dict": pa.array(["red", None]).dictionary_encode(),
            "y": pa.array([b"\x00", None]),
            "day": pa.array([at.date(), None]),
            "time": pa.array([at.time(), None]),
            "ts": pa.array([at, None], pa.timestamp("ns")),
            "tz": pa.array([at.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "iv": pa.array([dt.timedelta(days=1, microseconds=5), None]),
            "nothing": pa.nulls(2),
        }
    )


def test_arrow_data_become_rows(db: Database) -> None:
    db.sql(
        "CREATE TABLE t (b boolean, i8 smallint, i16 bigint, u16 integer, u64 bigint, f4 real, f8 double precision, "
        "d numeric(10, 2), t text, lt varchar(3), vt text, dict text, y bytea, day date, time time, ts timestamp, "
        "tz timestamptz, iv interval, nothing integer)"
    )
    data = every_type()
    assert db.ingest("t", data) == 2
    first, second = db.sql("SELECT * FROM t ORDER BY b NULLS LAST").fetchall()
    assert list(first) == list(data.to_pylist()[0].values())
    assert set(second) == {None}
    assert db.ingest("public.t", data.select(["t", "i8"]).to_reader()) == 2
    assert db.sql("SELECT count(*) FROM t WHERE t = 'x'").value() == 2


def test_texts_are_read_as_literals_are(db: Database) -> None:
    db.sql("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE TABLE t (m mood, j jsonb, day date, c char(3))")
    db.ingest("t", pa.table({"m": ["glad"], "j": ['{"a": 1}'], "day": ["2026-01-02"], "c": ["a"]}))
    assert db.sql("SELECT * FROM t").one() == ("glad", {"a": 1}, dt.date(2026, 1, 2), "a  ")
    with pytest.raises(ermine_db.DataError):
        db.ingest("t", pa.table({"m": ["bad"]}))
    for text in (pa.array(["\0"]), pa.array(["\0"], pa.large_utf8()), pa.array(["\0"]).dictionary_encode()):
        with pytest.raises(ermine_db.DataError, match="0x00"):
            db.ingest("t", pa.table({"c": text}))


def test_ingestion_is_a_transaction_with_the_constraints_of_the_table(accounts: Database) -> None:
    accounts.sql("CREATE TABLE big (id integer PRIMARY KEY, n integer DEFAULT 5)")
    assert accounts.ingest("big", pa.table({"id": pa.array(range(20_000), pa.int64())})) == 20_000
    assert accounts.sql("SELECT count(*), sum(n), max(id) FROM big").one() == (20_000, 100_000, 19_999)
    with pytest.raises(ermine_db.IntegrityError):
        accounts.ingest("big", pa.table({"id": list(range(20_000, 40_000)) + [7]}))
    with pytest.raises(ermine_db.DataError, match="out of range"):
        accounts.ingest("big", pa.table({"id": [2**40]}))
    with pytest.raises(ermine_db.ProgrammingError, match="color"):
        accounts.ingest("big", pa.table({"color": [1]}))
    with pytest.raises(ermine_db.InterfaceError, match="cannot be stored"):
        accounts.ingest("big", pa.table({"id": [[1]]}))
    with pytest.raises(ermine_db.InterfaceError, match="no __arrow_c_stream__"):
        accounts.ingest("big", [1, 2])  # type: ignore[arg-type,unused-ignore]
    assert accounts.sql("SELECT count(*) FROM big").value() == 20_000
    with pytest.raises(KeyError), accounts.transaction():
        accounts.ingest("big", pa.table({"id": [50_000]}))
        raise KeyError
    assert accounts.sql("SELECT count(*) FROM big").value() == 20_000


def test_frames_of_pandas(db: Database) -> None:
    pd = pytest.importorskip("pandas", "3")
    db.sql("CREATE TABLE t (id integer, name text, x double precision)")
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", None], "x": [0.5, 1.5]})
    assert db.ingest("t", frame) == 2
    back = pd.DataFrame.from_arrow(db.sql("SELECT * FROM t ORDER BY id").fetch_arrow())
    assert back["x"].tolist() == [0.5, 1.5]
    assert back["name"].tolist()[0] == "a"


def test_frames_of_polars(db: Database) -> None:
    pl = pytest.importorskip("polars")
    db.sql("CREATE TABLE t (id integer, name text, at timestamptz)")
    frame = pl.DataFrame({"id": [1, 2], "name": ["a", None], "at": [dt.datetime(2026, 1, 2, tzinfo=UTC)] * 2})
    assert db.ingest("t", frame) == 2
    back = pl.DataFrame(db.sql("SELECT * FROM t ORDER BY id").fetch_arrow())
    assert back.rows() == frame.rows()
