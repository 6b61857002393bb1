"""pgcli against PGHOST and PGPORT: its command line, its backslash commands, and what its completion asks for."""

import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest

# pgcli writes its settings, its log and its history there.
directory = tempfile.TemporaryDirectory()
os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = directory.name

from pgcli.completion_refresher import CompletionRefresher  # noqa: E402
from pgcli.pgexecute import PGExecute  # noqa: E402
from pgspecial.main import PGSpecial  # noqa: E402
from prompt_toolkit.document import Document  # noqa: E402

# Errors that a test expects are not logged a second time.
logging.getLogger("pgcli").setLevel(logging.CRITICAL)
PGCLI = os.path.join(os.path.dirname(sys.executable), "pgcli")
SCHEMA = """
    CREATE SCHEMA zoo;
    SET search_path = zoo;
    CREATE TABLE keepers (
        id serial PRIMARY KEY, name text NOT NULL UNIQUE, wage numeric(8, 2) DEFAULT 10 CHECK (wage IS NOT NULL)
    );
    CREATE TABLE animals (
        id int PRIMARY KEY GENERATED ALWAYS AS IDENTITY, keeper int REFERENCES keepers ON DELETE CASCADE,
        kinds varchar(10)[], born timestamptz DEFAULT now()
    );
    CREATE INDEX by_born ON animals (born DESC) WHERE keeper IS NOT NULL;
    CREATE VIEW young AS SELECT id, keeper FROM animals WHERE born > '2020-01-01';
    CREATE MATERIALIZED VIEW counts AS SELECT keeper, count(*) AS n FROM animals GROUP BY keeper;
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN small AS int CHECK (VALUE < 10);
    COMMENT ON TABLE animals IS 'all of them';
    INSERT INTO keepers (name) VALUES ('Anna'), ('Ben');
    INSERT INTO animals (keeper, kinds) VALUES (1, '{cat,pet}');
"""


def execute():
    environment = os.environ
    host, port = environment["PGHOST"], environment["PGPORT"]
    return PGExecute(environment["PGDATABASE"], environment["PGUSER"], None, host, port, None)


def setUpModule():
    conn = execute().conn
    conn.execute("DROP SCHEMA IF EXISTS zoo CASCADE")
    conn.execute(SCHEMA)
    conn.close()


def tearDownModule():
    conn = execute().conn
    conn.execute("DROP SCHEMA zoo CASCADE")
    conn.close()


class Program(unittest.TestCase):
    def pgcli(self, *arguments, text=None):
        command = [PGCLI, "--no-password", "--less-chatty", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_databases_are_listed(self):
        self.assertIn(os.environ["PGDATABASE"], self.pgcli("--list"))
        self.assertIn("PONG", self.pgcli("--ping"))

    def test_commands_are_run(self):
        rows = self.pgcli("--tuples-only", "-c", "SELECT name, wage FROM zoo.keepers ORDER BY id")
        self.assertIn("Anna 10.00", " ".join(rows.replace("|", " ").split()))
        self.assertIn("animals_pkey", self.pgcli("-c", r"\d zoo.animals"))
        self.assertIn("by_born", self.pgcli("-c", "SET search_path = zoo", "-c", r"\di"))
        self.assertIn("does not exist", self.pgcli("-c", "SELECT nothing FROM zoo.keepers"))

    def test_statements_are_read(self):
        said = self.pgcli(text="SET search_path = zoo;\nSELECT count(*) + 40 AS n FROM keepers;\n\\dt\n\\q\n")
        for part in ("| 42 ", "| zoo    | animals ", "| zoo    | keepers "):
            self.assertIn(part, said)


class Base(unittest.TestCase):
    def setUp(self):
        self.execute = execute()
        self.addCleanup(lambda: self.execute.conn.close())
        self.execute.conn.execute("SET search_path = zoo")


class Commands(Base):
    def setUp(self):
        super().setUp()
        self.special = PGSpecial()

    def run_text(self, text):
        """What is shown of each statement or command: title, rows, heads of columns, status."""
        for title, rows, heads, status, *_ in self.execute.run(text, self.special):
            yield title, [tuple(row) for row in rows or []], heads, status

    def rows(self, text):
        ((_, rows, _, _),) = self.run_text(text)
        return rows

    def described(self, name):
        """The rows and the text below them."""
        ((_, rows, _, status),) = self.run_text(name)
        return rows, status

    def test_relations_are_listed(self):
        tables = [("zoo", "animals", "table", "bench"), ("zoo", "keepers", "table", "bench")]
        sequences = [("zoo", f"{name}_id_seq", "sequence", "bench") for name in ("animals", "keepers")]
        views = [("zoo", "young", "view", "bench")]
        counts = [("zoo", "counts", "materialized view", "bench")]
        names = ("animals_pkey", "by_born", "keepers_name_key", "keepers_pkey")
        expected = {
            r"\dt": tables,
            r"\dt zoo.*": tables,
            r"\dv": views,
            r"\dm": counts,
            r"\ds": sequences,
            r"\di": [("zoo", name, "index", "bench") for name in names],
            r"\d": sorted(tables + sequences + views + counts),
            r"\dE": [],
        }
        for command, rows in expected.items():
            with self.subTest(command):
                self.assertEqual(self.rows(command), rows)
        for row in self.rows(r"\dt+"):
            self.assertEqual(row[5], {"animals": "all of them"}.get(row[1]))

    def test_tables_are_described(self):
        rows, below = self.described(r"\d animals")
        self.assertEqual(rows[1:3], [("keeper", "integer", ""), ("kinds", "character varying(10)[]", "")])
        self.assertEqual(rows[3], ("born", "timestamp with time zone", " default now()"))
        for part in (
            '"animals_pkey" PRIMARY KEY, btree (id)',
            '"by_born" btree (born DESC) WHERE keeper IS NOT NULL',
            '"animals_keeper_fkey" FOREIGN KEY (keeper) REFERENCES keepers(id) ON DELETE CASCADE',
        ):
            self.assertIn(part, below)
        rows, below = self.described(r"\d+ keepers")
        self.assertEqual([row[:3] for row in rows][1:], [("name", "text", " not null"), ("wage", "numeric(8,2)", " default 10")])
        for part in ('"keepers_name_key" UNIQUE CONSTRAINT', "Check constraints:", "Referenced by:", "ON DELETE CASCADE"):
            self.assertIn(part, below)
        self.assertEqual(self.described("describe animals"), self.described(r"\d animals"))
        self.assertIn("Did not find any relation named nothing", self.described(r"\d nothing")[1])

    def test_other_relations_are_described(self):
        self.assertEqual(self.described(r"\d young")[0], [("id", "integer", ""), ("keeper", "integer", "")])
        self.assertIn("View definition:", self.described(r"\d+ young")[1])
        self.assertEqual(self.described(r"\d counts")[0], [("keeper", "integer", ""), ("n", "bigint", "")])
        rows, below = self.described(r"\d by_born")
        self.assertEqual(rows[0][:2], ("born", "timestamp with time zone"))
        self.assertIn('btree, for table "zoo.animals", predicate (keeper IS NOT NULL)', below)

    def test_sequences_are_described(self):
        rows, below = self.described(r"\d keepers_id_seq")
        self.assertEqual(rows, [("last_value", "bigint", 2), ("log_cnt", "bigint", rows[1][2]), ("is_called", "boolean", True)])
        self.assertIn("Owned by: zoo.keepers.id", below)

    def test_other_objects_are_listed(self):
        self.assertEqual([row[:2] for row in self.rows(r"\dT")], [("zoo", "mood"), ("zoo", "small")])
        self.assertIn("sad\nhappy", self.rows(r"\dT+")[0])
        self.assertEqual(self.rows(r"\dD"), [("zoo", "small", "integer", "", "CHECK (VALUE < 10)")])
        self.assertIn(("zoo", "bench"), self.rows(r"\dn"))
        self.assertIn(os.environ["PGDATABASE"], [row[0] for row in self.rows(r"\l")])
        self.assertEqual(self.rows(r"\du bench")[0][:2], ("bench", True))
        self.assertIn("plpgsql", [row[0] for row in self.rows(r"\dx")])
        self.assertEqual([row[:3] for row in self.rows(r"\dp animals")], [("zoo", "animals", "table")])
        self.assertEqual(self.rows(r"\ddp"), [])
        self.assertIn(("pg_default", "bench"), [row[:2] for row in self.rows(r"\db")])

    def test_functions_are_listed(self):
        self.assertEqual(self.rows(r"\df"), [])

    def test_statements_are_run_one_after_the_other(self):
        text = "BEGIN; UPDATE keepers SET wage = 11 WHERE id = 1; SELECT wage FROM keepers WHERE id = 1; ROLLBACK"
        done = list(self.run_text(text))
        self.assertEqual([status for _, _, _, status in done], ["BEGIN", "UPDATE 1", "SELECT 1", "ROLLBACK"])
        self.assertEqual([str(row[0]) for row in done[2][1]], ["11.00"])
        self.assertEqual(done[2][2], ["wage"])
        self.execute.conn.execute("BEGIN")
        with self.assertRaisesRegex(Exception, "nothing"):
            list(self.run_text("SELECT nothing FROM keepers"))
        self.assertTrue(self.execute.failed_transaction())
        self.execute.conn.execute("ROLLBACK")
        self.assertFalse(self.execute.valid_transaction())


class Completion(Base):
    def test_relations_and_columns(self):
        self.assertEqual(self.execute.search_path()[-1], "zoo")
        self.assertLessEqual({"zoo", "public", "pg_catalog", "information_schema"}, set(self.execute.schemata()))
        self.assertLessEqual({("zoo", "animals"), ("zoo", "keepers")}, set(self.execute.tables()))
        self.assertLessEqual({("zoo", "counts"), ("zoo", "young")}, set(self.execute.views()))
        columns = [column for column in self.execute.table_columns() if column[0] == "zoo"]
        self.assertEqual(len(columns), 7)
        self.assertIn(("zoo", "animals", "kinds", "character varying[]", False, None), columns)
        self.assertIn(("zoo", "animals", "born", "timestamp with time zone", True, "now()"), columns)
        self.assertIn(("zoo", "young", "keeper", "integer", False, None), list(self.execute.view_columns()))
        keys = [tuple(key) for key in self.execute.foreignkeys()]
        self.assertIn(("zoo", "keepers", "id", "zoo", "animals", "keeper"), keys)

    def test_databases_types_and_definitions(self):
        self.assertIn(os.environ["PGDATABASE"], self.execute.databases())
        self.assertIn(os.environ["PGDATABASE"], [row[0] for row in self.execute.full_databases()[0]])
        self.assertLessEqual({("zoo", "mood"), ("zoo", "small")}, set(self.execute.datatypes()))
        self.assertIn("born > '2020-01-01", self.execute.view_definition("zoo.young"))
        self.execute.set_timezone("UTC")
        self.assertEqual(self.execute.get_timezone(), "UTC")
        self.assertEqual(list(self.execute.casing()), [])

    def test_functions(self):
        self.assertEqual([f for f in self.execute.functions() if f.schema_name == "zoo"], [])

    def test_texts_are_completed(self):
        """With all that is asked for in the background, on a connection of its own."""
        completers = []
        before = set(threading.enumerate())
        CompletionRefresher().refresh(self.execute, PGSpecial(), completers.append)
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
        self.assertEqual(len(completers), 1)
        for text, completion in {
            "SELECT * FROM zoo.ke": "keepers",
            "SELECT wa FROM zoo.keepers": "wage",
            "SELECT * FROM zoo.animals a JOIN zoo.keepers k ON ": "k.id = a.keeper",
            "SELECT NULL::zoo.mo": "mood",
            r"\c be": os.environ["PGDATABASE"],
        }.items():
            with self.subTest(text):
                place = len("SELECT wa") if text.startswith("SELECT wa") else len(text)
                found = completers[0].get_completions(Document(text, place), None)
                self.assertIn(completion, [one.text for one in found])


if __name__ == "__main__":
    unittest.main()
