"""Machines of a cluster, each in a network namespace and with a small disk of its own: three servers of NATS JetStream
(`log-1` to `log-3`) and three nodes of `ermined` (`node-1` to `node-3`). All are on one bridge, on which the clients
are, too.

Nothing of this outlives the program: `scripts/failures` begins it in namespaces of its own, of processes, mounts and
the network, and the system takes back what is in them when it ends.
"""

import itertools
import os
import shutil
import signal
import struct
import subprocess
import threading
import time

NATS_PORT, PORT = 4222, 5432
# A few bases, what is received of the next one, and the files of a database that was put aside.
NODE_BYTES = 1 << 30
LOG_BYTES = 1 << 29
LEASE_SECONDS = 2
PAGE_BYTES = 4096
# Less than the time between two renewals of a lease.
JUMP_SECONDS = 0.15


def run(*command, input=None):
    return subprocess.run(command, input=input, check=True, capture_output=True, text=True).stdout


class Network:
    """A bridge, and a network namespace for each machine. What one machine sends to another one can be dropped: the
    sender is given a hardware address for it that no machine has. So connections stay, and nothing is refused.
    """

    NOWHERE = "02:00:00:00:00:ff"

    def __init__(self, names):
        self.addresses = {name: f"10.77.0.{number}" for number, name in enumerate(names, 1)}
        self.hardware = {name: f"02:00:00:00:00:{number:02x}" for number, name in enumerate(names, 1)}
        for command in ["link set lo up", "link add bridge type bridge", "address add 10.77.0.254/24 dev bridge"]:
            run("ip", *command.split())
        run("ip", "link", "set", "bridge", "up")
        for name, address in self.addresses.items():
            run("ip", "netns", "add", name)
            of_machine = ["address", self.hardware[name], "netns", name]
            run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", *of_machine)
            run("ip", "link", "set", f"to-{name}", "master", "bridge", "up")
            lines = ["link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up"]
            run("ip", "-n", name, "-batch", "-", input="\n".join(lines))
        self.pass_all()

    def pass_all(self):
        for sender in self.addresses:
            self._know(sender, {other: self.hardware[other] for other in self.addresses if other != sender})

    def drop(self, senders, receivers):
        """Drops what these senders send to these receivers, from now on."""
        for sender in senders:
            self._know(sender, {receiver: self.NOWHERE for receiver in receivers if receiver != sender})

    def cut(self, some, others):
        """Drops everything between two groups."""
        self.drop(some, others)
        self.drop(others, some)

    def slow(self, name, milliseconds):
        """Delays what a machine sends; returns how. Where the system has no `netem`, its link is narrow instead, so
        that messages wait for one another.
        """
        queue = ["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "eth0", "root"]
        delay = f"{milliseconds}ms"
        if subprocess.run([*queue, "netem", "delay", delay, delay], capture_output=True).returncode == 0:
            return f"slow by {delay}"
        run(*queue, "tbf", "rate", "2mbit", "burst", "16kb", "latency", "2s")
        return "narrow, 2 Mbit/s"

    def fast(self, name):
        run("ip", "netns", "exec", name, "tc", "qdisc", "delete", "dev", "eth0", "root")

    def _know(self, sender, hardware):
        lines = [
            f"neighbour replace {self.addresses[other]} lladdr {address} dev eth0 nud permanent"
            for other, address in hardware.items()
        ]
        run("ip", "-n", sender, "-batch", "-", input="\n".join(lines))


class Disk:
    """A file system of a fixed size."""

    def __init__(self, path, size):
        self.path, self.ballast = path, os.path.join(path, "ballast")
        os.makedirs(path)
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path)

    def fill(self):
        """Takes all of its room."""
        with open(self.ballast, "ab") as file:
            for size in [1 << 20, PAGE_BYTES]:
                try:
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
                except OSError:
                    pass

    def free(self):
        if os.path.exists(self.ballast):
            os.remove(self.ballast)


class Clock:
    """Sets the clock of one process, CLOCK_REALTIME only: the process reads it in the page of code that the kernel maps
    into each process, where it is replaced by the system call and an offset. libfaketime does not reach programs in Go.
    """

    # mov eax, SYS_clock_gettime; syscall; test edi, edi; jne end; mov rcx, [offset]; add [rsi], rcx; end: ret
    CODE = bytes.fromhex("b8e4000000 0f05 85ff 750a 488b0d04000000 48010e c3")
    CAN_BE_SET = os.uname().machine == "x86_64"

    @classmethod
    def set(cls, pid, seconds):
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
            first, last = next(line for line in maps if "[vdso]" in line).split()[0].split("-")
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        try:
            begin = int(first, 16)
            image = os.pread(memory, int(last, 16) - begin, begin)
            os.pwrite(memory, cls.CODE + struct.pack("<q", seconds), begin + cls._function(image))
        finally:
            os.close(memory)

    @staticmethod
    def _function(image):
        """Finds the function in the ELF image: by its dynamic symbols."""
        (headers,), (size, count) = struct.unpack_from("<Q", image, 32), struct.unpack_from("<HH", image, 54)
        segments = [struct.unpack_from("<IIQQQQ", image, headers + size * number) for number in range(count)]
        dynamic = next(segment for segment in segments if segment[0] == 2)
        entries = dict(struct.iter_unpack("<QQ", image[dynamic[2] : dynamic[2] + dynamic[5]]))
        names, symbols = entries[5], entries[6]
        for at in range(symbols, names, 24):
            name, _, _, _, value = struct.unpack_from("<IBBHQ", image, at)
            if image[names + name :].startswith(b"__vdso_clock_gettime\0"):
                return value
        raise LookupError("__vdso_clock_gettime")


class Machine:
    """A process with its network namespace and its disk. One that should run and has ended is begun again."""

    def __init__(self, network, name, directory, size):
        self.network, self.name, self.address = network, name, network.addresses[name]
        self.disk = Disk(os.path.join(directory, name), size)
        self.output = os.path.join(directory, f"{name}.log")
        self.lock = threading.RLock()
        self.should_run, self.process, self.begun = False, None, 0
        # How it has ended, each time: negative for a signal.
        self.ends = []

    def command(self):
        raise NotImplementedError

    def start(self):
        with self.lock:
            self.should_run = True
            if self.process is None:
                command = ["nsenter", f"--net=/run/netns/{self.name}", *self.command()]
                with open(self.output, "ab") as output:
                    self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
                self.begun = time.monotonic()

    def send(self, number):
        with self.lock:
            if self.process is not None:
                self.process.send_signal(number)

    def end(self, number=signal.SIGKILL):
        """Ends the process by a signal; it stays away until it is started."""
        with self.lock:
            self.should_run = False
            self.send(number)
            # One that stands still would not hear it.
            self.send(signal.SIGCONT)
            if self.process is not None:
                self.ends.append(self.process.wait())
                self.process = None

    def jump(self, offsets):
        """Sets the clock to one of these offsets after the other, until the returned function is called."""
        over = threading.Event()

        def jump():
            for seconds in itertools.cycle(offsets):
                self._set_clock(seconds)
                if over.wait(JUMP_SECONDS):
                    return

        def heal():
            over.set()
            thread.join()
            self._set_clock(0)

        thread = threading.Thread(target=jump, daemon=True)
        thread.start()
        return heal

    def _set_clock(self, seconds):
        with self.lock:
            if self.process is not None and self.process.poll() is None:
                Clock.set(self.process.pid, seconds)

    def supervise(self):
        with self.lock:
            if self.process is not None and self.process.poll() is not None:
                self.ends.append(self.process.returncode)
                self.process = None
            if self.process is None and self.should_run and time.monotonic() - self.begun > 0.5:
                self.start()

    def text(self):
        with open(self.output, encoding="utf-8", errors="replace") as output:
            return output.read()


class Log(Machine):
    """A server of NATS JetStream."""

    def __init__(self, server, number, *arguments):
        super().__init__(*arguments, LOG_BYTES)
        self.server, self.configuration = server, os.path.join(self.disk.path, "configuration")
        addresses = [f"{self.network.addresses[f'log-{other}']}:{NATS_PORT}" for other in [1, 2, 3]]
        with open(self.configuration, "w", encoding="ascii") as file:
            file.write(run("scripts/nats", "configuration", self.disk.path, str(number), *addresses))

    def command(self):
        return [self.server, "--config", self.configuration]


class Node(Machine):
    """A node of `ermined`."""

    def __init__(self, ermined, is_first, *arguments):
        super().__init__(*arguments, NODE_BYTES)
        self.ermined, self.is_first = ermined, is_first
        self.directory = os.path.join(self.disk.path, "node")

    def command(self):
        addresses = [f"nats://{self.network.addresses[f'log-{number}']}:{NATS_PORT}" for number in [1, 2, 3]]
        command = [self.ermined, "serve", self.directory, "--cluster", "tested", "--replicate", ",".join(addresses)]
        command += ["--node", self.name, "--lease", str(LEASE_SECONDS), "--drain-seconds", "1", "--threads", "2"]
        # Small, so that there are many bases, and nodes that begin anew from them.
        command += ["--base-after", "4", "--segment-bytes", str(4 << 20), "--memory-limit", "512"]
        command += ["--listen", f"{self.address}:{PORT}", "--trust"]
        return command + (["--create"] if self.is_first else [])


class Machines:
    """All of them, and a supervisor."""

    def __init__(self, ermined, server, directory):
        self.directory = directory
        names = [f"log-{number}" for number in [1, 2, 3]] + [f"node-{number}" for number in [1, 2, 3]]
        self.network = Network(names)
        place = [(self.network, name, directory) for name in names]
        self.logs = [Log(server, number, *place[number - 1]) for number in [1, 2, 3]]
        self.nodes = [Node(ermined, number == 1, *place[number + 2]) for number in [1, 2, 3]]
        self.all = self.logs + self.nodes
        self.is_supervised = True
        threading.Thread(target=self._supervise, daemon=True).start()

    def _supervise(self):
        while self.is_supervised:
            for machine in self.all:
                machine.supervise()
            time.sleep(0.1)

    def start(self):
        for machine in self.all:
            machine.start()

    def end(self):
        self.is_supervised = False
        for machine in reversed(self.all):
            machine.send(signal.SIGCONT)
            machine.end(signal.SIGKILL)

    def keep_files(self, directory):
        """Copies the files of all machines out of their disks, which vanish."""
        for machine in self.all:
            machine.disk.free()
            shutil.copytree(machine.disk.path, os.path.join(directory, machine.name))
