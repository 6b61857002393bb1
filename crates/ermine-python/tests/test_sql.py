"""Goal: statements return what SQL says, and fail with the fields of its errors.
Method: statements, with and without parameters, over a database in memory and in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest

import ermine_db
from ermine_db import Database


def test_rows_are_tuples_in_their_order(db: Database) -> None:
    result = db.sql("SELECT i, i * 10 AS ten FROM generate_series(1, 5) i ORDER BY i")
    assert result.columns == ["i", "ten"]
    assert result.types == ["integer", "integer"]
    assert (result.rowcount, result.status) == (5, "SELECT 5")
    assert result.fetchone() == (1, 10)
    assert result.fetchmany(2) == [(2, 20), (3, 30)]
    assert list(result) == [(4, 40), (5, 50)]
    assert (result.fetchone(), result.fetchall(), result.fetchmany(3)) == (None, [], [])


def test_rows_are_dicts_and_single_values(db: Database) -> None:
    assert db.sql("SELECT 1 AS a, 'x' AS b").dicts() == [{"a": 1, "b": "x"}]
    assert db.sql("SELECT 1 AS a, 'x' AS b").one() == (1, "x")
    assert db.sql("SELECT count(*) FROM generate_series(1, 7)").value() == 7
    with pytest.raises(ermine_db.InterfaceError, match="returned 2 rows"):
        db.sql("SELECT 1 UNION ALL SELECT 2").value()


def test_several_statements_are_one_transaction(db: Database) -> None:
    assert db.sql("CREATE TABLE t (a integer); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t").value() == 3
    with pytest.raises(ermine_db.DataError):
        db.sql("INSERT INTO t VALUES (3); SELECT 1 / 0")
    assert db.sql("SELECT count(*) FROM t").value() == 2
    assert db.sql("UPDATE t SET a = 0").rowcount == 2
    assert db.sql("CREATE TABLE u (a integer)").rowcount == -1
    assert db.sql("").columns == []


def test_a_table_may_be_replaced_under_a_known_statement(db: Database) -> None:
    for ty, value in [("integer", 1), ("text", "one"), ("numeric", 2)]:
        db.sql(f"CREATE TABLE t (a {ty})")
        db.sql("INSERT INTO t VALUES ($1)", (value,))
        assert db.sql("SELECT * FROM t WHERE a = $1", (value,)).fetchall() == [(value,)]
        db.sql("DROP TABLE t")


def test_many_rows_are_one_transaction(accounts: Database) -> None:
    insert = "INSERT INTO accounts VALUES ($1, $2)"
    assert accounts.sql_many(insert, ((i, 2 * i) for i in range(10, 110))) == 100
    assert accounts.sql("SELECT balance FROM accounts WHERE id = $1", (50,)).value() == 100
    with pytest.raises(ermine_db.IntegrityError):
        accounts.sql_many(insert, [(200, 1), (201, 1), (200, 1)])
    assert accounts.sql("SELECT count(*) FROM accounts").value() == 102
    assert accounts.sql_many(insert, []) == 0


def test_errors_have_the_fields_of_sql(accounts: Database) -> None:
    with pytest.raises(ermine_db.IntegrityError) as caught:
        accounts.sql("INSERT INTO accounts VALUES (1, 5)")
    error = caught.value
    assert (error.sqlstate, error.table, error.constraint) == ("23505", "accounts", "accounts_pkey")
    assert error.detail == "Key (id)=(1) already exists."
    assert "DETAIL: Key (id)=(1) already exists." in str(error)
    with pytest.raises(ermine_db.ProgrammingError) as wrong:
        accounts.sql("SELECT nothing FROM accounts")
    assert wrong.value.sqlstate == "42703"
    with pytest.raises(ermine_db.DataError) as division:
        accounts.sql("SELECT 1 / $1", (0,))
    assert division.value.sqlstate == "22012"
    with pytest.raises(ermine_db.NotSupportedError):
        accounts.sql("COPY accounts FROM STDIN")
    assert isinstance(error, ermine_db.DatabaseError) and isinstance(error, ermine_db.Error)


def test_notices_are_kept(db: Database) -> None:
    assert db.sql("DROP TABLE IF EXISTS nothing").notices == ['NOTICE: table "nothing" does not exist, skipping']


def test_a_directory_keeps_what_was_committed(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    with ermine_db.open(shop, durability="async") as db:
        db.sql("CREATE TABLE t (a integer)")
        db.sql("INSERT INTO t VALUES ($1)", (7,))
        with pytest.raises(ermine_db.Error, match="in use|another process|open"):
            ermine_db.open(shop)
    assert db.closed
    with ermine_db.open(shop) as db:
        assert db.sql("SELECT a FROM t").value() == 7
    with pytest.raises(ermine_db.Error, match="no database"):
        ermine_db.open(tmp_path / "shopp", create=False)


def test_wrong_uses_are_exceptions(db: Database) -> None:
    with pytest.raises(ermine_db.Error, match="unknown scheme"):
        ermine_db.open(scheme="best")
    with pytest.raises(ermine_db.Error, match="memory limit"):
        ermine_db.open(memory_limit=1)
    with pytest.raises(ermine_db.InterfaceError, match="not a str"):
        db.sql("SELECT $1", "text")  # type: ignore[arg-type,unused-ignore]
    with pytest.raises(ermine_db.InterfaceError, match="2 parameters, but 1"):
        db.sql("SELECT $1::integer + $2", (1,))
    with pytest.raises(ermine_db.InterfaceError, match="cannot be a parameter"):
        db.sql("SELECT $1", (object(),))
    with pytest.raises(ermine_db.InterfaceError, match="isolation level"):
        db.transaction(isolation="none")
    db.close()
    db.close()
    with pytest.raises(ermine_db.Error, match="closed"):
        db.sql("SELECT 1")


def test_all_rows_are_converted_before_the_first_runs(accounts: Database) -> None:
    insert = "INSERT INTO accounts VALUES ($1, $2)"
    with accounts.transaction() as txn:
        for wrong in ("x", object()):
            with pytest.raises(ermine_db.Error):
                txn.sql_many(insert, [(7, 7), (8, wrong)])
    assert accounts.sql("SELECT count(*) FROM accounts").value() == 2


def test_a_statement_that_never_runs_is_an_error(db: Database) -> None:
    types = ["text", "integer"] * 10

    class Replacing:
        """Replaces the table whenever it is converted."""

        def __index__(self) -> int:
            db.sql(f"DROP TABLE IF EXISTS t; CREATE TABLE t (a {types.pop()})")
            return 7

    db.sql("CREATE TABLE t (a integer)")
    with pytest.raises(ermine_db.DatabaseError, match="have changed again"):
        db.sql("INSERT INTO t VALUES ($1)", (Replacing(),))
    assert db.sql("SELECT count(*) FROM t").value() == 0


def test_texts_with_nul_are_refused(db: Database) -> None:
    db.sql("CREATE TABLE t (a text, b text[])")
    statements: list[tuple[str, Optional[tuple[Any, ...]]]] = [
        ("INSERT INTO t (a) VALUES ($1)", ("a\0b",)),
        ("INSERT INTO t (b) VALUES ($1)", (["a", "\0"],)),
        ("INSERT INTO t (a) VALUES ('a\0b')", None),
        ("INSERT INTO t (a) VALUES ('a\0b' || $1)", ("c",)),
    ]
    for text, parameters in statements:
        with pytest.raises(ermine_db.DataError) as caught:
            db.sql(text, parameters)
        assert caught.value.sqlstate == "22021"
    assert db.sql("SELECT count(*) FROM t").value() == 0
