#!/usr/bin/env python3
"""The limits hold at the upstream, with several threads and with clients that disconnect in any way, and every permit is
released. Tests that depend on time run in process: see rates.cpp."""

import contextlib
import ctypes
import os
import random
import threading
import unittest

from support import Client, ProxyTest, in_parallel, main, new_seed, numbers, wait_until


@contextlib.contextmanager
def frozen(thread):
    """Stops one thread of a process, as a debugger does."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    seize, interrupt, detach, wall = 0x4206, 0x4207, 17, 0x40000000
    if ptrace(seize, thread, None, None) != 0:
        raise unittest.SkipTest(f"no thread can be stopped: {os.strerror(ctypes.get_errno())}")
    ptrace(interrupt, thread, None, None)
    os.waitpid(thread, wall)
    try:
        yield
    finally:
        ptrace(detach, thread, None, None)


class Limits(ProxyTest):
    def test_never_more_than_seats_at_the_upstream(self):
        proxy = self.start("--seats", 3, "--patience", "20s", "--threads", 2)

        def work(i):
            with Client(proxy.port) as client:
                for _ in range(20):
                    self.assertEqual(client.ask("/sleep/5").status, 200)

        in_parallel(24, work)
        self.assertEqual(self.upstream.most, 3)
        self.assertEqual(len(self.upstream.requests), 480)

    def test_another_rule_of_the_library(self):
        proxy = self.start("--rate", "1/60s burst 3", "--patience", "0s")
        with Client(proxy.port) as client:
            statuses = [client.ask("/").status for _ in range(5)]
        self.assertEqual(statuses, [200, 200, 200, 429, 429])

    def test_bodies_of_rejected_requests(self):
        proxy = self.start("--rate", "1/30s", "--patience", "0s")
        with Client(proxy.port) as client:
            client.ask("/")
            body = b"x" * 60_000
            # The proxy discards a small body, even if it arrives later.
            client.send(f"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n")
            answer = client.answer()
            self.assertEqual((answer.status, answer.get("connection")), (429, None))
            client.send(body)
            chunked = "Transfer-Encoding: chunked\r\n"
            answer = client.ask("/", "POST", chunked, b"5\r\nhello\r\n0\r\n\r\n")
            self.assertEqual((answer.status, answer.get("connection")), (429, None))
            # It does not discard a large body.
            client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\nx")
            answer = client.answer()
            self.assertEqual((answer.status, answer.get("connection")), (429, "close"))
            self.assertEqual(client.ended(), b"")
        # Nor a body with which the client waits for 100 Continue.
        with Client(proxy.port) as client:
            answer = client.ask("/", "POST", "Content-Length: 5\r\nExpect: 100-continue\r\n")
            self.assertEqual((answer.status, answer.interim), (429, []))
            self.assertEqual(answer.get("connection"), "close")
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_client_that_disconnects_leaves_the_queue_immediately(self):
        for how in (Client.close, Client.abort):
            for pipelined in ("", "GET /next HTTP/1.1\r\nHost: test\r\n\r\n"):
                with self.subTest(how.__name__, pipelined=pipelined):
                    over = self.hang()
                    proxy = self.start("--seats", 1, "--patience", "60s", "--threads", 2)
                    with Client(proxy.port) as holder:
                        holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                        wait_until(lambda: proxy.numbers()["seats"]["in use"] == 1)
                        waiters = [Client(proxy.port) for _ in range(20)]
                        for w in waiters:
                            w.send("GET /never HTTP/1.1\r\nHost: test\r\n\r\n")
                        wait_until(lambda: proxy.numbers()["seats"]["waiting"] == 20)
                        for w in waiters:
                            w.send(pipelined)
                            how(w)
                        wait_until(lambda: proxy.numbers()["seats"]["waiting"] == 0)
                        self.assertEqual(proxy.numbers()["seats"]["in use"], 1)
                        over.set()
                        self.assertEqual(holder.answer().status, 200)
                    self.assertNotIn("/never", self.upstream.targets())

    def hang(self):
        """Returns an event. Requests to /hang get their responses when it is set."""
        over = threading.Event()
        self.addCleanup(over.set)

        def answer(sock, request, reader):
            over.wait(30)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.upstream.script["/hang"] = answer
        return over

    def test_a_waiting_request_does_not_depend_on_another_thread(self):
        proxy = self.start("--seats", 1, "--patience", "300ms", "--threads", 2)
        over = self.hang()
        # The two threads get connections in rotation.
        with Client(proxy.port) as first, Client(proxy.port) as second:
            self.assertEqual((first.ask("/").status, second.ask("/").status), (200, 200))
            with Client(proxy.port), Client(proxy.port) as holder:
                holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                wait_until(lambda: "/hang" in self.upstream.targets())
                with frozen(self.serving_threads(proxy)[0]):
                    self.assertEqual(second.ask("/").status, 503)
                over.set()

    @staticmethod
    def serving_threads(proxy):
        """The threads in the order of their start, without the process's first thread, which serves no client."""
        return sorted(map(int, os.listdir(f"/proc/{proxy.process.pid}/task")))[1:]

    def test_permits_of_thousands_of_aborting_clients_are_released(self):
        seed = new_seed()
        proxy = self.start("--seats", 4, "--rate", "200/100ms", "--queue", 50, "--patience", "50ms",
                           "--threads", 2)
        text = (b"GET /sleep/2 HTTP/1.1\r\nHost: test\r\n\r\n"
                b"POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 40000\r\n\r\n" + b"x" * 40000 +
                b"GET /bytes/300000 HTTP/1.1\r\nHost: test\r\n\r\n")

        def work(i):
            rng = random.Random(seed + i)
            for _ in range(150):
                client = Client(proxy.port)
                try:
                    client.send(text[: rng.choice((50, 200, len(text), rng.randrange(len(text))))])
                    if rng.random() < 0.7:
                        client.sock.settimeout(rng.random() * 0.01 + 0.0001)
                        while client.reader.more():
                            pass
                except OSError:
                    pass
                (client.abort if rng.random() < 0.5 else client.close)()

        in_parallel(20, work)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        found = numbers(proxy.stop())
        self.assertGreater(found["proxy"]["connections"], 1000)  # some end before they are accepted
        for part in ("seats", "rate"):
            self.assertEqual((found[part]["in use"], found[part]["waiting"]), (0, 0))
        self.assertGreater(found["proxy"]["disconnected"], 10)  # hundreds, but fewer on a busy machine


if __name__ == "__main__":
    main()
