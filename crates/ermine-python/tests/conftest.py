"""A database in memory for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ermine_db


@pytest.fixture
def db() -> Iterator[ermine_db.Database]:
    with ermine_db.open() as database:
        yield database


@pytest.fixture
def accounts(db: ermine_db.Database) -> ermine_db.Database:
    db.sql("CREATE TABLE accounts (id integer PRIMARY KEY, balance integer NOT NULL CHECK (balance >= 0))")
    db.sql("INSERT INTO accounts VALUES (1, 100), (2, 0)")
    return db
