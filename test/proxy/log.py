#!/usr/bin/env python3
"""The access log holds nobody up, whatever becomes of the file."""

import os
import resource
import signal
import tempfile
import time

from support import PATIENCE, Client, Proxy, ProxyTest, main, numbers, wait_until

LONG = "/" + "x" * 7000  # a line of the log of which few fit into a pipe


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
        """Without that anybody reads what it says."""
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(PATIENCE), 0)
        proxy.report = proxy.process.stderr.read()
        return numbers(proxy.report)["proxy"]

    def test_says_what_was_asked_and_answered(self):
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
        for line, text in zip(self.lines(), (
                r'"GET /bytes/5\?a=b HTTP/1\.1" 200 5',
                r'"GET /\\x22\\x5Ca\\xE4 HTTP/1\.1" 200 6',
                rf'"GET /third HTTP/1\.1" 429 {turned_away}',
                r'"HEAD /fourth HTTP/1\.1" 429 0',
                rf'"-" 400 {wrong}'), strict=True):
            self.assertRegex(line, f"^{time}{text}{seconds}$")

    def test_that_nobody_reads(self):
        os.mkfifo(self.log)
        reader = os.open(self.log, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        proxy = self.start("--access-log", self.log, "--threads", 2)
        self.ask_often(proxy)
        found = self.ends(proxy)
        self.assertEqual(found["answered"], 400)
        self.assertGreater(found["log lines dropped"], 100)

    def test_on_standard_output_that_nobody_reads(self):
        proxy = self.start("--access-log", "-")
        self.ask_often(proxy)
        self.assertGreater(self.ends(proxy)["log lines dropped"], 100)

    def test_whose_reader_has_gone(self):
        proxy = self.start("--access-log", "-")
        proxy.process.stdout.close()
        self.ask_often(proxy, 5)
        found = self.ends(proxy)
        self.assertEqual((found["answered"], found["log lines dropped"]), (5, 5))

    def test_that_is_as_long_as_a_file_may_be(self):
        def short_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

        proxy = self.start("--access-log", self.log, preexec_fn=short_files)
        self.ask_often(proxy, 5)
        found = self.ends(proxy)
        self.assertEqual(found["answered"], 5)
        self.assertGreaterEqual(found["log lines dropped"], 3)

    def test_is_opened_anew_on_sighup(self):
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

    def test_that_cannot_be_opened_anew_goes_on_in_the_old_file(self):
        folder = os.path.join(os.path.dirname(self.log), "folder")
        os.mkdir(folder)
        proxy = self.start("--access-log", f"{folder}/log")
        os.rename(folder, folder + ".old")
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("cannot be opened", proxy.process.stderr.readline())
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

    def test_reports_that_nobody_reads(self):
        proxy = Proxy("--upstream", f"127.0.0.1:{self.upstream.port}", "--seats", 3)
        self.addCleanup(proxy.process.kill)
        self.addCleanup(proxy.process.stdout.close)
        self.addCleanup(proxy.process.stderr.close)
        with Client(proxy.port) as client:
            for _ in range(600):
                proxy.process.send_signal(signal.SIGUSR1)
                time.sleep(0.001)  # a signal that comes before the last was taken is none
            self.assertEqual(client.ask("/").status, 200)
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(PATIENCE), 0)


if __name__ == "__main__":
    main()
