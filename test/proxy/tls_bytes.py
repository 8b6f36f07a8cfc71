#!/usr/bin/env python3
"""Requests, responses and upgraded connections over TLS."""

import contextlib
import fcntl
import hashlib
import os
import select
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time
import types
import unittest

from authority import openssl_version
from support import PATIENCE, Answer, Client, Reader, pattern, wait_until
from tls_support import GET, TlsClient, TlsTest, both_ways, client_context, openssl, run_tests


class Bytes(TlsTest):
    def test_the_upstream_learns_of_it(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="X-Forwarded-Proto: http\r\n")
        self.assertEqual(dict(self.upstream.requests[0].fields)["x-forwarded-proto"], "https")

    def test_a_trusted_peer_states_the_protocol_itself(self):
        proxy = self.start_tls("a", config='[clients]\ntrusted = "127.0.0.1"\n')
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="X-Forwarded-Proto: http\r\n")
            client.ask("/")
        self.assertEqual([dict(r.fields)["x-forwarded-proto"] for r in self.upstream.requests], ["http", "https"])

    def test_requests_in_one_record(self):
        proxy = self.start_tls("a")
        for n in (3, 100):
            for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with TlsClient(proxy.port, context=client_context(high=high)) as client:
                    client.send("".join(GET % f"/bytes/{i}" for i in range(n)))
                    self.assertEqual([len(client.answer().body) for _ in range(n)], list(range(n)))
                    client.send(GET % "/bytes/7")
                    self.assertEqual(len(client.answer().body), 7)

    def test_many_records_at_once(self):
        """The proxy has all of them before it reads the first."""
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            body = b"x" * 200
            n = 200
            for i in range(n):
                client.send(f"POST /digest?{i} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 200\r\n\r\n".encode() + body)
            expected = hashlib.sha256(body).hexdigest().encode()
            self.assertEqual([client.answer().body for _ in range(n)], [expected] * n)

    def test_large_bodies(self):
        proxy = self.start_tls("a", "a-rsa", config='[clients]\nmin_body_rate = 0\n')
        size = 5_000_000
        body = pattern(size)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with TlsClient(proxy.port, context=client_context(high=high)) as client:
                self.assertEqual(client.ask(f"/bytes/{size}").body, body)
                self.assertEqual(client.ask(f"/chunked/{size}").body, body)
                got = client.ask("/digest", "POST", f"Content-Length: {size}\r\n", body).body
                self.assertEqual(got.decode(), hashlib.sha256(body).hexdigest())
                client.send("POST /digest HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n")
                for i in range(0, size, 70_000):
                    piece = body[i : i + 70_000]
                    client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                client.send("0\r\n\r\n")
                self.assertEqual(client.answer().body.decode(), hashlib.sha256(body).hexdigest())

    def test_both_directions_at_once(self):
        proxy = self.start_tls("a")
        size = 3_000_000
        body = pattern(size)
        with TlsClient(proxy.port) as client:
            client.send(f"POST /stream-back HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n")
            client.reader.data = both_ways(client, body, size)
            self.assertEqual(client.answer().body, body)

    def test_a_client_that_reads_slowly(self):
        """Writes stop in the middle of a record, and continue there."""
        proxy = self.start_tls("a")
        size = 8_000_000
        with TlsClient(proxy.port) as client:
            client.send(GET % f"/bytes/{size}")
            time.sleep(0.3)
            got = hashlib.sha256()
            status, fields = client.reader.head()
            left = size
            while left > 0:
                piece = client.reader.exactly(min(left, 100_000))
                got.update(piece)
                left -= len(piece)
                time.sleep(0.002)
            self.assertEqual(got.digest(), hashlib.sha256(pattern(size)).digest())

    def test_short_records(self):
        """A client asks for records of 512 bytes (RFC 6066), and reads slowly."""
        proxy = self.start_tls("a")
        request = b"GET /bytes/1000000 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
        for version in ("-tls1_2", "-tls1_3"):
            done = openssl("s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "a.example",
                           "-maxfraglen", 512, version, "-quiet", "-ign_eof", input=request)
            self.assertTrue(done.stdout.endswith(b"\r\n\r\n" + pattern(1_000_000)))

    def test_an_answer_that_ends_by_close_is_announced(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:  # which raises an error for an end without announcement
            client.send("GET /until-close/100000 HTTP/1.0\r\n\r\n")
            self.assertEqual(len(client.answer().body), 100_000)
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="Connection: close\r\n")
            self.assertEqual(client.sock.recv(10), b"")

    def test_a_cut_answer_is_not_announced(self):
        """An upstream cuts a chunked answer, which the client of HTTP/1.0 gets without chunks."""
        def cut(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            return False

        self.upstream.script["/cut"] = cut
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            client.send("GET /cut HTTP/1.0\r\n\r\n")
            with self.assertRaises(OSError):  # SSLEOFError or a reset
                client.answer()
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_client_that_leaves_within_an_answer(self):
        """With a reset, or without or with an announcement of the end: the response ends, and its seat is free."""
        ended = threading.Semaphore(0)

        def endless(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(OSError):
                while True:
                    sock.sendall(b"1000\r\n%s\r\n" % (b"x" * 4096))
            ended.release()
            return False

        def announce(client):
            client.sock.setblocking(False)  # the answer of the proxy is behind the response
            with contextlib.suppress(OSError):
                client.sock.unwrap()
            client.close()

        self.upstream.script["/endless"] = endless
        limit = '[[limit]]\nname = "one"\nrule = "1 seats"\n[[route]]\nupstream = "shop"\nlimits = "one"\n'
        proxy = self.start_with(self.files.listen("a") + limit)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for leave in (Client.abort, Client.close, announce):
                client = TlsClient(proxy.port, context=client_context(high=high))
                client.send(GET % "/endless")
                client.reader.exactly(100_000)
                leave(client)
                self.assertTrue(ended.acquire(timeout=PATIENCE))
                wait_until(lambda: proxy.numbers()["one"]["in use"] == 0)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        self.assertEqual(proxy.numbers()["proxy"]["disconnected"], 6)

    @unittest.skipIf(openssl_version() >= (3, 2), "this openssl reads no command while its output waits")
    def test_key_updates(self):
        """A client changes its keys, and asks the proxy for new ones: before requests, and within requests and responses."""
        proxy = self.start_tls("a", config="threads = 1\n")
        console = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "a.example",
                                    "-tls1_3", "-quiet", "-no_ign_eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)

        def end():
            console.kill()
            console.communicate()

        def receive(n):
            self.assertTrue(select.select([console.stdout], [], [], PATIENCE)[0])
            return os.read(console.stdout.fileno(), n)

        def write(text):
            console.stdin.write(text)
            console.stdin.flush()
            # A command that comes together with other bytes is data.
            wait_until(lambda: fcntl.ioctl(console.stdin, termios.FIONREAD, bytes(4)) == bytes(4))

        def update(how):
            write(how)
            while (line := console.stderr.readline()) != b"KEYUPDATE\n":
                self.assertTrue(line)

        self.addCleanup(end)
        reader = Reader(types.SimpleNamespace(recv=receive))
        body = pattern(5_000_000)
        for how in (b"k\n", b"K\n"):
            for _ in range(3):
                update(how)
            write((GET % f"/bytes/{len(body)}").encode())
            reader.head()
            for start in range(0, len(body), 1_000_000):
                update(how)
                self.assertEqual(reader.exactly(1_000_000), body[start : start + 1_000_000])
            write(b"POST /digest HTTP/1.1\r\nHost: a.example\r\nContent-Length: 6000\r\n\r\n")
            for _ in range(3):
                update(how)
                write(b"x" * 2000)
            self.assertEqual(Answer(reader).body, hashlib.sha256(b"x" * 6000).hexdigest().encode())

    def test_a_body_that_ends_without_announcement_is_incomplete(self):
        proxy = self.start_tls("a")
        for end in (lambda c: c.sock.shutdown(socket.SHUT_WR), lambda c: c.sock.unwrap()):
            with TlsClient(proxy.port) as client:
                client.send("POST /digest HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\n" + "x" * 50)
                wait_until(lambda: proxy.numbers()["proxy"]["open"] == 1)
                with contextlib.suppress(OSError):
                    end(client)
                wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        self.assertEqual(self.upstream.targets(), [])

    def test_an_upgraded_connection(self):
        """Bytes in both directions, ends of one side, and bytes right behind the request."""
        def echo(sock, request, reader):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            while reader.data or reader.more():
                sock.sendall(reader.data)
                reader.data = b""
            sock.sendall(b"end")
            return False

        self.upstream.script["/echo"] = echo
        route = '[[route]]\nupstream = "shop"\nupgrade = { to = "websocket" }\n'
        proxy = self.start_with(self.files.listen("a") + route)
        upgrade = "GET /echo HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        body = pattern(2_000_000)
        with TlsClient(proxy.port) as client:
            client.send(upgrade)
            self.assertEqual(client.reader.head()[0].split(" ")[1], "101")
            client.send("hello")
            self.assertEqual(client.reader.exactly(5), b"hello")
            self.assertEqual(both_ways(client, body, len(body)), body)

    def test_a_waiting_request_whose_client_goes(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(PATIENCE)
        limit = '[[limit]]\nname = "one"\nrule = "1 seats"\nqueue = "patience 60s"\n[[route]]\nupstream = "shop"\nlimits = "one"\n'
        proxy = self.start_with(self.files.listen("a") + limit)
        with TlsClient(proxy.port) as first:
            first.send(GET % "/hang")
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 1)
            with TlsClient(proxy.port) as second:
                second.send(GET % "/a" + GET % "/b")
                wait_until(lambda: proxy.numbers()["one"]["waiting"] == 1)
            wait_until(lambda: proxy.numbers()["one"]["waiting"] == 0)
            over.set()

    def test_behind_a_load_balancer(self):
        """The header of the PROXY protocol comes before TLS, also in one segment with it, and in pieces."""
        trusted = '[clients]\ntrusted = "127.0.0.1"\n'
        proxy = self.start_tls("a", more="proxy_protocol = true\n", config=trusted)
        one = b"PROXY TCP4 192.0.2.7 192.0.2.2 1 2\r\n"
        two = (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + socket.inet_aton("192.0.2.8") +
               socket.inet_aton("192.0.2.2") + struct.pack("!HH", 1, 2))
        for header in (one, two):
            for step in (1, 10, len(header)):
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = client_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
                with Client(proxy.port) as client:
                    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        tls.do_handshake()
                    pieces = [header[i : i + step] for i in range(0, len(header), step)]
                    pieces[-1] += outgoing.read()
                    for piece in pieces:
                        client.send(piece)
                        time.sleep(0.001)
                    self.drive(tls.do_handshake, client, incoming, outgoing)
                    tls.write((GET % "/").encode())
                    client.send(outgoing.read())
                    self.assertIn(b"200 OK", self.drive(lambda: tls.read(1000), client, incoming, outgoing))
        clients = [dict(r.fields)["x-forwarded-for"] for r in self.upstream.requests]
        self.assertEqual(clients, ["192.0.2.7"] * 3 + ["192.0.2.8"] * 3)


if __name__ == "__main__":
    run_tests()
