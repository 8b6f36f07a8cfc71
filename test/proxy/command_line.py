#!/usr/bin/env python3
"""Errors of the command line are reported in one line; and examples/run works as documented."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import unittest

from support import PATIENCE, PROXY, Client, Proxy, ProxyTest, full_backlog, main, numbers, wait_until

RUN = os.environ.get("WEIR_EXAMPLES_RUN")
UP = ["--upstream", "127.0.0.1:9"]

# Wrong arguments, and a part of the message that reports them.
WRONG = [
    (["--bogus"], "weir-proxy: unknown option --bogus; see --help"),
    (["--demo", "extra"], "unexpected argument `extra`; see --help"),
    ([], "missing --upstream HOST:PORT, --demo or --config"),
    (["--demo", *UP], "--demo and --upstream exclude each other"),
    (["--tls", *UP], "--tls requires --demo; for your own certificates set `tls` in a configuration file"),
    (["--demo", "--seats"], "--seats needs a value; see --help"),
    (["--demo", "--demo"], "--demo must not be repeated; see --help"),
    (["--demo", "--seats", "3", "--seats=3"], "--seats must not be repeated; see --help"),
    (["--demo=yes"], "demo "),  # CLI11 words this message, and its versions differ
    (["--demo", "--seats", "0"], "--seats is `0`, but must be a number from 1 to 1000000000"),
    (["--demo", "--seats=-1"], "--seats is `-1`, but must be a number from 1 to 1000000000"),
    (["--demo", "--seats", "many"], "--seats is `many`, but must be a number"),
    (["--demo", "--seats", "3x"], "--seats is `3x`, but must be a number"),
    (["--demo", "--seats", "adaptive 4"],
     "--seats is `adaptive 4`, but must be a number from 1 to 1000000000, `adaptive` or `adaptive MIN..MAX` with "
     "MIN <= MAX in that range"),
    (["--demo", "--seats", "adaptive 9..4"], "--seats is `adaptive 9..4`, but must be a number"),
    (["--demo", "--seats", "adaptive 0..4"], "--seats is `adaptive 0..4`, but must be a number"),
    (["--demo", "--seats", "adaptive4..9"], "--seats is `adaptive4..9`, but must be a number"),
    (["--demo", "--seats", ""], "--seats is ``, but must be a number"),
    (["--demo", "--seats", "99999999999999999999"], "--seats is `99999999999999999999`, but"),
    (["--demo", "--queue", "-1"], "--queue is `-1`, but must be a number from 0 to 1000000000"),
    (["--demo", "--threads", "0"], "--threads is `0`, but must be a number from 1 to 256"),
    (["--demo", "--rate", "100"], "--rate is `100`, but must be a rate such as 100/1s: "),
    (["--demo", "--rate", "0/1s"], "--rate is `0/1s`, but"),
    (["--demo", "--rate", "5/0s"], "--rate is `5/0s`, but"),
    (["--demo", "--rate", "5/1"], "--rate is `5/1`, but"),
    (["--demo", "--rate", "/1s"], "--rate is `/1s`, but"),
    (["--demo", "--rate", "5/s"], "--rate is `5/s`, but"),
    (["--demo", "--rate", "1.5/1s"], "--rate is `1.5/1s`, but"),
    (["--demo", "--rate", "3 seats"], "--rate is `3 seats`, but must be a rate"),
    (["--demo", "--rate", "100/1s burst 0"], "--rate is `100/1s burst 0`, but must be a rate"),
    (["--demo", "--rate", "100/1s lumpy"], "--rate is `100/1s lumpy`, but must be a rate"),
    (["--demo", "--store", "redis://h"], "--store requires --rate"),
    (["--demo", "--rate", "5/1s", "--store", "http://h"], "--store must start with one of redis://, rediss://, redis+sentinel://, rediss+sentinel://, unix:, mysql://, postgresql:// and agent:"),
    (["--demo", "--rate", "5/1s leaky", "--store", "redis://h"],
     "--rate is `5/1s leaky`, but must be a rule such as 100/1s or 100/1s burst 20 with --store"),
    (["--demo", "--rate", "5000/1s", "--store", "redis://h"], "is 5000, but must be from 1 to 4096"),
    (["--demo", "--rate", "5/1s", "--store", "redis://h", "--patience", "0s"], "--patience is 0s; with --store it must exceed a round trip"),
    (["--demo", "--rate", "5/1s", "--shared-as", "x"], "--shared-as requires --store"),
    (["--demo", "--rate", "5/1s", "--on-failure", "ajar"], "--on-failure is `ajar`, but must be closed, open, or local"),
    (["--demo", "--rate", "5/1s", "--on-failure", "local 2"], "--on-failure is `local 2`, but must be closed, open"),
    (["--demo", "--rate", "5/1s", "--on-failure", "local"], "--on-failure is `local`, but must be closed, open"),
    (["--demo", "--rate", "5/1s", "--prefetch", "x"], "--prefetch is `x`, but must be a number from 0"),
    (["--demo", "--rate", "5/1s", "--store-timeout", "2min"],
     "--store-timeout is `2min`, but must be a time from 1ms to 1min"),
    (["--demo", "--per-client-seats", "0"], "--per-client-seats is `0`, but must be a number from 1"),
    (["--demo", "--per-client-rate", "5/s"], "--per-client-rate is `5/s`, but must be a rate such as"),
    (["--demo", "--per-client-rate", "3 seats"], "for seats use --per-client-seats"),
    (["--demo", "--max-keys", "0"], "--max-keys is `0`, but must be a number from 1"),
    (["--demo", "--client-prefix-v4", "33"], "--client-prefix-v4 is `33`, but must be a number from 0 to 32"),
    (["--demo", "--client-prefix-v6", "65"], "--client-prefix-v6 is `65`, but must be a number from 0 to 64"),
    (["--demo", "--patience", "1"], "--patience is `1`, but must be a time from 0s to 24h"),
    (["--demo", "--patience", "-1s"], "--patience is `-1s`, but must be a time from 0s to 24h"),
    (["--demo", "--patience", "99999999999999999h"], "--patience is `99999999999999999h`, but"),
    (["--demo", "--drain", "x"], "--drain is `x`, but must be a time"),
    (["--demo", "--header-timeout", "0s"], "--header-timeout is `0s`, but must be a time from 1ms"),
    (["--demo", "--listen", "8080"], "--listen is `8080`, but must be host:port"),
    (["--demo", "--listen", ":8080"], "--listen is `:8080`, but must be host:port"),
    (["--demo", "--listen", "::1:8080"], "--listen is `::1:8080`, but must be host:port"),
    (["--demo", "--listen", "localhost:99999"], "--listen is `localhost:99999`, but"),
    (["--upstream", "127.0.0.1:99999"], "--upstream is `127.0.0.1:99999`, but must be host:port, with a "
                                        "port from 1 to 65535"),
    (["--upstream", "127.0.0.1:0"], "with a port from 1 to 65535"),
    (["--upstream", "localhost"], "--upstream is `localhost`, but must be host:port"),
    (["--upstream", "https://a/b"], "--upstream is `https://a/b`, but must be https:// and host:port"),
    (["--upstream", "https://a:0"], "--upstream is `https://a:0`, but must be https:// and host:port"),
]


def run(*arguments):
    return subprocess.run([PROXY, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=PATIENCE)


class CommandLine(ProxyTest):
    def test_help(self):
        result = run("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for option in ("--upstream", "--seats", "--rate", "--store", "--on-failure", "--queue", "--patience", "--drain"):
            self.assertIn(option, result.stdout)
        self.assertLess(max(map(len, result.stdout.splitlines())), 101)

    def test_version(self):
        result = run("--version")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"\Aweir-proxy \d+\.\d+\.\d+( without TLS)?\n\Z")

    def test_bad_options(self):
        for arguments, text in WRONG:
            with self.subTest(arguments):
                result = run(*arguments)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertRegex(result.stderr, r"\Aweir-proxy: .*\n\Z")
                self.assertIn(text, result.stderr)

    def test_a_port_in_use(self):
        result = run("--demo", "--listen", f"127.0.0.1:{self.upstream.port}")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr, f"weir-proxy: cannot listen on 127.0.0.1:{self.upstream.port}: "
                                        "address already in use\n")

    def test_an_unknown_server_and_a_log_that_cannot_be_written(self):
        result = run("--upstream", "no.such.host.invalid:80")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Aweir-proxy: upstream `upstream`: cannot resolve `no.such.host.invalid:80`: .*\n\Z")
        result = run("--demo", "--listen", "127.0.0.1:0", "--access-log", "/no/such/folder/log")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"\Aweir-proxy: cannot write the access log `/no/such/folder/log`: .*\n\Z")

    def test_an_upstream_at_the_address_of_the_proxy(self):
        port = self.unused_port()
        rows = [(f"127.0.0.1:{port}", f"127.0.0.1:{port}"), (f"127.0.0.1:{port}", f"0.0.0.0:{port}")]
        with contextlib.suppress(OSError):  # a minimal system may not resolve any name
            socket.gethostbyname("localhost")
            rows.append((f"localhost:{port}", f"127.0.0.1:{port}"))
        for upstream, listen in rows:
            result = run("--upstream", upstream, "--listen", listen)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, rf"\Aweir-proxy: server \S+:{port} is an address of this proxy "
                                            rf"\({listen}\): requests would loop\n\Z")

    def test_an_upstream_that_does_not_accept_the_connection(self):
        with full_backlog() as (silent, _):
            proxy = Proxy("--upstream", f"127.0.0.1:{silent.getsockname()[1]}", "--upstream-timeout", "200ms")
            with Client(proxy.port) as client:
                self.assertEqual(client.ask("/").status, 504)
            port = silent.getsockname()[1]
            self.assertEqual(proxy.process.stderr.readline(), f"weir-proxy: warning: 127.0.0.1:{port} is not reachable "
                             "(Connection timed out); requests get 504 until it is\n")
            proxy.stop()

    def test_an_upstream_that_has_not_started_yet(self):
        port = self.unused_port()
        proxy = Proxy("--upstream", f"127.0.0.1:{port}")
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 502)
        report = proxy.stop()
        self.assertIn(f"weir-proxy: warning: 127.0.0.1:{port} is not reachable", report)

    def test_ipv6(self):
        try:
            with socket.create_server(("::1", 0), family=socket.AF_INET6):
                pass
        except OSError:
            self.skipTest("IPv6 is not available")
        with subprocess.Popen([PROXY, "--demo", "--listen", "[::1]:0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as process:
            port = int(re.search(r"http://\[::1\]:(\d+) ", process.stdout.readline())[1])
            with socket.create_connection(("::1", port)):
                pass
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)

    def test_the_demo(self):
        proxy = Proxy("--demo", "--patience", "20s")
        self.assertIn("at most 3 concurrent requests", proxy.greeting)
        clients = [Client(proxy.port) for _ in range(6)]
        for client in clients:
            client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
        for client in clients:
            body = client.answer().body.decode()
            self.assertLessEqual(int(re.search(r"(\d+) were in progress", body)[1]), 3)
            client.close()
        self.assertEqual(numbers(proxy.stop())["seats"]["granted"], 6)

    def test_the_first_line_states_that_no_request_waits(self):
        for queue, text in ((0, "no request waits"), (2, "up to 2 wait up to 1s")):
            proxy = Proxy("--demo", "--queue", queue)
            self.addCleanup(self.finish, proxy)
            self.assertIn(f"at most 3 concurrent requests; {text};", proxy.greeting)

    @unittest.skipUnless(RUN, "WEIR_EXAMPLES_RUN is not set")
    def test_examples_run(self):
        with subprocess.Popen([RUN, "--upstream", f"127.0.0.1:{self.upstream.port}", "--seats", "2",
                               "--listen", "127.0.0.1:0"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            greeting = process.stdout.readline()
            self.assertIn("at most 2 concurrent requests", greeting)
            with Client(int(re.search(r"http://127\.0\.0\.1:(\d+) ", greeting)[1])) as client:
                self.assertEqual(client.ask("/").body, b"hello\n")
            process.send_signal(signal.SIGINT)
            _, report = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)
            self.assertIn("1 requests: 1 answered", report)

    @unittest.skipUnless(RUN, "WEIR_EXAMPLES_RUN is not set")
    def test_examples_run_without_options_starts_the_demo(self):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", 8080)) == 0:
                self.skipTest("port 8080 is in use")
        with subprocess.Popen([RUN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            self.assertIn("http://127.0.0.1:8080 -> demo backend", process.stdout.readline())
            with Client(8080) as client:
                self.assertIn(b"request 1 served", client.ask("/").body)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)
            self.assertIn("curl -i http://127.0.0.1:8080/", said)


if __name__ == "__main__":
    main()
