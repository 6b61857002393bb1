"""asyncpg, psycopg2 and pandas against PGHOST and PGPORT: types in binary form, transactions, COPY, cursors, frames."""

import asyncio
import datetime as dt
import decimal
import io
import json
import unittest
import uuid

import asyncpg
import pandas as pd
import psycopg2
import psycopg2.extras
import sqlalchemy as sa


class Asyncpg(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.c = await asyncpg.connect()
        self.addAsyncCleanup(self.c.close)

    async def test_types_come_back_as_they_went(self):
        values = {
            "smallint": -3, "int": 7, "bigint": 2**40, "real": 0.5, "double precision": 1e300, "boolean": True,
            "numeric": decimal.Decimal("12345678901234567890.000100"), "text": "grüße", "varchar(5)": "abc",
            "bytea": b"\x00\xff", "date": dt.date(2024, 2, 29), "time": dt.time(1, 2, 3, 4),
            "timestamp": dt.datetime(2024, 1, 2, 3, 4, 5, 6), "uuid": uuid.uuid4(),
            "timestamptz": dt.datetime(2024, 1, 2, 3, 4, 5, 6, dt.timezone.utc),
            "interval": dt.timedelta(days=3, seconds=7, microseconds=9), "jsonb": '{"a": [1, null]}', "json": "[1]",
            "int[]": [1, None, 3], "text[]": ["a", "b c", '"'], "int[][]": [[1, 2], [3, 4]],
        }  # fmt: skip
        for name, value in values.items():
            with self.subTest(name):
                self.assertEqual(await self.c.fetchval(f"SELECT $1::{name}", value), value)
                self.assertIsNone(await self.c.fetchval(f"SELECT $1::{name}", None))

    async def test_enumerations_and_domains_are_looked_up(self):
        await self.c.execute("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN small AS int CHECK (VALUE < 10)")
        try:
            self.assertEqual(await self.c.fetchval("SELECT $1::mood", "ok"), "ok")
            self.assertEqual(await self.c.fetchval("SELECT $1::mood[]", ["ok", "sad"]), ["ok", "sad"])
            self.assertEqual(await self.c.fetchval("SELECT $1::small", 3), 3)
            with self.assertRaises(asyncpg.CheckViolationError):
                await self.c.fetchval("SELECT $1::small", 30)
            await self.c.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
            self.assertEqual(await self.c.fetchval("SELECT $1::jsonb", {"a": [1]}), {"a": [1]})
        finally:
            await self.c.execute("DROP TYPE mood; DROP DOMAIN small")

    async def test_tables_transactions_cursors_and_copy(self):
        await self.c.execute("CREATE TABLE numbers (id int PRIMARY KEY, name text)")
        try:
            await self.c.executemany("INSERT INTO numbers VALUES ($1, $2)", [(i, f"n{i}") for i in range(100)])
            done = await self.c.copy_records_to_table("numbers", records=[(i, None) for i in range(100, 1100)])
            self.assertEqual(done, "COPY 1000")
            out = io.BytesIO()
            await self.c.copy_from_query("SELECT * FROM numbers WHERE id < $1", 3, output=out, format="csv")
            self.assertEqual(out.getvalue(), b"0,n0\n1,n1\n2,n2\n")
            async with self.c.transaction(isolation="serializable", readonly=True):
                seen = [row["id"] async for row in self.c.cursor("SELECT id FROM numbers ORDER BY id", prefetch=100)]
                self.assertEqual(seen, list(range(1100)))
            with self.assertRaises(ZeroDivisionError):
                async with self.c.transaction():
                    await self.c.execute("DELETE FROM numbers")
                    async with self.c.transaction():
                        await self.c.execute("INSERT INTO numbers VALUES (1, 'x')")
                    raise ZeroDivisionError
            self.assertEqual(await self.c.fetchval("SELECT count(*) FROM numbers"), 1100)
            with self.assertRaises(asyncpg.UniqueViolationError) as raised:
                await self.c.execute("INSERT INTO numbers VALUES (1, 'x')")
            self.assertEqual((raised.exception.table_name, raised.exception.constraint_name), ("numbers", "numbers_pkey"))
            prepared = await self.c.prepare("SELECT id, name FROM numbers WHERE id = ANY($1::int[]) ORDER BY id")
            self.assertEqual([a.name for a in prepared.get_attributes()], ["id", "name"])
            self.assertEqual(len(await prepared.fetch([1, 5, 5000])), 2)
        finally:
            await self.c.execute("DROP TABLE numbers")

    async def test_a_pool_resets_its_connections(self):
        async with asyncpg.create_pool(min_size=2, max_size=4) as pool:
            async def add(i):
                async with pool.acquire() as c:
                    await c.execute("SET statement_timeout = 60000")
                    return await c.fetchval("SELECT $1::int + 1", i)
            self.assertEqual(await asyncio.gather(*(add(i) for i in range(20))), list(range(1, 21)))
            self.assertEqual(await pool.fetchval("SHOW statement_timeout"), "0")

    async def test_a_query_is_cancelled(self):
        with self.assertRaises(asyncio.TimeoutError):
            await self.c.fetchval("SELECT pg_sleep(1000)", timeout=0.2)
        self.assertEqual(await self.c.fetchval("SELECT 1"), 1)


class Psycopg2(unittest.TestCase):
    def test_rows_names_copy_and_two_phases(self):
        c = psycopg2.connect("")
        self.addCleanup(c.close)
        with c, c.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
            cursor.execute("CREATE TABLE things (id serial PRIMARY KEY, name text, tags text[], extra jsonb)")
            psycopg2.extras.execute_values(
                cursor, "INSERT INTO things (name, tags, extra) VALUES %s",
                [(f"t{i}", ["a", "b"], psycopg2.extras.Json({"i": i})) for i in range(500)])
            cursor.execute("SELECT * FROM things WHERE extra->>'i' = %s", ("7",))
            self.assertEqual(dict(cursor.fetchone()), {"id": 8, "name": "t7", "tags": ["a", "b"], "extra": {"i": 7}})
        with c, c.cursor("named", withhold=False) as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT id FROM things ORDER BY id")
            self.assertEqual(sum(row[0] for row in cursor), 500 * 501 // 2)
        with c, c.cursor() as cursor:
            cursor.copy_expert("COPY things (name) FROM STDIN", io.StringIO("x\ny\n"))
            out = io.StringIO()
            cursor.copy_expert("COPY (SELECT name FROM things WHERE id > 500 ORDER BY id) TO STDOUT", out)
            self.assertEqual(out.getvalue(), "x\ny\n")
        c.tpc_begin(c.xid(1, "global", "branch"))
        with c.cursor() as cursor:
            cursor.execute("DELETE FROM things WHERE id = 1")
        c.tpc_prepare()
        c.tpc_rollback()
        with c, c.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM things")
            self.assertEqual(cursor.fetchone(), (502,))
            cursor.execute("DROP TABLE things")


class Pandas(unittest.TestCase):
    def test_frames_are_written_and_read(self):
        engine = sa.create_engine("postgresql+psycopg2://")
        self.addCleanup(engine.dispose)
        frame = pd.DataFrame({
            "day": pd.date_range("2024-01-01", periods=1000, freq="h"), "n": range(1000), "x": [i / 7 for i in range(1000)],
            "name": [f"n{i % 10}" for i in range(1000)], "flag": [i % 2 == 0 for i in range(1000)]})  # fmt: skip
        frame.to_sql("frames", engine, index=False, method="multi", chunksize=200)
        try:
            back = pd.read_sql("SELECT * FROM frames ORDER BY n", engine)
            self.assertEqual(back.astype(frame.dtypes.to_dict()).to_dict("list"), frame.to_dict("list"))
            means = pd.read_sql_query("SELECT name, avg(x) AS mean FROM frames GROUP BY name ORDER BY name", engine)
            self.assertEqual(list(means["name"]), [f"n{i}" for i in range(10)])
            frame.head(10).to_sql("frames", engine, if_exists="replace")
            self.assertEqual(len(pd.read_sql_table("frames", engine, index_col="index")), 10)
        finally:
            with engine.begin() as c:
                c.exec_driver_sql("DROP TABLE frames")


if __name__ == "__main__":
    unittest.main()
