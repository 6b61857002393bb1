"""SQLAlchemy's ORM and Alembic on psycopg against PGHOST and PGPORT: relations, and migrations by comparing models."""

import contextlib
import decimal
import enum
import io
import os
import tempfile
import textwrap
import unittest
from typing import Optional

import sqlalchemy as sa
from alembic import command, config
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql as pg

URL = "postgresql+psycopg://"


class Model(orm.DeclarativeBase):
    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(column_0_label)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class State(enum.Enum):
    open = "open"
    paid = "paid"
    sent = "sent"


book_tags = sa.Table(
    "book_tags",
    Model.metadata,
    sa.Column("book_id", sa.ForeignKey("books.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tag_id", sa.ForeignKey("tags.id"), primary_key=True),
)


class Author(Model):
    __tablename__ = "authors"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(80), index=True)
    mentor_id: orm.Mapped[Optional[int]] = orm.mapped_column(sa.ForeignKey("authors.id"))
    mentor: orm.Mapped[Optional["Author"]] = orm.relationship(remote_side=[id])
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Model):
    __tablename__ = "books"
    id: orm.Mapped[int] = orm.mapped_column(sa.Identity(), primary_key=True)
    title: orm.Mapped[str] = orm.mapped_column(unique=True)
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2))
    doubled: orm.Mapped[Optional[decimal.Decimal]] = orm.mapped_column(sa.Computed("price * 2", persisted=True))
    extra: orm.Mapped[Optional[dict]] = orm.mapped_column(pg.JSONB)
    author_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("authors.id", ondelete="CASCADE"))
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")
    tags: orm.Mapped[list["Tag"]] = orm.relationship(secondary=book_tags)
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_is_positive"),)


class Tag(Model):
    __tablename__ = "tags"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(20), unique=True)


class Order(Model):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    kind: orm.Mapped[str] = orm.mapped_column(sa.String(10))
    state: orm.Mapped[State] = orm.mapped_column(sa.Enum(State, name="order_state"), server_default="open")
    placed: orm.Mapped[Optional[str]] = orm.mapped_column(sa.DateTime(timezone=True), server_default=sa.func.now())
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "plain"}


class GiftOrder(Order):
    __tablename__ = "gift_orders"
    id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("orders.id"), primary_key=True)
    greeting: orm.Mapped[str]
    __mapper_args__ = {"polymorphic_identity": "gift"}


def setUpModule():
    """Migrations compare the models with the whole schema, which is empty at first."""
    engine = sa.create_engine(URL)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    engine.dispose()


class Relations(unittest.TestCase):
    def setUp(self):
        self.engine = sa.create_engine(URL)
        self.addCleanup(self.engine.dispose)
        Model.metadata.create_all(self.engine)
        self.addCleanup(Model.metadata.drop_all, self.engine)

    def session(self):
        return orm.Session(self.engine)

    def fill(self):
        with self.session() as session:
            anna, ben = Author(name="Anna"), Author(name="Ben")
            ben.mentor = anna
            red, blue = Tag(name="red"), Tag(name="blue")
            anna.books = [Book(title=f"A{i}", price=decimal.Decimal(i), tags=[red] if i % 2 else [red, blue]) for i in range(4)]
            ben.books = [Book(title="B", price=decimal.Decimal("9.50"), extra={"pages": [1, 2]})]
            session.add_all([anna, ben])
            session.commit()

    def test_relations_are_loaded_in_every_way(self):
        self.fill()
        for load in (orm.selectinload, orm.joinedload, orm.subqueryload, orm.lazyload):
            with self.session() as session:
                query = sa.select(Author).options(load(Author.books)).order_by(Author.name)
                authors = session.scalars(query).unique().all()
                self.assertEqual([(a.name, len(a.books)) for a in authors], [("Anna", 4), ("Ben", 1)])
                self.assertEqual(authors[1].mentor.name, "Anna")
                self.assertEqual(authors[1].books[0].doubled, decimal.Decimal("19.00"))
                self.assertEqual(authors[1].books[0].extra, {"pages": [1, 2]})

    def test_many_to_many_exists_and_groups(self):
        self.fill()
        with self.session() as session:
            blue = sa.select(Book.title).where(Book.tags.any(Tag.name == "blue")).order_by(Book.title)
            self.assertEqual(session.scalars(blue).all(), ["A0", "A2"])
            without = sa.select(Author.name).where(~Author.books.any(Book.price > 5))
            self.assertEqual(session.scalars(without).all(), ["Anna"])
            rank = sa.func.rank().over(partition_by=Book.author_id, order_by=Book.price.desc())
            ranked = sa.select(Book.title, rank.label("rank")).subquery()
            best = sa.select(ranked.c.title).where(ranked.c.rank == 1).order_by(ranked.c.title)
            self.assertEqual(session.scalars(best).all(), ["A3", "B"])
            counts = sa.select(Author.name, sa.func.count(Book.id)).outerjoin(Author.books).group_by(Author.id)
            self.assertEqual(dict(session.execute(counts).all()), {"Anna": 4, "Ben": 1})

    def test_deletes_cascade(self):
        self.fill()
        with self.session() as session:
            ben = session.scalars(sa.select(Author).where(Author.name == "Ben")).one()
            session.delete(ben)
            session.commit()
            session.execute(sa.delete(Book).where(Book.title == "A0"))
            session.commit()
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(Book)), 3)
            # Four books had five and three links; the deleted one had two.
            self.assertEqual(session.scalar(sa.select(sa.func.count()).select_from(book_tags)), 4)
            with self.assertRaises(sa.exc.IntegrityError) as raised:
                session.execute(sa.insert(Book).values(title="X", price=1, author_id=4711))
            self.assertEqual(raised.exception.orig.sqlstate, "23503")

    def test_inheritance_enumerations_and_bulk_statements(self):
        with self.session() as session:
            session.add_all([Order(), GiftOrder(greeting="hello", state=State.paid)])
            session.commit()
            orders = session.scalars(sa.select(orm.with_polymorphic(Order, "*")).order_by(Order.id)).all()
            self.assertEqual([type(o).__name__ for o in orders], ["Order", "GiftOrder"])
            self.assertEqual([o.state for o in orders], [State.open, State.paid])
            changed = session.execute(
                sa.update(Order).where(Order.state == State.paid).values(state=State.sent).returning(Order.id)
            )
            self.assertEqual(len(changed.all()), 1)
            upsert = pg.insert(Tag).values([{"name": "a"}, {"name": "b"}])
            session.execute(upsert.on_conflict_do_update(index_elements=["name"], set_={"name": upsert.excluded.name}))
            ids = session.scalars(sa.insert(Tag).returning(Tag.id), [{"name": f"t{i}"} for i in range(50)]).all()
            self.assertEqual(len(set(ids)), 50)
            session.commit()

    def test_savepoints_and_locks(self):
        self.fill()
        with self.session() as session:
            with self.assertRaises(sa.exc.IntegrityError):
                with session.begin_nested():
                    session.add(Tag(name="red"))
                    session.flush()
            locked = session.scalars(sa.select(Author).with_for_update().order_by(Author.id)).all()
            self.assertEqual(len(locked), 2)
            session.commit()


class Migrations(unittest.TestCase):
    def setUp(self):
        self.engine = sa.create_engine(URL)
        self.addCleanup(self.engine.dispose)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.config = config.Config(os.path.join(directory.name, "alembic.ini"), stdout=io.StringIO())
        self.config.set_main_option("script_location", os.path.join(directory.name, "migrations"))
        self.config.set_main_option("sqlalchemy.url", URL)
        self.config.set_main_option("path_separator", "os")
        with contextlib.redirect_stdout(io.StringIO()):
            command.init(self.config, os.path.join(directory.name, "migrations"))
        with open(os.path.join(directory.name, "migrations", "env.py"), "w", encoding="utf8") as env:
            env.write(
                textwrap.dedent(
                    """
                    import sqlalchemy as sa
                    from alembic import context
                    metadata = context.config.attributes["metadata"]
                    engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url"))
                    with engine.connect() as connection:
                        context.configure(connection=connection, target_metadata=metadata, compare_type=True,
                                          compare_server_default=True)
                        with context.begin_transaction():
                            context.run_migrations()
                    engine.dispose()
                    """
                )
            )

    def migrate(self, metadata, message):
        self.config.attributes["metadata"] = metadata
        with contextlib.redirect_stdout(io.StringIO()):
            command.revision(self.config, message, autogenerate=True)
        command.upgrade(self.config, "head")

    def differences(self, metadata):
        with self.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            return [d for d in compare_metadata(context, metadata)]

    def test_models_become_a_schema_and_the_schema_the_models(self):
        self.migrate(Model.metadata, "first")
        self.assertEqual(self.differences(Model.metadata), [])
        command.downgrade(self.config, "base")
        self.assertNotIn("books", sa.inspect(self.engine).get_table_names())
        self.drop_state()
        command.upgrade(self.config, "head")
        command.downgrade(self.config, "base")
        self.drop_state()
        with self.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE alembic_version")

    def drop_state(self):
        """Migrations create the types of columns; Alembic leaves their removal to the author."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql("DROP TYPE order_state")

    def test_changed_models_change_the_schema(self):
        old = sa.MetaData()
        sa.Table("stores", old, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(20)))
        self.migrate(old, "old")
        with self.engine.begin() as connection:
            connection.exec_driver_sql("INSERT INTO stores (name) VALUES ('north'), ('south')")
        new = sa.MetaData()
        sa.Table(
            "stores",
            new,
            sa.Column("id", sa.BigInteger, primary_key=True),
            sa.Column("name", sa.Text, nullable=False, comment="shown to customers"),
            sa.Column("city", sa.String(30), server_default="unknown", nullable=False),
            sa.UniqueConstraint("name", name="one_name"),
            sa.Index("by_city", "city", "name"),
            comment="shops",
        )
        sa.Table(
            "shelves",
            new,
            sa.Column("store", sa.BigInteger, sa.ForeignKey("stores.id", name="of_store", deferrable=True), primary_key=True),
            sa.Column("number", sa.SmallInteger, primary_key=True, autoincrement=False),
        )
        self.migrate(new, "new")
        self.assertEqual(self.differences(new), [])
        with self.engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT name, city FROM stores ORDER BY id").all()
            self.assertEqual(rows, [("north", "unknown"), ("south", "unknown")])
        command.downgrade(self.config, "-1")
        self.assertEqual(self.differences(old), [])
        command.downgrade(self.config, "base")
        with self.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE alembic_version")


if __name__ == "__main__":
    unittest.main()
