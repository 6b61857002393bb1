"""Runs transactions that append to lists and read them, on concurrent connections, and records them as a history that
`ermine check` judges (the format of Elle's list-append). Prints their outcomes; fails on an error that is not a lost
conflict, which no level permits.

Keys are retired after some appends, so that lists stay short; the last transaction reads all keys.
"""

import argparse
import random
import threading
import time

import psycopg

# A lost conflict: the transaction was rolled back.
RETRYABLE = {"40001", "40P01", "55P03"}
APPENDS_OF_A_KEY = 40


class History:
    """Operations in the order in which they were called and answered."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="ascii")
        self.lock = threading.Lock()
        self.answers = {"ok": 0, "fail": 0, "info": 0}

    def note(self, kind, process, steps):
        texts = " ".join(f"[:{what} {key} {edn(value)}]" for what, key, value in steps)
        with self.lock:
            self.file.write(f"{{:type :{kind}, :process {process}, :f :txn, :value [{texts}]}}\n")
            if kind in self.answers:
                self.answers[kind] += 1


def edn(value):
    if value is None:
        return "nil"
    return "[" + " ".join(map(str, value)) + "]" if isinstance(value, list) else str(value)


class Keys:
    """The keys that are currently written, and a unique value for each append."""

    def __init__(self, width):
        self.lock = threading.Lock()
        self.current = list(range(width))
        self.appends = [0] * width
        self.next = width

    def plan(self, chance):
        """The steps of a transaction: reads without their results."""
        with self.lock:
            places = chance.choices(range(len(self.current)), k=chance.randint(1, 5))
            return [self.step(chance, place) for place in places]

    def step(self, chance, place):
        key = self.current[place]
        if chance.random() < 0.5:
            return ("r", key, None)
        self.appends[key] += 1
        value = self.appends[key]
        if value == APPENDS_OF_A_KEY:
            self.current[place] = self.next
            self.appends.append(0)
            self.next += 1
        return ("append", key, value)


def run_step(conn, chance, what, key, value):
    """Runs a step and returns it with its result."""
    if what == "r":
        row = conn.execute("SELECT v FROM lists WHERE id = %s", (key,)).fetchone()
        return (what, key, row and row[0])
    insert = (
        "INSERT INTO lists VALUES (%s, ARRAY[%s::integer]) "
        "ON CONFLICT (id) DO UPDATE SET v = lists.v || excluded.v"
    )
    update = "UPDATE lists SET v = v || %s::integer WHERE id = %s"
    if chance.random() < 0.5 or conn.execute(update, (value, key)).rowcount == 0:
        conn.execute(insert, (key, value))
    return (what, key, value)


def transact(conn, chance, history, process, steps):
    """Runs a transaction once; returns whether it has committed. Raises any error that is not a lost conflict."""
    history.note("invoke", process, steps)
    is_ending = False
    try:
        done = [run_step(conn, chance, *step) for step in steps]
        is_ending = True
        conn.commit()
    except psycopg.Error as error:
        if error.sqlstate in RETRYABLE:
            conn.rollback()
            history.note("fail", process, steps)
            return False
        history.note("info" if is_ending else "fail", process, steps)
        raise
    history.note("ok", process, done)
    return True


def work(thread, options, level, keys, history, until, failures):
    chance = random.Random(f"{options.seed}/{thread}")
    try:
        with psycopg.connect() as conn:
            # At READ COMMITTED transactions wait for one another, occasionally in a cycle.
            conn.execute("SET lock_timeout = '20ms'")
            conn.commit()
            conn.isolation_level = level
            while time.monotonic() < until and not failures:
                transact(conn, chance, history, thread, keys.plan(chance))
    except psycopg.Error as error:
        failures.append(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="where the history is written")
    levels = ["read-committed", "repeatable-read", "serializable"]
    parser.add_argument("--level", default="serializable", choices=levels)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--keys", type=int, default=5, help="how many are written at the same time")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    level = psycopg.IsolationLevel[options.level.replace("-", "_").upper()]
    with psycopg.connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS lists")
        conn.execute("CREATE TABLE lists (id integer PRIMARY KEY, v integer[] NOT NULL)")
    keys, history, failures = Keys(options.keys), History(options.file), []
    until = time.monotonic() + options.seconds
    arguments = (options, level, keys, history, until, failures)
    threads = [threading.Thread(target=work, args=(thread, *arguments)) for thread in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    with psycopg.connect() as conn:
        conn.isolation_level = level
        transact(conn, random.Random(0), history, options.threads, [("r", key, None) for key in range(keys.next)])
    history.file.close()
    print(", ".join(f"{count} {answer}" for answer, count in history.answers.items()))


if __name__ == "__main__":
    main()
