#!/usr/bin/env python3
"""Clients that break the protocol, limits of handshakes, and what the operator sees of them."""

import contextlib
import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from admin_support import request
from support import PROXY, Client, in_parallel, pattern, wait_until
from tls_support import GET, TlsClient, TlsTest, client_context, handshakes_of, run_tests


class Handshakes(TlsTest):
    # ---- Clients that break the protocol

    def hello(self):
        """A ClientHello."""
        outgoing = ssl.MemoryBIO()
        tls = client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.example")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

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

    def test_an_unfinished_handshake_ends(self):
        proxy = self.start_tls("a", config='[timeouts]\nhandshake = "300ms"\nheader = "10s"\n')
        for n in (1, 50, 10_000):
            with Client(proxy.port) as client:
                client.send(self.hello()[:n])
                began = time.monotonic()
                client.ended()
                self.assertLess(time.monotonic() - began, 5)
        with Client(proxy.port) as steady:  # bytes do not extend the time
            began = time.monotonic()
            with contextlib.suppress(OSError):
                for byte in self.hello():
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
        hello = self.hello()
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
            client.send(self.hello())
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

    def test_handshakes_in_progress_take_turns(self):
        """A seat is held during the handshake only. A client that waits for one, and disconnects, leaves the queue."""
        limit = self.limits(("progress", "1 seats", 'queue = "max_waiting 1 patience 20s"\n'), key="")
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "progress"\n') + limit)
        seats = lambda: proxy.numbers()["progress"]
        with TlsClient(port) as done:
            self.assertEqual(done.ask().status, 200)
            self.assertEqual(seats()["in use"], 0)
            with Client(port) as half:
                half.send(self.hello()[:10])
                wait_until(lambda: seats()["in use"] == 1)
                with Client(port) as waits:
                    waits.send(self.hello())
                    wait_until(lambda: seats()["waiting"] == 1)
                    with self.assertRaises(ConnectionResetError):
                        TlsClient(port)  # the queue is full
                wait_until(lambda: seats()["waiting"] == 0)
                waiting = threading.Thread(target=lambda: TlsClient(port).close())
                waiting.start()
                wait_until(lambda: seats()["waiting"] == 1)
            waiting.join()
            wait_until(lambda: seats()["in use"] == 0)
            self.assertEqual(done.ask().status, 200)

    def test_limits_of_handshakes_are_by_client_or_for_all(self):
        listen = self.files.listen("a", more='handshake_limits = ["one"]\n')
        for more, why in [
                ('rule = "3/1s"\nkey = "header X"\n', "`one` cannot limit handshakes: its key is not `client`"),
                ('rule = "3/1s"\ncost = "bytes"\n', "`one` cannot limit handshakes: its cost is not a number"),
                ('bandwidth = "1MB/s"\n', "`one` cannot limit handshakes: it limits bytes")]:
            status, said = self.check(listen + f'[[limit]]\nname = "one"\n{more}')
            self.assertEqual(status, 2, said)
            self.assertIn("listen `127.0.0.1:0`: " + why, said)
        status, said = self.check(listen)
        self.assertIn("unknown limit `one`", said)
        status, said = self.check('[[listen]]\naddress = "127.0.0.1:0"\nhandshake_limits = "one"\n[[upstream]]\nname = "a"\n'
                                  'servers = "UPSTREAM"\n[[limit]]\nname = "one"\nrule = "3/1s"\n')
        self.assertIn("`handshake_limits` requires `tls`", said)

    # ---- What the operator sees

    def test_metrics_count_handshakes(self):
        proxy = self.start_tls("a", config='[admin]\naddress = "127.0.0.1:0"\n[timeouts]\nhandshake = "500ms"\n')
        Client(proxy.port).close()  # no handshake
        with TlsClient(proxy.port) as client:
            client.ask()
            session, context = client.sock.session, client.sock.context
        TlsClient(proxy.port, context=context, session=session).close()
        for name in ("unknown.example", None):
            with contextlib.suppress(ssl.SSLError):
                TlsClient(proxy.port, name, client_context(ciphers="AES128-SHA", high=ssl.TLSVersion.TLSv1_2))
        for text in (GET % "/", self.hello()[:20]):
            with Client(proxy.port) as client:
                client.send(text)
                client.ended()
        with Client(proxy.port) as client:
            client.send(self.hello()[:20])
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

    def test_a_drain_ends_idle_connections(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as idle, Client(proxy.port) as silent:
            self.assertEqual(idle.ask().status, 200)
            proxy.stop()
            self.assertEqual(idle.sock.recv(1), b"")
            self.assertEqual(silent.ended(), b"")


if __name__ == "__main__":
    run_tests()
