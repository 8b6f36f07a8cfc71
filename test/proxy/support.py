"""A weir-proxy, an upstream for it, and a client that can send any bytes.

The environment variable WEIR_PROXY names the proxy's program. With WEIR_OVER_TLS, clients and proxies speak TLS."""

import collections
import concurrent.futures
import contextlib
import functools
import hashlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import authority
from ports import reserve

OVER_TLS = bool(os.environ.get("WEIR_OVER_TLS"))
plain_only = functools.partial(unittest.skipIf, OVER_TLS)  # with a reason
if OVER_TLS:
    import over_tls
PROXY = os.environ.get("WEIR_PROXY", "build/release/src/weir-proxy")
KEEPS_MEMORY = bool(os.environ.get("WEIR_SANITIZED"))  # memory use does not show freed memory
# With this variable, the usual upstream uses TLS: a test of the framing over TLS too.
ENCRYPTED = None
if os.environ.get("WEIR_TLS_UPSTREAM"):
    ENCRYPTED = authority.Authority()
    ENCRYPTED.issue("upstream", "IP:127.0.0.1")
    os.environ["SSL_CERT_FILE"] = ENCRYPTED.file  # the authorities of the system, for the proxies
PATIENCE = 20.0  # seconds after which a test gives up; generous, for sanitizers on a busy machine
LAST_OF_HOUR = range(3570, 3601)  # seconds until an hour is over that began before a request of the test

Request = collections.namedtuple("Request", "method target version fields body came")


def skip(why):
    """Ends the program with the status for a skipped test."""
    print("skipped:", why)
    sys.exit(77)


class Runner:
    """Runs at most `at_once` tests at the same time, since most of them wait; prints how long each took."""

    def __init__(self, at_once):
        self.at_once = at_once

    def run(self, suite):
        def run_one(test):
            result, began = unittest.TestResult(), time.monotonic()
            test.run(result)
            return test, result, time.monotonic() - began

        whole = unittest.TestResult()
        tests = self.tests(suite)
        with contextlib.ExitStack() as classes, concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            for case in {type(test) for test in tests}:
                classes.callback(case.doClassCleanups)
                case.setUpClass()
            for test, result, seconds in pool.map(run_one, tests):
                bad = result.errors + result.failures
                outcome = "FAILED" if bad else "skipped" if result.skipped else "ok"
                print(f"{seconds:6.2f} s {outcome:8}{test.id()}", flush=True)
                for which, text in bad + result.skipped:
                    print(f"{which}\n{text}", flush=True)
                whole.errors += bad
                whole.testsRun += 1
        return whole

    @classmethod
    def tests(cls, suite):
        return [one for part in suite for one in (cls.tests(part) if isinstance(part, unittest.TestSuite) else [part])]


def main(at_once=1):
    if not os.access(PROXY, os.X_OK):
        skip(f"there is no {PROXY}")
    unittest.main(testRunner=Runner(at_once))


@contextlib.contextmanager
def full_backlog():
    """Listens on a port where a connection is neither accepted nor rejected until the other connections are closed."""
    with socket.socket() as listener, contextlib.ExitStack() as others:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            s = others.enter_context(socket.socket())
            s.setblocking(False)
            s.connect_ex(listener.getsockname())
        yield listener, others


def wait_until(predicate, what="it", every=0.005):
    end = time.monotonic() + PATIENCE
    while not predicate():
        if time.monotonic() > end:
            raise AssertionError(f"timed out after {PATIENCE} s waiting for {what}")
        time.sleep(every)


def rejects(port):
    """Whether no program listens on the port."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0


def in_parallel(clients, work):
    """Runs work(i) on `clients` threads, and raises an exception that one of them raised."""
    failures = []

    def run(i):
        try:
            work(i)
        except BaseException as e:  # raised by the thread that waits
            failures.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


class Reader:
    """Reads HTTP from a socket, strictly enough to notice errors of a proxy."""

    def __init__(self, sock):
        self.sock = sock
        self.data = b""

    def more(self):
        piece = self.sock.recv(65536)
        self.data += piece
        return bool(piece)

    def until(self, end):
        while end not in self.data:
            if not self.more():
                raise EOFError(f"the connection ended after {self.data[:200]!r}")
        text, self.data = self.data.split(end, 1)
        return text

    def exactly(self, n):
        pieces = []
        while n > 0:
            if not self.data and not self.more():
                raise EOFError(f"{n} bytes are missing")
            piece, self.data = self.data[:n], self.data[n:]
            pieces.append(piece)
            n -= len(piece)
        return b"".join(pieces)

    def rest(self):
        while self.more():
            pass
        text, self.data = self.data, b""
        return text

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon, line
            fields.append((name.lower(), value.strip()))
        return lines[0], fields

    def body(self, fields, until_close=False):
        got = dict(fields)
        assert not ("content-length" in got and "transfer-encoding" in got), fields
        if got.get("transfer-encoding") == "chunked":
            pieces = []
            while size := int(self.until(b"\r\n"), 16):
                pieces.append(self.exactly(size))
                assert self.exactly(2) == b"\r\n"
            assert self.until(b"\r\n") == b"", "there are trailers"
            return b"".join(pieces)
        if "content-length" in got:
            return self.exactly(int(got["content-length"]))
        return self.rest() if until_close else b""


class Answer:
    def __init__(self, reader, method="GET"):
        self.interim = []
        while True:
            first, self.fields = reader.head()
            self.status = int(first.split(" ")[1])
            if self.status >= 200:
                break
            self.interim.append(self.status)
        self.get = dict(self.fields).get
        bodiless = method == "HEAD" or self.status in (204, 304)
        self.body = b"" if bodiless else reader.body(self.fields, until_close=True)


class Client:
    """One connection."""

    host = "test"

    def __init__(self, port, receive_buffer=None, source="127.0.0.1", encrypted=OVER_TLS):
        six = ":" in source
        self.sock = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(PATIENCE)
        if source != "127.0.0.1":
            self.sock.bind((source, 0))
        self.sock.connect(("::1" if six else "127.0.0.1", port))
        if encrypted:
            self.sock = over_tls.EncryptedSocket(self.sock)
        self.reader = Reader(self.sock)

    def send(self, text):
        self.sock.sendall(text.encode("latin-1") if isinstance(text, str) else text)

    def end_sending(self):
        """Announces the end of what this side sends, and can still receive."""
        if OVER_TLS:
            self.sock.end_sending()
        else:
            self.sock.shutdown(socket.SHUT_WR)

    def answer(self, method="GET"):
        return Answer(self.reader, method)

    def ask(self, target="/", method="GET", fields="", body=b"", version="1.1"):
        self.send(f"{method} {target} HTTP/{version}\r\nHost: {self.host}\r\n{fields}\r\n".encode("latin-1") + body)
        return self.answer(method)

    def ended(self):
        """Waits until the other side closes the connection, and returns all bytes before that."""
        try:
            return self.reader.rest()
        except ConnectionResetError:
            return b""

    def close(self):
        self.sock.close()

    def abort(self):
        reset(self.sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Upstream:
    """Responds as the path demands, and records the requests.

    A path in `script` names a function that responds. It gets the socket, the request and the reader, and returns true if
    the connection continues. After `close`, the port rejects connections until another upstream opens it: a proxy that
    still sends requests there reaches no other program."""

    context = ENCRYPTED and ENCRYPTED.server("upstream")  # of TLS; none: the connections are not encrypted

    def __init__(self, port=0):
        self.requests = []
        self.script = {}
        self.now = 0
        self.most = 0
        self.connections = 0
        self.lock = threading.Lock()
        self.reservation = reserve(port)  # as long as this object exists
        self.port = self.reservation.getsockname()[1]
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=1024)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        if self.context:
            try:
                sock = authority.accepted(self.context, sock)
            except OSError:
                return
        reader = Reader(sock)
        used = False
        with sock, contextlib.suppress(EOFError, OSError):
            while True:
                first, fields = reader.head()
                method, target, version = first.split(" ")
                came = time.monotonic()
                if target.startswith("/stream-back"):
                    request = Request(method, target, version, fields, b"", came)
                else:
                    request = Request(method, target, version, fields, reader.body(fields), came)
                with self.lock:
                    self.requests.append(request)
                    self.connections += not used
                used = True
                if not self.handle(sock, request, reader):
                    return

    @contextlib.contextmanager
    def at_work(self):
        """Counts a request in `now` and `most`, until just before its response is sent."""
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        yield
        with self.lock:
            self.now -= 1

    def handle(self, sock, request, reader):
        path = request.target.split("?")[0]
        if path in self.script:
            return self.script[path](sock, request, reader)
        word, _, argument = path[1:].partition("/")
        body = b"hello\n"
        if word == "sleep":
            with self.at_work():
                time.sleep(int(argument) / 1000)
        elif word == "bytes":
            body = pattern(int(argument))
        elif word == "chunked":
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            body = pattern(int(argument))
            for start in range(0, len(body), 9999):
                piece = body[start : start + 9999]
                sock.sendall(b"%x;ext=1\r\n%s\r\n" % (len(piece), piece))
            sock.sendall(b"0\r\nTrailer-Field: x\r\n\r\n")
            return True
        elif word == "until-close":
            sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + pattern(int(argument)))
            return False
        elif word == "digest":
            body = hashlib.sha256(request.body).hexdigest().encode()
        elif word == "stream-back":
            return self.stream_back(sock, request, reader)
        elif word == "once":  # each connection serves one request; the second one closes it
            if hasattr(reader, "used"):
                return False
            reader.used = True
        elif word == "status":
            sock.sendall(f"HTTP/1.1 {argument} Some Reason\r\nETag: x\r\n\r\n".encode())
            return True
        size = b"Content-Length: %d\r\n" % len(body)
        sock.sendall(b"HTTP/1.1 200 OK\r\n" + size + b"\r\n")
        if request.method != "HEAD":
            sock.sendall(body)
        return True

    @staticmethod
    def stream_back(sock, request, reader):
        """Sends each part of the body back before it reads the next one."""
        left = int(dict(request.fields)["content-length"])
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % left)
        while left > 0:
            piece = reader.exactly(min(left, 65536))
            sock.sendall(piece)
            left -= len(piece)
        return True

    def targets(self):
        with self.lock:
            return [r.target for r in self.requests]

    def close(self):
        with contextlib.suppress(OSError):  # closed before
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


@contextlib.contextmanager
def stopped(process):
    """A process that hangs: each of its threads has stopped when this is entered, and continues at the end."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def hangs_until(over):
    """A script of an upstream: responds with 200 when the event `over` is set, but after 30 s at the latest."""
    def hang(sock, request, reader):
        over.wait(30)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        return True

    return hang


def reset(sock):
    """Closes a connection so that the other side gets an error."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def new_seed():
    """The seed of a random test, which it prints: WEIR_SEED, or another number each time."""
    seed = int(os.environ.get("WEIR_SEED") or random.randrange(1 << 30))
    print("WEIR_SEED =", seed, flush=True)
    return seed


def pattern(n):
    """n bytes: a block of 64 KiB, whose lines of 16 bytes all differ, repeated."""
    block = b"".join(b"%015d\n" % i for i in range(4096))
    return (block * (n // len(block) + 1))[:n]


class Proxy:
    """A weir-proxy, on a free port unless `port` selects one."""

    def __init__(self, *options, preexec_fn=None, listen="127.0.0.1", port=0, config=None):
        """`config` is the text of a file. Without a [[listen]], the proxy listens on one free port."""
        self.folder = None
        if OVER_TLS and config is None:
            options = ("--listen", f"{listen}:{port}", *map(str, options))
            config = subprocess.run([PROXY, *options, "--print-config"], check=True, capture_output=True, text=True).stdout
            options = ()
        if config is None:
            options = ("--listen", f"{listen}:{port}", *options)
        else:
            self.folder = tempfile.TemporaryDirectory(prefix="weir-proxy-")
            self.file = os.path.join(self.folder.name, "weir.toml")
            self.write(config)
            options = ("--config", self.file, *options)
        self.process = subprocess.Popen(
            [PROXY, *map(str, options)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=preexec_fn,
        )
        self.greeting = self.process.stdout.readline()
        found = re.search(rf"(?:https?|tcp|tls)://{re.escape(listen)}:(\d+)[ ,]", self.greeting)
        if not found:
            raise AssertionError(f"no greeting: {self.greeting!r} {self.process.communicate()}")
        self.port = int(found[1])
        self.report = None

    def stop(self, which=signal.SIGTERM):
        """Ends the proxy, and returns its report."""
        if self.report is None:
            self.process.send_signal(which)
            try:
                _, self.report = self.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise AssertionError(f"the proxy did not end: {self.process.communicate()}")
            if self.process.returncode != 0:
                raise AssertionError(f"exit {self.process.returncode}: {self.report}")
        return self.report

    def write(self, config):
        """Replaces the text of the file."""
        if "[[listen]]" not in config:
            config += '[[listen]]\naddress = "127.0.0.1:0"\n'
        self.config = over_tls.encrypt(config) if OVER_TLS else config
        with open(self.file, "w") as file:
            file.write(self.config)

    def numbers(self):
        """The numbers of the current report, by their names."""
        self.process.send_signal(signal.SIGUSR1)
        lines = []
        while len(lines) < self.report_lines():  # other messages may come in between
            line = self.process.stderr.readline()
            assert line, "the proxy ended"
            if REPORT.match(line):
                lines.append(line)
        return numbers("".join(lines))

    def report_lines(self):
        if self.folder:
            return 1 + self.config.count("[[limit]]") + self.config.count("# seats: reported")
        arguments = self.process.args
        return 1 + sum("--" + part.replace(" ", "-") in arguments for part in RULES)


# The limits with a line in the report, named as their options.
RULES = ("per-client seats", "per-client rate", "seats", "rate")


REPORT = re.compile(r"weir-proxy: (\d+ connections|[^:]+: \d+ granted)")


def numbers(report):
    """`{'seats': {'granted': 3, ...}, 'rate': ..., 'proxy': {'requests': 5, ...}}`"""
    found = {}
    for line in report.splitlines():
        part = re.match(r"weir-proxy: ([^:]+): \d+ granted", line)
        pairs = re.findall(r"(\d+) ([a-z ]*[a-z])", line)
        found[part[1] if part else "proxy"] = {name: int(n) for n, name in pairs}
    return found


class ProxyTest(unittest.TestCase):
    """A test with an upstream. It starts its proxies with `start`."""

    def setUp(self):
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)

    def unused_port(self):
        """A port that rejects connections until the end of the test, or until a program that names it listens on it."""
        reservation = reserve()
        self.addCleanup(reservation.close)
        return reservation.getsockname()[1]

    def start(self, *options, **how):
        proxy = Proxy("--upstream", self.filled("UPSTREAM"), *options, **how)
        self.addCleanup(self.finish, proxy)
        return proxy

    def start_with(self, config, **how):
        """Starts a proxy with a configuration, in which UPSTREAM is replaced by the address of the upstream."""
        proxy = Proxy(config=self.filled(config), **how)
        self.addCleanup(self.finish, proxy)
        return proxy

    def filled(self, config):
        return config.replace("UPSTREAM", f"{'https://' if ENCRYPTED else ''}127.0.0.1:{self.upstream.port}")

    def finish(self, proxy):
        report = proxy.stop()
        for stream in (proxy.process.stdout, proxy.process.stderr):
            stream.close()
        found = numbers("".join(line for line in report.splitlines(True) if REPORT.match(line)))
        for part in found:
            if part != "proxy":
                self.assertEqual(found[part]["in use"], 0, report)
                self.assertEqual(found[part]["waiting"], 0, report)
        self.assertEqual(found["proxy"]["open"], 0, report)
        if proxy.folder:
            proxy.folder.cleanup()
