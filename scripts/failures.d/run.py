"""Makes machines of a cluster fail while clients use it, and judges what they were told. `scripts/failures` begins it.

Bounds are numbers of attempts: how long an attempt takes depends on what else the machine does.
"""

import argparse
import contextlib
import hashlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.append("scripts/clients.d")
import clients
import failures
import list_append
import psycopg
from machines import LEASE_SECONDS, Machines

# Attempts of what has to succeed at last, and seconds between two.
ATTEMPTS, PAUSE = 3000, 0.05
# Attempts to find a primary before a server of NATS is begun again.
BEGINNING_ATTEMPTS = 200
# What no machine may ever say.
FORBIDDEN = re.compile("panicked|is broken at sequence|is damaged|serves no readers|have parted")


class Failed(Exception):
    """Something that has to hold does not."""


class World:
    """The machines, as failures see them."""

    def __init__(self, machines, run):
        self.machines, self.run = machines, run
        self.network, self.logs, self.nodes, self.all = machines.network, machines.logs, machines.nodes, machines.all
        # The node that was the primary last.
        self.primary = self.nodes[0]

    def some_node(self, chance):
        """Returns the primary, two times of three, or another node."""
        others = [node for node in self.nodes if node is not self.primary]
        return chance.choice([self.primary, self.primary, chance.choice(others)])

    def find_primary(self, attempts=None):
        """Waits until a node is the primary; returns a connection to it."""

        def find():
            for node in self.nodes:
                conn = self.run.connect_to(node, "read-write")
                if conn:
                    self.primary = node
                    return conn

        return attempt("a node becomes the primary", find, attempts)

    def wait_for_commits(self, count):
        """Waits until clients have had so many more commits."""
        until = self.run.acknowledged() + count
        attempt("clients have more commits", lambda: self.run.acknowledged() >= until)


def attempt(what, step, attempts=None):
    for _ in range(attempts or ATTEMPTS):
        done = step()
        if done:
            return done
        time.sleep(PAUSE)
    raise Failed(f"in {attempts or ATTEMPTS} attempts not: {what}")


def note(text):
    print(f"{time.monotonic() - BEGUN:7.1f} s  {text}", flush=True)


def start(machines, run):
    """Starts the cluster, and makes the tables. Returns when all nodes serve: before, the first is the only copy."""
    machines.start()
    world = World(machines, run)
    # About one time in ten, servers of NATS that begin at once never learn that one of them is a peer (scripts/nats).
    for suspect in world.logs:
        with contextlib.suppress(Failed):
            world.find_primary(BEGINNING_ATTEMPTS).close()
            break
        suspect.end(signal.SIGTERM)
        suspect.start()
    with world.find_primary() as conn:
        clients.make_tables(conn)
    for node in world.nodes:
        attempt(f"{node.name} serves", lambda: answers(run, node))
    return world


def answers(run, node):
    conn = run.connect_to(node)
    if conn:
        conn.close()
    return conn is not None


def fail(world, options, chance):
    """Makes machines fail until the time is over, or so many rounds; in one of three rounds, two at a time. Where one
    machine fails, clients have commits before it is healed. Returns the number of rounds, and the most seconds until
    clients had commits, before and behind the heal.
    """
    until, rounds, before, behind = time.monotonic() + options.seconds, 0, 0, 0
    bag = []
    while rounds < options.rounds if options.rounds else time.monotonic() < until:
        rounds += 1
        # Each as often as the others, in another order each time.
        while len(bag) < 2:
            bag = chance.sample(options.only, len(options.only)) + bag
        picked = [bag.pop()]
        # Not more: one that is not of one machine may leave nothing that another one could be healed by.
        if failures.ALL[picked[0]].is_tolerated and failures.ALL[bag[-1]].is_tolerated and chance.random() < 0.33:
            picked.append(bag.pop())
        # A generator of its own, so that a round does not depend on what happened in the one before.
        own = random.Random(f"{options.seed}/round {rounds}")
        world.find_primary().close()
        world.wait_for_commits(own.randrange(20, 100))
        heals, since = [], time.monotonic()
        for failure in [failures.ALL[name] for name in picked]:
            what, heal = failure.inject(world, own)
            wait = own.uniform(0.5, failure.seconds_max)
            note(f"round {rounds}: {what} for {wait:.1f} s")
            heals.append(heal)
            time.sleep(0 if failure.is_tolerated and len(picked) == 1 else wait)
        if len(picked) == 1 and failure.is_tolerated:
            # Some at once, that may have been under way; and others.
            world.wait_for_commits(1)
            world.wait_for_commits(30)
            took = time.monotonic() - since
            before = max(before, took)
            note(f"round {rounds}: commits after {took:.1f} s")
            time.sleep(max(0, wait - took))
        for heal in own.sample(heals, len(heals)):
            heal()
        since = time.monotonic()
        world.wait_for_commits(10)
        took = time.monotonic() - since
        behind = max(behind, took)
        note(f"round {rounds}: healed, commits after {took:.1f} s")
        if world.run.faults:
            break
    return rounds, before, behind


def compare(world, run, histories):
    """Each node in turn is the primary, until all have been; returns the state that all of them have. The others show
    the same to a reader that names the position.
    """
    state, position, have_led, read = None, None, set(), set()
    for _ in range(ATTEMPTS):
        try:
            with world.find_primary() as conn:
                if state is None:
                    conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                    steps = [("r", key, None) for key in range(run.keys.next)]
                    if not list_append.transact(conn, random.Random(0), histories, histories.process(), steps):
                        raise Failed("a reader without others lost a conflict")
                    found = clients.state_of(conn)
                    position = conn.execute("SELECT pg_current_wal_lsn()").fetchone()[0]
                    state = found
                check_same(world.primary, clients.state_of(conn), state)
        except psycopg.errors.AdminShutdown as error:
            # Beside much other work, a primary may lose its lease without a failure that was injected: it ends its
            # connections. Any other error is a fault.
            note(f"{world.primary.name} is read again: {error}".splitlines()[0])
            continue
        have_led.add(world.primary)
        for node in world.nodes:
            if node is not world.primary and node not in read:
                read.add(node)
                check_same(node, attempt(f"{node.name} is read", lambda: read_after(run, node, position)), state)
        if len(have_led) == len(world.nodes):
            return state
        former = world.primary
        former.end(signal.SIGTERM)
        world.find_primary().close()
        former.start()
    raise Failed(f"of the nodes, only {failures.names(have_led)} become the primary")


def read_after(run, node, position):
    """Returns the state of a standby behind a position, if it is read."""
    with contextlib.suppress(psycopg.Error):
        conn = run.connect_to(node)
        if conn:
            with conn, clients.Waiting(run.patience, conn):
                conn.execute("SELECT set_config('ermine.read_after', %s, false)", (str(position),))
                conn.commit()
                return clients.state_of(conn)
    return None


def check_same(node, found, state):
    for table, rows in state.items():
        if found[table] != rows:
            different = set(map(str, found[table])) ^ set(map(str, rows))
            raise Failed(f"{node.name} has other rows in {table}: {sorted(different)[:10]}")


def check_state(run, histories, state):
    """Checks that what was acknowledged is there, and nothing that was not sent."""
    lists = {(key, value) for key, values in state["lists"] for value in values}
    lost = histories.appended - lists
    if lost:
        raise Failed(f"acknowledged appends are lost: {sorted(lost)[:10]}")
    amounts = dict.fromkeys(range(clients.ACCOUNTS), clients.AMOUNT)
    rows = {number: set() for number in run.rows}
    for client, number, source, target, _ in state["sent"]:
        rows[client].add(number)
        amounts[source] -= 1
        amounts[target] += 1
    if amounts != dict(state["accounts"]):
        raise Failed(f"the transfers make {amounts}, the accounts have {state['accounts']}")
    for client, known in run.rows.items():
        if known - rows[client]:
            raise Failed(f"acknowledged transfers of client {client} are lost: {sorted(known - rows[client])[:10]}")
        if rows[client] - set(range(1, run.last[client] + 1)):
            raise Failed(f"there are transfers that client {client} has not sent")


def judge(ermine, paths):
    """`ermine check` says whether each history satisfies the level that names it."""
    for level, path in paths.items():
        report = subprocess.run([ermine, "check", path, "--expect", level], capture_output=True, text=True)
        if report.returncode != 0:
            raise Failed(f"the history {path} is not {level}:\n{report.stdout}{report.stderr}")
        note(f"{level}: it holds")


def check_machines(machines):
    for machine in machines.all:
        said = [line for line in machine.text().splitlines() if FORBIDDEN.search(line)]
        if said:
            raise Failed(f"{machine.name} said: {said[0]}")
    for node in machines.nodes:
        # Told to end; failed, and started again by a supervisor; killed.
        if set(node.ends) - {0, 1, -signal.SIGKILL}:
            raise Failed(f"{node.name} has ended with {node.ends}")


def verify(machines, ermined):
    """The files of all nodes are whole."""
    for node in machines.nodes:
        node.end(signal.SIGTERM)
        database = os.path.join(node.directory, "database")
        if os.path.exists(os.path.join(database, "STANDBY")):
            continue
        report = subprocess.run([ermined, "verify", database], capture_output=True, text=True)
        if report.returncode != 0:
            raise Failed(f"the files of {node.name} are damaged: {report.stdout}{report.stderr}")


def everything(options, machines):
    histories = clients.Histories(options.directory)
    run = clients.Run(machines, histories, options.seed, options.synchronous_commit)
    world = start(machines, run)
    note("the cluster serves")
    run.begin()
    rounds, before, behind = fail(world, options, random.Random(f"{options.seed}/rounds"))
    world.wait_for_commits(10)
    run.end()
    if run.faults:
        raise Failed("; ".join(run.faults))
    state = compare(world, run, histories)
    histories.close()
    check_state(run, histories, state)
    for table, rows in state.items():
        digest = hashlib.sha256(repr(rows).encode()).hexdigest()[:16]
        note(f"{table}: {len(rows)} rows, {digest} on all nodes")
    judge(options.ermine, histories.paths)
    check_machines(machines)
    verify(machines, options.ermined)
    counts = ", ".join(f"{count} {what}" for what, count in sorted(run.counts.items()))
    note(f"{rounds} rounds; commits went on after at most {before:.1f} s, and {behind:.1f} s behind a heal")
    note(counts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ermined", required=True)
    parser.add_argument("--ermine", required=True)
    parser.add_argument("--nats", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", action="append", choices=list(failures.ALL))
    parser.add_argument("--synchronous-commit", default="on")
    options = parser.parse_args()
    options.only = options.only or [name for name in failures.ALL if name not in failures.NOT_BY_ITSELF]
    # As the first process of its namespace, it hears a signal only if it asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"seed {options.seed}", flush=True)
    shutil.rmtree(options.directory, ignore_errors=True)
    os.makedirs(options.directory)
    machines = Machines(options.ermined, options.nats, options.directory)
    try:
        everything(options, machines)
    except Failed as failed:
        machines.end()
        machines.keep_files(os.path.join(options.directory, "files"))
        sys.exit(f"failed, with seed {options.seed}: {failed}\nHistories, output and files are in {options.directory}")
    machines.end()


BEGUN = time.monotonic()
if __name__ == "__main__":
    main()
