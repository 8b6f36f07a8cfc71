#!/usr/bin/env python3
"""Connections to the upstream that are kept for the next request."""

import threading
import time

from support import Client, ProxyTest, main, wait_until

EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

# What was asked, what the upstream answers, and what it sends a while later, unasked.
UNASKED = [
    ("GET", EMPTY, EVIL),
    ("GET", EMPTY, b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    ("GET", EMPTY, b"HTTP/1.1 200 OK\r\nContent-"),
    ("GET", EMPTY, b"hello"),
    ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", EVIL),
    ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", EVIL),
    ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(EVIL), EVIL),
]


class Kept(ProxyTest):
    def test_what_comes_unasked_is_nobodys_answer(self):
        proxy = self.start("--threads", 1)
        for pause in (0.03, 0.2):
            for method, first, second in UNASKED:
                for next_method in ("GET", "POST"):
                    sent = threading.Event()

                    def answer(sock, request, reader):
                        sock.sendall(first)
                        time.sleep(pause)
                        sock.sendall(second)
                        sent.set()
                        return True

                    self.upstream.script["/unasked"] = answer
                    with self.subTest(first=first, second=second, pause=pause, next=next_method):
                        with Client(proxy.port) as client, Client(proxy.port) as other:
                            client.ask("/unasked", method)
                            self.assertTrue(sent.wait(20))
                            answer = other.ask("/", next_method, "Content-Length: 0\r\n")
                            self.assertEqual((answer.status, answer.body), (200, b"hello\n"))
                            answer = client.ask("/")
                            self.assertEqual((answer.status, answer.body), (200, b"hello\n"))


if __name__ == "__main__":
    main()
