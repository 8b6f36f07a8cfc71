#!/usr/bin/env python3
"""The access log never delays a request, whatever happens to the file."""

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from admin_support import limit_of
from support import PATIENCE, Client, Proxy, ProxyTest, main, numbers, wait_until

LONG = "/" + "x" * 7000  # makes a log line so long that few of them fit into a pipe


class Log(ProxyTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "log")

    def ask_often(self, proxy, n=400):
        with Client(proxy.port) as client:
            for _ in range(n):
                self.assertEqual(client.ask(LONG).status, 200)

    def lines(self, name=None):
        with open(name or self.log) as log:
            return log.read().splitlines()

    def ends(self, proxy):
        """Ends the proxy while no thread reads its output."""
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(PATIENCE), 0)
        proxy.report = proxy.process.stderr.read()
        return numbers(proxy.report)["proxy"]

    def test_a_line_has_the_request_and_its_response(self):
        proxy = self.start("--access-log", self.log, "--rate", "2/60s", "--patience", "0s")
        with Client(proxy.port) as client:
            client.ask("/bytes/5?a=b")
            client.ask('/"\\a\xe4')
            turned_away = len(client.ask("/third").body)
            client.ask("/fourth", "HEAD")
            client.send("nonsense\r\n\r\n")
            wrong = len(client.answer().body)
        self.ends(proxy)
        time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z 127\.0\.0\.1 "
        seconds = r" \d+\.\d{3} 0\.000"
        self.assertGreater(min(turned_away, wrong), 10)
        server = rf" 127\.0\.0\.1:{self.upstream.port} \"-\" [0-9a-f]{{32}}"
        for line, text, rest in zip(self.lines(), (
                r'"GET /bytes/5\?a=b HTTP/1\.1" 200 5',
                r'"GET /\\x22\\x5Ca\\xE4 HTTP/1\.1" 200 6',
                rf'"GET /third HTTP/1\.1" 429 {turned_away}',
                r'"HEAD /fourth HTTP/1\.1" 429 0',
                rf'"-" 400 {wrong}'), (server, server, *[r' - "rate" [0-9a-f]{32}'] * 2, r' - "-" -'), strict=True):
            self.assertRegex(line, f"^{time}{text}{seconds}{rest}$")

    def test_a_line_of_an_upgraded_connection_is_of_its_request(self):
        # Other requests use the memory that the request needed before.
        over = threading.Event()

        def chat(sock, *_):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello")
            over.wait(PATIENCE)
            return False

        self.upstream.script["/chat"] = chat
        proxy = self.start_with(f'access_log = "{self.log}"\nthreads = 1\n[clients]\ntrusted = "127.0.0.1"\n'
                                '[[upstream]]\nname = "a"\nservers = "UPSTREAM"\n'
                                '[[route]]\nupstream = "a"\n[route.upgrade]\nto = "echo"\n')
        named = "X-Forwarded-For: 10.1.2.{}\r\nX-Request-Id: number-{}-of-these-requests\r\n"
        with Client(proxy.port) as client, Client(proxy.port) as other:
            client.send("GET /chat?room=1 HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: echo\r\n"
                        f"{named.format(1, 1)}\r\n")
            self.assertEqual(client.reader.head()[0][9:12], "101")
            self.assertEqual(client.reader.exactly(5), b"hello")
            for n in (2, 3):
                other.ask("/other", fields=named.format(n, n))
            over.set()
        self.ends(proxy)
        self.assertRegex(self.lines()[-1], r'^\S+ 10\.1\.2\.1 "GET /chat\?room=1 HTTP/1\.1" 101 5 .* number-1-of-these-requests$')
        self.assertEqual(len(self.lines()), 3)

    def test_as_json(self):
        proxy = self.start("--access-log", self.log, "--access-log-format", "json", "--rate", "1/60s", "--patience", "0s")
        with Client(proxy.port) as client:
            client.ask('/bytes/5?"\\\xe4')
            turned_away = len(client.ask("/").body)
            client.send("nonsense\r\n\r\n")
            client.answer()
        self.ends(proxy)
        first, second, third = map(json.loads, self.lines())
        for one in (first, second, third):
            self.assertRegex(one.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertGreaterEqual(one.pop("request_time"), one["waited"])
        ids = [first.pop("request_id"), second.pop("request_id")]
        self.assertEqual(len({*ids}), 2)
        self.assertEqual(first, {"remote_addr": "127.0.0.1", "request": 'GET /bytes/5?"\\\xe4 HTTP/1.1', "status": 200,
                                 "body_bytes_sent": 5, "waited": 0, "upstream": f"127.0.0.1:{self.upstream.port}", "limit": None})
        self.assertEqual(second, {"remote_addr": "127.0.0.1", "request": "GET / HTTP/1.1", "status": 429, "waited": 0,
                                  "body_bytes_sent": turned_away, "upstream": None, "limit": "rate"})
        self.assertEqual((third["request"], third["status"], third["upstream"], third["request_id"]), ("-", 400, None, None))

    def test_a_line_names_the_limit_that_rejected_and_the_wait(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(30) and False
        proxy = self.start_with(f'access_log = "{self.log}"\naccess_log_format = "json"\n'
                                '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
                                '[[limit]]\nname = "a \\"rate\\""\nrule = "100/1s"\n'
                                '[[limit]]\nname = "a seat"\nrule = "1 seats"\nqueue = "patience 300ms"\n')
        with Client(proxy.port) as holder, Client(proxy.port) as waiter:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            self.assertEqual(waiter.ask("/").status, 503)
            wait_until(lambda: len(self.lines()) == 1)
            rejected = json.loads(self.lines()[0])
            self.assertEqual((rejected["limit"], rejected["upstream"]), ("a seat", None))
            self.assertGreaterEqual(rejected["waited"], 0.3)
            self.assertGreaterEqual(rejected["request_time"], rejected["waited"])

    def test_an_id_is_accepted_or_made_and_forwarded(self):
        proxy = self.start("--access-log", self.log)

        def seen():
            return [value for name, value in self.upstream.requests[-1].fields if name == "x-request-id"]

        with Client(proxy.port) as client:
            for sent, is_taken in ((["good-id_1"], True), ([], False), (["a b"], False), (['a"b'], False), (["x" * 129], False),
                                   (["\xe4"], False), (["x" * 128], True)):
                client.ask("/", fields="".join(f"x-Request-ID: {one}\r\n" for one in sent))
                wait_until(lambda: self.lines() and self.lines()[-1].endswith(f" {seen()[0]}"), "its line")
                self.assertEqual(len(seen()), 1)
                if is_taken:
                    self.assertEqual(seen(), sent)
                else:
                    self.assertRegex(seen()[0], "^[0-9a-f]{32}$")
            client.ask("/", fields="X-Request-Id: bad one\r\nX-Request-Id: good\r\nX-Request-Id: other\r\n")
            self.assertEqual(seen(), ["good"])

    def test_without_a_log_requests_have_ids_too(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            ids = []
            for fields in ("", "", "X-Request-Id: a b\r\n", "X-Request-Id: a-b\r\n"):
                client.ask("/", fields=fields)
                ids.append(dict(self.upstream.requests[-1].fields)["x-request-id"])
            for made in ids[:3]:
                self.assertRegex(made, "^[0-9a-f]{32}$")
            self.assertEqual(ids[3], "a-b")
            self.assertEqual(len(set(ids)), 4)

    def test_a_reload_changes_the_format(self):
        config = f'access_log = "{self.log}"\n[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
        proxy = self.start_with(config)
        with Client(proxy.port) as client:
            client.ask("/")
            proxy.write(self.filled('access_log_format = "json"\n' + config))
            proxy.process.send_signal(signal.SIGHUP)
            self.assertIn("configuration reloaded", proxy.process.stderr.readline())
            wait_until(lambda: client.ask("/").status and self.lines() and self.lines()[-1].startswith("{"))
        self.assertNotEqual(self.lines()[0][0], "{")

    # ---- Standard error

    def test_a_repeated_failure_is_logged_once(self):
        proxy = Proxy("--upstream", f"127.0.0.1:{self.unused_port()}")
        self.addCleanup(self.finish, proxy)
        self.assertIn("is not reachable", proxy.process.stderr.readline())
        with Client(proxy.port) as client:
            self.assertEqual({client.ask("/").status for _ in range(200)}, {502})
            self.assertEqual(proxy.process.stderr.readline(),
                             "weir-proxy: upstream upstream: cannot connect to the upstream\n")
            self.assertEqual({client.ask("/").status for _ in range(200)}, {502})
        self.assertNotIn("cannot connect", proxy.stop())

    def test_a_server_with_invalid_responses_is_named(self):
        def nonsense(sock, request, reader):
            sock.sendall(b"nonsense\r\n\r\n")
            return False

        self.upstream.script["/nonsense"] = nonsense
        proxy = self.start()
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/nonsense").status, 502)
            self.assertEqual(proxy.process.stderr.readline(), "weir-proxy: upstream upstream: server "
                             f"127.0.0.1:{self.upstream.port}: the upstream's response is not HTTP\n")

    def test_log_level_omits_less_important_messages(self):
        config = '[admin]\naddress = "127.0.0.1:0"\n[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n' \
                 '[[limit]]\nname = "rate"\nrule = "9/7s"\n'
        proxy = self.start_with(config)
        for n, (level, said) in enumerate((("warning", False), ("info", True), ("error", False))):
            proxy.write(self.filled(f'log_level = "{level}"\n' + config.replace("9/7s", f"{n or ''}1/7s")))
            proxy.process.send_signal(signal.SIGHUP)
            wait_until(lambda: limit_of(proxy, "rate")["rule"] == f"{n or ''}1/7s", "the file to be read")
            if said:
                self.assertIn("configuration reloaded", proxy.process.stderr.readline())
                continue
            proxy.write("nonsense")
            proxy.process.send_signal(signal.SIGHUP)
            self.assertIn("weir.toml:1", proxy.process.stderr.readline())
            self.assertIn("reload failed", proxy.process.stderr.readline())

    def test_a_log_without_a_reader(self):
        os.mkfifo(self.log)
        reader = os.open(self.log, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        proxy = self.start("--access-log", self.log, "--threads", 2)
        self.ask_often(proxy)
        found = self.ends(proxy)
        self.assertEqual(found["answered"], 400)
        self.assertGreater(found["log lines dropped"], 100)
        written = b""
        while piece := os.read(reader, 1 << 20):
            written += piece
        self.assertEqual(written.count(b"\n") + found["log lines dropped"], 400)

    def test_standard_output_without_a_reader(self):
        proxy = self.start("--access-log", "-")
        self.ask_often(proxy)
        self.assertGreater(self.ends(proxy)["log lines dropped"], 100)

    def test_a_log_whose_reader_ended(self):
        proxy = self.start("--access-log", "-")
        proxy.process.stdout.close()
        self.ask_often(proxy, 5)
        found = self.ends(proxy)
        self.assertEqual((found["answered"], found["log lines dropped"]), (5, 5))

    def test_a_log_at_the_largest_file_size(self):
        def short_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

        proxy = self.start("--access-log", self.log, preexec_fn=short_files)
        self.ask_often(proxy, 5)
        found = self.ends(proxy)
        self.assertEqual(found["answered"], 5)
        self.assertGreaterEqual(found["log lines dropped"], 3)

    def test_sighup_reopens_the_log(self):
        proxy = self.start("--access-log", self.log)
        with Client(proxy.port) as client:
            client.ask("/first")
            wait_until(lambda: len(self.lines()) == 1, "the first line")
            os.rename(self.log, self.log + ".1")
            proxy.process.send_signal(signal.SIGHUP)
            wait_until(lambda: os.path.exists(self.log), "the new file")
            client.ask("/second")
        self.ends(proxy)
        self.assertIn("/first", "".join(self.lines(self.log + ".1")))
        self.assertEqual(len(self.lines()), 1)
        self.assertIn("/second", self.lines()[0])

    def test_logrotate_with_the_packaged_file(self):
        logrotate = shutil.which("logrotate", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not logrotate:
            self.skipTest("there is no logrotate; test/setup proxy installs it")
        folder = os.path.dirname(self.log)
        self.log = os.path.join(folder, "access.log")
        proxy = self.start("--access-log", self.log)
        tools = os.path.join(folder, "tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "systemctl"), "w") as systemctl:
            systemctl.write('#!/bin/sh\n[ "$*" = "kill --signal=HUP weir-proxy.service" ] && '
                            f"kill -HUP {proxy.process.pid}\n")
        os.chmod(systemctl.name, 0o755)
        with open(os.path.join(os.path.dirname(__file__), "../../src/package/logrotate")) as packaged:
            text = packaged.read().replace("/var/log/weir-proxy/", f"{folder}/")
        with open(os.path.join(folder, "rotation"), "w") as rotation:
            rotation.write(text)
        os.chmod(rotation.name, 0o644)
        with Client(proxy.port) as client:
            for n in range(3):
                client.ask(f"/{n}")
                wait_until(lambda: os.path.exists(self.log) and len(self.lines()) == 1, "the line in a new file")
                if n < 2:
                    subprocess.run([logrotate, "--force", "--state", f"{folder}/state", rotation.name], check=True,
                                   env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"})
        self.ends(proxy)
        self.assertIn("/2", self.lines()[0])
        self.assertIn("/1", self.lines(self.log + ".1")[0])
        self.assertTrue(os.path.exists(self.log + ".2.gz"))

    def test_a_log_that_cannot_be_reopened_continues_in_the_old_file(self):
        folder = os.path.join(os.path.dirname(self.log), "folder")
        os.mkdir(folder)
        proxy = self.start("--access-log", f"{folder}/log")
        os.rename(folder, folder + ".old")
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("cannot reopen", proxy.process.stderr.readline())
        with Client(proxy.port) as client:
            client.ask("/late")
        self.ends(proxy)
        self.assertIn("/late", "".join(self.lines(folder + ".old/log")))

    def test_sighup_without_a_log_changes_nothing(self):
        proxy = self.start()
        proxy.process.send_signal(signal.SIGHUP)
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
        self.assertEqual(self.ends(proxy)["answered"], 1)

    def test_reports_without_a_reader(self):
        proxy = Proxy("--upstream", f"127.0.0.1:{self.upstream.port}", "--seats", 3)
        self.addCleanup(proxy.process.kill)
        self.addCleanup(proxy.process.stdout.close)
        self.addCleanup(proxy.process.stderr.close)
        with Client(proxy.port) as client:
            for _ in range(600):
                proxy.process.send_signal(signal.SIGUSR1)
                time.sleep(0.001)  # a signal before the previous one is handled is lost
            self.assertEqual(client.ask("/").status, 200)
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    main()
