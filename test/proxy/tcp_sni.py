#!/usr/bin/env python3
"""Listeners with `tcp` and routes by server name: real handshakes through the proxy, and clients that break the protocol."""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

from admin_support import stats
from authority import make_self_signed
from support import PATIENCE, Client, Proxy, ProxyTest, main, pattern, reset, skip, wait_until

if not shutil.which("openssl"):
    skip("there is no openssl; to mend it, run test/setup")
UNRECOGNIZED_NAME = b"\x15\x03\x03\x00\x02\x02\x70"


class TlsServer:
    """Ends TLS, and answers each line with its name and the line."""

    def __init__(self, case, name):
        self.name, self.asked = name, []
        folder = case.enterContext(tempfile.TemporaryDirectory(prefix="weir-sni-"))
        pem, key = os.path.join(folder, "a.pem"), os.path.join(folder, "a.key")
        make_self_signed(pem, key, f"/CN={name}")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pem, key)
        self.context.sni_callback = lambda sock, name, context: self.asked.append(name)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        case.addCleanup(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        sock.settimeout(PATIENCE)
        with contextlib.suppress(OSError):
            with self.context.wrap_socket(sock, server_side=True) as tls:
                while line := tls.recv(65536):
                    tls.sendall(self.name.encode() + b" " + line)


class RawServer(TlsServer):
    """Keeps all bytes that a connection sends until its end."""

    def __init__(self, case):
        self.got = []
        super().__init__(case, "raw")

    def serve(self, sock):
        sock.settimeout(PATIENCE)
        data = b""
        with contextlib.suppress(OSError):
            while piece := sock.recv(65536):
                data += piece
            sock.sendall(b"all")
        sock.close()
        if data:
            self.got.append(data)


def hello(name):
    """The ClientHello of OpenSSL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    out = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name).do_handshake()
    return out.read()


HELLO = hello("a.example")


class Routes(ProxyTest):
    def start_to(self, a, b, rest=None, more="", limit=None):
        tables = "".join(f'[[upstream]]\nname = "{name}"\nservers = ["127.0.0.1:{server.port}"]\n'
                         for name, server in (("a", a), ("b", b), ("rest", rest)) if server)
        default = 'upstream = "rest"\n' if rest else ""
        default += f'limits = "{limit}"\n' if limit else ""
        proxy = Proxy(config=f'[admin]\naddress = "127.0.0.1:0"\n{tables}{more}[[listen]]\naddress = "127.0.0.1:0"\n'
                      f'[listen.tcp]\n{default}[[listen.tcp.route]]\nsni = "a.example"\nupstream = "a"\n'
                      '[[listen.tcp.route]]\nsni = ["*.example", "b.test"]\nupstream = "b"\n')
        self.addCleanup(proxy.stop)
        return proxy

    def ask(self, proxy, name, low=ssl.TLSVersion.TLSv1_2, high=ssl.TLSVersion.TLSv1_3):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version, context.maximum_version = low, high
        with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as sock:
            with context.wrap_socket(sock, server_hostname=name) as tls:
                tls.sendall(b"hello")
                return tls.recv(100).decode()

    def totals(self, proxy, key):
        return {t["sni"]: t[key] for t in stats(proxy)["tcp"]}

    def test_handshakes_reach_the_server_of_the_name(self):
        a, b, rest = (TlsServer(self, name) for name in ("a", "b", "rest"))
        proxy = self.start_to(a, b, rest)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for name, server in (("a.example", a), ("A.EXAMPLE", a), ("b.example", b), ("b.test", b), ("x.b.example", rest),
                                 (None, rest)):
                self.assertEqual(self.ask(proxy, name, high=high), f"{server.name} hello")
                self.assertEqual((server.asked[-1] or "").lower(), (name or "").lower())
        wait_until(lambda: self.totals(proxy, "served") == {"a.example": 4, "*.example,b.test": 4, "": 4})

    def test_the_client_of_openssl(self):
        a, b = TlsServer(self, "a"), TlsServer(self, "b")
        proxy = self.start_to(a, b)
        for name, found in (("a.example", "CN = a"), ("c.example", "CN = b"), ("c.example.", "CN = b"), ("other", "unrecognized name")):
            done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", name],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
            self.assertIn(found.replace(" ", ""), (done.stdout + done.stderr).replace(" ", ""))

    def test_a_large_transfer(self):
        server = RawServer(self)
        proxy = self.start_to(server, server)
        data = hello("a.example") + pattern(5_000_000)
        with Client(proxy.port) as client:
            client.sock.sendall(data)
            client.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(client.sock.recv(10), b"all")
        wait_until(lambda: server.got)
        self.assertTrue(server.got == [data])

    def test_a_hello_in_pieces(self):
        server = RawServer(self)
        proxy = self.start_to(server, server)
        data = hello("a.example")
        with Client(proxy.port) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(data)):
                client.sock.sendall(data[i : i + 1])
            client.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(client.sock.recv(10), b"all")
        wait_until(lambda: server.got)
        self.assertEqual(server.got, [data])

    def test_what_is_not_a_hello(self):
        server, rest = RawServer(self), RawServer(self)
        to_rest, to_nobody = self.start_to(server, server, rest), self.start_to(server, server)
        large = b"\x16\x03\x01\x40\x00\x01\x01\x00\x00" + pattern(65_000)
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + bytes(32), b"SSH-2.0-x\r\n", large):
            with Client(to_rest.port) as client:
                client.sock.sendall(data)
                client.sock.shutdown(socket.SHUT_WR)
                self.assertEqual(client.sock.recv(10), b"all")
            wait_until(lambda: rest.got and rest.got[-1] == data)
            with Client(to_nobody.port) as client, self.assertRaises(ConnectionError):
                client.sock.sendall(data)
                client.sock.recv(10)
                client.sock.sendall(b"more")
                raise ConnectionResetError if client.sock.recv(10) == b"" else AssertionError
        self.assertEqual(server.got, [])
        wait_until(lambda: self.totals(to_nobody, "unrouted")[""] == 4)

    def test_clients_that_stop_half_way(self):
        server = RawServer(self)
        proxy = self.start_to(server, server, server)
        total = 0
        for how in ("end", "close", "reset"):
            for n in (1, 5, 60):
                client = Client(proxy.port)
                client.sock.sendall(hello("a.example")[:n])
                total += 1  # the kernel drops a connection that is reset before it is accepted
                wait_until(lambda: stats(proxy)["connections"]["total"] == total)
                if how == "end":
                    client.sock.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(ConnectionResetError):
                        self.assertEqual(client.sock.recv(10), b"")
                elif how == "reset":
                    reset(client.sock)
                client.sock.close()
        wait_until(lambda: self.totals(proxy, "disconnected")[""] == 9)
        began = time.monotonic()
        with Client(proxy.port) as client:
            client.sock.sendall(hello("a.example")[:60])
            with self.assertRaises(ConnectionResetError):
                client.sock.recv(10)
            self.assertGreater(time.monotonic() - began, 4.9)
        self.assertEqual(server.got, [])

    def test_an_unknown_name_gets_an_alert(self):
        server = RawServer(self)
        proxy = self.start_to(server, server)
        for name in ("other", None):
            with Client(proxy.port) as client:
                client.sock.sendall(hello(name))
                self.assertEqual(client.sock.recv(100), UNRECOGNIZED_NAME)
                self.assertEqual(client.sock.recv(100), b"")

    def test_many_that_wait_with_their_hello_and_leave(self):
        server = RawServer(self)
        limits = '[[limit]]\nname = "one"\nrule = "1 seats"\nqueue = "max_waiting 10000 patience 60s"\n'
        proxy = self.start_to(server, server, more=limits, limit="one")
        first = Client(proxy.port)
        first.sock.sendall(hello("a.example"))
        wait_until(lambda: self.totals(proxy, "active")["a.example"] == 1)
        for _ in range(2):
            crowd = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(2000)]
            for sock in crowd:
                sock.sendall(HELLO)
            wait_until(lambda: self.totals(proxy, "waiting")["a.example"] == len(crowd))
            for i, sock in enumerate(crowd):
                if i % 3 == 0:
                    reset(sock)
                sock.close()
            wait_until(lambda: self.totals(proxy, "waiting")["a.example"] == 0)
        self.assertEqual(self.totals(proxy, "disconnected")["a.example"], 4000)
        self.assertEqual(stats(proxy)["limits"][0]["in_use"], 1)
        first.close()
        wait_until(lambda: self.totals(proxy, "active")["a.example"] == 0)
        with Client(proxy.port) as client:
            client.sock.sendall(HELLO + b"next")
            client.sock.shutdown(socket.SHUT_WR)
            self.assertEqual(client.sock.recv(10), b"all")
        wait_until(lambda: server.got and server.got[-1] == HELLO + b"next")

    def test_a_crowd_without_a_hello(self):
        """Silent clients take no server, and little memory; others are served meanwhile."""
        a, b = TlsServer(self, "a"), TlsServer(self, "b")
        proxy = self.start_to(a, b)
        crowd = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(300)]
        for sock in crowd[::2]:
            sock.sendall(hello("a.example")[:100])
        self.assertEqual(self.ask(proxy, "b.example"), "b hello")
        wait_until(lambda: stats(proxy)["connections"]["open"] <= 1)  # after 5 s
        for sock in crowd:
            sock.close()
        self.assertEqual(a.asked, [])


if __name__ == "__main__":
    main(at_once=8)
