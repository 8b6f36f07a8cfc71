#!/usr/bin/env python3
"""Slow clients, unreachable upstreams, and the shutdown."""

import contextlib
import signal
import threading
import time

from support import PATIENCE, Client, ProxyTest, hangs_until, main, numbers, rejects, wait_until

GET = "GET / HTTP/1.1\r\nHost: test\r\n\r\n"


class Faults(ProxyTest):
    def test_an_incomplete_header(self):
        proxy = self.start("--header-timeout", "1s", "--idle-timeout", "60s")
        with Client(proxy.port) as slow, Client(proxy.port) as silent:
            begun = time.monotonic()
            answered = threading.Event()

            def drip():  # single bytes do not extend the time limit
                for c in "GET / HTTP/1.1\r\nA: " + "b" * 1000:
                    if answered.wait(0.05):
                        return
                    try:
                        slow.send(c)
                    except OSError:
                        return

            threading.Thread(target=drip, daemon=True).start()
            answer = slow.answer()
            answered.set()
            self.assertEqual((answer.status, answer.get("connection")), (408, "close"))
            self.assertGreaterEqual(time.monotonic() - begun, 0.99)
            self.assertEqual(silent.ended(), b"")
        self.assertEqual(self.upstream.targets(), [])

    def test_a_missing_body(self):
        proxy = self.start("--body-timeout", "200ms", "--seats", 1)
        with Client(proxy.port) as client:
            client.send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n12345")
            answer = client.answer()
            self.assertEqual((answer.status, answer.get("connection")), (408, "close"))
            self.assertEqual(client.ended(), b"")
        self.assertEqual(self.upstream.targets(), [])

    def test_an_idle_connection_is_closed_in_time(self):
        proxy = self.start("--idle-timeout", "200ms")
        with Client(proxy.port) as client:
            begun = time.monotonic()
            self.assertEqual(client.ask("/").status, 200)
            self.assertEqual(client.ended(), b"")
            self.assertGreaterEqual(time.monotonic() - begun, 0.19)

    def test_an_upstream_that_does_not_respond(self):
        proxy = self.start("--upstream-timeout", "200ms", "--seats", 1)
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda *_: over.wait(PATIENCE)
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/hang").status for _ in range(2)], [504] * 2)  # on the same connection

    def test_an_upstream_that_is_not_reachable(self):
        self.upstream.close()
        proxy = self.start("--seats", 1)
        with Client(proxy.port) as client:
            for _ in range(3):
                self.assertEqual(client.ask("/").status, 502)
            self.assertEqual(client.ask("/", "POST", "Content-Length: 1\r\n", b"x").status, 502)
            self.assertEqual(client.ask("/", "HEAD").status, 502)
            self.assertEqual(client.ask("/").status, 502)

    def test_an_upstream_that_disconnects_before_it_responds(self):
        proxy = self.start("--threads", 1)
        self.upstream.script["/bye"] = lambda sock, request, reader: False
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/bye").status, 502)
            self.assertEqual(len(self.upstream.requests), 1)  # a request on a new connection is not repeated
            self.assertEqual(client.ask("/").status, 200)

    def test_an_upstream_that_disconnects_in_the_middle(self):
        def cut(head):
            def answer(sock, request, reader):
                sock.sendall(head + b"5\r\nhello")
                return False

            return answer

        proxy = self.start()
        self.upstream.script["/counted"] = cut(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")
        self.upstream.script["/chunked"] = cut(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for target in ("/counted", "/chunked"):
            with self.subTest(target), Client(proxy.port) as client:
                client.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
                with self.assertRaises(EOFError):
                    client.answer()
        # Where the framing does not show that the response is incomplete, the client gets a reset instead of an end.
        with Client(proxy.port) as client:
            client.send("GET /chunked HTTP/1.0\r\n\r\n")
            with self.assertRaises(ConnectionResetError):
                client.answer()

    def test_a_kept_connection_that_the_upstream_closes(self):
        # The upstream closes when the next request arrives, so the proxy cannot notice it earlier.
        def close_next(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            with self.assertRaises(EOFError):
                reader.head()
                raise EOFError
            return False

        proxy = self.start("--threads", 1)
        self.upstream.script["/once"] = close_next
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/once").status, 200)
            self.assertEqual(client.ask("/again").status, 200)
            self.assertEqual(self.upstream.targets().count("/again"), 1)
            # A request that may have had an effect is not sent twice.
            self.assertEqual(client.ask("/once").status, 200)
            self.assertEqual(client.ask("/post", "POST", "Content-Length: 1\r\n", b"x").status, 502)
            self.assertEqual(self.upstream.targets().count("/post"), 0)

    def test_a_request_with_half_a_response_is_not_sent_again(self):
        def hint_and_close(sock, request, reader):
            sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
            return False

        proxy = self.start("--threads", 1)
        self.upstream.script["/hint"] = hint_and_close
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)  # opens a connection to reuse
            answer = client.ask("/hint")
            self.assertEqual((answer.interim, answer.status), ([103], 502))
            self.assertEqual(self.upstream.targets().count("/hint"), 1)

    def test_extra_bytes_of_the_upstream_are_not_read_as_the_next_response(self):
        def too_much(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                         b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            return True

        proxy = self.start("--threads", 1)
        self.upstream.script["/much"] = too_much
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/much").body, b"ok")
            self.assertEqual(client.ask("/").body, b"hello\n")

    def test_drain_finishes_active_requests(self):
        for which in (signal.SIGTERM, signal.SIGINT):
            over = threading.Event()
            self.addCleanup(over.set)
            self.upstream.script["/hang"] = hangs_until(over)
            self.upstream.requests.clear()
            proxy = self.start("--seats", 1, "--patience", "20s", "--threads", 2, port=self.unused_port())
            with contextlib.ExitStack() as clients:
                # The threads take connections in turn: each has an idle one, whose end shows that it drains.
                *idle, first, second = (clients.enter_context(Client(proxy.port)) for _ in range(4))
                self.assertEqual([one.ask("/").status for one in idle], [200, 200])
                first.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                wait_until(lambda: "/hang" in self.upstream.targets())
                second.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
                wait_until(lambda: proxy.numbers()["seats"]["waiting"] == 1)
                proxy.process.send_signal(which)
                self.assertEqual([one.ended() for one in idle], [b"", b""])
                wait_until(lambda: rejects(proxy.port), "the port to be closed")
                over.set()
                for client in (first, second):
                    answer = client.answer()
                    self.assertEqual((answer.status, answer.get("connection")), (200, "close"))
                    self.assertEqual(client.ended(), b"")
                _, proxy.report = proxy.process.communicate(timeout=20)
                self.assertEqual(proxy.process.returncode, 0)

    def test_drain_ends_under_load(self):
        for _ in range(5):
            proxy = self.start("--drain", "60s", "--threads", 2)
            asked = threading.Semaphore(0)

            def work(i):
                with Client(proxy.port) as client:
                    try:
                        while client.ask("/").get("connection") != "close":
                            asked.release()
                    except (EOFError, ConnectionResetError, BrokenPipeError):
                        pass  # the connection was idle

            clients = [threading.Thread(target=work, args=(i,)) for i in range(8)]
            for client in clients:
                client.start()
            for _ in range(200):
                self.assertTrue(asked.acquire(timeout=20))
            proxy.process.send_signal(signal.SIGTERM)
            for client in clients:
                client.join()
            _, proxy.report = proxy.process.communicate(timeout=20)
            self.assertEqual(proxy.process.returncode, 0)

    def test_a_response_that_the_end_of_the_drain_cuts_is_reset(self):
        """A response without a length would seem complete."""
        let_go = threading.Event()
        self.addCleanup(let_go.set)

        def part(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npart")
            let_go.wait(30)

        self.upstream.script["/part"] = part
        proxy = self.start("--drain", "300ms")
        with Client(proxy.port) as client:
            client.send("GET /part HTTP/1.0\r\n\r\n")
            received = b""
            while not received.endswith(b"\r\n\r\npart"):
                received += client.sock.recv(1000)
            proxy.process.send_signal(signal.SIGTERM)
            self.assertRaises(ConnectionResetError, client.sock.recv, 1)
            _, proxy.report = proxy.process.communicate(timeout=20)

    def test_drain_ends_in_any_case(self):
        proxy = self.start("--seats", 1, "--drain", "300ms")
        let_go = threading.Event()
        self.addCleanup(let_go.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: let_go.wait(30)
        with Client(proxy.port) as client:
            client.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            begun = time.monotonic()
            proxy.process.send_signal(signal.SIGTERM)
            _, proxy.report = proxy.process.communicate(timeout=20)
            self.assertEqual(proxy.process.returncode, 0)
            self.assertGreaterEqual(time.monotonic() - begun, 0.29)
            self.assertEqual(numbers(proxy.report)["seats"]["in use"], 0)


if __name__ == "__main__":
    main()
