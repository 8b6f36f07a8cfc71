#!/usr/bin/env python3
"""Responses that are sent while the client still sends its request: each arrives completely."""

import socket
import threading
import time

from support import Client, ProxyTest, main, wait_until

BIG = b"x" * 30_000_000
NO = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"


def reject(sock, request, reader):
    sock.sendall(NO)
    time.sleep(0.2)
    return False


def reject_and_read_on(sock, request, reader):
    sock.sendall(NO)
    with_end = time.monotonic() + 5
    while time.monotonic() < with_end and reader.more():
        reader.data = b""
    return False


class Early(ProxyTest):
    def post(self, proxy, target):
        """Sends all of a large body, however long that takes, and only then reads the response."""
        with Client(proxy.port) as client:
            answer = client.ask(target, "POST", f"Content-Length: {len(BIG)}\r\n", BIG)
            return answer.status, answer.body, answer.get("connection")

    def test_a_response_of_the_upstream(self):
        proxy = self.start("--threads", 1)
        self.upstream.script["/stream-back/closes"] = reject
        self.upstream.script["/stream-back/reads"] = reject_and_read_on
        for _ in range(4):
            for how in ("closes", "reads"):
                with self.subTest(how):
                    self.assertEqual(self.post(proxy, f"/stream-back/{how}"), (413, b"no", "close"))

    def test_a_response_of_the_proxy(self):
        for limit, status in ((("--rate", "1/1h"), 429), (("--seats", 1), 503)):
            over = threading.Event()
            self.addCleanup(over.set)
            self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(30) and False
            proxy = self.start(*limit, "--patience", "0s", "--threads", 1)
            with Client(proxy.port) as holder:
                holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                wait_until(lambda: "/hang" in self.upstream.targets())
                for _ in range(4):
                    with self.subTest(status):
                        found = self.post(proxy, "/")
                        self.assertEqual((found[0], found[2]), (status, "close"))
                self.upstream.requests.clear()
                over.set()
                self.assertEqual(holder.answer().status, 502)

    def test_a_malformed_body(self):
        proxy = self.start("--seats", 1)
        with Client(proxy.port) as client:
            client.send("POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            client.send(BIG)
            self.assertEqual(client.answer().status, 400)

    def test_a_gentle_close_holds_no_seat(self):
        proxy = self.start("--seats", 1, "--patience", "1s")
        self.upstream.script["/stream-back/no"] = reject
        with Client(proxy.port) as client, Client(proxy.port) as other:
            client.send("POST /stream-back/no HTTP/1.1\r\nHost: test\r\nContent-Length: 99999\r\n\r\n" + "x" * 70000)
            self.assertEqual(client.answer().status, 413)
            self.assertEqual(other.ask("/").status, 200)


if __name__ == "__main__":
    main()
