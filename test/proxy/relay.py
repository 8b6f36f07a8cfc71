#!/usr/bin/env python3
"""Messages arrive as they were sent: bodies of all sizes in both directions, every kind of framing, and the head without
the header fields for one hop."""

import hashlib
import socket
import threading
import time

from support import KEEPS_MEMORY, OVER_TLS, Client, ProxyTest, main, pattern, wait_until

SIZES = [0, 1, 1000, 16 * 1024, 64 * 1024, 3_000_000]


class Relay(ProxyTest):
    def test_responses_of_all_sizes(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            for size in SIZES:
                for kind in ("bytes", "chunked"):
                    with self.subTest(kind, size=size):
                        answer = client.ask(f"/{kind}/{size}")
                        self.assertEqual(answer.status, 200)
                        self.assertTrue(answer.body == pattern(size))
        self.assertLessEqual(self.upstream.connections, 2)

    def test_requests_of_all_sizes(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            for size in SIZES:
                body = pattern(size)
                digest = hashlib.sha256(body).hexdigest().encode()
                with self.subTest("counted", size=size):
                    answer = client.ask("/digest", "POST", f"Content-Length: {size}\r\n", body)
                    self.assertEqual(answer.body, digest)
                for step in (7, 5000, 100_000):
                    if size // step < 10_000:
                        with self.subTest("chunked", size=size, step=step):
                            pieces = [body[i : i + step] for i in range(0, size, step)]
                            chunks = b"".join(b"%X\r\n%s\r\n" % (len(p), p) for p in pieces)
                            fields = "Transfer-Encoding: chunked\r\n"
                            answer = client.ask("/digest", "POST", fields, chunks + b"0\r\n\r\n")
                            self.assertEqual(answer.body, digest)

    def test_a_request_of_one_byte_at_a_time(self):
        proxy = self.start()
        text = (b"POST /digest HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n")
        with Client(proxy.port) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(text)):
                client.send(text[i : i + 1])
                time.sleep(0.0005)
            self.assertEqual(client.answer().body, hashlib.sha256(b"hello!").hexdigest().encode())

    def test_an_upstream_that_responds_while_it_reads(self):
        proxy = self.start()
        body = pattern(20_000_000)
        with Client(proxy.port) as client:
            head = f"POST /stream-back HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n"
            sender = threading.Thread(target=client.send, args=(head.encode() + body,))
            sender.start()
            answer = client.answer()
            sender.join()
            self.assertTrue(answer.body == body)
            self.assertEqual(client.ask("/after").status, 200)

    def test_an_upstream_that_responds_without_reading(self):
        def reject(sock, request, reader):
            sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
            time.sleep(0.2)
            return False

        proxy = self.start()
        self.upstream.script["/stream-back/no"] = reject
        with Client(proxy.port) as client:
            client.send("POST /stream-back/no HTTP/1.1\r\nHost: test\r\nContent-Length: 99\r\n\r\nx")
            answer = client.answer()
            self.assertEqual((answer.status, answer.body), (413, b"no"))
            self.assertEqual(client.ended(), b"")  # the end of the request is unknown

    def test_a_slow_reader_gets_everything_and_costs_no_memory(self):
        proxy = self.start("--threads", 1)

        def resident():
            with open(f"/proc/{proxy.process.pid}/status") as status:
                return int(status.read().split("VmRSS:")[1].split()[0])

        size = 30_000_000
        with Client(proxy.port, receive_buffer=4096) as client:
            client.ask("/warm")
            before = resident()
            client.send(f"GET /bytes/{size} HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: f"/bytes/{size}" in self.upstream.targets())
            time.sleep(0.2)
            if not KEEPS_MEMORY:
                self.assertLess(resident() - before, 4 * 1024)
            self.assertTrue(client.answer().body == pattern(size))

    def test_responses_without_a_body(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            answer = client.ask("/bytes/1000", "HEAD")
            self.assertEqual((answer.status, answer.get("content-length")), (200, "1000"))
            for status in (204, 304):
                answer = client.ask(f"/status/{status}")
                self.assertEqual((answer.status, answer.get("etag")), (status, "x"))
                self.assertIsNone(answer.get("transfer-encoding"))
            self.assertEqual(client.ask("/").body, b"hello\n")

    def test_a_response_that_ends_with_its_connection(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            for _ in range(3):
                answer = client.ask("/until-close/100000")
                self.assertTrue(answer.body == pattern(100_000))
                self.assertEqual(answer.get("transfer-encoding"), "chunked")
            self.assertEqual(client.ask("/").body, b"hello\n")

    def test_interim_responses(self):
        def hint(sock, request, reader):
            sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
                         b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
                         b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            return True

        proxy = self.start()
        self.upstream.script["/hint"] = hint
        with Client(proxy.port) as client:
            answer = client.ask("/hint")
            self.assertEqual((answer.interim, answer.body), ([103, 102], b"ok"))
            self.assertEqual(client.ask("/").status, 200)
        with Client(proxy.port) as client:
            answer = client.ask("/hint", version="1.0")
            self.assertEqual((answer.interim, answer.body), ([], b"ok"))

    def test_expect_100_continue(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            head = "POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            for _ in range(2):
                client.send(head)
                self.assertEqual(client.reader.head()[0], "HTTP/1.1 100 Continue")
                client.send("hello")
                answer = client.answer()
                self.assertEqual(answer.interim, [])
                self.assertEqual(answer.body, hashlib.sha256(b"hello").hexdigest().encode())
            # A client that does not wait gets no 100.
            client.send(head + "hello")
            self.assertEqual(client.answer().interim, [])
        self.assertNotIn("expect", dict(self.upstream.requests[0].fields))

    def test_pipelined_requests_get_responses_in_order(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            text = "".join(f"GET /bytes/{i} HTTP/1.1\r\nHost: test\r\n\r\n"
                           f"POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: {i}\r\n\r\n" + "x" * i
                           for i in range(300))
            threading.Thread(target=client.send, args=(text,)).start()
            for i in range(300):
                self.assertEqual(client.answer().body, pattern(i))
                self.assertEqual(client.answer().body, hashlib.sha256(b"x" * i).hexdigest().encode())

    def test_http_1_0(self):
        proxy = self.start()
        for target in ("/bytes/1000", "/chunked/1000", "/until-close/1000"):
            with Client(proxy.port) as client:
                answer = client.ask(target, version="1.0")
                self.assertEqual(answer.body, pattern(1000))
                self.assertEqual(answer.get("connection"), "close")
                self.assertIsNone(answer.get("transfer-encoding"))
                self.assertEqual(client.ended(), b"")
        with Client(proxy.port) as client:
            for _ in range(2):
                answer = client.ask("/bytes/9", "GET", "Connection: keep-alive\r\n", version="1.0")
                self.assertEqual(answer.get("connection"), "keep-alive")
            client.send("GET / HTTP/1.0\r\n\r\n")
            self.assertEqual(client.answer().status, 200)
        self.assertEqual({r.version for r in self.upstream.requests}, {"HTTP/1.1"})
        self.assertEqual(dict(self.upstream.requests[-1].fields)["host"],
                         f"127.0.0.1:{self.upstream.port}")

    def test_fields_for_one_hop_are_not_forwarded(self):
        proxy = self.start()
        fields = ("Connection: keep-alive, X-Mine , close\r\nX-Mine: 1\r\nKeep-Alive: timeout=5\r\n"
                  "TE: trailers\r\nTrailer: x\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\n"
                  "Upgrade: h2c\r\nHTTP2-Settings: x\r\nX-Other: 2\r\nCookie: a\r\nCookie: b\r\n"
                  "Via: 1.0 first\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8, 9.9.9.9\r\n")
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/", "GET", fields).get("connection"), "close")
            self.assertEqual(client.ended(), b"")
        sent = self.upstream.requests[0].fields
        self.assertEqual([f for f in sent if f[0] != "x-request-id"], [
            ("host", "test"), ("x-other", "2"), ("cookie", "a"), ("cookie", "b"), ("via", "1.0 first"),
            ("x-forwarded-proto", "https" if OVER_TLS else "http"), ("x-forwarded-host", "test"),
            ("x-forwarded-for", "1.2.3.4, 5.6.7.8, 9.9.9.9, 127.0.0.1"), ("via", "1.1 weir-proxy")])

    def test_names_with_an_underscore_are_not_forwarded_by_default(self):
        for options, goes_on in (((), []), (("--pass-underscores",), ["x_forwarded_for"])):
            with self.subTest(options=options):
                proxy = self.start(*options)
                with Client(proxy.port) as client:
                    self.assertEqual(client.ask("/", "GET", "X_Forwarded_For: a\r\n").status, 200)
                names = [n for n, _ in self.upstream.requests[-1].fields if "_" in n]
                self.assertEqual(names, goes_on)

    def test_a_client_cannot_remove_host_or_framing(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            fields = "Connection: host, content-length\r\nContent-Length: 5\r\n"
            self.assertEqual(client.ask("/", "POST", fields, b"hello").status, 200)
        request = self.upstream.requests[0]
        self.assertEqual((dict(request.fields)["host"], request.body), ("test", b"hello"))

    def test_fields_of_responses(self):
        def answer(sock, request, reader):
            sock.sendall(b"HTTP/1.1 299 Quite Fine\r\nConnection: X-Mine\r\nX-Mine: 1\r\n"
                         b"Keep-Alive: timeout=5\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
                         b"Date: long ago\r\nContent-Length: 0\r\n\r\n")
            return True

        proxy = self.start()
        self.upstream.script["/fields"] = answer
        with Client(proxy.port) as client:
            client.send("GET /fields HTTP/1.1\r\nHost: test\r\n\r\n")
            first, fields = client.reader.head()
            self.assertEqual(first, "HTTP/1.1 299 Quite Fine")
            self.assertEqual(fields, [
                ("set-cookie", "a"), ("set-cookie", "b"), ("date", "long ago"),
                ("via", "1.1 weir-proxy"), ("content-length", "0")])
            self.assertRegex(client.ask("/").get("date"), r"^\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT$")

    def test_connections_to_the_upstream_are_used_again(self):
        proxy = self.start("--threads", 1)
        for _ in range(20):
            with Client(proxy.port) as client:
                self.assertEqual(client.ask("/").status, 200)
                self.assertEqual(client.ask("/chunked/10").status, 200)
        self.assertEqual(self.upstream.connections, 1)


if __name__ == "__main__":
    main()
