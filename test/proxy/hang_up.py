#!/usr/bin/env python3
"""Clients that disconnect, and clients that close only their sending side."""

import socket
import threading
import time

from support import Client, ProxyTest, full_backlog, in_parallel, main, plain_only, wait_until

GET = "GET %s HTTP/1.1\r\nHost: test\r\n\r\n"


class HangUp(ProxyTest):
    def hang(self, sock, request, reader):
        """Works until the end of the test, whatever the client does."""
        with self.upstream.at_work():
            self.over.wait(30)
        return False

    def notice(self, sock, request, reader):
        """Works until the proxy closes the connection."""
        with self.upstream.at_work():
            while reader.more():
                pass
        return False

    def setUp(self):
        super().setUp()
        self.over = threading.Event()
        self.addCleanup(self.over.set)
        self.upstream.script["/hang"] = self.hang
        self.upstream.script["/notice"] = self.notice

    def asked(self, target, n=1):
        wait_until(lambda: self.upstream.targets().count(target) == n, f"{n} x {target}")

    def test_the_seat_is_held_while_the_upstream_works(self):
        for how in (Client.close, Client.abort):
            self.upstream.most = 0
            proxy = self.start("--seats", 3, "--patience", "20s", "--threads", 2)

            def work(i):
                client = Client(proxy.port)
                client.send(GET % "/sleep/500")
                time.sleep(0.03 * i)
                how(client)

            in_parallel(30, work)
            with Client(proxy.port) as client:
                self.assertEqual(client.ask("/").status, 200)
            wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
            self.assertEqual(self.upstream.most, 3)
            proxy.stop()

    def test_the_seat_is_held_while_the_upstream_works_on_half_a_request(self):
        proxy = self.start("--seats", 1, "--patience", "300ms")
        self.upstream.script["/stream-back/hang"] = self.hang
        holder = Client(proxy.port)
        holder.send("POST /stream-back/hang HTTP/1.1\r\nHost: test\r\nContent-Length: 99999\r\n\r\n" + "x" * 70000)
        self.asked("/stream-back/hang")
        holder.abort()
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 503)
            self.over.set()
            wait_until(lambda: client.ask("/").status == 200)

    def test_the_seat_is_free_when_the_upstream_closed_the_connection(self):
        proxy = self.start("--seats", 1, "--patience", "20s")
        holder = Client(proxy.port)
        holder.send(GET % "/notice")
        self.asked("/notice")
        holder.abort()
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
        self.assertEqual(self.upstream.now, 0)

    def test_with_abort_on_hang_up_the_seat_is_free_immediately(self):
        for behind in ("", "GET /next HTTP/1.1\r\nHost: test\r\n\r\n"):
            for how in (Client.close, Client.abort):
                proxy = self.start("--seats", 1, "--patience", "20s", "--abort-on-hang-up")
                self.upstream.requests.clear()
                holder = Client(proxy.port)
                holder.send(GET % "/hang" + behind)
                self.asked("/hang")
                how(holder)
                with self.subTest(how.__name__, behind=behind), Client(proxy.port) as client:
                    self.assertEqual(client.ask("/").status, 200)
                    self.assertFalse(self.over.is_set())

    def test_a_client_that_leaves_while_the_connect_hangs_frees_its_seat(self):
        with full_backlog() as (listener, _):
            for leave, aborts in ((Client.abort, "false"), (Client.close, "true")):
                proxy = self.start_with('[timeouts]\nupstream = "20s"\n[clients]\nabort_on_hang_up = %s\n[[upstream]]\nname = "shop"\n'
                                        'servers = "127.0.0.1:%d"\n[[limit]]\nname = "seats"\nrule = "1 seats"\n'
                                        % (aborts, listener.getsockname()[1]))
                began = time.monotonic()
                client = Client(proxy.port)
                client.send(GET % "/")
                wait_until(lambda: proxy.numbers()["seats"]["in use"] == 1)
                leave(client)
                wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)
                self.assertLess(time.monotonic() - began, 10)

    def test_a_client_that_leaves_while_it_waits_for_a_connection_frees_its_seat(self):
        proxy = self.start_with('[timeouts]\nupstream = "20s"\n[[upstream]]\nname = "shop"\n'
                                '[[upstream.server]]\naddress = "UPSTREAM"\nmax_connections = 1\n[[limit]]\nname = "seats"\nrule = "2 seats"\n')
        with Client(proxy.port) as holder:
            holder.send(GET % "/hang")
            self.asked("/hang")
            began = time.monotonic()
            client = Client(proxy.port)
            client.send(GET % "/")
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 2)
            client.abort()
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 1)
            self.assertLess(time.monotonic() - began, 10)
            self.over.set()
            self.assertEqual(holder.answer().status, 502)

    def half_close(self, proxy, text):
        client = Client(proxy.port)
        self.addCleanup(client.close)
        client.send(text)
        client.end_sending()
        return client

    def test_a_client_that_closed_only_its_sending_side_gets_a_response(self):
        proxy = self.start()
        for target in ("/", "/sleep/300"):
            answer = self.half_close(proxy, GET % target).answer()
            self.assertEqual((answer.status, answer.body), (200, b"hello\n"))

    @plain_only("the proxy reads the announcement of an end behind the request later")
    def test_it_gets_one_with_abort_on_hang_up_too(self):
        proxy = self.start("--abort-on-hang-up")
        self.assertEqual(self.half_close(proxy, GET % "/").answer().status, 200)
        self.assertEqual(self.half_close(proxy, GET % "/hang").answer().status, 503)

    @plain_only("the proxy reads the announcement of an end behind the request later")
    def test_it_gets_one_in_the_queue_too(self):
        proxy = self.start("--seats", 1, "--patience", "20s")
        with Client(proxy.port) as holder:
            holder.send(GET % "/hang")
            self.asked("/hang")
            answer = self.half_close(proxy, GET % "/").answer()
            self.assertEqual((answer.status, answer.get("connection")), (503, "close"))
            self.assertEqual(proxy.numbers()["seats"]["waiting"], 0)
            self.over.set()
        self.assertNotIn("/", self.upstream.targets())

    def test_it_gets_one_in_the_middle_of_a_body_too(self):
        proxy = self.start("--seats", 1)
        text = "POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\r\nx"
        self.assertEqual(self.half_close(proxy, text).answer().status, 400)
        self.assertEqual(self.upstream.targets(), [])

    def test_a_request_that_is_sent_again_is_counted_twice(self):
        proxy = self.start("--rate", "10/60s", "--patience", "0s", "--threads", 1)
        with Client(proxy.port) as client:
            statuses = [client.ask("/once").status for _ in range(12)]
        self.assertEqual(statuses[:2], [200, 200])
        self.assertEqual(set(statuses[-3:]), {429})
        self.assertEqual(len(self.upstream.requests), 10)


if __name__ == "__main__":
    main()
