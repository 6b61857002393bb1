"""Goal: SQLAlchemy runs on the dialect `ermine://`.
Method: core, types, the ORM, reflection, isolation levels and pools; pandas through it, if that is installed."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from pathlib import Path
from typing import Any

import pytest

sa = pytest.importorskip("sqlalchemy")
orm = pytest.importorskip("sqlalchemy.orm")
postgresql = pytest.importorskip("sqlalchemy.dialects.postgresql")

import ermine_db  # noqa: E402


@pytest.fixture
def engine() -> Any:
    engine = sa.create_engine("ermine://")
    yield engine
    engine.dispose()


class Mood(enum.Enum):
    sad = 1
    glad = 2


def test_types_come_back(engine: Any) -> None:
    values = {
        "id": 1,
        "name": "Ann",
        "price": decimal.Decimal("1.50"),
        "score": 0.5,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        "day": dt.date(2026, 1, 2),
        "took": dt.timedelta(hours=3),
        "key": uuid.uuid4(),
        "data": {"a": [1, None]},
        "jsonb": [1, "x"],
        "tags": ["a", "b"],
        "mood": Mood.glad,
        "raw": b"\x00",
        "flag": True,
    }
    types = [
        sa.Integer, sa.String(20), sa.Numeric(10, 2), sa.Float, sa.DateTime(timezone=True), sa.Date, sa.Interval,
        sa.Uuid, sa.JSON, postgresql.JSONB, postgresql.ARRAY(sa.Text), sa.Enum(Mood), sa.LargeBinary, sa.Boolean,
    ]  # fmt: skip
    columns = [sa.Column(name, ty, primary_key=name == "id") for name, ty in zip(values, types)]
    table = sa.Table("every", sa.MetaData(), *columns)
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(sa.insert(table), [values, {**dict.fromkeys(values), "id": 2}])
        rows = connection.execute(sa.select(table).order_by(table.c.id)).mappings().all()
        assert dict(rows[0]) == values
        assert rows[1]["id"] == 2 and rows[1]["price"] is None
        found = sa.select(table.c.id).where(table.c.tags.contains(["a"]), table.c.jsonb[1].astext == "x")
        assert connection.execute(found).scalar() == 1


def test_the_orm_reads_and_writes(engine: Any) -> None:
    Base = orm.declarative_base()

    class Author(Base):  # type: ignore[misc,valid-type]
        __tablename__ = "authors"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String, nullable=False, unique=True)
        books = orm.relationship("Book", back_populates="author")

    class Book(Base):  # type: ignore[misc,valid-type]
        __tablename__ = "books"
        id = sa.Column(sa.Integer, primary_key=True)
        title = sa.Column(sa.String)
        author_id = sa.Column(sa.ForeignKey("authors.id"))
        author = orm.relationship(Author, back_populates="books")

    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Author(name="Ann", books=[Book(title=f"{number}") for number in range(10)]))
        session.commit()
        author = session.scalars(sa.select(Author).options(orm.selectinload(Author.books))).one()
        assert sorted(book.title for book in author.books) == [str(number) for number in range(10)]
        session.add(Author(name="Ann"))
        with pytest.raises(sa.exc.IntegrityError) as caught:
            session.commit()
        assert caught.value.orig.sqlstate == "23505"
        session.rollback()
        with session.begin_nested():
            session.delete(author.books[0])
        session.commit()
        assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 9
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["authors", "books"]
    assert [key["referred_table"] for key in inspector.get_foreign_keys("books")] == ["authors"]


def test_upserts_and_isolation_levels(engine: Any) -> None:
    table = sa.Table("t", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("n", sa.Integer))
    insert = postgresql.insert(table).values(id=1, n=1)
    upsert = insert.on_conflict_do_update(index_elements=["id"], set_={"n": table.c.n + insert.excluded.n})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        table.create(connection)
        for _ in range(3):
            connection.execute(upsert)
    for level in ("SERIALIZABLE", "READ COMMITTED"):
        with engine.connect().execution_options(isolation_level=level) as connection:
            assert connection.get_isolation_level() == level
            assert connection.execute(sa.select(table.c.n)).scalar() == 3


def test_a_lost_conflict_can_be_recognized(engine: Any) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (id integer PRIMARY KEY, n integer)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1, 0)")
    update = sa.text("UPDATE t SET n = n + :n WHERE id = 1")
    with pytest.raises(sa.exc.OperationalError) as caught, engine.begin() as one:
        one.execute(sa.text("SELECT n FROM t")).all()
        with engine.begin() as other:
            other.execute(update, {"n": 1})
        one.execute(update, {"n": 2})
    assert isinstance(caught.value.orig, ermine_db.Conflict)


def test_an_engine_of_a_directory_closes_it(tmp_path: Path) -> None:
    engine = sa.create_engine(f"ermine:///{tmp_path}/shop?durability=async")
    with engine.begin() as connection, engine.connect() as other:
        connection.execute(sa.text("CREATE TABLE t (a integer)"))
        assert other.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()
    with ermine_db.open(tmp_path / "shop") as db:
        assert db.sql("SELECT count(*) FROM t").value() == 0


def test_pandas_reads_and_writes(engine: Any) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"id": [1, 2, 3], "name": ["a", None, "c"], "x": [0.5, 1.5, 2.5]})
    frame.to_sql("frames", engine, index=False)
    back = pd.read_sql("SELECT * FROM frames ORDER BY id", engine)
    assert back["x"].tolist() == [0.5, 1.5, 2.5]
    assert back["name"].tolist()[0] == "a"


def test_options_of_the_url_have_their_types(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    with pytest.raises(sa.exc.DBAPIError, match="no database"):
        sa.create_engine(f"ermine:///{shop}?create=false").connect()
    for options in ("create=true&memory_limit=1000000000", "create=false&memory_limit=1000000000"):
        engine = sa.create_engine(f"ermine:///{shop}?{options}")
        with engine.connect() as connection:
            assert connection.scalar(sa.text("SELECT 1")) == 1
        engine.dispose()
