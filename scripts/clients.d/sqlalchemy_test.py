"""SQLAlchemy core on psycopg against PGHOST and PGPORT: definitions, statements, reflection, transactions."""

import datetime as dt
import decimal
import logging
import unittest

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg


# Errors that a test expects are not logged a second time.
logging.getLogger("psycopg").setLevel(logging.ERROR)


class Base(unittest.TestCase):
    def setUp(self):
        self.engine = sa.create_engine("postgresql+psycopg://")
        self.addCleanup(self.engine.dispose)
        self.metadata = sa.MetaData()
        self.customers = sa.Table(
            "customers",
            self.metadata,
            sa.Column("id", sa.Integer, primary_key=True),
            sa.Column("name", sa.String(40), nullable=False),
            sa.Column("email", sa.Text, unique=True),
            sa.Column("since", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
            sa.Column("tags", pg.ARRAY(sa.Text)),
            sa.Column("extra", pg.JSONB),
        )
        self.orders = sa.Table(
            "orders",
            self.metadata,
            sa.Column("customer", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("day", sa.Date, index=True),
            sa.Column("amount", sa.Numeric(10, 2), sa.CheckConstraint("amount >= 0", name="amount_is_positive")),
            sa.Index("orders_by_amount", "customer", sa.desc("amount")),
        )
        # `test_what_is_there_is_not_made_again` looks up existing tables.
        with self.engine.begin() as connection:
            for table in self.metadata.sorted_tables:
                connection.execute(sa.schema.DropTable(table, if_exists=True))
        self.metadata.create_all(self.engine, checkfirst=False)

    def fill(self, connection):
        connection.execute(
            self.customers.insert(),
            [
                {"name": name, "email": f"{name}@example.org", "tags": [name], "extra": {"n": n}}
                for n, name in enumerate(["ann", "bob", "eve"])
            ],
        )
        connection.execute(
            self.orders.insert(),
            [
                {"customer": c, "number": n, "day": dt.date(2026, 1, n), "amount": decimal.Decimal(c * n)}
                for c in (1, 2)
                for n in (1, 2, 3)
            ],
        )


class Definitions(Base):
    def test_engines_connect_as_they_are(self):
        engine = sa.create_engine("postgresql+psycopg://")
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            self.assertEqual(connection.scalar(sa.text("SELECT 1")), 1)

    def test_what_is_there_is_not_made_again(self):
        self.metadata.create_all(self.engine)
        self.assertTrue(sa.inspect(self.engine).has_table("orders"))
        self.metadata.drop_all(self.engine)
        self.assertFalse(sa.inspect(self.engine).has_table("orders"))

    def test_names_of_tables(self):
        inspector = sa.inspect(self.engine)
        self.assertLessEqual({"customers", "orders"}, set(inspector.get_table_names()))
        self.assertIn("public", inspector.get_schema_names())

    def test_tables_are_reflected(self):
        table = sa.Table("orders", sa.MetaData(), autoload_with=self.engine)
        self.assertEqual([column.name for column in table.columns], ["customer", "number", "day", "amount"])
        self.assertEqual([column.name for column in table.primary_key], ["customer", "number"])
        self.assertIsInstance(table.c.number.type, sa.BigInteger)
        self.assertIsInstance(table.c.day.type, sa.Date)
        self.assertEqual((table.c.amount.type.precision, table.c.amount.type.scale), (10, 2))
        self.assertFalse(table.c.customer.nullable)
        self.assertTrue(table.c.day.nullable)
        indexes = {index.name: [column.name for column in index.columns] for index in table.indexes}
        self.assertEqual(indexes, {"orders_by_amount": ["customer", "amount"], "ix_orders_day": ["day"]})
        checks = [constraint.name for constraint in table.constraints if isinstance(constraint, sa.CheckConstraint)]
        self.assertEqual(checks, ["amount_is_positive"])

    def test_columns_with_defaults_are_reflected(self):
        table = sa.Table("customers", sa.MetaData(), autoload_with=self.engine)
        self.assertEqual(table.c.name.type.length, 40)
        self.assertIsInstance(table.c.tags.type, pg.ARRAY)
        self.assertIsInstance(table.c.extra.type, pg.JSONB)
        self.assertTrue(table.c.since.type.timezone)
        self.assertIn("now()", str(table.c.since.server_default.arg))
        self.assertIn("customers_id_seq", str(table.c.id.server_default.arg))
        [unique] = sa.inspect(self.engine).get_unique_constraints("customers")
        self.assertEqual(unique["column_names"], ["email"])


class Statements(Base):
    def test_rows_are_inserted_and_found(self):
        with self.engine.begin() as connection:
            self.fill(connection)
            found = connection.execute(sa.select(self.customers).where(self.customers.c.name == "bob")).one()
            values = (found.id, found.email, found.tags, found.extra)
            self.assertEqual(values, (2, "bob@example.org", ["bob"], {"n": 1}))
            self.assertIsNotNone(found.since.tzinfo)

    def test_keys_come_back_from_inserts(self):
        with self.engine.begin() as connection:
            result = connection.execute(self.customers.insert().values(name="ann"))
            self.assertEqual(tuple(result.inserted_primary_key), (1,))
            several = self.customers.insert().returning(self.customers.c.id, sort_by_parameter_order=True)
            keys = connection.scalars(several, [{"name": f"n{n}"} for n in range(100)]).all()
            self.assertEqual(keys, list(range(2, 102)))

    def test_joins_groups_and_orders(self):
        customers, orders = self.customers, self.orders
        with self.engine.begin() as connection:
            self.fill(connection)
            query = (
                sa.select(customers.c.name, sa.func.sum(orders.c.amount).label("sum"), sa.func.count().label("count"))
                .join(orders, orders.c.customer == customers.c.id)
                .where(orders.c.day.between(dt.date(2026, 1, 2), dt.date(2026, 1, 3)))
                .group_by(customers.c.name)
                .having(sa.func.sum(orders.c.amount) > 1)
                .order_by(sa.desc("sum"))
            )
            self.assertEqual([tuple(row) for row in connection.execute(query)], [("bob", 10, 2), ("ann", 5, 2)])
            none = sa.select(customers.c.name).outerjoin(orders, orders.c.customer == customers.c.id)
            none = none.where(orders.c.number.is_(None))
            self.assertEqual(connection.scalars(none).all(), ["eve"])
            has = sa.select(customers.c.name).where(sa.exists().where(orders.c.customer == customers.c.id))
            has = has.order_by(customers.c.name)
            self.assertEqual(connection.scalars(has).all(), ["ann", "bob"])
            within = sa.select(customers.c.id).where(customers.c.name.in_(["ann", "eve"]))
            within = within.order_by(customers.c.id).limit(5).offset(1)
            self.assertEqual(connection.scalars(within).all(), [3])

    def test_values_inside_values(self):
        customers = self.customers
        with self.engine.begin() as connection:
            self.fill(connection)
            second = sa.select(customers.c.id).where(customers.c.extra["n"].as_integer() == 2)
            self.assertEqual(connection.scalar(second), 3)
            self.assertEqual(connection.scalar(sa.select(customers.c.id).where(customers.c.tags.contains(["bob"]))), 2)
            self.assertEqual(connection.scalar(sa.select(customers.c.id).where(customers.c.name.ilike("E%"))), 3)
            case = sa.case((customers.c.id == 1, "first"), else_="other")
            cases = connection.scalars(sa.select(case).order_by(customers.c.id)).all()
            self.assertEqual(cases, ["first", "other", "other"])

    def test_rows_are_changed_and_deleted(self):
        orders = self.orders
        with self.engine.begin() as connection:
            self.fill(connection)
            more = orders.update().where(orders.c.customer == 1).values(amount=orders.c.amount + 1)
            changed = connection.execute(more)
            self.assertEqual(changed.rowcount, 3)
            each = orders.update().where(orders.c.customer == sa.bindparam("c"), orders.c.number == 1)
            each = each.values(amount=sa.bindparam("a"))
            connection.execute(each, [{"c": 1, "a": 10}, {"c": 2, "a": 20}])
            sums = sa.select(sa.func.sum(orders.c.amount)).group_by(orders.c.customer).order_by(orders.c.customer)
            self.assertEqual(connection.scalars(sums).all(), [17, 30])
            gone = connection.execute(orders.delete().where(orders.c.amount >= 10).returning(orders.c.customer))
            self.assertEqual(sorted(gone.scalars()), [1, 2])

    def test_conflicts_do_something_else(self):
        insert = pg.insert(self.orders).values(customer=1, number=1, amount=5)
        upsert = insert.on_conflict_do_update(
            index_elements=["customer", "number"], set_={"amount": self.orders.c.amount + insert.excluded.amount}
        )
        with self.engine.begin() as connection:
            for _ in range(3):
                connection.execute(upsert)
            connection.execute(insert.on_conflict_do_nothing())
            self.assertEqual(connection.scalar(sa.select(self.orders.c.amount)), 15)


class Transactions(Base):
    def test_begin_commits_or_rolls_back(self):
        with self.assertRaises(ZeroDivisionError), self.engine.begin() as connection:
            self.fill(connection)
            raise ZeroDivisionError
        count = sa.select(sa.func.count()).select_from(self.customers)
        with self.engine.connect() as connection:
            self.assertEqual(connection.scalar(count), 0)
            connection.rollback()
            self.fill(connection)
            connection.commit()
            self.assertEqual(connection.scalar(count), 3)

    def test_savepoints(self):
        with self.engine.begin() as connection:
            connection.execute(self.customers.insert().values(id=1, name="ann"))
            with self.assertRaises(sa.exc.IntegrityError), connection.begin_nested():
                connection.execute(self.customers.insert().values(id=2, name="bob"))
                connection.execute(self.customers.insert().values(id=1, name="eve"))
            with connection.begin_nested():
                connection.execute(self.customers.insert().values(id=3, name="eve"))
            nested = connection.begin_nested()
            connection.execute(self.customers.insert().values(id=4, name="mel"))
            nested.rollback()
            rows = connection.scalars(sa.select(self.customers.c.id).order_by(self.customers.c.id)).all()
            self.assertEqual(rows, [1, 3])

    def test_levels_and_read_only(self):
        with self.engine.connect().execution_options(isolation_level="SERIALIZABLE") as connection:
            self.assertEqual(connection.scalar(sa.text("SHOW transaction_isolation")), "serializable")
        with self.engine.connect().execution_options(postgresql_readonly=True) as connection:
            with self.assertRaises(sa.exc.InternalError) as caught:
                connection.execute(self.customers.insert().values(name="ann"))
            self.assertEqual(caught.exception.orig.sqlstate, "25006")
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(self.customers.insert().values(name="ann"))
        with self.engine.connect() as connection:
            self.assertEqual(connection.scalar(sa.select(self.customers.c.name)), "ann")

    def test_errors_are_those_of_the_interface(self):
        with self.engine.connect() as connection:
            cases = [
                (self.customers.insert().values(id=1, name=None), sa.exc.IntegrityError, "23502"),
                (self.orders.insert().values(customer=1, number=1, amount=-1), sa.exc.IntegrityError, "23514"),
                (sa.text("SELECT nothing"), sa.exc.ProgrammingError, "42703"),
                (sa.text("SELECT 1/0"), sa.exc.DataError, "22012"),
            ]
            for statement, kind, state in cases:
                with self.subTest(state=state), self.assertRaises(kind) as caught:
                    connection.execute(statement)
                self.assertEqual(caught.exception.orig.sqlstate, state)
                connection.rollback()

    def test_rows_are_streamed(self):
        with self.engine.connect() as connection:
            series = sa.text("SELECT * FROM generate_series(1, 1000) AS n")
            rows = connection.execution_options(stream_results=False).execute(series)
            self.assertEqual(sum(len(part) for part in rows.scalars().partitions(100)), 1000)


if __name__ == "__main__":
    unittest.main()
