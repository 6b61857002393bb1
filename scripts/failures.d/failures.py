"""The failures: each is a function that makes something fail on the machines, and returns what it did and a function
that heals it. Where chance decides, it does so by the given generator, so that a seed repeats it.
"""

import signal

from machines import LEASE_SECONDS, Clock

# A second, and what is more than any time that a lease, a session or a server waits.
JUMPS_SECONDS = [1, 3, 60, 3600, 40_000_000]


def kill(world, chance):
    """A node is killed."""
    node = world.some_node(chance)
    node.end()
    return f"{node.name} is killed", node.start


def stop(world, chance):
    """A node stands still, often for longer than its lease."""
    node = world.some_node(chance)
    node.send(signal.SIGSTOP)
    return f"{node.name} stands still", lambda: node.send(signal.SIGCONT)


def end(world, chance):
    """A node is told to end."""
    node = world.some_node(chance)
    node.end(signal.SIGTERM)
    return f"{node.name} is told to end", node.start


def kill_log(world, chance):
    """A server of NATS is killed."""
    log = chance.choice(world.logs)
    log.end()
    return f"{log.name} is killed", log.start


def kill_logs(world, chance):
    """All servers of NATS are killed."""
    for log in world.logs:
        log.end()
    return "all servers of NATS are killed", lambda: [log.start() for log in world.logs]


def stop_log(world, chance):
    """A server of NATS stands still."""
    log = chance.choice(world.logs)
    log.send(signal.SIGSTOP)
    return f"{log.name} stands still", lambda: log.send(signal.SIGCONT)


def cut_node(world, chance):
    """A node is cut off from NATS."""
    node = world.some_node(chance)
    world.network.cut([node.name], names(world.logs))
    return f"{node.name} is cut off from NATS", world.network.pass_all


def cut_log(world, chance):
    """A server of NATS is cut off, silently for all that are connected to it."""
    log = chance.choice(world.logs)
    world.network.cut([log.name], names(world.all))
    return f"{log.name} is cut off", world.network.pass_all


def one_way(world, chance):
    """What one machine sends is dropped, or what is sent to it."""
    machine = chance.choice([world.some_node(chance), chance.choice(world.logs)])
    if chance.random() < 0.5:
        world.network.drop([machine.name], names(world.all))
        return f"nothing comes from {machine.name}", world.network.pass_all
    world.network.drop(names(world.all), [machine.name])
    return f"nothing comes to {machine.name}", world.network.pass_all


def halves(world, chance):
    """A node and a server of NATS are apart from all others: with the primary, it alone has a server of NATS."""
    node, log = world.some_node(chance), chance.choice(world.logs)
    some = [node.name, log.name]
    world.network.cut(some, [name for name in names(world.all) if name not in some])
    return f"{node.name} and {log.name} are apart from the others", world.network.pass_all


def bridge(world, chance):
    """Two sides, each with a server of NATS and a node, do not see each other; the rest sees both."""
    logs, nodes = chance.sample(world.logs, 2), chance.sample(world.nodes, 2)
    one, other = [[log.name, node.name] for log, node in zip(logs, nodes)]
    world.network.cut(one, other)
    return f"{' and '.join(one)} do not see {' and '.join(other)}", world.network.pass_all


def logs_apart(world, chance):
    """No server of NATS sees another one."""
    world.network.cut(names(world.logs), names(world.logs))
    return "no server of NATS sees another one", world.network.pass_all


def slow(world, chance):
    """What a machine sends comes late."""
    machine = chance.choice([world.some_node(chance), chance.choice(world.logs)])
    how = world.network.slow(machine.name, chance.choice([10, 50, 300]))
    return f"the link of {machine.name} is {how}", lambda: world.network.fast(machine.name)


def full_node(world, chance):
    """The disk of a node is full."""
    node = world.some_node(chance)
    node.disk.fill()
    world.run.writes_much.set()

    def heal():
        world.run.writes_much.clear()
        node.disk.free()

    return f"the disk of {node.name} is full", heal


def full_log(world, chance):
    """The disk of a server of NATS is full. It then does without JetStream until it is started again."""
    return full(world, chance.sample(world.logs, 1))


def full_logs(world, chance):
    """The disks of two servers of NATS are full."""
    return full(world, chance.sample(world.logs, 2))


def full(world, logs):
    def heal():
        for log in logs:
            log.disk.free()
        for log in logs:
            log.end(signal.SIGTERM)
            log.start()
            # As is done by hand: the next one when this one takes part again.
            world.wait_for_commits(1)

    for log in logs:
        log.disk.fill()
    return f"the disk of {' and of '.join(names(logs))} is full", heal


def clock_node(world, chance):
    """The clock of a node jumps, again and again."""
    return jump([world.some_node(chance)], chance)


def clock_log(world, chance):
    """The clock of a server of NATS jumps, again and again. Leases expire by it."""
    return jump([chance.choice(world.logs)], chance)


def clock_logs(world, chance):
    """The clocks of all servers of NATS jump, each by itself."""
    return jump(world.logs, chance)


def jump(machines, chance):
    heals = []
    for machine in machines:
        offsets = [chance.choice(JUMPS_SECONDS) * chance.choice([-1, 0, 1]) for _ in range(20)]
        heals.append(machine.jump(offsets))
    return f"the clock of {' and of '.join(names(machines))} jumps", lambda: [heal() for heal in heals]


def names(machines):
    return [machine.name for machine in machines]


class Failure:
    """A failure; the most seconds for which it lasts, at first; and whether clients have to have commits meanwhile,
    because it is of one machine, and what is left has a majority of the servers of NATS.
    """

    def __init__(self, inject, seconds_max, is_tolerated):
        self.inject, self.seconds_max, self.is_tolerated = inject, seconds_max, is_tolerated


# Servers of NATS take up to nine seconds to agree on another leader.
OF_NODES, OF_LOGS = 3 * LEASE_SECONDS, 12
ALL = {
    "kill": Failure(kill, OF_NODES, True),
    "stop": Failure(stop, OF_NODES, True),
    "end": Failure(end, OF_NODES, True),
    "kill-log": Failure(kill_log, OF_LOGS, True),
    "kill-logs": Failure(kill_logs, OF_NODES, False),
    "stop-log": Failure(stop_log, OF_LOGS, True),
    "cut-node": Failure(cut_node, OF_NODES, True),
    "cut-log": Failure(cut_log, OF_LOGS, True),
    "one-way": Failure(one_way, OF_LOGS, True),
    "halves": Failure(halves, OF_LOGS, True),
    "bridge": Failure(bridge, OF_LOGS, False),
    "logs-apart": Failure(logs_apart, OF_LOGS, False),
    "slow": Failure(slow, OF_NODES, True),
    # A primary whose disk is full stays the primary.
    "full-node": Failure(full_node, OF_NODES, False),
    "full-log": Failure(full_log, OF_LOGS, True),
    "full-logs": Failure(full_logs, OF_LOGS, False),
    "clock-node": Failure(clock_node, OF_NODES, True),
    "clock-log": Failure(clock_log, OF_NODES, True),
    "clock-logs": Failure(clock_logs, OF_NODES, False),
}
# A run that is not told what to do leaves out what servers of NATS may not survive. When the disks of two were full,
# and both began again at once, version 2.10.24 lost the streams ("Detected orphaned stream .., will cleanup"), or
# agreed on no leader any more; the nodes had everything, and waited for the log. 2.14.9 came through six times of six.
NOT_BY_ITSELF = {"full-logs"}
if not Clock.CAN_BE_SET:
    ALL = {name: failure for name, failure in ALL.items() if not name.startswith("clock")}
