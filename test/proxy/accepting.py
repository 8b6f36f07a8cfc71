#!/usr/bin/env python3
"""How connections are accepted: by the single serving thread itself, and by a thread for several serving threads."""

import contextlib
import functools
import os
import resource
import signal
import threading

from support import Client, ProxyTest, in_parallel, main, rejects, stopped, wait_until

THREADS = (1, 3)
GET = "GET %s HTTP/1.1\r\nHost: test\r\n\r\n"
SHOP = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n[[route]]\nupstream = "shop"\n'


def listen(port, more=""):
    return f'[[listen]]\naddress = "127.0.0.1:{port}"\n{more}'


def by_threads(test):
    """Runs a test for each number of serving threads."""
    @functools.wraps(test)
    def run(self):
        for n in THREADS:
            with self.subTest(threads=n):
                test(self, n)

    return run


class Accepting(ProxyTest):
    def reload(self, proxy, config):
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())

    @by_threads
    def test_many_clients_at_once(self, n):
        proxy = self.start("--threads", n)

        def work(i):
            for _ in range(20):
                with Client(proxy.port) as client:
                    self.assertEqual([client.ask("/").status for _ in range(2)], [200, 200])

        in_parallel(20, work)
        found = proxy.numbers()["proxy"]
        self.assertEqual((found["connections"], found["requests"]), (400, 800))

    @by_threads
    def test_clients_that_wait_in_the_backlog_are_all_accepted(self, n):
        proxy = self.start("--threads", n)
        with contextlib.ExitStack() as stack:
            with stopped(proxy.process):
                clients = [stack.enter_context(Client(proxy.port, encrypted=False)) for _ in range(300)]
                for i, client in enumerate(clients):
                    client.send(GET % f"/{n}/{i}")
            for client in clients:
                self.assertEqual(client.answer().status, 200)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    @by_threads
    def test_no_more_connections_than_the_maximum(self, n):
        proxy = self.start("--threads", n, "--max-connections", 3)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(proxy.port)) for _ in range(30)]
            self.assertEqual([c.ask("/").status for c in clients[:3]], [200] * 3)
            self.assertIn("all 3 connections are in use", proxy.process.stderr.readline())
            for client in clients[3:]:
                client.send(GET % "/")
            for i, client in enumerate(clients[3:]):  # in the order of their arrival
                clients[i].close()
                self.assertEqual(client.answer().status, 200)
            self.assertEqual(proxy.numbers()["proxy"]["open"], 3)

    @by_threads
    def test_without_files_clients_wait(self, n):
        proxy = self.start("--threads", n, "--upstream-idle-timeout", "1h")
        pid = proxy.process.pid
        with Client(proxy.port) as first:
            self.assertEqual(first.ask("/").status, 200)  # the connection to the upstream is kept
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            used = max(map(int, os.listdir(f"/proc/{pid}/fd")))
            free = used + 1 - len(os.listdir(f"/proc/{pid}/fd"))
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1, hard))
            with contextlib.ExitStack() as stack:
                clients = [stack.enter_context(Client(proxy.port)) for _ in range(free + 3)]
                self.assertIn("cannot accept connections: Too many open files", proxy.process.stderr.readline())
                self.assertEqual(first.ask("/").status, 200)  # the others are served meanwhile
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
                for client in clients:
                    self.assertEqual(client.ask("/late").status, 200)

    @by_threads
    def test_a_reload_opens_and_closes_listeners_under_load(self, n):
        first, second = self.unused_port(), self.unused_port()
        base = f"threads = {n}\n" + SHOP
        proxy = self.start_with(base + listen(first))
        over, served = threading.Event(), []

        def work():
            while not over.is_set():
                with Client(first) as client:
                    served.append(client.ask("/").status)

        load = [threading.Thread(target=work) for _ in range(4)]
        for one in load:
            one.start()
        try:
            for _ in range(10):
                self.reload(proxy, base + listen(first) + listen(second, 'tcp = { upstream = "shop" }\n'))
                with Client(second) as client:  # a listener of TCP from its first connection on
                    client.send("GET /raw HTTP/1.1\r\nHost: test\r\n\r\n")
                    self.assertEqual(client.answer().status, 200)
                self.reload(proxy, base + listen(first))
                wait_until(lambda: rejects(second))
        finally:
            over.set()
            for one in load:
                one.join()
        self.assertEqual(set(served), {200})
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    @by_threads
    def test_a_stop_during_a_flood(self, n):
        proxy = self.start("--threads", n)
        over = threading.Event()

        def flood():
            while not over.is_set():
                with contextlib.suppress(OSError, EOFError), Client(proxy.port) as client:
                    client.ask("/")

        load = [threading.Thread(target=flood) for _ in range(8)]
        for one in load:
            one.start()
        try:
            wait_until(lambda: len(self.upstream.requests) > 200)
            proxy.stop()  # fails unless the proxy ends soon, and well
        finally:
            over.set()
            for one in load:
                one.join()
        self.upstream.requests.clear()


if __name__ == "__main__":
    main()
