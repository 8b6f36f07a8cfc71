#!/usr/bin/env python3
"""The process as a whole: its signals, what a reload changes besides limits, and its pid file."""

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading

from support import PATIENCE, PROXY, Client, ProxyTest, Upstream, main, rejects, wait_until

GET = "GET %s HTTP/1.1\r\nHost: test\r\n\r\n"
RELOADED = "weir-proxy: configuration reloaded\n"


def shop(server="UPSTREAM", more=""):
    return f'[[upstream]]\nname = "shop"\nservers = "{server}"\n{more}'


def listen(port, more=""):
    return f'[[listen]]\naddress = "127.0.0.1:{port}"\n{more}'


ONE = '[[limit]]\nname = "one"\nrule = "1/60s"\nqueue = "patience 0s"\n'


class Process(ProxyTest):
    def reload(self, proxy, config):
        """Signals the proxy to read the configuration, and returns the next line of its standard error."""
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        return proxy.process.stderr.readline()

    def status(self, proxy, before=""):
        """The status of a response to a request after the text `before`; None if the proxy closes the connection."""
        with Client(proxy.port) as client, contextlib.suppress(EOFError):
            client.send(before + GET % "/")
            return client.answer().status

    def tasks(self, proxy):
        """The number of its threads, once it serves clients."""
        self.assertEqual(self.status(proxy), 200)
        return len(os.listdir(f"/proc/{proxy.process.pid}/task"))

    # ---- Signals

    def test_each_signal_has_its_effect_any_number_of_times(self):
        proxy = self.start("--seats", 1)
        proxy.process.send_signal(signal.SIGUSR1)
        self.assertIn("weir-proxy: 0 connections", proxy.process.stderr.readline())
        self.assertIn("seats: 0 granted", proxy.process.stderr.readline())
        self.assertEqual(self.status(proxy), 200)
        self.assertIn("weir-proxy: 1 connections", proxy.stop())

    def test_a_second_signal_ends_the_drain(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(PATIENCE)
        proxy = self.start("--drain", "1h", port=self.unused_port())
        with Client(proxy.port) as client:
            client.send(GET % "/hang")
            wait_until(lambda: self.upstream.targets() == ["/hang"])
            proxy.process.send_signal(signal.SIGTERM)
            wait_until(lambda: rejects(proxy.port), "the port to be closed")
            self.assertIn("1 requests", proxy.stop())
            self.assertEqual(client.ended(), b"")

    # ---- Reloads

    def test_a_reload_changes_the_log_level(self):
        proxy = self.start_with(shop())
        proxy.write(self.filled('log_level = "error"\n' + shop(more=ONE)))
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.status(proxy) == 429, "the limit")
        self.assertNotIn("reloaded", proxy.stop())

    def test_a_reload_starts_the_health_checks_of_its_servers(self):
        other = Upstream()
        self.addCleanup(other.close)
        health = '[upstream.health]\npath = "/health"\n'
        proxy = self.start_with(shop(more=health))
        wait_until(lambda: "/health" in self.upstream.targets())
        self.assertEqual(self.reload(proxy, shop(f"127.0.0.1:{other.port}", health)), RELOADED)
        wait_until(lambda: "/health" in other.targets())

    def test_a_reload_cannot_make_requests_loop(self):
        port = self.unused_port()
        proxy = self.start_with(listen(port) + shop())
        self.assertIn(f"server 127.0.0.1:{port} is an address of this proxy (127.0.0.1:{port}): requests would loop",
                      self.reload(proxy, listen(port) + shop(f"127.0.0.1:{port}")))
        self.assertEqual(self.status(proxy), 200)

    def test_a_reload_that_fails_opens_no_listener(self):
        port = self.unused_port()
        proxy = self.start_with(shop())
        bad = listen(port) + listen(self.upstream.port) + shop()
        self.assertIn(f"cannot listen on 127.0.0.1:{self.upstream.port}: address already in use",
                      self.reload(proxy, bad))
        wait_until(lambda: rejects(port), "the port to be closed")
        self.assertEqual(self.status(proxy), 200)

    def test_proxy_protocol_is_expected_as_configured(self):
        port = self.unused_port()
        introduced = listen(port, "proxy_protocol = true\n")
        trusted = '[clients]\ntrusted = "127.0.0.1"\n'
        header = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"
        proxy = self.start_with(introduced + trusted + shop())
        self.assertEqual([self.status(proxy, header), self.status(proxy)], [200, None])
        self.assertEqual(self.reload(proxy, listen(port) + trusted + shop()), RELOADED)
        self.assertEqual([self.status(proxy, header), self.status(proxy)], [400, 200])
        self.assertEqual(self.reload(proxy, introduced + trusted + shop()), RELOADED)
        self.assertEqual([self.status(proxy, header), self.status(proxy)], [200, None])

    def test_some_settings_apply_at_the_next_start(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())

        def config(n):
            return (f'threads = {n}\npid_file = "{folder}/pid{n}"\naccess_log = "{folder}/log{n}"\n'
                    f'[admin]\naddress = "unix:{folder}/admin{n}"\n[clients]\nmax_connections = {n}\n{listen(0)}{shop()}')

        proxy = self.start_with(config(2))
        tasks = self.tasks(proxy)
        self.assertEqual(self.reload(proxy, config(1)), RELOADED)
        with Client(proxy.port) as one, Client(proxy.port) as two:  # one more than the new number
            self.assertEqual([one.ask("/").status, two.ask("/").status], [200, 200])
        self.assertEqual(self.tasks(proxy), tasks)
        self.assertEqual(sorted(os.listdir(folder)), ["admin2", "log2", "pid2"])
        proxy.stop()
        with open(f"{folder}/log2") as log:
            self.assertEqual(len(log.readlines()), 4)

    def test_by_default_it_has_a_thread_per_processor(self):
        def tasks(*options):
            return self.tasks(self.start(*options))

        self.assertEqual(tasks(), tasks("--threads", len(os.sched_getaffinity(0))))
        self.assertEqual(tasks("--threads", 5), tasks("--threads", 1) + 4)

    # ---- The pid file

    def test_the_pid_file_exists_while_the_proxy_runs(self):
        file = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "pid")
        config = f'pid_file = "{file}"\n' + shop()
        proxy = self.start_with(config)
        with open(file) as pid:
            self.assertEqual(int(pid.read()), proxy.process.pid)
        command = [PROXY, "--config", proxy.file, "--reload"]
        # An invalid store is found before the signal.
        proxy.write(self.filled(config + '[[store]]\nname = "e"\nurl = "redis://h:no"\n'))
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, "store `e`: `url` " in done.stderr), (2, True))
        proxy.write(self.filled(config))
        self.assertNotIn("configuration", proxy.stop())
        self.assertFalse(os.path.exists(file))
        for wrong in ("", "x"):
            with open(file, "w") as pid:
                pid.write(wrong)
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"weir-proxy: no running proxy for pid file `{file}`\n"), wrong)

    # ---- The first line of output

    def test_the_first_line_names_queues_that_all_limits_have(self):
        def queue(*limits):
            text = "".join(f'[[limit]]\nname = "{name}"\nrule = "9/1s"\nqueue = "{text}"\n' for name, text in limits)
            return re.search(r" -> [^:]+:\d+: (.*?); status page", self.start_with(shop(more=text)).greeting)[1]

        rates = "a rate of 9/1s, a rate of 9/1s"
        self.assertEqual(queue(("a", "max_waiting 3 patience 2s"), ("b", "max_waiting 3 patience 2s")),
                         rates + "; up to 3 wait up to 2s")
        self.assertEqual(queue(("a", "max_waiting 3 patience 2s"), ("b", "max_waiting 4 patience 2s")), rates)
        self.assertEqual(queue(("a", "max_waiting 0"), ("b", "max_waiting 0")), rates + "; no request waits")
        self.assertEqual(queue(("a", "patience 0s"), ("b", "patience 0s")), rates + "; no request waits")
        self.assertEqual(queue(("a", "max_waiting 3 patience forever"),), "a rate of 9/1s; up to 3 wait without a time limit")

    def test_the_first_line_names_the_limits_that_requests_meet(self):
        def first_line(routes):
            text = shop(more='[[limit]]\nname = "a"\nrule = "9/1s"\n[[limit]]\nname = "b"\nrule = "8/1s"\ndry_run = true\n')
            return re.search(r" -> [^:]+:\d+: (.*?); status page", self.start_with(text + routes).greeting)[1]

        no, one = '[[route]]\npath = "/no"\nrespond = 403\n', '[[route]]\npath = "/%s"\nupstream = "shop"\nlimits = [%s]\n'
        self.assertEqual(first_line(no + one % ("", "")), "no limit; no route names one")
        self.assertEqual(first_line(no + one % ("", '"a"')), "a rate of 9/1s; up to 1024 wait up to 1s")
        self.assertEqual(first_line(one % ("x", "") + one % ("", '"b"')),
                         "a rate of 8/1s (dry run); up to 1024 wait up to 1s; no limit for `/x`")
        self.assertEqual(first_line("".join(one % (n, "") for n in "wxyz") + one % ("", '"a"')),
                         "a rate of 9/1s; up to 1024 wait up to 1s; 4 routes have no limit")

    def test_settings_without_effect_are_reported_at_the_start_and_by_a_reload(self):
        unused = shop(more='[[limit]]\nname = "a"\nrule = "9/1s"\n') + '[[route]]\nupstream = "shop"\n'
        proxy = self.start_with(unused)
        warning = "warning: limit `a`: no route names it: it limits nothing\n"
        self.assertIn(warning, proxy.process.stderr.readline())
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn(warning, proxy.process.stderr.readline())
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())


if __name__ == "__main__":
    main()
