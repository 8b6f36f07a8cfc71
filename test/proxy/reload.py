#!/usr/bin/env python3
"""Another configuration while the proxy runs: active requests and connections continue, and used permits stay used."""

import os
import signal
import socket
import subprocess
import tempfile
import threading

from support import PATIENCE, PROXY, Client, ProxyTest, Upstream, in_parallel, main, wait_until

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def shop(*limits):
    return '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n' + "".join(limits)


def limit(name, rule, more="", queue="max_waiting 0 patience 0s"):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "{queue}"\n{more}'


class Reload(ProxyTest):
    def setUp(self):
        super().setUp()
        self.over = threading.Event()

        def hang(sock, request, reader):
            self.over.wait(30)
            sock.sendall(EMPTY)
            return True

        self.upstream.script["/hang"] = hang

    def start_with(self, config, **how):
        proxy = super().start_with(config, **how)
        self.addCleanup(self.over.set)
        return proxy

    def said(self, proxy):
        """The next line of its standard error."""
        return proxy.process.stderr.readline()

    def reload(self, proxy, config):
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.said(proxy), "weir-proxy: configuration reloaded\n")

    def statuses(self, proxy, n, fields=""):
        with Client(proxy.port) as client:
            return [client.ask("/", fields=fields).status for _ in range(n)]

    def test_a_signal_during_the_start_reloads_after_it(self):
        """The proxy reads its configuration from a pipe, so it is in its start as long as the test wants."""
        config = self.filled(shop()) + '[[listen]]\naddress = "127.0.0.1:0"\n'
        with tempfile.TemporaryDirectory(prefix="weir-proxy-") as folder:
            pipe = os.path.join(folder, "pipe")
            os.mkfifo(pipe)
            process = subprocess.Popen([PROXY, "--config", pipe], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            with process:
                with open(pipe, "w") as file:
                    for which in (signal.SIGHUP, signal.SIGUSR1):
                        process.send_signal(which)
                    file.write(config)
                self.assertIn("http://127.0.0.1:", process.stdout.readline())
                with open(pipe, "w") as file:
                    file.write(config)
                said = [process.stderr.readline() for _ in range(2)]
                self.assertIn("weir-proxy: configuration reloaded\n", said)
                process.terminate()

    def test_a_limit_is_changed_in_place(self):
        proxy = self.start_with(shop(limit("rate", "2/60s")))
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 429])
        self.reload(proxy, shop(limit("rate", "5/60s")))
        self.assertEqual(self.statuses(proxy, 4), [200, 200, 200, 429])
        self.reload(proxy, shop(limit("rate", "1/60s")))
        self.assertEqual(self.statuses(proxy, 1), [429])
        self.assertEqual(proxy.numbers()["rate"]["granted"], 5)

    def test_limits_of_keys_are_changed_in_place(self):
        key = 'key = "header X"\n'
        proxy = self.start_with(shop(limit("rate", "2/60s", key)))
        self.assertEqual(self.statuses(proxy, 3, "X: 1\r\n"), [200, 200, 429])
        self.reload(proxy, shop(limit("rate", "3/60s", key + '[limit.overrides]\n"2" = "4/60s"\n')))
        self.assertEqual(self.statuses(proxy, 2, "X: 1\r\n"), [200, 429])
        self.assertEqual(self.statuses(proxy, 5, "X: 2\r\n"), [200] * 4 + [429])
        self.reload(proxy, shop(limit("rate", "6/60s", key)))
        self.assertEqual(self.statuses(proxy, 3, "X: 2\r\n"), [200, 200, 429])

    def test_a_waiting_request_continues_to_wait(self):
        queue = "max_waiting 10 patience 20s"
        proxy = self.start_with(shop(limit("client", "2 seats", 'key = "client"\n', queue), limit("all", "1 seats", "", queue)))
        with Client(proxy.port) as holder, Client(proxy.port) as waiter, Client(proxy.port) as idle:
            self.assertEqual(idle.ask("/").status, 200)
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            waiter.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: proxy.numbers()["all"]["waiting"] == 1)
            self.reload(proxy, shop(limit("client", "3 seats", 'key = "client"\n', queue), limit("all", "1 seats", "", queue)))
            self.assertEqual(proxy.numbers()["all"]["waiting"], 1)
            # An additional seat grants the request. No other request ended.
            self.reload(proxy, shop(limit("client", "3 seats", 'key = "client"\n', queue), limit("all", "2 seats", "", queue)))
            wait_until(lambda: self.upstream.targets().count("/hang") == 2)
            self.over.set()
            self.assertEqual((holder.answer().status, waiter.answer().status), (200, 200))
            self.assertEqual(idle.ask("/").status, 200)

    def test_a_removed_limit_exists_until_its_waiting_requests_end(self):
        proxy = self.start_with(shop(limit("seats", "1 seats", "", "max_waiting 10 patience 20s")))
        with Client(proxy.port) as holder, Client(proxy.port) as waiter:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            waiter.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: proxy.numbers()["seats"]["waiting"] == 1)
            self.reload(proxy, shop())
            self.assertEqual(self.statuses(proxy, 3), [200] * 3)
            before = len(self.upstream.requests)
            self.over.set()
            self.assertEqual((holder.answer().status, waiter.answer().status), (200, 200))
            self.assertEqual(len(self.upstream.requests), before + 1)

    def test_an_invalid_file_changes_nothing_and_its_error_is_logged(self):
        proxy = self.start_with(shop(limit("rate", "1/60s")))
        self.assertEqual(self.statuses(proxy, 2), [200, 429])
        good = proxy.config
        with socket.create_server(("127.0.0.1", 0)) as taken:
            for wrong, why in ((good.replace("1/60s", "100 per hour"), "`rule` is `100 per hour`, but must be a rule"),
                               (good + "[[listen]]\naddress = \"127.0.0.1:%d\"\n" % taken.getsockname()[1],
                                "address already in use"),
                               (good.replace(f"127.0.0.1:{self.upstream.port}", "no.such.host.invalid:1"),
                                "cannot resolve `no.such.host.invalid:1`"),
                               (good + '[[listen]]\naddress = "systemd:x"\n', "systemd passed no socket of that name")):
                proxy.write(wrong.replace("1/60s", "9/60s"))
                proxy.process.send_signal(signal.SIGHUP)
                self.assertIn(why, self.said(proxy))
                self.assertEqual(self.said(proxy), "weir-proxy: reload failed; the previous configuration stays active\n")
                self.assertEqual(self.statuses(proxy, 1), [429])
        os.unlink(proxy.file)
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("cannot read", self.said(proxy))
        self.assertEqual(self.said(proxy), "weir-proxy: reload failed; the previous configuration stays active\n")
        proxy.write(good)

    def test_routes_servers_and_listeners(self):
        other = Upstream()
        self.addCleanup(other.close)
        proxy = self.start_with(shop())
        path = os.path.join(proxy.folder.name, "socket")
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
            self.reload(proxy, f'[[listen]]\naddress = "127.0.0.1:0"\n[[listen]]\naddress = "unix:{path}"\n'
                        f'[[upstream]]\nname = "shop"\nservers = "127.0.0.1:{other.port}"\n'
                        '[[route]]\npath = "/no"\nrespond = 403\n[[route]]\nupstream = "shop"\n')
            self.assertEqual((client.ask("/no").status, client.ask("/").status), (403, 200))
            self.assertEqual((len(self.upstream.requests), len(other.requests)), (1, 1))
            self.assertTrue(os.path.exists(path))
            self.reload(proxy, shop())
            self.assertEqual((client.ask("/no").status, len(self.upstream.requests)), (200, 2))
            self.assertFalse(os.path.exists(path))

    def test_a_server_that_is_named_again_keeps_its_seats_in_use(self):
        other = Upstream()
        self.addCleanup(other.close)
        other.script["/hang"] = self.upstream.script["/hang"]

        def config(*servers):
            return '[[upstream]]\nname = "shop"\n# seats: reported\n' + "".join(
                f'[[upstream.server]]\naddress = "127.0.0.1:{server.port}"\nseats = {seats}\n' for server, seats in servers)

        both = config((self.upstream, 9), (other, 1))
        proxy = self.start_with(both)
        clients = [Client(proxy.port) for _ in range(6)]
        for n, client in enumerate(clients):
            self.addCleanup(client.close)
            if n == 2:
                for another in (config((self.upstream, 9)), config((self.upstream, 8)), both):
                    self.reload(proxy, another)
            client.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: len(self.upstream.requests) + len(other.requests) == n + 1)
        self.assertEqual((len(self.upstream.requests), len(other.requests)), (5, 1))
        self.over.set()
        self.assertEqual({client.answer().status for client in clients}, {200})

    def test_the_reload_option(self):
        pid = os.path.join(self.enterContext(__import__("tempfile").TemporaryDirectory()), "pid")
        proxy = self.start_with(f'pid_file = "{pid}"\n' + '[[listen]]\naddress = "127.0.0.1:0"\n' + shop())
        self.assertEqual(self.statuses(proxy, 2), [200, 200])
        proxy.write(proxy.config + limit("rate", "1/60s"))
        command = [PROXY, "--config", proxy.file, "--reload"]
        subprocess.run(command, check=True, timeout=PATIENCE)
        self.assertIn("configuration reloaded", self.said(proxy))
        self.assertEqual(self.statuses(proxy, 2), [200, 429])
        proxy.write(proxy.config + "nonsense")
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, proxy.file in result.stderr), (2, True))
        self.assertEqual(self.statuses(proxy, 1), [429])
        proxy.write(proxy.config.replace("nonsense", ""))

    def test_under_load_nothing_is_lost(self):
        config = [shop(limit("seats", f"{n} seats", "", "max_waiting 100 patience 20s"),
                       limit("rate", "40/400ms", "", "max_waiting 100 patience 20s"),
                       limit("client", f"{n + 90}/1s burst 100", 'key = "client"\n', "max_waiting 100 patience 20s"))
                  for n in (8, 12)]
        proxy = self.start_with(config[0])
        ends = threading.Event()

        def work(i):
            with Client(proxy.port) as client:
                while not ends.is_set():
                    self.assertEqual(client.ask("/sleep/2").status, 200)

        def change(i):
            for n in range(20):
                self.reload(proxy, config[(n + 1) % 2])
            ends.set()

        in_parallel(17, lambda i: change(i) if i == 16 else work(i))
        self.assertEqual(self.statuses(proxy, 1), [200])
        self.assertLessEqual(self.upstream.most, 12)


if __name__ == "__main__":
    main()
