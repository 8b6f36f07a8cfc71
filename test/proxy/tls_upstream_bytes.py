#!/usr/bin/env python3
"""Bytes, ends and messages of TLS towards servers, and servers that break the protocol."""

import collections
import contextlib
import hashlib
import os
import random
import select
import socket
import ssl
import struct
import subprocess
import threading
import time

import authority
from admin_support import request, stats
from support import PATIENCE, Client, in_parallel, main, new_seed, pattern, reset, wait_until
from tls_upstream_support import TRUSTED, OTHER, TlsTest, SLOW, closes


class Ends(TlsTest):
    """Responses that end with the connection."""

    def outcome(self, proxy, target):
        """The body, or None if the proxy aborted the response."""
        with Client(proxy.port) as client:
            try:
                answer = client.ask(target)
                return answer.body if answer.status == 200 else answer.status
            except (EOFError, OSError):
                return None

    def test_with_and_without_an_announcement(self):
        proxy = self.start_shop()
        head = b"HTTP/1.1 200 OK\r\n"
        for announces, first, expected in (
                (True, head + b"\r\nwhole", b"whole"),
                (False, head + b"\r\ncut", None),
                (True, head + b"Content-Length: 5\r\n\r\nwhole", b"whole"),
                (False, head + b"Content-Length: 5\r\n\r\nwhole", b"whole"),
                (True, head + b"Content-Length: 5\r\n\r\ncut", None),
                (False, head + b"Content-Length: 5\r\n\r\ncut", None),
                (False, head + b"Transfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n", None),
                (True, head + b"Transfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n", None),
                (False, head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n", b"whole"),
                (False, b"HTTP/1.1 200 O", 502), (True, b"HTTP/1.1 200 O", 502), (False, b"", 502), (True, b"", 502)):
            for pause in (0.0, 0.05):
                self.upstream.script["/end"] = closes(announces, first, pause)
                with self.subTest(announces=announces, first=first, pause=pause):
                    self.assertEqual(self.outcome(proxy, "/end"), expected)

    def test_a_reset(self):
        proxy = self.start_shop()

        def reset(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\ncut")
            time.sleep(0.05)
            sock.announces = False
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return False

        self.upstream.script["/end"] = reset
        self.assertEqual(self.outcome(proxy, "/end"), None)


class Slices:
    """A server that passes the bytes of another one on, one by one."""

    def __init__(self, case, to):
        self.to = to
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        case.addCleanup(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                mine, _ = self.listener.accept()
                theirs = socket.create_connection(("127.0.0.1", self.to))
                for sock in (mine, theirs):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for one, other in ((mine, theirs), (theirs, mine)):
                    threading.Thread(target=self.relay, args=(one, other), daemon=True).start()

    def relay(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                for n in range(len(data)):
                    other.send(data[n : n + 1])
            other.shutdown(socket.SHUT_WR)


class Transfers(TlsTest):
    def test_segments_of_one_byte(self):
        slices = Slices(self, self.upstream.port)
        proxy = self.start_shop(servers=[slices], top="threads = 1\n" + SLOW)
        for _ in range(3):
            self.assertEqual(self.ask(proxy, "/bytes/3000").body, pattern(3000))
        self.assertEqual(self.ask(proxy, "/chunked/3000").body, pattern(3000))
        self.assertEqual(self.ask(proxy, "/until-close/3000").body, pattern(3000))

    def test_long_bodies(self):
        size = 30_000_000
        proxy = self.start_shop()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.upstream.certify(context=TRUSTED.server("local", version, version))
            for target in (f"/bytes/{size}", f"/chunked/{size}", f"/until-close/{size}"):
                self.assertEqual(self.ask(proxy, target).body, pattern(size))
            answer = self.ask(proxy, "/digest", method="POST", fields=f"Content-Length: {size}\r\n", body=pattern(size))
            self.assertEqual(answer.body.decode(), hashlib.sha256(pattern(size)).hexdigest())

    def test_up_and_down_at_the_same_time(self):
        size = 20_000_000
        proxy = self.start_shop()
        with Client(proxy.port) as client:
            client.send(f"POST /stream-back HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n")
            sender = threading.Thread(target=client.send, args=(pattern(size),))
            sender.start()
            self.assertEqual(client.answer().body, pattern(size))
            sender.join()

    def test_sizes_around_those_of_records(self):
        proxy = self.start_shop()
        with Client(proxy.port) as client:
            for size in (0, 1, 16383, 16384, 16385, 32768, 32769, 65535, 65536, 131073):
                self.assertEqual(client.ask(f"/bytes/{size}").body, pattern(size))
                answer = client.ask("/digest", "POST", f"Content-Length: {size}\r\n", pattern(size))
                self.assertEqual(answer.body.decode(), hashlib.sha256(pattern(size)).hexdigest())

    def test_many_clients(self):
        proxy = self.start_shop(top="threads = 2\n")

        def work(i):
            with Client(proxy.port) as client:
                for n in range(20):
                    size = 1000 * i + n * 7777
                    self.assertEqual(client.ask(f"/{('bytes', 'chunked')[n % 2]}/{size}").body, pattern(size))

        in_parallel(16, work)
        self.assertLessEqual(len(self.upstream.handshakes), 40)


class Damage(Slices):
    """A server that passes the bytes of another one on, and damages each second connection at a random place."""

    def __init__(self, case, to, seed):
        self.random, self.count, self.lock = random.Random(seed), 0, threading.Lock()
        super().__init__(case, to)

    def relay(self, one, other):
        with self.lock:
            self.count += 1
            way = self.random.choice(("flip", "end", "reset", "drop", "repeat")) if self.count % 4 < 2 else None
            left = self.random.choice((5, 50, 500, 2000, 5000, 50_000, 500_000))
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if way and len(data) > left:
                    at, way_now, way = left, way, None
                    if way_now == "flip":
                        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
                    elif way_now == "drop":
                        data = data[:at] + data[at + 1 :]
                    elif way_now == "repeat":
                        data = data[:at] + data[at : at + 1] + data[at:]
                    elif way_now == "end":
                        other.sendall(data[:at])
                        break
                    else:
                        return reset(other)
                left -= len(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class Faults(TlsTest):
    def test_damaged_bytes_never_reach_a_client(self):
        damage = Damage(self, self.upstream.port, seed=new_seed())
        proxy = self.start_shop(servers=[damage], top='threads = 2\n[timeouts]\nupstream = "500ms"\n')
        outcomes = collections.Counter()
        end = time.monotonic() + float(os.environ.get("WEIR_SECONDS", "2"))

        def failed():
            return outcomes[502] + outcomes[504] + outcomes["aborted"]

        def work(i):
            choose = random.Random(i)
            while time.monotonic() < end or min(outcomes[200], failed()) <= 10:
                size = choose.choice((10, 3000, 40_000, 300_000))
                target = choose.choice(("bytes", "chunked", "until-close"))
                with Client(proxy.port) as client:
                    try:
                        if choose.random() < 0.3:
                            body = pattern(size)
                            answer = client.ask("/digest", "POST", f"Content-Length: {size}\r\n", body)
                            right = hashlib.sha256(body).hexdigest().encode()
                        else:
                            answer, right = client.ask(f"/{target}/{size}"), pattern(size)
                    except (EOFError, OSError):
                        outcomes["aborted"] += 1
                        continue
                    if answer.status == 200:
                        self.assertEqual(answer.body, right)
                    else:
                        self.assertIn(answer.status, (502, 504))
                    outcomes[answer.status] += 1

        in_parallel(6, work)
        self.assertGreater(outcomes[502] + outcomes["aborted"], 0, outcomes)
        wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["connections"] <= 6, "connections to end")


class Times(TlsTest):
    def test_a_handshake_that_never_ends(self):
        class Silent:
            pass

        with socket.create_server(("127.0.0.1", 0)) as listener:
            Silent.port = listener.getsockname()[1]
            proxy = self.start_shop(servers=[Silent], top='[timeouts]\nupstream = "400ms"\n')
            began = time.monotonic()
            self.assertEqual(self.ask(proxy).status, 504)
            self.assertGreater(time.monotonic() - began, 0.39)

    def test_a_handshake_that_never_ends_fails_a_check(self):
        class Silent:
            pass

        with socket.create_server(("127.0.0.1", 0)) as listener:
            Silent.port = listener.getsockname()[1]
            proxy = self.start_shop(servers=[Silent, self.upstream],
                                    more='health = { every = "20ms", timeout = "4s", fall = 1, rise = 1 }\n')

            def down():
                return [server["down"] for server in stats(proxy)["upstreams"][0]["servers"]]

            # On a busy machine a check of the other server may be late, too; with all servers down, all get requests.
            wait_until(lambda: down() == [True, False], "only the silent server to be down")
            self.assertEqual(self.ask(proxy).status, 200)

    def test_checks_with_a_path(self):
        proxy = self.start_shop(more='health = { path = "/check", every = "20ms", timeout = "30s", fall = 1, rise = 1 }\n')
        wait_until(lambda: "/check" in self.upstream.targets())
        self.assertFalse(stats(proxy)["upstreams"][0]["servers"][0]["down"])
        self.upstream.script["/check"] = closes(True, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["down"], "the server to be down")
        del self.upstream.script["/check"]
        wait_until(lambda: not stats(proxy)["upstreams"][0]["servers"][0]["down"], "the server to be up")


class OtherProtocols(TlsTest):
    def test_an_upgraded_connection(self):
        def switch(sock, request, reader):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            while data := reader.data or sock.recv(65536):
                reader.data = b""
                sock.sendall(data)
            return False

        self.upstream.script["/echo"] = switch
        proxy = self.start_shop(more="", tls=f'authorities = "{TRUSTED.file}"',
                                top='[[route]]\nupstream = "shop"\nupgrade = { to = "echo" }\n')
        with Client(proxy.port) as client:
            client.send("GET /echo HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            self.assertEqual(client.reader.head()[0].split()[1], "101")
            sent = pattern(3_000_000)
            sender = threading.Thread(target=client.send, args=(sent,))
            sender.start()
            self.assertEqual(client.reader.exactly(len(sent)), sent)
            sender.join()
            client.sock.shutdown(socket.SHUT_WR)  # the server sees the announced end
            self.assertEqual(client.ended(), b"")

    def test_tcp_connections(self):
        for version in (0, 1, 2):
            listener = socket.create_server(("127.0.0.1", 0))
            self.addCleanup(listener.close)

            class Server:
                port = listener.getsockname()[1]

            seen = {}

            def shake_hands():
                sock, _ = listener.accept()
                header = b""
                if version == 1:
                    while not header.endswith(b"\r\n"):
                        header += sock.recv(1)
                elif version == 2:
                    header = sock.recv(16, socket.MSG_WAITALL)
                    header += sock.recv(struct.unpack(">H", header[14:])[0], socket.MSG_WAITALL)
                return authority.accepted(TRUSTED.server("local"), sock), header

            def serve():
                socket.close(shake_hands()[0].detach())  # at its start the proxy only tries the handshake
                sock, header = shake_hands()
                seen["header"], seen["alpn"] = header, sock.selected_alpn_protocol()
                while data := sock.recv(65536):
                    sock.sendall(data)
                sock.sendall(b"bye")
                sock.close()

            server = threading.Thread(target=serve, daemon=True)
            server.start()
            top = '[[listen]]\naddress = "127.0.0.1:0"\ntcp = { upstream = "shop" }\n'
            proxy = self.start_shop(servers=[Server], top=top, more=f"proxy_protocol = {version}\n" if version else "")
            with Client(proxy.port) as client:
                sent = pattern(2_000_000)
                sender = threading.Thread(target=client.send, args=(sent,))
                sender.start()
                self.assertEqual(client.reader.exactly(len(sent)), sent)
                sender.join()
                client.sock.shutdown(socket.SHUT_WR)
                self.assertEqual(client.ended(), b"bye")
                source = client.sock.getsockname()[1]
            server.join(PATIENCE)
            self.assertIsNone(seen["alpn"])
            if version == 1:
                self.assertEqual(seen["header"].split()[4], str(source).encode())
            elif version == 2:
                self.assertEqual(struct.unpack(">H", seen["header"][24:26])[0], source)

    def test_tcp_connections_to_an_untrusted_server(self):
        self.upstream.certify(OTHER.issue("no-tcp", "DNS:localhost"), OTHER)
        proxy = self.start_shop(top='[[listen]]\naddress = "127.0.0.1:0"\ntcp = { upstream = "shop" }\n')
        with Client(proxy.port) as client:
            self.assertEqual(client.ended(), b"")
        self.assertRegex(self.said(proxy), "TLS: the certificate is not accepted")


class Console:
    """`openssl s_server`, whose responses and commands the test types."""

    def __init__(self, case, port, *options):
        self.process = subprocess.Popen(
            ["openssl", "s_server", "-accept", f"127.0.0.1:{port}", "-cert", TRUSTED.path("local.pem"), "-key",
             TRUSTED.path("local.key"), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.port, self.seen = port, b""
        case.addCleanup(self.end)
        self.until(b"ACCEPT")

    def until(self, text):
        while text not in self.seen:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], self.seen
            piece = os.read(self.process.stdout.fileno(), 65536)
            assert piece, self.seen
            self.seen += piece
        self.seen = self.seen.split(text, 1)[1]

    def type(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.communicate()


class Messages(TlsTest):
    """Messages of TLS between requests and within responses."""

    def start_console(self, *options):
        server = Console(self, self.unused_port(), *options)
        return server, self.start_shop(servers=[server], top="threads = 1\n" + SLOW)

    def ask_console(self, server, proxy, command=None):
        """The status of a request; the server gets the command before it responds."""
        with Client(proxy.port) as client:
            client.send("GET /x HTTP/1.1\r\nHost: test\r\n\r\n")
            server.until(b"GET /x")
            if command:
                server.type(command)
                time.sleep(0.1)
            server.type(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
            return client.answer().status

    def test_key_updates(self):
        for command in (b"K\n", b"k\n"):
            server, proxy = self.start_console("-tls1_3")
            for _ in range(3):
                self.assertEqual(self.ask_console(server, proxy), 200)
                server.type(command)  # on the kept connection
                time.sleep(0.3)
                self.assertEqual(self.ask_console(server, proxy, command), 200)
            server.type(b"Q\n")
            said = server.process.communicate(timeout=PATIENCE)[0]
            self.assertRegex(said, rb" [12] server accepts")  # one, and the look at the start

    def test_requests_for_a_renegotiation(self):
        # The proxy refuses; then OpenSSL ends the connection.
        server, proxy = self.start_console("-tls1_2")
        for _ in range(3):
            self.assertEqual(self.ask_console(server, proxy), 200)
            server.type(b"r\n")
            server.until(b"no renegotiation")
        with Client(proxy.port) as client:
            client.send("GET /x HTTP/1.1\r\nHost: test\r\n\r\n")
            server.until(b"GET /x")
            server.type(b"r\n")
            self.assertEqual(client.answer().status, 502)


if __name__ == "__main__":
    main(at_once=4)
