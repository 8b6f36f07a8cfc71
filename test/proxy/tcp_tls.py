#!/usr/bin/env python3
"""Listeners with `tls` and `tcp`: the proxy ends TLS in front of servers of any protocol."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from admin_support import stats
from over_tls import EncryptedSocket
from ports import reserve
from support import PATIENCE, Proxy, main, pattern, reset, skip, wait_until
from tcp import Server, exactly, limit, receive_all
from tls_support import Certificates, client_context

if not shutil.which("openssl"):
    skip("there is no openssl; to mend it, run test/setup")


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.files = files = Certificates()
        cls.addClassCleanup(files.folder.cleanup)
        files.make("a", "a.example", "*.a.example")
        files.make("b", "b.example")

    def start_to(self, *servers, tcp='upstream = "u0"\n', more="", limits="", upstream="", top="", certificates=("a", "b")):
        tables = "".join(f'[[upstream]]\nname = "u{i}"\nservers = ["127.0.0.1:{server.port}"]\n{upstream}'
                         for i, server in enumerate(servers))
        proxy = Proxy(config=f'{top}[admin]\naddress = "127.0.0.1:0"\n{tables}{limits}[[listen]]\naddress = "127.0.0.1:0"\n'
                      f'tls = [{", ".join(map(self.files.entry, certificates))}]\n{more}[listen.tcp]\n{tcp}')
        self.addCleanup(proxy.stop)
        for server in servers:
            server.accept().close()  # at its start the proxy tries each server
        return proxy

    def raw(self, proxy):
        sock = socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)
        self.addCleanup(sock.close)
        return sock

    def client(self, proxy, name="a.example", alpn=(), **how):
        context = client_context(**how)
        if alpn:
            context.set_alpn_protocols(alpn)
        tls = context.wrap_socket(self.raw(proxy), server_hostname=name, suppress_ragged_eofs=False)
        self.addCleanup(tls.close)
        return tls

    def pair(self, proxy, server, **how):
        return self.client(proxy, **how), server.accept()

    def counts(self, proxy):
        return stats(proxy)["tcp"][-1]

    # ---- Bytes and ends

    def test_bytes_pass_in_both_directions(self):
        server = Server(self)
        proxy = self.start_to(server)
        self.assertIn(" tls://127.0.0.1:", proxy.greeting)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            client, other = self.pair(proxy, server, high=high)
            other.sendall(b"220 ready\r\n")  # the server speaks first
            self.assertEqual(exactly(client, 11), b"220 ready\r\n")
            client.sendall(b"x" * 3)
            self.assertEqual(exactly(other, 3), b"xxx")
            data = pattern(3_000_000)
            sender = threading.Thread(target=other.sendall, args=(data,))
            sender.start()
            self.assertEqual(exactly(client, len(data)), data)
            sender.join()
            sender = threading.Thread(target=client.sendall, args=(data,))
            sender.start()
            self.assertEqual(exactly(other, len(data)), data)
            sender.join()
            other.close()
            self.assertEqual(client.recv(1), b"")  # an announced end

    def test_each_direction_ends_behind_its_data(self):
        server = Server(self)
        bandwidth = '[[limit]]\nname = "bytes"\nbandwidth = { up = "1MB/s burst 20kB", down = "1MB/s burst 20kB" }\n'
        for limits, names in (("", ""), (bandwidth, 'limits = ["bytes"]\n')):
            proxy = self.start_to(server, limits=limits, tcp='upstream = "u0"\n' + names)
            data = pattern(120_000)
            client = EncryptedSocket(self.raw(proxy))
            other = server.accept()
            sender = threading.Thread(target=lambda: (client.sendall(data), client.end_sending()))
            sender.start()
            self.assertEqual(receive_all(other), data)  # with a FIN
            sender.join()
            other.sendall(b"thanks")
            self.assertEqual(exactly(client, 6), b"thanks")
            other.close()
            self.assertEqual(client.recv(1), b"")
            # The server ends first.
            client, other = self.pair(proxy, server)
            other.sendall(data)
            other.shutdown(socket.SHUT_WR)
            self.assertEqual(receive_all(client), data)
            client.sendall(b"thanks")
            self.assertEqual(exactly(other, 6), b"thanks")
            client.unwrap().close()
            self.assertEqual(other.recv(1), b"")
            wait_until(lambda: self.counts(proxy)["active"] == 0)

    def test_a_cut_connection_is_no_end(self):
        server = Server(self)
        proxy = self.start_to(server)
        for how in ("fin", "reset"):
            client, other = self.pair(proxy, server)
            client.sendall(b"half of ")
            self.assertEqual(exactly(other, 8), b"half of ")
            raw = client.detach()
            with socket.socket(fileno=raw) as sock:
                if how == "fin":
                    sock.shutdown(socket.SHUT_WR)
                else:
                    reset(sock)
                self.assertRaises(ConnectionResetError, other.recv, 1)
        # And back.
        client, other = self.pair(proxy, server)
        reset(other)
        with self.assertRaises((ConnectionResetError, ssl.SSLEOFError)):
            client.recv(1)
        wait_until(lambda: self.counts(proxy)["active"] == 0)

    def test_bytes_pass_at_the_rate_of_a_bandwidth(self):
        server = Server(self)
        rates = 'bandwidth = { down = "2MB/s", up = "2MB/s" }\n'
        of_all = self.start_to(server, limits=f'[[limit]]\nname = "bytes"\n{rates}', tcp='upstream = "u0"\nlimits = ["bytes"]\n')
        of_each = self.start_to(server, tcp=f'upstream = "u0"\n{rates}')
        data = pattern(1_000_000)
        for proxy in (of_all, of_each):
            client, other = self.pair(proxy, server)
            for sender, receiver in ((other, client), (client, other)):
                began = time.monotonic()
                thread = threading.Thread(target=sender.sendall, args=(data,))
                thread.start()
                self.assertEqual(exactly(receiver, len(data)), data)
                thread.join()
                self.assertGreater(time.monotonic() - began, 0.9 / 2)

    # ---- Limits

    def test_a_refusal_is_encrypted(self):
        server = Server(self)
        proxy = self.start_to(server, limits=limit("1 seats"), tcp='upstream = "u0"\nlimits = "connections"\n'
                              r'refusal = "-ERR too many\r\n"' + "\n")
        self.pair(proxy, server)
        for _ in range(5):
            client = self.client(proxy)
            client.sendall(b"PING\r\n")
            self.assertEqual(receive_all(client), b"-ERR too many\r\n")  # with an announced end
        self.assertFalse(server.is_asked())

    def test_without_a_text_a_rejected_client_is_reset(self):
        server = Server(self)
        proxy = self.start_to(server, limits=limit("1 seats"), tcp='upstream = "u0"\nlimits = "connections"\n')
        self.pair(proxy, server)
        with self.assertRaises((ConnectionResetError, ssl.SSLEOFError)):
            self.client(proxy).recv(1)

    def test_connections_wait_after_their_handshake(self):
        server = Server(self)
        proxy = self.start_to(server, limits=limit("1 seats", "patience 20s"), tcp='upstream = "u0"\nlimits = "connections"\n')
        first, other = self.pair(proxy, server)
        second, third = self.client(proxy), self.client(proxy)
        wait_until(lambda: self.counts(proxy)["waiting"] == 2)
        second.sendall(b"second")
        third.close()
        wait_until(lambda: self.counts(proxy)["waiting"] == 1)
        other.close()
        first.unwrap().close()
        self.assertEqual(exactly(server.accept(), 6), b"second")

    def test_handshakes_are_limited_before_they_begin(self):
        server = Server(self)
        proxy = self.start_to(server, limits=limit("2/1h", name="handshakes"), more='handshake_limits = "handshakes"\n')
        for _ in range(2):
            self.pair(proxy, server)
        with self.assertRaises(ConnectionResetError):
            self.client(proxy)
        self.assertFalse(server.is_asked())

    def test_broken_handshakes_reach_no_server(self):
        server = Server(self)
        proxy = self.start_to(server, top='[timeouts]\nhandshake = "2s"\nheader = "2s"\n')
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"", None):
            sock = self.raw(proxy)
            if data is None:
                sock.close()
                continue
            sock.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                receive_all(sock)
        with self.assertRaises(ssl.SSLError):
            self.client(proxy, "unknown.example")
        wait_until(lambda: stats(proxy)["connections"]["open"] == 0)
        self.assertFalse(server.is_asked())

    # ---- Names and protocols

    def test_routes_follow_the_name(self):
        a, b = Server(self), Server(self)
        proxy = self.start_to(a, b, tcp='[[listen.tcp.route]]\nsni = "x.a.example"\nupstream = "u0"\n'
                              '[[listen.tcp.route]]\nsni = "b.example"\nupstream = "u1"\n')
        for name, server in (("x.a.example", a), ("B.example", b)):
            client, other = self.pair(proxy, server, name=name)
            client.sendall(b"x")
            self.assertEqual(exactly(other, 1), b"x")
        for name in ("a.example", None):
            with self.assertRaises((ConnectionResetError, ssl.SSLError)):
                self.client(proxy, name).recv(1)
        wait_until(lambda: self.counts(proxy)["unrouted"] == 2)

    def test_alpn(self):
        server = Server(self)
        any_protocol = self.start_to(server)
        client, _ = self.pair(any_protocol, server, alpn=["h2", "x"])
        self.assertIsNone(client.selected_alpn_protocol())
        two = self.start_to(server, more='alpn = ["postgresql", "x"]\n')
        for offered in (["x", "postgresql"], ["postgresql"]):
            client, _ = self.pair(two, server, alpn=offered)
            self.assertEqual(client.selected_alpn_protocol(), "postgresql")
        client, _ = self.pair(two, server)
        self.assertIsNone(client.selected_alpn_protocol())
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            self.client(two, alpn=["h2"])

    def test_the_proxy_protocol_names_the_parts_of_tls(self):
        server = Server(self)
        proxy = self.start_to(server, upstream="proxy_protocol = 2\n", more='alpn = "x"\n')
        client, other = self.pair(proxy, server, name="x.a.example", alpn=["x"])
        head = exactly(other, 16)
        self.assertEqual(head[:14], b"\r\n\r\n\0\r\nQUIT\n\x21\x11")
        body = exactly(other, int.from_bytes(head[14:], "big"))
        self.assertEqual(int.from_bytes(body[8:10], "big"), client.getsockname()[1])

        def parts(data):
            found = {}
            while data:
                size = int.from_bytes(data[1:3], "big")
                found[data[0]], data = data[3 : 3 + size], data[3 + size :]
            return found

        found = parts(body[12:])
        self.assertEqual((found[1], found[2]), (b"x", b"x.a.example"))
        self.assertEqual(found[0x20][:5], b"\x01\0\0\0\x01")  # TLS, without a verified certificate
        self.assertEqual(parts(found[0x20][5:]), {0x21: b"TLSv1.3", 0x23: client.cipher()[0].encode()})
        client.sendall(b"next")
        self.assertEqual(exactly(other, 4), b"next")
        # Version 1 has no place for them.
        proxy = self.start_to(server, upstream="proxy_protocol = 1\n")
        client, other = self.pair(proxy, server)
        line = f"PROXY TCP4 127.0.0.1 127.0.0.1 {client.getsockname()[1]} {proxy.port}\r\n".encode()
        self.assertEqual(exactly(other, len(line)), line)

    def test_behind_a_balancer(self):
        server = Server(self)
        proxy = self.start_to(server, more="proxy_protocol = true\n", upstream="proxy_protocol = 1\n",
                              top='[clients]\ntrusted = ["127.0.0.1"]\n')
        sock = self.raw(proxy)
        line = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"
        sock.sendall(line)
        client = client_context().wrap_socket(sock, server_hostname="a.example")
        client.sendall(b"x")
        self.assertEqual(exactly(server.accept(), len(line) + 1), line + b"x")

    def test_the_access_log(self):
        server = Server(self)
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weir-tcp-"))
        proxy = self.start_to(server, top=f'access_log = "{folder}/log"\naccess_log_format = "json"\n')
        client, other = self.pair(proxy, server)
        other.close()
        client.unwrap().close()
        wait_until(lambda: self.counts(proxy)["served"] == 1)
        wait_until(lambda: os.path.getsize(f"{folder}/log") > 0)
        with open(f"{folder}/log") as log:
            line = json.loads(log.readline())
        self.assertEqual((line["request"], line["tls_version"], line["server_name"], line["status"]),
                         ("tcp 127.0.0.1:0", "TLSv1.3", "a.example", 200))

    def test_a_reload_changes_certificates_and_keeps_connections(self):
        server = Server(self)
        proxy = self.start_to(server, certificates=("a",))
        client, other = self.pair(proxy, server)
        proxy.write(proxy.config.replace(self.files.entry("a"), self.files.entry("b")))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())
        newer, _ = self.pair(proxy, server, name="b.example")
        self.assertEqual(newer.getpeercert(binary_form=True), self.files.der("b"))
        client.sendall(b"old")
        self.assertEqual(exactly(other, 3), b"old")

    @unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-cli"), "redis is not installed")
    def test_redis(self):
        with reserve(0) as free:
            port = free.getsockname()[1]
            redis = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"],
                                     stdout=subprocess.DEVNULL)
            self.addCleanup(redis.wait)
            self.addCleanup(redis.kill)
            wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
            proxy = Proxy(config=f'[[upstream]]\nname = "redis"\nservers = ["127.0.0.1:{port}"]\n[[listen]]\n'
                          f'address = "127.0.0.1:0"\ntls = [{self.files.entry("a")}]\ntcp = {{ upstream = "redis" }}\n')
            self.addCleanup(proxy.stop)
            ask = ["redis-cli", "-p", str(proxy.port), "--tls", "--sni", "a.example", "--cacert", self.files.path("a.pem")]
            for words, answer in ((["set", "k", "v"], "OK"), (["get", "k"], "v")):
                done = subprocess.run([*ask, *words], capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual(done.stdout.strip(), answer, done.stderr)


if __name__ == "__main__":
    main(at_once=8)
