#!/usr/bin/env python3
"""Clients that break the protocol, limits of handshakes, and what the operator sees of them."""

import collections
import contextlib
import json
import os
import re
import select
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from admin_support import request
from support import KEEPS_MEMORY, PATIENCE, PROXY, Client, hangs_until, in_parallel, pattern, wait_until
from tls_support import (ALERT, DATA, GET, HANDSHAKE, NO_APPLICATION_PROTOCOL, RecordClient, TlsClient, TlsTest, alert_of,
                         client_context, client_hello, cpu_seconds, handshakes_of, in_records, memory, message_in, run_tests)

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/docs/how-to/tls.md")


def with_hello_of(size, high=ssl.TLSVersion.TLSv1_3, last="http/1.1"):
    """The context of a client whose ClientHello has `size` bytes. Most of them are protocols, before the last one."""
    context = client_context(high=high)

    def offer(n):
        context.set_alpn_protocols(["x" * 99] * ((n - 2) // 100) + ["x" * ((n - 2) % 100 + 1), last])
        return len(message_in(client_hello(context)))

    assert offer(1000 + size - offer(1000)) == size
    return context


def announcing(size):
    """The first bytes of a ClientHello that announces `size` further bytes."""
    return in_records(b"\1" + size.to_bytes(3, "big"), 4)


class Handshakes(TlsTest):
    # ---- Clients that break the protocol

    def test_a_hello_in_single_bytes(self):
        proxy = self.start_tls("a")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
        with Client(proxy.port) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            for byte in outgoing.read():
                client.send(bytes([byte]))
            self.drive(tls.do_handshake, client, incoming, outgoing)
            for byte in (GET % "/").encode():
                tls.write(bytes([byte]))
                client.send(outgoing.read())
            self.assertIn(b"200 OK", self.drive(lambda: tls.read(1000), client, incoming, outgoing))

    def test_a_long_hello(self):
        """One record is full, or a byte more than full, or there are several."""
        proxy, port = self.with_one_seat()
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for size in (16_384, 16_385, 60_000):
                with self.subTest(high=high, size=size):
                    with TlsClient(port, context=with_hello_of(size, high)) as client:
                        self.assertEqual(client.ask().status, 200)
                        self.assertEqual(client.sock.selected_alpn_protocol(), "http/1.1")
                    with self.assertRaises(ssl.SSLError) as failed:
                        TlsClient(port, context=with_hello_of(size, high, "h2"))
                    self.assertEqual(alert_of(failed.exception), NO_APPLICATION_PROTOCOL)
        with TlsClient(port) as client:
            self.assertEqual(client.ask().status, 200)
        self.assertEqual(proxy.numbers()["one"]["in use"], 0)

    def test_a_hello_in_records_of_one_byte(self):
        proxy = self.start_tls("a")
        for context in (client_context(), with_hello_of(16_384)):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = context.wrap_bio(incoming, outgoing, server_hostname="a.example")
            with Client(proxy.port) as client:
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                client.send(in_records(message_in(outgoing.read()), 1))
                self.drive(tls.do_handshake, client, incoming, outgoing)
                tls.write((GET % "/").encode())
                client.send(outgoing.read())
                self.assertIn(b"200 OK", self.drive(lambda: tls.read(1000), client, incoming, outgoing))

    def test_a_hello_that_announces_too_much(self):
        """The proxy does not wait for the rest. 2**24 - 1 is the longest message of TLS, and 65,535 of a record."""
        proxy = self.start_tls("a")
        for begin in (announcing(2**24 - 1), announcing(140_000), b"\x16\x03\x01\xff\xff\1\xff\xff\xff"):
            with Client(proxy.port) as client:
                client.send(begin)
                self.assertIn(client.ended()[:1], (bytes([ALERT]), b""))  # from OpenSSL 3.5 on without an alert
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    @unittest.skipIf(KEEPS_MEMORY, "a sanitizer keeps freed memory")
    def test_announced_bytes_take_little_memory(self):
        proxy = self.start_tls("a", config='[timeouts]\nhandshake = "120s"\n')
        count = lambda which: proxy.numbers()["proxy"][which]
        before = memory(proxy)
        # The proxy accepts a hello of up to 128 KiB.
        for n, (size, most) in enumerate([(2**24 - 1, 64)] + [(130_000, 256)] * 4, 1):
            with contextlib.ExitStack() as clients:
                for _ in range(100):
                    clients.enter_context(Client(proxy.port)).send(announcing(size))
                wait_until(lambda: count("connections") == 100 * n)
                wait_until(lambda: count("open") == (0 if size > 130_000 else 100))
                self.assertLess(memory(proxy) - before, 100 * most, size)
            wait_until(lambda: count("open") == 0)

    def test_renegotiations_are_refused_at_little_cost(self):
        """A thousand of them take less CPU time than two hundred handshakes."""
        proxy = self.start_tls("a", config='[timeouts]\nheader = "120s"\n')
        hello = message_in(client_hello(client_context(high=ssl.TLSVersion.TLSv1_2, ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")))
        with RecordClient(proxy.port) as client, TlsClient(proxy.port) as other:
            attempts = b"".join(client.record(HANDSHAKE, hello) for _ in range(1000))
            begin = cpu_seconds(proxy)
            client.send(attempts)
            self.assertEqual(other.ask().status, 200)
            client.send(client.record(DATA, (GET % "/").encode()))
            kinds = collections.Counter()
            while not kinds[DATA]:
                kinds[client.next_kind()] += 1
            self.assertEqual(kinds, {ALERT: 1000, DATA: 1})
            end = cpu_seconds(proxy)
        for _ in range(200):
            TlsClient(proxy.port).close()
        self.assertLess(end - begin, cpu_seconds(proxy) - end)

    def test_an_unfinished_handshake_ends(self):
        proxy = self.start_tls("a", config='[timeouts]\nhandshake = "300ms"\nheader = "10s"\n')
        for n in (1, 50, 10_000):
            with Client(proxy.port) as client:
                client.send(client_hello()[:n])
                began = time.monotonic()
                client.ended()
                self.assertLess(time.monotonic() - began, 5)
        with Client(proxy.port) as steady:  # bytes do not extend the time
            began = time.monotonic()
            with contextlib.suppress(OSError):
                for byte in client_hello():
                    steady.send(bytes([byte]))
                    time.sleep(0.02)
                    if time.monotonic() - began > 5:
                        break
            self.assertLess(time.monotonic() - began, 5)

    def test_silence_ends(self):
        proxy = self.start_tls("a", config='[timeouts]\nheader = "300ms"\n')
        with Client(proxy.port) as client:
            self.assertEqual(client.ended(), b"")
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.sock.recv(1), b"")

    def test_garbage(self):
        proxy = self.start_tls("a")
        hello = client_hello()
        for bad in (GET % "/", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\0" * 100, hello[:40] + b"\xff" * 500,
                    b"\x80\x2e\x01\x00\x02" + b"x" * 44, b"\x15\x03\x03\x00\x02\x02\x00", hello + hello,
                    hello + b"\x17\x03\x03\x00\x05xxxxx"):
            with Client(proxy.port) as client, contextlib.suppress(OSError):
                client.send(bad)
                client.ended()
        with Client(proxy.port) as client:
            client.send(hello)
            client.abort()
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.ask().status, 200)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        self.assertEqual(self.upstream.targets(), ["/"])

    def test_tls_at_the_plain_port(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            client.send(client_hello())
            self.assertIn(b"400", client.ended()[:20])

    def test_a_broken_record_ends_the_connection(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.ask().status, 200)
            with socket.socket(fileno=os.dup(client.sock.fileno())) as plain:
                plain.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
            with self.assertRaises(OSError):
                while client.sock.recv(100):
                    pass
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_plain_port_redirects(self):
        plain = lambda port: f'[[listen]]\naddress = "127.0.0.1:{self.port}"\nhttps_port = {port}\n'
        self.port = self.unused_port()
        proxy = self.start_with(self.files.listen("a") + plain(443))
        ask = lambda text: self.answer_to(self.port, text)
        for target, host, location in [
                ("/a/b?c=d&e", "x.example", "https://x.example/a/b?c=d&e"),
                ("/", "x.example:80", "https://x.example/"),
                ("/", "[::1]:8080", "https://[::1]/"),
                ("http://y.example/z", "y.example", "https://y.example/z"),
                ("//evil.example/", "x.example", "https://x.example//evil.example/")]:
            answer = ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            self.assertEqual((answer.status, answer.get("location")), (308, location))
        self.assertEqual(ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").get("location"), "https://a/")
        self.assertEqual(ask("GET / HTTP/1.0\r\n\r\n").status, 400)
        self.assertEqual(ask("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").status, 400)
        with Client(self.port) as client:  # the connection is kept, and a body is dropped
            self.assertEqual([client.ask("/", "POST", "Content-Length: 3\r\n", b"abc").status for _ in range(3)], [308] * 3)
        self.assertEqual(self.upstream.targets(), [])
        self.assertIn("reloaded", self.reload(proxy, self.files.listen("a") + plain(8443)))
        self.assertEqual(ask(GET % "/x").get("location"), "https://a.example:8443/x")

    def answer_to(self, port, text):
        with Client(port) as client:
            client.send(text)
            return client.answer()

    def test_the_demo_has_a_certificate_of_its_own(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        proxy = subprocess.Popen([PROXY, "--demo", "--tls", "--listen", "127.0.0.1:0", "--admin", "none"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder})
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        port = int(re.search(r"https://127.0.0.1:(\d+)", proxy.stdout.readline())[1])
        self.assertEqual(os.listdir(folder), [])
        with TlsClient(port, "localhost") as client:
            self.assertEqual(client.ask().status, 200)
            with open(self.files.path("demo.pem"), "w") as pem:
                pem.write(ssl.DER_cert_to_PEM_cert(client.certificate()))
        trusting = ssl.create_default_context(cafile=self.files.path("demo.pem"))
        for name in ("localhost", "127.0.0.1"):
            with TlsClient(port, name, trusting) as client:
                self.assertEqual(client.ask().status, 200)

    # ---- Limits of handshakes

    def limits(self, *all, key='key = "client"\n'):
        return "".join(f'[[limit]]\nname = "{name}"\nrule = "{rule}"\n{key}{more}' for name, rule, more in all)

    def test_handshakes_of_a_client_are_limited_before_they_begin(self):
        """The client that exceeds the limit gets a reset, and the proxy neither reads its bytes nor signs."""
        limit = self.limits(("new", "3/1h", 'queue = "patience 0s"\n'))
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "new"\n') + limit)
        kept = [TlsClient(port) for _ in range(3)]
        for _ in range(2):
            with self.assertRaises(ConnectionResetError):
                TlsClient(port)
        for client in kept:
            self.assertEqual([client.ask().status for _ in range(5)], [200] * 5)  # requests are not limited
            client.close()
        other = TlsClient.__new__(TlsClient)
        Client.__init__(other, port, source="127.0.0.9")  # another client has its own permits
        other.sock = client_context().wrap_socket(other.sock, server_hostname="a.example")
        other.close()
        self.assertEqual(proxy.numbers()["new"]["granted"], 4)

    def test_a_resumed_handshake_costs_a_quarter_and_a_failed_one_twice(self):
        limit = self.limits(("new", "100/1h", 'cost = 4\nqueue = "patience 0s"\n'))
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "new"\n') + limit)
        context = client_context()

        def connect(name="a.example", session=None):
            with TlsClient(port, name, context, session) as client:
                client.ask()
                return client.sock.session

        session = connect()  # 4
        connect(session=session)  # 1
        for _ in range(2):
            with self.assertRaises(ssl.SSLError):
                connect("unknown.example")  # 8 each
        with Client(port) as client:
            client.send("x" * 100)  # 8
            client.ended()
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        # 100 - 29 = 71 permits are left: 17 full handshakes
        for _ in range(17):
            connect()
        with self.assertRaises(ConnectionResetError):
            connect()

    def with_one_seat(self, more="", waiting=1, patience="20s"):
        """A proxy whose requests for /hang share a seat with full handshakes."""
        limit = self.limits(("one", "1 seats", f'queue = "max_waiting {waiting} patience {patience}"\n'), key="")
        port = self.unused_port()
        routes = '[[route]]\npath = "/hang"\nupstream = "shop"\nlimits = ["one"]\n[[route]]\nupstream = "shop"\n'
        return self.start_with(self.files.listen("a", port=port, more='handshake_limits = "one"\n') + more + limit + routes), port

    def shakes_hands(self, port):
        """Returns a client. Its handshake must succeed."""
        try:
            return TlsClient(port)
        except ConnectionResetError:
            self.fail("the proxy refused the handshake")

    def test_full_handshakes_wait_for_seats(self):
        """A client that waits for a seat, and disconnects, leaves the queue. A resumed handshake needs no seat."""
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            over = threading.Event()
            self.upstream.script["/hang"] = hangs_until(over)
            proxy, port = self.with_one_seat()
            context = client_context(version, version)
            seats = lambda: proxy.numbers()["one"]
            with self.subTest(version), TlsClient(port, context=context) as holder:
                self.assertEqual(holder.ask().status, 200)
                self.assertEqual(seats()["in use"], 0)
                holder.send(GET % "/hang")
                wait_until(lambda: seats()["in use"] == 1)
                TlsClient(port, context=context, session=holder.sock.session).close()
                with Client(port) as waits:
                    waits.send(client_hello())
                    wait_until(lambda: seats()["waiting"] == 1)
                    with self.assertRaises(ConnectionResetError):
                        TlsClient(port)  # the queue is full
                wait_until(lambda: seats()["waiting"] == 0)
                statuses = []
                waiting = threading.Thread(target=lambda: statuses.append(TlsClient(port, context=context).ask().status))
                waiting.start()
                wait_until(lambda: seats()["waiting"] == 1)
                over.set()
                waiting.join()
                self.assertEqual(statuses, [200])
                self.assertEqual(holder.answer().status, 200)
                wait_until(lambda: seats()["in use"] == 0)

    def test_silent_clients_hold_no_seat(self):
        # All of them may ask at once. None ends by its time limit before the others lose their patience.
        proxy, port = self.with_one_seat('[timeouts]\nhandshake = "120s"\n', waiting=5)
        with contextlib.ExitStack() as silent:
            for text in (b"\x16", client_hello()[:100], client_hello(), client_hello()):
                silent.enter_context(Client(port)).send(text)
            for _ in range(3):
                with self.shakes_hands(port) as client:
                    self.assertEqual(client.ask().status, 200)
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 0)

    def test_a_handshake_without_a_seat_has_paid_its_rate(self):
        over = threading.Event()
        self.upstream.script["/hang"] = hangs_until(over)
        limits = self.limits(("new", "100/1h", 'cost = 30\nqueue = "patience 0s"\n'))
        port = self.unused_port()
        routes = '[[route]]\npath = "/hang"\nupstream = "shop"\nlimits = ["one"]\n[[route]]\nupstream = "shop"\n'
        limits += self.limits(("one", "1 seats", 'queue = "patience 0s"\n'), key="")
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = ["one", "new"]\n') + limits + routes)
        with TlsClient(port) as holder:
            self.assertEqual(holder.ask().status, 200)  # the seat of its handshake is free
            holder.send(GET % "/hang")
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 1)
            with self.assertRaises(ConnectionResetError):
                TlsClient(port)
            over.set()
            self.assertEqual(holder.answer().status, 200)
            self.shakes_hands(port).close()
            with self.assertRaises(ConnectionResetError):
                TlsClient(port)  # 10 of 100 permits are left
            self.assertEqual(proxy.numbers()["new"]["granted"], 3)

    def test_the_newest_handshake_comes_first(self):
        """With the recipe of the documentation, as soon as handshakes waited for the `interval` of the queue."""
        with open(PAGE) as page:
            recipe = next(block for block in re.findall(r"```toml\n(.*?)```", page.read(), re.S) if "handshake_limits" in block)
        port = self.unused_port()
        for text, new in [("0.0.0.0:443", f"127.0.0.1:{port}"), ("/etc/weir-proxy/shop", self.files.path("a")),
                          ("8 seats", "1 seats"), ("patience 5s", "patience 60s"), ("10.0.0.7:9000", "UPSTREAM")]:
            self.assertIn(text, recipe)
            recipe = recipe.replace(text, new)
        over = {path: threading.Event() for path in ("/first", "/second")}
        for path, event in over.items():
            self.upstream.script[path] = hangs_until(event)
            recipe += f'[[route]]\npath = "{path}"\nupstream = "shop"\nlimits = ["handshakes"]\n'
        proxy = self.start_with(recipe + '[[route]]\nupstream = "shop"\n')
        for event in over.values():
            self.addCleanup(event.set)
        seats = lambda: proxy.numbers()["handshakes"]
        with TlsClient(port) as first, TlsClient(port) as second, Client(port) as old, Client(port) as new:
            for client in (first, second):
                self.assertEqual(client.ask().status, 200)
            first.send(GET % "/first")
            wait_until(lambda: seats()["in use"] == 1)
            for n, (client, text) in enumerate([(old, client_hello()), (second, GET % "/second"), (new, client_hello())], 1):
                client.send(text)
                wait_until(lambda: seats()["waiting"] == n)
            time.sleep(0.15)
            over["/first"].set()
            self.assertEqual(select.select([old.sock, new.sock], [], [], PATIENCE)[0], [new.sock])
            wait_until(lambda: "/second" in self.upstream.targets())
            self.assertEqual(seats()["waiting"], 1)
            over["/second"].set()
            self.assertEqual(old.sock.recv(1)[0], HANDSHAKE)

    def test_a_handshake_that_waits_too_long_is_dropped(self):
        over = threading.Event()
        self.upstream.script["/hang"] = hangs_until(over)
        proxy, port = self.with_one_seat('[admin]\naddress = "127.0.0.1:0"\n', patience="200ms")
        self.addCleanup(over.set)
        with TlsClient(port) as holder:
            self.assertEqual(holder.ask().status, 200)
            holder.send(GET % "/hang")
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 1)
            for _ in range(2):
                with self.assertRaises(ConnectionResetError):
                    TlsClient(port)
            self.assertEqual(handshakes_of(proxy), {"full": 1, "limited": 2})
            over.set()
            self.assertEqual(holder.answer().status, 200)
            with TlsClient(port) as client:
                self.assertEqual(client.ask().status, 200)

    def test_the_time_in_the_queue_is_not_time_of_the_client(self):
        over = threading.Event()
        self.upstream.script["/hang"] = hangs_until(over)
        proxy, port = self.with_one_seat('[timeouts]\nhandshake = "2s"\n')
        self.addCleanup(over.set)
        with TlsClient(port) as holder, Client(port) as waits:
            self.assertEqual(holder.ask().status, 200)
            holder.send(GET % "/hang")
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 1)
            waits.send(client_hello())
            wait_until(lambda: proxy.numbers()["one"]["waiting"] == 1)
            time.sleep(2.3)
            self.assertEqual(proxy.numbers()["one"]["waiting"], 1)
            began = time.monotonic()
            over.set()
            self.assertEqual(waits.ended()[0], HANDSHAKE)
            self.assertGreaterEqual(time.monotonic() - began, 2)  # the whole time again

    def test_behind_a_load_balancer_the_client_is_in_the_header(self):
        limit = self.limits(("new", "1/1h", 'queue = "patience 0s"\n'))
        more = 'proxy_protocol = true\nhandshake_limits = "new"\n'
        proxy = self.start_with('[clients]\ntrusted = "127.0.0.1"\n' + self.files.listen("a", more=more) + limit)

        def begins(address):
            with Client(proxy.port) as client:
                client.send(f"PROXY TCP4 {address} 192.0.2.1 1 2\r\n".encode() + client_hello())
                with contextlib.suppress(ConnectionResetError):
                    return client.sock.recv(1)[0] == HANDSHAKE

        self.assertEqual([begins(f"192.0.2.{n}") for n in (7, 7, 8, 7, 8)], [True, None, True, None, None])

    # ---- What the operator sees

    def test_metrics_count_handshakes(self):
        proxy = self.start_tls("a", config='[admin]\naddress = "127.0.0.1:0"\n[timeouts]\nhandshake = "3s"\n')
        Client(proxy.port).close()  # no handshake
        with TlsClient(proxy.port) as client:
            client.ask()
            session, context = client.sock.session, client.sock.context
        TlsClient(proxy.port, context=context, session=session).close()
        for name in ("unknown.example", None):
            with contextlib.suppress(ssl.SSLError):
                TlsClient(proxy.port, name, client_context(ciphers="AES128-SHA", high=ssl.TLSVersion.TLSv1_2))
        for text in (GET % "/", client_hello()[:20]):
            with Client(proxy.port) as client:
                client.send(text)
                client.ended()
        with Client(proxy.port) as client:
            client.send(client_hello()[:20])
            client.sock.shutdown(socket.SHUT_WR)
            client.ended()
        expected = {"full": 1, "resumed": 1, "unknown_name": 1, "no_common_cipher": 1, "not_tls": 1, "timeout": 1,
                    "disconnected": 1}
        wait_until(lambda: handshakes_of(proxy) == expected)
        end = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", self.files.path("a.pem")],
                             capture_output=True, text=True).stdout.split("=")[1].strip()
        self.assertIn(f'weir_tls_certificate_expires_seconds{{listener="127.0.0.1:0",certificate="{self.files.path("a.pem")}"}} '
                      f'{ssl.cert_time_to_seconds(end)}', request(proxy, "/metrics").body.decode())

    def test_the_access_log_has_what_was_agreed(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        log = os.path.join(folder, "log")
        proxy = self.start_tls("a", config=f'access_log = "{log}"\naccess_log_format = "json"\n')
        with TlsClient(proxy.port) as named, TlsClient(proxy.port, None) as nameless:
            named.ask()
            cipher = named.sock.cipher()[0]
            wait_until(lambda: os.path.exists(log) and open(log).read().count("\n") == 1)
            nameless.ask()
            wait_until(lambda: open(log).read().count("\n") == 2)
        first, second = map(json.loads, open(log))
        self.assertEqual([first[k] for k in ("tls_version", "tls_cipher", "server_name")], ["TLSv1.3", cipher, "a.example"])
        self.assertIsNone(second["server_name"])

    # ---- Reloads under load

    def test_reloads_lose_no_connection(self):
        port = self.unused_port()
        config = self.files.listen("a", port=port)
        proxy = self.start_with(config)
        over = threading.Event()
        served = []

        def work(i):
            context = client_context(high=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3][i % 2])
            session = None
            with TlsClient(port, context=context) as kept:
                while not over.is_set():
                    with TlsClient(port, context=context, session=session) as client:
                        self.assertEqual(client.ask("/bytes/30000").body, pattern(30_000))
                        session = client.sock.session
                    self.assertEqual(kept.ask("/").status, 200)
                    served.append(1)

        def reload(i):
            try:
                n = 0
                while n < 20 or (len(served) < 40 and n < 2000):
                    files = ["a"] if n % 2 else ["new", "a", "a-rsa"]
                    self.assertIn("reloaded", self.reload(proxy, self.files.listen(*files, port=port)))
                    n += 1
            finally:
                over.set()

        in_parallel(5, lambda i: work(i) if i < 4 else reload(i))
        self.assertGreaterEqual(len(served), 40)

    def test_sessions_and_connections_survive_signals_in_a_row(self):
        port = self.unused_port()
        config = '[admin]\naddress = "127.0.0.1:0"\n' + self.files.listen("a", port=port)
        proxy = self.start_with(config)
        over = threading.Event()
        resumed = []

        def work(i):
            context = client_context(high=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3][i % 2])
            with TlsClient(port, context=context) as kept:
                self.assertEqual(kept.ask().status, 200)
                session = kept.sock.session
                while not over.is_set():
                    with TlsClient(port, context=context, session=session) as client:
                        self.assertEqual(client.ask().status, 200)
                        session = client.sock.session
                        self.assertTrue(client.sock.session_reused)
                    self.assertEqual(kept.ask().status, 200)
                    resumed.append(i)

        def reload(i):
            try:
                for n in range(1, 5):
                    for _ in range(5):
                        proxy.process.send_signal(signal.SIGHUP)
                    self.assertIn("reloaded", proxy.process.stderr.readline())
                    wait_until(lambda: len(resumed) >= 20 * n)
            finally:
                over.set()

        in_parallel(5, lambda i: work(i) if i < 4 else reload(i))
        wait_until(lambda: handshakes_of(proxy) == {"full": 4, "resumed": len(resumed)})
        proxy.write(self.filled(config.replace("a.pem", "new.pem").replace("a.key", "new.key")))
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: self.served(proxy, "a.example") == "new")

    def test_a_drain_ends_idle_connections(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as idle, Client(proxy.port) as silent:
            self.assertEqual(idle.ask().status, 200)
            proxy.stop()
            self.assertEqual(idle.sock.recv(1), b"")
            self.assertEqual(silent.ended(), b"")


if __name__ == "__main__":
    run_tests()
