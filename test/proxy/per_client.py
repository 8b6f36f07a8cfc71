#!/usr/bin/env python3
"""Limits for each client. The address identifies a client: the test uses addresses in 127.0.0.0/8."""

import collections
import contextlib
import socket
import threading
import time

from support import Client, ProxyTest, in_parallel, main, numbers, wait_until

GET = "GET %s HTTP/1.1\r\nHost: test\r\n\r\n"


class PerClient(ProxyTest):
    def setUp(self):
        super().setUp()
        self.over = threading.Event()

        def hang(sock, request, reader):
            self.over.wait(30)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.upstream.script["/hang"] = hang

    def start(self, *options, **how):
        proxy = super().start(*options, **how)
        self.addCleanup(self.over.set)  # before the proxy shuts down
        return proxy

    def client(self, proxy, source):
        client = Client(proxy.port, source=source)
        self.addCleanup(client.close)
        return client

    def statuses(self, proxy, source, n):
        """The statuses of n requests, one after the other, each on its own connection; the threads serve them in rotation."""
        return [self.client(proxy, source).ask("/").status for _ in range(n)]

    def hold(self, proxy, source, n=1):
        """Requests that stay at the upstream until `over`."""
        before = len(self.upstream.targets())
        clients = [self.client(proxy, source) for _ in range(n)]
        for client in clients:
            client.send(GET % "/hang")
        wait_until(lambda: self.upstream.targets()[before:].count("/hang") == n)
        return clients

    def waiting(self, proxy, rule, n):
        wait_until(lambda: proxy.numbers()[rule]["waiting"] == n, f"{n} to wait")

    def test_each_client_has_its_own_rate(self):
        proxy = self.start("--per-client-rate", "3/60s", "--patience", "0s", "--threads", 2)
        self.assertEqual(self.statuses(proxy, "127.0.0.2", 5), [200, 200, 200, 429, 429])
        self.assertEqual(self.statuses(proxy, "127.0.0.3", 4), [200, 200, 200, 429])
        answer = self.client(proxy, "127.0.0.2").ask("/")
        self.assertEqual(answer.status, 429)
        self.assertIn(int(answer.get("retry-after")), range(30, 61))
        found = proxy.numbers()["per-client rate"]
        self.assertEqual((found["granted"], found["no permit"], found["clients"]), (6, 4, 2))

    def test_each_client_has_its_own_seats(self):
        proxy = self.start("--per-client-seats", 2, "--patience", "0s", "--threads", 2)
        held = self.hold(proxy, "127.0.0.2", 2)
        answer = self.client(proxy, "127.0.0.2").ask("/")
        self.assertEqual((answer.status, answer.get("retry-after")), (429, "1"))
        self.assertEqual(self.client(proxy, "127.0.0.3").ask("/").status, 200)
        wait_until(lambda: proxy.numbers()["per-client seats"]["in use"] == 2)
        self.over.set()
        self.assertEqual([client.answer().status for client in held], [200, 200])
        self.assertEqual(self.client(proxy, "127.0.0.2").ask("/").status, 200)

    def test_a_client_does_not_wait_for_other_clients(self):
        proxy = self.start("--per-client-seats", 1, "--patience", "20s", "--threads", 2)
        self.hold(proxy, "127.0.0.2")
        order = [f"/{i}" for i in range(6)]
        waiters = []
        for target in order:
            waiters.append(self.client(proxy, "127.0.0.2"))
            waiters[-1].send(GET % target)
            self.waiting(proxy, "per-client seats", len(waiters))
        self.assertEqual(self.statuses(proxy, "127.0.0.3", 4), [200] * 4)
        before = len(self.upstream.targets())
        self.over.set()
        self.assertEqual([client.answer().status for client in waiters], [200] * 6)
        self.assertEqual(self.upstream.targets()[before:], order)

    def test_each_client_has_its_own_queue(self):
        proxy = self.start("--per-client-seats", 1, "--queue", 1, "--patience", "60s", "--threads", 2)
        for source in ("127.0.0.2", "127.0.0.3"):
            self.hold(proxy, source)
        waiters = [self.client(proxy, f"127.0.0.{i}") for i in (2, 3)]
        for client in waiters:
            client.send(GET % "/")
        self.waiting(proxy, "per-client seats", 2)
        self.assertEqual(self.client(proxy, "127.0.0.2").ask("/").status, 429)
        self.over.set()
        self.assertEqual([client.answer().status for client in waiters], [200, 200])
        self.assertEqual(proxy.numbers()["per-client seats"]["queue full"], 1)

    def test_a_wait_for_the_limit_of_a_client_holds_no_permit_of_all_clients(self):
        proxy = self.start("--per-client-seats", 1, "--seats", 2, "--rate", "3/60s", "--patience", "20s")
        self.hold(proxy, "127.0.0.2")
        for _ in range(5):
            self.client(proxy, "127.0.0.2").send(GET % "/")
        self.waiting(proxy, "per-client seats", 5)
        found = proxy.numbers()
        self.assertEqual((found["seats"]["in use"], found["seats"]["waiting"], found["rate"]["in use"]),
                         (1, 0, 1))
        self.assertEqual(self.statuses(proxy, "127.0.0.3", 2), [200, 200])

    def test_a_rejection_for_all_clients_uses_no_permit_of_the_client(self):
        for patience in ("0s", "100ms"):
            with self.subTest(patience):
                self.over.clear()
                proxy = self.start("--per-client-rate", "1/60s", "--seats", 1, "--patience", patience)
                held = self.hold(proxy, "127.0.0.3")
                self.assertEqual(self.statuses(proxy, "127.0.0.2", 3), [503] * 3)
                self.over.set()
                self.assertEqual(held[0].answer().status, 200)
                self.assertEqual(self.statuses(proxy, "127.0.0.2", 2), [200, 429])

    def test_a_client_that_disconnects_leaves_its_queue_immediately(self):
        for how in (Client.close, Client.abort):
            for behind in ("", GET % "/next"):
                with self.subTest(how.__name__, behind=behind):
                    self.over.clear()
                    self.upstream.requests.clear()
                    proxy = self.start("--per-client-seats", 1, "--seats", 9, "--patience", "60s",
                                       "--threads", 2)
                    held = self.hold(proxy, "127.0.0.2")
                    leaving = [self.client(proxy, "127.0.0.2") for _ in range(10)]
                    for client in leaving:
                        client.send(GET % "/never")
                    self.waiting(proxy, "per-client seats", 10)
                    staying = self.client(proxy, "127.0.0.2")
                    staying.send(GET % "/")
                    self.waiting(proxy, "per-client seats", 11)
                    for client in leaving:
                        client.send(behind)
                        how(client)
                    self.waiting(proxy, "per-client seats", 1)
                    self.over.set()
                    self.assertEqual((held[0].answer().status, staying.answer().status), (200, 200))
                    self.assertNotIn("/never", self.upstream.targets())

    def test_a_disconnect_in_the_queue_of_all_clients_releases_the_permit_of_the_client(self):
        proxy = self.start("--per-client-rate", "1/60s", "--seats", 1, "--patience", "60s")
        self.hold(proxy, "127.0.0.3")
        leaves = self.client(proxy, "127.0.0.2")
        leaves.send(GET % "/never")
        self.waiting(proxy, "seats", 1)
        leaves.close()
        self.waiting(proxy, "seats", 0)
        self.over.set()
        self.assertEqual(self.client(proxy, "127.0.0.2").ask("/").status, 200)
        self.assertNotIn("/never", self.upstream.targets())

    def test_a_request_that_is_sent_again_counts_twice(self):
        proxy = self.start("--per-client-rate", "10/60s", "--patience", "0s", "--threads", 1)
        client = self.client(proxy, "127.0.0.2")
        statuses = [client.ask("/once").status for _ in range(12)]
        self.assertEqual(statuses[:2], [200, 200])
        self.assertEqual(set(statuses[-3:]), {429})
        self.assertEqual(len(self.upstream.requests), 10)
        self.assertEqual(proxy.numbers()["per-client rate"]["granted"], 10)

    def test_clients_beyond_the_number_share_one_limit(self):
        proxy = self.start("--per-client-rate", "2/60s", "--max-keys", 2, "--patience", "0s", "--threads", 2)
        first, second, third, fourth = (f"127.0.0.{i}" for i in (2, 3, 4, 5))
        for source in (first, second, third, fourth):
            self.assertEqual(self.statuses(proxy, source, 1), [200])
        for source in (third, fourth):
            self.assertEqual(self.statuses(proxy, source, 1), [429])
        for source in (first, second):
            self.assertEqual(self.statuses(proxy, source, 2), [200, 429])
        self.assertEqual(proxy.numbers()["per-client rate"]["clients"], 2)

    def test_a_client_is_a_network(self):
        proxy = self.start("--per-client-rate", "2/60s", "--client-prefix-v4", 24, "--patience", "0s")
        for source in ("127.0.1.2", "127.0.1.3"):
            self.assertEqual(self.statuses(proxy, source, 1), [200])
        self.assertEqual(self.statuses(proxy, "127.0.1.4", 1), [429])
        self.assertEqual(self.statuses(proxy, "127.0.2.2", 3), [200, 200, 429])

    def test_ipv6(self):
        try:
            with socket.create_server(("::1", 0), family=socket.AF_INET6):
                pass
        except OSError:
            self.skipTest("there is no IPv6 here")
        # On this listener IPv4 clients have IPv4-mapped IPv6 addresses.
        proxy = self.start("--per-client-rate", "2/60s", "--patience", "0s", listen="[::]")
        for source in ("::1", "127.0.0.2", "127.0.0.3"):
            with self.subTest(source):
                self.assertEqual(self.statuses(proxy, source, 3), [200, 200, 429])

    def test_never_more_than_its_seats_of_a_client_at_the_upstream(self):
        now, most = collections.Counter(), collections.Counter()
        lock = threading.Lock()

        def work_for(sock, request, reader):
            who = request.target.partition("?")[2]
            with lock:
                now[who] += 1
                most[who] = max(most[who], now[who])
            time.sleep(0.005)
            with lock:
                now[who] -= 1
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.upstream.script["/work"] = work_for
        proxy = self.start("--per-client-seats", 2, "--seats", 7, "--patience", "20s", "--threads", 2)

        def work(i):
            who = f"127.0.0.{2 + i % 5}"
            with Client(proxy.port, source=who) as client:
                for _ in range(15):
                    self.assertEqual(client.ask(f"/work?{who}").status, 200)

        in_parallel(25, work)
        self.assertEqual(set(most.values()), {2})
        self.assertEqual(sum(target.startswith("/work?") for target in self.upstream.targets()), 25 * 15)

    def test_permits_of_aborting_clients_are_released(self):
        proxy = self.start("--per-client-seats", 2, "--per-client-rate", "40/100ms", "--seats", 4, "--rate",
                           "200/100ms", "--queue", 20, "--patience", "50ms", "--threads", 2)
        text = (GET % "/sleep/2" + GET % "/bytes/300000").encode()

        def work(i):
            for n in range(80):
                client = Client(proxy.port, source=f"127.0.0.{2 + (i + n) % 7}")
                with contextlib.suppress(OSError):
                    client.send(text[: 20 + 7 * (i + n) % len(text)])
                    client.sock.settimeout(0.0001 + 0.001 * (n % 10))
                    while client.reader.more():
                        pass
                (client.abort if n % 2 else client.close)()

        in_parallel(12, work)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        found = numbers(proxy.stop())  # a connection may still wait to be accepted until then
        for rule in ("per-client seats", "per-client rate", "seats", "rate"):
            self.assertEqual((found[rule]["in use"], found[rule]["waiting"]), (0, 0))
        self.assertGreater(found["per-client rate"]["granted"], 10)  # with a slow proxy most clients disconnect earlier


if __name__ == "__main__":
    main()
