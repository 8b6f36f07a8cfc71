#!/usr/bin/env python3
"""Many events at the same time, for WEIR_SECONDS: wrk, clients that disconnect, slow clients, reloads, changes of limits, and
killed servers.

Each server is a separate process. It stamps a request when its head arrived, and just before it sends the last part of the
response. All processes of a machine share that clock, so the stamps of all servers together show afterwards whether the limits
held:

- A request is granted before it is sent, and arrives at the server after a delay. The access log gives the time of the grant:
  the end of the request, minus its duration, plus its wait. If N + 1 requests arrive within a time that is shorter than a
  second by more than the largest delay among them, they were granted within less than a second. The margin is that delay plus
  CLOCKS.
- A request is active from its first stamp to its second one, or until its server is killed. Its seat is held for longer than
  that, so the number of active requests needs no margin.
- While a limit changes, the test uses the largest value that may have been in force in the window. For seats that is from the
  grant of the last arrival to its arrival.

A request of a patient client gets 200, and no second server serves it if the first one responded. It may be lost if the proxy
cannot know whether it was served: if its server was killed while it was active. The client then sends it again."""

import bisect
import collections
import contextlib
import datetime
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from admin_support import put, stats
from support import KEEPS_MEMORY, OVER_TLS, PATIENCE, Client, Proxy, Reader, main, new_seed, pattern, reserve, skip, wait_until

SECONDS = float(os.environ.get("WEIR_SECONDS", "30"))
CLOCKS = 0.02  # the log has milliseconds, and reads two clocks one after the other
RESET = 0.25  # until the other side of a process's connections notices its end
MEMORY = 4096  # KiB that the process may grow by after the first part
SCHEME = "https" if OVER_TLS else "http"
BODY = pattern(1024 * 1024)


# ---- A server, in a separate process


class Server:
    """Responds to /work/MS/BYTES after MS milliseconds, with BYTES bytes."""

    def __init__(self, port, file):
        self.stamps = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)

    def run(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def stamp(self, what, fields):
        client = fields["x-forwarded-for"].split(",")[0]
        os.write(self.stamps, f"{what} {time.monotonic()!r} {fields['x-request-id']} {client}\n".encode())

    def serve(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = Reader(sock)
        with sock, contextlib.suppress(EOFError, OSError):
            while True:
                first, fields = reader.head()
                target = first.split(" ")[1]
                if target == "/healthz":
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                else:
                    self.work(sock, reader, target, dict(fields))

    def work(self, sock, reader, target, fields):
        self.stamp("+", fields)
        over = False
        try:
            body = reader.body(fields)
            _, _, ms, size = target.split("/")
            time.sleep(int(ms) / 1000)
            answer = b"HTTP/1.1 200 OK\r\nX-Got: %d\r\nContent-Length: %d\r\n\r\n" % (len(body), int(size)) + BODY[:int(size)]
            sock.sendall(answer[:-1])
            over = True
            self.stamp("-", fields)
            sock.sendall(answer[-1:])
        finally:
            if not over:
                self.stamp("-", fields)  # before the connection is closed


class Place:
    """A port, and the servers that used it one after the other."""

    Life = collections.namedtuple("Life", "file killed")  # killed: [when the signal was sent, when the process had ended]

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.lives = []
        self.reservation = reserve()
        self.port = self.reservation.getsockname()[1]
        self.start()

    def start(self):
        file = os.path.join(self.folder, f"{self.name}-{len(self.lives)}")
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "serve", str(self.port), file], stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"
        self.lives.append(self.Life(file, []))

    def kill(self):
        killed = self.lives[-1].killed
        killed.append(time.monotonic())
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        killed.append(time.monotonic())
        self.process.stdout.close()

    def close(self):
        self.kill()
        self.reservation.close()


# ---- The events, and the rules that they must follow


class Settings:
    """The values of a limit over time."""

    def __init__(self, value):
        self.begun = [0.0]  # from here on the value may be in force
        self.there = [0.0]  # from here on it is in force
        self.values = [value]

    def add(self, begun, there, value):
        self.begun.append(begun)
        self.there.append(there)
        self.values.append(value)

    def most(self, begin, end):
        """The largest value that may have been in force between these times."""
        first = bisect.bisect_right(self.there, begin) - 1
        last = bisect.bisect_right(self.begun, end)
        return max(self.values[first:last])

    def around(self, at):
        """The values around a time, for messages."""
        now = bisect.bisect_right(self.begun, at)
        return list(zip(self.begun, self.there, self.values))[max(0, now - 3):now + 1]


Arrival = collections.namedtuple("Arrival", "at id client granted seated until place")


def judge_rate(arrivals, limit, what):
    """Judges arrivals, in their order, by a limit of N in any second. Returns the margins, and the shortest time in which
    N + 1 requests arrived."""
    margins = []
    shortest = float("inf")
    for n in sorted(set(limit.values)):
        late = collections.deque()  # the largest delays of a window, in descending order
        for i, last in enumerate(arrivals):
            delay = last.at - last.granted
            while late and late[-1][1] <= delay:
                late.pop()
            late.append((i, delay))
            if late[0][0] < i - n:
                late.popleft()
            if i < n:
                continue
            first = arrivals[i - n]
            margin = late[0][1] + CLOCKS
            if limit.most(first.at - margin, last.at) > n:
                continue
            took = last.at - first.at
            margins.append(margin)
            shortest = min(shortest, took)
            if took < 1.0 - margin:
                raise AssertionError(f"{what}: {n + 1} requests arrived within {took:.4f} s, from {first} to {last}; "
                                     f"the margin is {margin:.4f} s")
    return margins, shortest


def judge_seats(arrivals, limit, what):
    """Returns the largest number of concurrently active requests."""
    events = sorted([(a.at, 1, a) for a in arrivals] + [(a.until, 0, a) for a in arrivals], key=lambda e: e[:2])
    now = most = 0
    for at, comes, a in events:
        now += 1 if comes else -1
        # The last grant of the active requests was between these times.
        if comes and now > limit.most(a.seated - CLOCKS, at):
            raise AssertionError(f"{what}: {now} requests are active at {at}, with {a}; "
                                 f"the limit is {limit.most(a.seated - CLOCKS, at)}; its values are {limit.around(at)}")
        most = max(most, now)
    return most


LINE = re.compile(r'(\S+)Z \S+ ".*" (\d+|-) \d+ (\S+) (\S+) \S+ "[^"]*" (\S+)$')


class Clock:
    """Converts times of the log's wall clock to the clock of the stamps."""

    def __init__(self):
        self.wall = []
        self.offset = []

    def note(self):
        before = time.monotonic()  # a pause between the two makes a grant seem earlier, which only makes the margin larger
        self.wall.append(time.time())
        self.offset.append(before - self.wall[-1])

    def monotonic(self, wall):
        return wall + self.offset[max(0, bisect.bisect_right(self.wall, wall) - 1)]


Line = collections.namedtuple("Line", "begun waited ended status")


def lines_of(log, clock):
    """The facts of each request in the log, by its id."""
    found_of = {}
    day = None
    with open(log) as lines:
        for line in lines:
            found = LINE.match(line.rstrip("\n"))
            assert found, line
            if found[1][:10] != day:
                day = found[1][:10]
                midnight = datetime.datetime.fromisoformat(day + "T00:00:00+00:00").timestamp()
            hours, minutes, seconds = found[1][11:].split(":")
            end = clock.monotonic(midnight + int(hours) * 3600 + int(minutes) * 60 + float(seconds))
            found_of[found[5]] = Line(end - float(found[3]), float(found[4]), end, found[2])
    return found_of


# ---- Clients


WRK = """
math.randomseed(%d)
function request()
    -- Three clients send half of all requests.
    local client = math.random(2) == 1 and math.random(3) or 3 + math.random(40)
    return wrk.format("GET", string.format("%s/%%d/%%d", math.random(0, 40), math.random(0, 3000)),
                      {["X-Forwarded-For"] = "10.1.0." .. client})
end
"""
PAUSES = "function delay() return 25 end\n"

Asked = collections.namedtuple("Asked", "id begun ended status")


class Clients:
    """Clients of all kinds, each on its own thread, until `ends` is set."""

    def __init__(self, port, folder, seed):
        self.port = port
        self.folder = folder
        self.seed = seed
        self.ends = threading.Event()
        self.failures = []
        self.sent = {}  # when the last byte of a head was sent, by the request's id
        self.asked = []  # by patient clients
        self.hung_up = collections.Counter()
        self.threads = []
        self.wrk = []

    def start(self, part, seconds):
        for name, count, work in (("patient", 6, self.patient), ("slow", 3, self.slow), ("hanging-up", 4, self.hang_up)):
            for i in range(count):
                thread = threading.Thread(target=self.run, args=(work, part, f"{name}-{part}-{i}"))
                thread.start()
                self.threads.append(thread)
        for name, target, connections, more in (("waits", "/work", 32, ""), ("hurries", "/brisk", 8, PAUSES)):
            script = os.path.join(self.folder, f"{name}-{part}.lua")
            with open(script, "w") as file:
                file.write(WRK % (random.Random(f"{self.seed} {name} {part}").randrange(2**31), target) + more)
            self.wrk.append(subprocess.Popen(["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", "--timeout", "60s",
                                              "-s", script, f"{SCHEME}://127.0.0.1:{self.port}"], stdout=subprocess.PIPE, text=True))

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        self.threads.clear()
        self.ends.clear()
        totals = [wrk.communicate()[0] for wrk in self.wrk]
        assert all(wrk.returncode == 0 for wrk in self.wrk), totals
        self.wrk.clear()
        if self.failures:
            raise self.failures[0]
        return [int(n) for total in totals for n in re.findall(r"(\d+) requests in", total)]

    def run(self, work, part, name):
        try:
            work(random.Random(f"{self.seed} {name}"), name, f"10.{2 + part}.{sum(map(ord, name)) % 250}.1")
        except BaseException as e:  # raised by the thread that waits
            self.failures.append(AssertionError(f"{name}: {e!r}"))

    def head(self, target, client, name, method="GET", length=None):
        fields = f"X-Forwarded-For: {client}\r\nX-Request-Id: {name}\r\n"
        if length is not None:
            fields += f"Content-Length: {length}\r\n"
        return f"{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n".encode()

    def send_head(self, connection, name, head):
        self.sent[name] = time.monotonic()
        connection.send(head)

    @staticmethod
    def in_bytes(connection, text, pause):
        for byte in text:
            connection.send(bytes([byte]))
            time.sleep(pause)

    def judge(self, name, begun, connection, size, body, take=None):
        """Reads the response. Returns whether the connection continues."""
        status, goes_on = None, False
        with contextlib.suppress(EOFError, OSError):
            if take:
                take()
            answer = connection.answer()
            if answer.status == 200:
                assert answer.body == BODY[:size], f"{len(answer.body)} bytes of {size}"
                assert answer.get("x-got") == str(body), f"{answer.get('x-got')} bytes of {body} arrived"
            status, goes_on = answer.status, answer.get("connection", "").lower() != "close"
        self.asked.append(Asked(name, begun, time.monotonic(), status))
        return goes_on

    # ---- Clients that must lose no request

    def patient(self, rand, who, client):
        n = 0
        while not self.ends.is_set():
            with Client(self.port) as connection:
                connection.sock.settimeout(120)
                goes_on = True
                for _ in range(rand.randrange(1, 60)):
                    if self.ends.is_set() or not goes_on:
                        break
                    n += 1
                    name, size = f"{who}-{n}", rand.randrange(5000)
                    body = rand.randrange(1, 20000) if rand.randrange(4) == 0 else 0
                    method, length = ("POST", body) if body else ("GET", None)
                    begun = time.monotonic()
                    with contextlib.suppress(OSError):  # the response shows the result
                        target = f"/work/{rand.randrange(40)}/{size}"
                        self.send_head(connection, name, self.head(target, client, name, method, length))
                        connection.send(BODY[:body])
                    goes_on = self.judge(name, begun, connection, size, body)

    def slow(self, rand, who, client):
        n = 0
        while not self.ends.is_set():
            n += 1
            way = rand.randrange(3)
            name, size, body = f"{who}-{n}", 200_000 if way == 2 else 100, 100 if way == 1 else 0
            with Client(self.port, receive_buffer=4096) as connection:
                connection.sock.settimeout(120)
                head = self.head(f"/work/5/{size}", client, name, *(("POST", body) if body else ()))
                begun = time.monotonic()

                def read():
                    while len(connection.reader.data) < size and connection.reader.more():
                        time.sleep(0.002)

                with contextlib.suppress(OSError):
                    if way == 0:
                        self.in_bytes(connection, head[:-1], 0.003)
                        head = head[-1:]
                    self.send_head(connection, name, head)
                    self.in_bytes(connection, BODY[:body], 0.003)
                self.judge(name, begun, connection, size, body, read if way == 2 else None)

    # ---- Clients that disconnect

    def hang_up(self, rand, who, client):
        n = 0
        while not self.ends.is_set():
            n += 1
            name = f"{who}-{n}"
            where = rand.choice(("head", "body", "waiting", "answer"))
            connection = Client(self.port, receive_buffer=4096 if where == "answer" else None)
            with contextlib.suppress(EOFError, OSError):
                if where == "head":
                    connection.send(self.head("/work/0/0", client, name)[:rand.randrange(1, 60)])
                elif where == "body":
                    self.send_head(connection, name, self.head("/work/0/0", client, name, "POST", 500_000))
                    connection.send(BODY[:rand.randrange(1, 200_000)])
                elif where == "waiting":
                    self.send_head(connection, name, self.head(f"/work/{rand.randrange(100)}/0", client, name))
                else:
                    self.send_head(connection, name, self.head("/work/0/500000", client, name))
                    connection.reader.head()
                    connection.reader.more()
            time.sleep(rand.random() * 0.1)
            self.hung_up[where] += 1
            rand.choice((connection.abort, connection.close))()


# ---- The proxy and its changes


class Soak(unittest.TestCase):
    def setUp(self):
        self.seed = str(new_seed())
        self.random = random.Random(self.seed)
        folder = tempfile.TemporaryDirectory(prefix="weir-soak-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "log")
        self.places = [Place(self.folder, name) for name in "abc"]
        for place in self.places:
            self.addCleanup(place.close)
        self.now = {"rate": 240, "client": 30, "seats": 12, "c": 6}
        self.settings = {name: Settings(value) for name, value in self.now.items()}
        self.clock = Clock()

    RULES = {"rate": "{}/1s", "client": "{}/1s", "seats": "{} seats"}
    CHOICES = {"rate": (160, 240), "client": (20, 30), "seats": (8, 12), "c": (0, 4, 6)}  # 0: the configuration does not name it

    def config(self, values):
        text = (f'access_log = "{self.log}"\nthreads = 2\n'
                '[timeouts]\nheader = "60s"\nbody = "60s"\nupstream_idle = "1s"\n'
                '[clients]\ntrusted = ["127.0.0.1/32"]\n'
                '[admin]\naddress = "127.0.0.1:0"\nwrite = true\n'
                # A slow server does not count as a failed one.
                '[[upstream]]\nname = "shop"\nhealth = { path = "/healthz", every = "50ms", timeout = "30s", fall = 2, rise = 1 }\n')
        # Whichever server is killed, the other servers have seats for all requests that the limit `seats` grants.
        for place, seats in zip(self.places, (12, 12, values["c"])):
            if seats:
                text += f'[[upstream.server]]\naddress = "127.0.0.1:{place.port}"\nseats = {seats}\n'
        for name, rule in self.RULES.items():
            text += f'[[limit]]\nname = "{name}"\nrule = "{rule.format(values[name])}"\nqueue = "max_waiting 1000 patience 60s"\n'
            if name == "client":
                text += 'key = "client"\n'
        text += '[[limit]]\nname = "brisk"\nrule = "40/1s"\nqueue = "max_waiting 0 patience 0s"\n'
        limits = '"rate", "client", "seats"'
        # A request to /brisk never waits, whichever limit has no permit.
        text += f'[[route]]\npath = "/brisk"\nupstream = "shop"\nlimits = [{limits}, "brisk"]\n'
        return text + f'[[route]]\nupstream = "shop"\nlimits = [{limits}]\n'

    def start(self):
        self.proxy = Proxy(config=self.config(self.now))
        self.said = []
        self.has_said = threading.Condition()
        self.listens = threading.Thread(target=self.listen)
        self.listens.start()
        self.addCleanup(self.end)

    def listen(self):
        for line in self.proxy.process.stderr:
            with self.has_said:
                self.said.append(line)
                self.has_said.notify_all()

    def end(self):
        process = self.proxy.process
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            self.listens.join()
            process.stdout.close()
            process.stderr.close()
            self.proxy.folder.cleanup()
        self.assertEqual(process.returncode, 0, "".join(self.said[-20:]))
        self.assertNotIn("anitizer", "".join(self.said))

    def change_rule(self):
        name = self.random.choice(list(self.RULES))
        value = self.random.choice(self.CHOICES[name])
        begun = time.monotonic()
        self.assertEqual(put(self.proxy, name, self.RULES[name].format(value))[0], 200)
        self.settings[name].add(begun, time.monotonic(), value)

    def reload(self):
        values = {name: self.random.choice(some) for name, some in self.CHOICES.items()}
        self.proxy.write(self.config(values))
        before = len(self.said)
        begun = time.monotonic()
        self.proxy.process.send_signal(signal.SIGHUP)
        with self.has_said:
            done = self.has_said.wait_for(lambda: any("configuration reloaded" in line for line in self.said[before:]), 60)
        self.assertTrue(done, self.said[before:])
        for name, value in values.items():
            if value:  # an earlier request may still go to a removed server
                self.settings[name].add(begun, time.monotonic(), value)

    def kill(self):
        """Kills one server at a time, while all others run and the proxy has them as up."""
        for ends in iter(self.next_kill, None):
            place = random.Random(f"{self.seed} {ends}").choice(self.places)
            place.kill()
            self.ends.wait(random.Random(f"{self.seed} {ends} for").random())
            place.start()
            while any(s["down"] for s in stats(self.proxy)["upstreams"][0]["servers"]):
                if self.ends.wait(0.02):
                    return

    def next_kill(self):
        return None if self.ends.wait(0.5) else len(self.places[0].lives + self.places[1].lives + self.places[2].lives)

    def storm(self, clients, part, seconds):
        end = time.monotonic() + seconds
        self.ends = threading.Event()
        killer = threading.Thread(target=clients.run, args=(lambda *_: self.kill(), part, "killer"))
        clients.start(part, seconds)
        killer.start()
        try:
            changes = 0
            while time.monotonic() < end:
                self.clock.note()
                time.sleep(0.1)
                if self.random.randrange(5) == 0:
                    (self.reload if self.random.randrange(3) == 0 else self.change_rule)()
                    changes += 1
        finally:
            self.ends.set()
            killer.join()
            done = clients.stop()
        self.clock.note()
        return changes, done

    # ---- The resources of the proxy

    def files(self):
        return len(os.listdir(f"/proc/{self.proxy.process.pid}/fd"))

    def resident(self):
        with open(f"/proc/{self.proxy.process.pid}/status") as status:
            return int(status.read().split("VmRSS:")[1].split()[0])

    def all_is_quiet(self):
        told = stats(self.proxy)
        servers = told["upstreams"][0]["servers"]
        return (told["connections"]["open"] == 0 and all(one["in_use"] == one["waiting"] == 0 for one in told["limits"]) and
                all(s["active"] == s["connections"] == 0 for s in servers))

    def wait_for(self, predicate, what):
        """Waits a minute longer than other tests, because memory is released with a delay."""
        end = time.monotonic() + 60 + PATIENCE
        while not predicate():
            if time.monotonic() > end:
                raise AssertionError(f"timed out waiting for {what}")
            time.sleep(0.05)

    def test_all_at_once(self):
        self.start()
        with Client(self.proxy.port) as client:
            client.ask("/work/0/0", fields="X-Request-Id: first\r\nX-Forwarded-For: 10.9.9.9\r\n")
        self.wait_for(self.all_is_quiet, "the first")
        files = []
        while len(files) < 50:  # health checks may open files meanwhile
            files.append(self.files())
            time.sleep(0.01)
        files = min(files)

        clients = Clients(self.proxy.port, self.folder, self.seed)
        self.storm(clients, 0, max(3.0, SECONDS / 6))
        self.wait_for(self.all_is_quiet, "all to be quiet after the first part")
        warm = [self.resident()]
        for _ in range(30):
            time.sleep(0.1)
            warm.append(self.resident())
        changes, done = self.storm(clients, 1, SECONDS)
        most = self.resident()
        self.wait_for(self.all_is_quiet, "all to be quiet")
        self.wait_for(lambda: self.files() <= files, "the files to be closed")
        if not KEEPS_MEMORY:
            self.wait_for(lambda: self.resident() <= min(warm) + MEMORY, "the memory")
        told = stats(self.proxy)
        self.assertEqual(told["log_lines_dropped"], 0)
        print(f"{told['requests']}, wrk {done}, disconnected {dict(clients.hung_up)}, {changes} changes, "
              f"{sum(len(p.lives) for p in self.places) - 3} kills")
        print(f"{files} files, as before; {self.resident()} KiB, with load {most}, and {max(warm)} to {min(warm)} after the "
              "first part")
        lines = lines_of(self.log, self.clock)
        arrivals = self.arrivals(clients, lines)
        self.judge_limits(arrivals)
        self.judge_lost(clients, arrivals, lines)

    # ---- The judgement by the stamps

    def arrivals(self, clients, lines):
        found = []
        for place in self.places:
            for life in place.lives:
                open_now = {}
                with open(life.file) as stamps:
                    for line in stamps:
                        what, at, name, client = line.split()
                        if what == "+":
                            self.assertNotIn(name, open_now)
                            open_now[name] = (float(at), client)
                        else:
                            begun, client = open_now.pop(name)
                            found.append((begun, name, client, float(at), place, None))
                if open_now:
                    self.assertTrue(life.killed, f"{len(open_now)} requests have no end at a running server")
                for name, (begun, client) in open_now.items():
                    found.append((begun, name, client, life.killed[0], place, life))
        found.sort(key=lambda one: one[0])
        arrivals, again = [], {}
        for at, name, client, until, place, lost in found:
            # It reaches the limits when the last byte of its head arrives, if that time is known.
            came = max(lines[name].begun, clients.sent.get(name, 0.0))
            let_in = min(at, came + lines[name].waited)
            if name in again:
                self.assertIsNotNone(again[name], f"{name} was sent again after a response")
                self.assertLess(again[name].killed[0], at, f"{name} was sent again without a reason")
            # A repeated request needs another token; the seat is the same.
            token = max(let_in, again[name].killed[0]) if name in again else let_in
            arrivals.append(Arrival(at, name, client, token, let_in, until, place.name))
            again[name] = lost
        return arrivals

    def judge_limits(self, arrivals):
        self.assertGreater(len(arrivals), 300)
        delays = sorted(a.at - a.granted for a in arrivals)
        print(f"{len(arrivals)} arrivals; delay after the grant: median {delays[len(delays) // 2] * 1000:.1f} ms, "
              f"p99 {delays[len(delays) * 99 // 100] * 1000:.1f} ms, max {delays[-1] * 1000:.1f} ms")
        margins, shortest = judge_rate(arrivals, self.settings["rate"], "rate")
        if margins:
            margins.sort()
            print(f"rate: {len(margins)} windows, shortest {shortest:.4f} s; margin: median {margins[len(margins) // 2]:.3f} s, "
                  f"max {margins[-1]:.3f} s")
        by_client = collections.defaultdict(list)
        for a in arrivals:
            by_client[a.client].append(a)
        found = [judge_rate(some, self.settings["client"], client) for client, some in by_client.items()]
        margins = sorted(m for some, _ in found for m in some)
        if margins:
            print(f"{len(by_client)} clients: {len(margins)} windows, shortest {min(s for _, s in found):.4f} s; "
                  f"margin: median {margins[len(margins) // 2]:.3f} s")
        most = judge_seats(arrivals, self.settings["seats"], "seats")
        each = [judge_seats([a for a in arrivals if a.place == place.name],
                            self.settings["c"] if place.name == "c" else Settings(12), place.name) for place in self.places]
        print(f"seats: at most {most} active requests, {each} at each server")

    def judge_lost(self, clients, arrivals, lines):
        kills = sorted(life.killed for place in self.places for life in place.lives if life.killed)

        def killed_between(begin, end):
            return any(killed <= end and begin <= ended + RESET for killed, ended in kills)

        lost = 0
        for one in clients.asked:
            if one.status != 200:  # 502 or no response
                lost += 1
                self.assertIn(one.status, (502, None), one)
                self.assertTrue(killed_between(one.begun, one.ended), f"{one} is lost, and no server was killed meanwhile")
        failed = [one for one in lines.items() if one[1].status == "502"]
        for one in failed:
            self.assertTrue(killed_between(one[1].begun, one[1].ended + CLOCKS), f"{one}, and no server was killed meanwhile")
        again = len(arrivals) - len({a.id for a in arrivals})
        print(f"patient and slow: {len(clients.asked)} requests, {lost} lost with a killed server; "
              f"of all requests {len(failed)} were lost, and {again} were sent again")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        server = Server(int(sys.argv[2]), sys.argv[3])
        print("ready", flush=True)
        server.run()
    if not shutil.which("wrk"):
        skip("there is no wrk; test/setup proxy installs it")
    main()
