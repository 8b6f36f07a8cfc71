#!/usr/bin/env python3
"""Requests without TLS to a port with TLS."""

import json
import os
import re
import tempfile

from support import Client, ProxyTest, main, skip, wait_until
from tls_support import BUILT_WITHOUT, Certificates, TlsClient, built_in, handshakes_of

TEXT = b"this port requires TLS: use https\n"


class TlsPlain(ProxyTest):
    @classmethod
    def setUpClass(cls):
        cls.files = files = Certificates()
        cls.addClassCleanup(files.folder.cleanup)
        files.make("a", "a.example")

    def test_the_answer_says_what_to_do(self):
        proxy = self.start_with('[admin]\naddress = "127.0.0.1:0"\n' + self.files.listen("a"))
        for method in ("GET", "POST", "DELETE", "OPTIONS", "PATCH", "X"):
            with Client(proxy.port) as client:
                answer = client.ask(method=method)
                self.assertEqual((answer.status, answer.body, answer.get("connection")), (400, TEXT, "close"))
                self.assertEqual(client.ended(), b"")
        with Client(proxy.port) as client:
            self.assertEqual(client.ask(method="HEAD").status, 400)
            self.assertEqual(client.ended(), b"")  # no body
        with Client(proxy.port) as client:
            answer = client.ask(fields="Accept: application/json\r\n")
            self.assertEqual(json.loads(answer.body)["detail" if "detail" in json.loads(answer.body) else "title"],
                             TEXT.decode().strip())
        self.assertEqual(handshakes_of(proxy), {"not_tls": 8})
        self.assertEqual(self.upstream.targets(), [])

    def test_no_request_without_tls_is_served(self):
        """Neither a second one on the connection, nor one for a route that responds itself, nor a check."""
        config = self.files.listen("a") + '[[route]]\nrespond = 204\n'
        check = '[clients]\ntrusted = "127.0.0.1"\n' + self.files.listen("a", more="check = {}\n") + "[[route]]\ncheck = true\n"
        for text in (config, check, self.files.listen("a"), self.files.listen("a", more='unknown_name = "first"\n')):
            port = self.start_with(text).port
            request = "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n\r\n"
            with Client(port) as client:
                client.send(request * 3)
                self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", client.ended()), [b"400"])
        self.assertEqual(self.upstream.targets(), [])

    def test_the_answer_arrives_behind_a_body(self):
        port = self.start_with(self.files.listen("a")).port
        for _ in range(10):
            with Client(port) as client:
                client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n" + "x" * 300_000)
                self.assertEqual(client.answer().body, TEXT)

    def test_a_request_in_pieces(self):
        port = self.start_with(self.files.listen("a")).port
        with Client(port) as client:
            for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n":
                client.send(bytes([byte]))
            self.assertEqual(client.answer().body, TEXT)

    def test_silence_after_the_first_byte_ends(self):
        port = self.start_with('[timeouts]\nheader = "2s"\n' + self.files.listen("a")).port
        with Client(port) as client:
            client.send("G")
            self.assertIn(b" 408 ", client.ended())

    def test_it_costs_as_much_as_a_failed_handshake(self):
        """And releases the seat of the handshake before the proxy reads the request."""
        limits = ('[[limit]]\nname = "new"\nrule = "9/1h"\ncost = 1\nkey = "client"\nqueue = "patience 0s"\n'
                  '[[limit]]\nname = "progress"\nrule = "1 seats"\nqueue = "patience 0s"\n')
        proxy = self.start_with(self.files.listen("a", more='handshake_limits = ["new", "progress"]\n') + limits)
        with Client(proxy.port) as half:
            half.send("GET")  # 2
            wait_until(lambda: proxy.numbers()["new"]["granted"] == 1)
            wait_until(lambda: proxy.numbers()["progress"]["in use"] == 0)
            with TlsClient(proxy.port) as client:  # 1
                self.assertEqual(client.ask().status, 200)
            for _ in range(3):
                with Client(proxy.port) as client:  # 2 each
                    self.assertEqual(client.ask().status, 400)
            with Client(proxy.port) as client:
                client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                self.assertEqual(client.ended(), b"")  # a reset

    def test_the_access_log(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        log = os.path.join(folder, "log")
        proxy = self.start_with(f'access_log = "{log}"\naccess_log_format = "json"\n' + self.files.listen("a"))
        with Client(proxy.port) as client:
            client.ask("/x")
        wait_until(lambda: os.path.exists(log) and open(log).read().count("\n") == 1)
        with open(log) as file:
            line = json.load(file)
        self.assertEqual((line["request"], line["status"]), ("GET /x HTTP/1.1", 400))
        self.assertNotIn("tls_version", line)

    def test_behind_a_load_balancer(self):
        proxy = self.start_with('[clients]\ntrusted = "127.0.0.1"\n' + self.files.listen("a", more="proxy_protocol = true\n"))
        with Client(proxy.port) as client:
            client.send("PROXY TCP4 192.0.2.7 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertEqual(client.answer().body, TEXT)

    def test_other_bytes_end_the_connection(self):
        """Only a text that can be a request gets an answer."""
        port = self.start_with('[timeouts]\nhandshake = "300ms"\n' + self.files.listen("a")).port
        for first in (b"get / HTTP/1.1\r\n\r\n", b"\r\n", b"\0", b"\x80\x2e\x01\0\x02", b"[", b"@"):
            with Client(port) as client:
                client.send(first + b"x" * 20)
                self.assertNotIn(b"HTTP", client.ended())


if __name__ == "__main__":
    if not built_in():
        skip(BUILT_WITHOUT)
    main(at_once=4)
