#!/usr/bin/env python3
"""An invalid request gets the right status and `Connection: close`, and the upstream receives no part of it. An invalid
response of the upstream becomes 502."""

import socket

from support import Client, ProxyTest, main

H = "Host: test\r\n"
LONG = "x" * 40000

# The bytes that are sent, and the status of the response.
REQUESTS = [
    # The request line.
    ("GET\r\n\r\n", 400),
    ("GET /\r\n\r\n", 400),
    ("GET / \r\n" + H + "\r\n", 400),
    (" GET / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET  / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET /  HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET / HTTP/1.1 \r\n" + H + "\r\n", 400),
    ("GET\t/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("G@T / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("G(T / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("\x00GET / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET /\x00 HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET /\x01 HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET /a b HTTP/1.1\r\n" + H + "\r\n", 400),
    ("\r\n\r\nGET / HTTP/1.1\r\n" + H + "\r\n", 400),
    ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    # The version.
    ("GET / HTTP/2.0\r\n" + H + "\r\n", 505),
    ("GET / HTTP/1.2\r\n" + H + "\r\n", 505),
    ("GET / HTTP/0.9\r\n" + H + "\r\n", 505),
    ("GET / HTTP/3.0\r\n" + H + "\r\n", 505),
    ("GET / HTTP/1.10\r\n" + H + "\r\n", 400),
    ("GET / HTTP/11\r\n" + H + "\r\n", 400),
    ("GET / HTTX/1.1\r\n" + H + "\r\n", 400),
    ("GET / http/1.1\r\n" + H + "\r\n", 400),
    ("GET / HTTP/1.x\r\n" + H + "\r\n", 400),
    # The target.
    ("GET test HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET * HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET http://other/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET http://test:81/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET http://user@test/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET http:///path HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET http:// HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET https://test/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("GET ftp://test/ HTTP/1.1\r\n" + H + "\r\n", 400),
    ("CONNECT test:443 HTTP/1.1\r\n" + H + "\r\n", 501),
    ("CONNECT / HTTP/1.1\r\n" + H + "\r\n", 501),
    # Host.
    ("GET / HTTP/1.1\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nAccept: x\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + H + "\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "Host: other\r\n\r\n", 400),
    ("GET / HTTP/1.0\r\n" + H + "Host: other\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: user@test\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: test/path\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: http://test\r\n\r\n", 400),
    # Line ends, and the contents of lines.
    ("GET / HTTP/1.1\n" + H + "\r\n", 400),
    ("GET / HTTP/1.1\r\nHost: test\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "\n", 400),
    ("GET / HTTP/1.1\nHost: test\n\n", 400),
    ("GET / HTTP/1.1\rHost: test\r\r", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\rc\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\r\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\r\n c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\r\n\tc\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n Host: test\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\x00c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A\x00: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\x01c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A: b\x7fc\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A : b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A\t: b\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A B: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + ": c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "Nothing\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A(b): c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "A\xe4: c\r\n\r\n", 400),
    ("GET / HTTP/1.1\r\n" + H + "\"A\": c\r\n\r\n", 400),
    # Content-Length.
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5\r\nContent-Length: 05\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5, 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5,6\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: +5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: -5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 0x5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5.0\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length:\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: five\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 18446744073709551616\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 99999999999999999999999\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: \"5\"\r\n\r\nhello", 400),
    # Transfer-Encoding.
    ("POST / HTTP/1.1\r\n" + H + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: gzip\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: identity\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding:\r\n\r\n0\r\n\r\n", 501),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.0\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    # Chunks.
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n 1\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1 1\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1\r\na\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n A: b\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1;a\nb\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1;\x00\r\na\r\n0\r\n\r\n", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\na", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\na", 400),
    ("POST / HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n1;" + "x" * 9000 + "\r\na", 400),
    # Exceeded lengths and numbers.
    ("GET /" + LONG + " HTTP/1.1\r\n" + H + "\r\n", 414),
    ("GET /" + "x" * 9000 + " HTTP/1.1\r\n" + H + "\r\n", 414),
    (LONG, 414),
    ("GET / HTTP/1.1\r\n" + H + "A: " + LONG + "\r\n\r\n", 431),
    ("GET / HTTP/1.1\r\n" + H + LONG + ": a\r\n\r\n", 431),
    ("GET / HTTP/1.1\r\n" + H + "A: b\r\n" * 8000 + "\r\n", 431),
    ("GET / HTTP/1.1\r\n" + H + "A: b\r\n" * 201 + "\r\n", 431),
    # Unsupported features.
    ("POST / HTTP/1.1\r\n" + H + "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", 417),
]

# Invalid responses of the upstream: each becomes a 502.
ANSWERS = [
    b"garbage\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 01\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\na",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: b\0\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA: " + b"x" * 40000 + b"\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 201 + b"\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
    b"",
]


class Strict(ProxyTest):
    def check(self, proxy, text, status, in_pieces):
        with Client(proxy.port) as client:
            data = text.encode("latin-1")
            try:
                if in_pieces:
                    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for i in range(len(data)):
                        client.send(data[i : i + 1])
                else:
                    client.send(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the proxy closed the connection early
            answer = client.answer()
            self.assertEqual(answer.status, status)
            self.assertEqual(answer.get("connection"), "close")
            self.assertTrue(answer.body)
            self.assertEqual(client.ended(), b"")

    def test_bad_requests(self):
        proxy = self.start("--seats", 100, "--threads", 1)
        self.assertGreater(len(REQUESTS), 100)
        for text, status in REQUESTS:
            with self.subTest(text[:120], status=status):
                self.check(proxy, text, status, in_pieces=False)
        self.assertEqual(self.upstream.targets(), [])
        self.assertEqual(proxy.numbers()["proxy"]["malformed"], len(REQUESTS))
        self.assertEqual(proxy.numbers()["seats"]["granted"], 0)

    def test_bad_heads_byte_by_byte(self):
        proxy = self.start("--threads", 1)
        for text, status in REQUESTS:
            if len(text) < 1000 and "chunked\r\n\r\n" not in text:
                with self.subTest(text[:120], status=status):
                    self.check(proxy, text, status, in_pieces=True)
        self.assertEqual(self.upstream.targets(), [])

    def test_bad_chunks_byte_by_byte_get_400_and_end_the_upstream_request(self):
        proxy = self.start("--threads", 1)
        for text, status in REQUESTS:
            if len(text) < 1000 and "chunked\r\n\r\n" in text and status == 400:
                with self.subTest(text):
                    self.check(proxy, text, status, in_pieces=True)
        # The upstream may have received the head, but never a complete request.
        self.assertEqual(self.upstream.targets(), [])

    def test_a_good_request_before_a_bad_one_is_served(self):
        proxy = self.start()
        for text, status in REQUESTS:
            with self.subTest(text[:120], status=status), Client(proxy.port) as client:
                client.send("GET /first HTTP/1.1\r\nHost: test\r\n\r\n" + text)
                self.assertEqual(client.answer().status, 200)
                self.assertEqual(client.answer().status, status)
                self.assertEqual(client.ended(), b"")
        self.assertEqual(set(self.upstream.targets()), {"/first"})

    def test_unusual_valid_requests_are_forwarded(self):
        proxy = self.start()
        good = [
            "\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n",
            "GET http://test/ HTTP/1.1\r\nHost: test\r\n\r\n",
            "GET HTTP://TEST:80/ HTTP/1.1\r\nHost: test\r\n\r\n",
            "GET http://test HTTP/1.1\r\nHost: test\r\n\r\n",
            "GET / HTTP/1.1\r\nhOsT:test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: \t test \t\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\nA:\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: test\r\nA: b\xe4c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: TLS/1.2\r\nConnection: Upgrade\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
            "00A;x=\"y\"\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 0005\r\n\r\nhello",
            "FROBNICATE / HTTP/1.1\r\nHost: test\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5 \r\nhello\r\n1 ;a=b\r\n!\r\n0\t\r\n\r\n",
            "GET / HTTP/1.1\r\n" + "A: b\r\n" * 199 + "Host: test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: test\r\nA: " + "x" * 30000 + "\r\n\r\n",
        ]
        for text in good:
            with self.subTest(text[:120]), Client(proxy.port) as client:
                client.send(text)
                self.assertEqual(client.answer().status, 200)
                self.assertEqual(client.ask("/again").status, 200)
        self.assertEqual(set(self.upstream.targets()), {"/", "/again"})

    def test_repeated_fields_are_forwarded_once(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            client.ask("/", "POST", "Content-Length: 5\r\nContent-Length: 5\r\n", b"hello")
        request = self.upstream.requests[0]
        self.assertEqual([v for n, v in request.fields if n == "content-length"], ["5"])
        self.assertEqual(request.body, b"hello")

    def test_unusual_valid_responses_are_forwarded(self):
        first = b"HTTP/1.1 200 OK\r\n"
        date = b"Date: a\r\n"
        via = b"Via: 1.1 weir-proxy\r\n"
        counted = b"Content-Length: 2\r\n"
        chunked = b"Transfer-Encoding: chunked\r\n"
        good = [
            ("GET", b"HTTP/1.1 200\r\n" + date + counted + b"\r\nhi",
             b"HTTP/1.1 200 \r\n" + date + via + counted + b"\r\nhi"),
            ("GET", first + date + counted + counted + b"\r\nhi",
             first + date + via + counted + b"\r\nhi"),
            ("GET", first + date + chunked + b"\r\n2 \r\nhi\r\n0 ;a\r\n\r\n",
             first + date + via + chunked + b"\r\n2\r\nhi\r\n0\r\n\r\n"),
            ("HEAD", first + date + counted + counted + b"\r\n",
             first + date + counted + via + b"\r\n"),
            ("HEAD", first + date + counted + chunked + b"\r\n", first + date + via + b"\r\n"),
            ("HEAD", first + date + b"Transfer-Encoding: gzip\r\n\r\n", first + date + via + b"\r\n"),
        ]
        proxy = self.start()
        for i, (method, text, goes_back) in enumerate(good):
            def send(sock, request, reader, text=text):
                sock.sendall(text)
                return False

            self.upstream.script[f"/{i}"] = send
            with self.subTest(text), Client(proxy.port) as client:
                # No other response follows, since the client marks this request as its last one.
                client.send(f"{method} /{i} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
                end = goes_back.index(b"\r\n\r\n") + 2
                self.assertEqual(client.ended(), goes_back[:end] + b"Connection: close\r\n" + goes_back[end:])

    def test_bad_responses(self):
        proxy = self.start("--seats", 1)
        for i, text in enumerate(ANSWERS):
            def send(sock, request, reader, text=text):
                sock.sendall(text)
                return False

            self.upstream.script[f"/{i}"] = send
            with self.subTest(text[:100]), Client(proxy.port) as client:
                self.assertEqual(client.ask(f"/{i}").status, 502)


if __name__ == "__main__":
    main()
