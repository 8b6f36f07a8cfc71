#!/usr/bin/env python3
"""Upgrades: the connection after a 101, and the requests that must not become a tunnel."""

import hashlib
import re
import select
import signal
import socket
import subprocess
import threading
import time
import unittest

from admin_support import request, stats
from support import (KEEPS_MEMORY, OVER_TLS, PATIENCE, PROXY, Client, ProxyTest, Upstream, in_parallel, main, pattern, rejects, reset,
                     wait_until)

SHOP = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %s\r\n\r\n"
ASK = "Connection: Upgrade\r\nUpgrade: echo\r\n"


def route(upgrade='to = "echo"', limits="[]", more=""):
    table = f"[route.upgrade]\n{upgrade}\n" if upgrade else ""
    return f'[[route]]\nupstream = "shop"\nlimits = {limits}\n{more}{table}'


def limit(name, rule, more=""):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "max_waiting 0 patience 0s"\n{more}'


def sent_back(sock, request, reader):
    """Switches to a protocol that sends all bytes back."""
    sock.sendall(SWITCH % b"echo" + reader.data)
    with sock:
        while piece := sock.recv(65536):
            sock.sendall(piece)
        sock.shutdown(socket.SHUT_WR)
    return False


class TunnelTest(ProxyTest):
    def setUp(self):
        super().setUp()
        self.accepted = []  # sockets of the upstream that switched protocols
        self.upstream.script["/echo"] = sent_back
        self.upstream.script["/hold"] = self.hold

    def hold(self, sock, request, reader):
        """Switches protocols, and leaves the connection to the test."""
        sock.sendall(SWITCH % b"echo")
        self.accepted.append(sock.dup())
        self.accepted[-1].settimeout(PATIENCE)
        self.addCleanup(self.accepted[-1].close)
        return False

    def over(self, proxy, target="/echo", fields=ASK, **how):
        """A client that switched protocols."""
        client = Client(proxy.port, **how)
        self.addCleanup(client.close)
        client.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
        first, got = client.reader.head()
        self.assertEqual(first, "HTTP/1.1 101 Switching Protocols")
        self.assertEqual({name: value.lower() for name, value in got if name in ("connection", "upgrade")},
                         {"connection": "upgrade", "upgrade": "echo"})
        client.head = dict(got)
        return client

    def both_ends(self, proxy, **how):
        n = len(self.accepted)
        client = self.over(proxy, "/hold", **how)
        wait_until(lambda: len(self.accepted) > n)
        return client, self.accepted[n]

    def ended(self, sock, reset=False):
        """Whether the connection ends, with a reset or without."""
        try:
            rest = sock.recv(1)
        except ConnectionResetError:
            return reset
        return rest == b"" and not reset


class Bytes(TunnelTest):
    def test_both_directions_are_concurrent_and_complete(self):
        proxy = self.start_with(SHOP + route())
        client = self.over(proxy)
        data = pattern(20_000_000)
        sender = threading.Thread(target=lambda: (client.send(data), client.end_sending()))
        sender.start()
        self.assertEqual(hashlib.sha256(client.reader.rest()).digest(), hashlib.sha256(data).digest())
        sender.join()

    def test_a_tunnel_is_counted_while_it_lasts(self):
        proxy = self.start_with('[admin]\naddress = "127.0.0.1:0"\n' + SHOP + route())

        def told():
            metrics = request(proxy, "/metrics").body.decode()
            return stats(proxy)["connections"]["upgraded"], float(re.search(r"^weir_connections_upgraded (.*)$", metrics, re.M)[1])

        self.assertEqual(told(), (0, 0))
        clients = []
        for n in (1, 2):
            clients.append(self.over(proxy))
            wait_until(lambda: told() == (n, n))
        for n, client in zip((1, 0), clients):
            client.close()
            wait_until(lambda: told() == (n, n))

    def test_any_bytes_part_by_part(self):
        client = self.over(self.start_with(SHOP + route()))
        for piece in (b"\0", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n", b"x" * 70_000, b"\r\n"):
            client.send(piece)
            self.assertEqual(client.reader.exactly(len(piece)), piece)

    def test_bytes_that_arrive_with_the_101(self):
        self.upstream.script["/more"] = lambda sock, *_: sock.sendall(SWITCH % b"echo" + b"more") or False
        client = self.over(self.start_with(SHOP + route()), "/more")
        self.assertEqual(client.ended(), b"more")

    def test_bytes_that_arrive_before_the_101_are_sent_after_it(self):
        early = []

        def late(sock, request, reader):
            time.sleep(0.3)  # enough for bytes that are sent too early to arrive
            early.append((reader.data, select.select([sock], [], [], 0)[0]))
            return sent_back(sock, request, reader)

        self.upstream.script["/late"] = late
        proxy = self.start_with(SHOP + route())
        client = Client(proxy.port)
        data = pattern(200_000)
        client.send(f"GET /late HTTP/1.1\r\nHost: test\r\n{ASK}\r\n".encode() + data)
        self.assertEqual(client.reader.head()[0], "HTTP/1.1 101 Switching Protocols")
        self.assertEqual(client.reader.exactly(len(data)), data)
        self.assertEqual(early, [(b"", [])])
        client.close()

    def test_a_side_may_close_its_sending_direction(self):
        proxy = self.start_with(SHOP + route())
        client, upstream = self.both_ends(proxy)
        client.end_sending()
        self.assertTrue(self.ended(upstream))
        upstream.sendall(b"still here")
        self.assertEqual(client.reader.exactly(10), b"still here")
        upstream.close()
        self.assertTrue(self.ended(client.sock))
        client, upstream = self.both_ends(proxy)
        upstream.shutdown(socket.SHUT_WR)
        self.assertTrue(self.ended(client.sock))
        client.send(b"still here")
        self.assertEqual(upstream.recv(100), b"still here")
        client.end_sending()
        client.close()
        self.assertTrue(self.ended(upstream))
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_side_that_does_not_read_makes_the_other_side_wait(self):
        proxy = self.start_with(SHOP + route())
        status = f"/proc/{proxy.process.pid}/status"
        memory = lambda: int(re.search(r"VmRSS:\s*(\d+)", open(status).read())[1])
        client, upstream = self.both_ends(proxy, receive_buffer=4096)
        before = memory()
        taken = []
        for sock in (upstream, client.sock):
            sock.setblocking(False)
            sent, quiet = 0, 0
            while quiet < 30:  # until the proxy accepts no more bytes
                try:
                    sent += sock.send(b"x" * 65536)
                    quiet = 0
                except BlockingIOError:
                    quiet += not select.select([], [sock], [], 0.02)[1]
            taken.append(sent)
            self.assertLess(sent, 20_000_000)  # the buffers of the system
            if not KEEPS_MEMORY:
                self.assertLess(memory() - before, 1000)
        # It continues when the other side reads, to the last byte.
        client.sock.settimeout(PATIENCE)
        upstream.shutdown(socket.SHUT_WR)
        got = 0
        while piece := client.sock.recv(1 << 20):
            got += len(piece)
        self.assertEqual(got, taken[0])

    @unittest.skipIf(KEEPS_MEMORY, "a sanitizer keeps freed memory")
    def test_a_silent_tunnel_has_no_memory_for_its_bytes(self):
        proxy = self.start_with(SHOP + route())

        def resident():
            with open(f"/proc/{proxy.process.pid}/status") as status:
                return int(status.read().split("VmRSS:")[1].split()[0])

        before = resident()
        clients = [self.over(proxy) for _ in range(200)]
        data = b"x" * 30_000
        for client in clients:
            client.send(data)
            self.assertEqual(client.reader.exactly(len(data)), data)
        self.assertLess(resident() - before, 200 * (45 if OVER_TLS else 20))
        for client in clients:
            client.send(data)
            self.assertEqual(client.reader.exactly(len(data)), data)


class Asked(TunnelTest):
    def asked(self, proxy, fields=ASK, method="GET", version="1.1", body=b""):
        """The values of Connection and Upgrade that the upstream receives."""
        n = len(self.upstream.requests)
        with Client(proxy.port) as client:
            answer = client.ask("/plain", method, fields, body, version)
        self.assertEqual(answer.status, 200)
        got = self.upstream.requests[n].fields
        return [value.lower() for name, value in got if name in ("connection", "upgrade")]

    def test_only_where_the_route_allows_it(self):
        self.assertEqual(self.asked(self.start_with(SHOP)), [])
        self.assertEqual(self.asked(self.start_with(SHOP + route(upgrade=None))), [])
        self.assertEqual(self.asked(self.start_with(SHOP + route('to = "websocket"'))), [])
        self.assertEqual(self.asked(self.start_with(SHOP + route())), ["upgrade", "echo"])
        self.assertEqual(self.asked(self.start()), [])
        self.assertEqual(self.asked(self.start("--upgrade", "echo")), ["upgrade", "echo"])

    def test_one_protocol_in_a_proper_request(self):
        proxy = self.start_with(SHOP + route('to = ["websocket", "echo"]'))
        for fields, wanted in (
                ("Connection: keep-alive, upgrade\r\nUpgrade: h2c, Echo, websocket\r\n", ["upgrade", "echo"]),
                ("Connection: upgrade\r\nUpgrade: nothing\r\nUpgrade: ,WebSocket\r\n", ["upgrade", "websocket"]),
                ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n", []),
                ("Upgrade: echo\r\n", []), ("Connection: close\r\nUpgrade: echo\r\n", []), ("Connection: upgrade\r\n", []),
                ("Connection: upgrade\r\nUpgrade: echo/1\r\n", []), ("Connection: upgrade\r\nUpgrade:\r\n", [])):
            with self.subTest(fields):
                self.assertEqual(self.asked(proxy, fields), wanted)
                self.assertNotIn("http2-settings", dict(self.upstream.requests[-1].fields))
        # A request with a body is not an upgrade request, since the end of the body would be ambiguous.
        self.assertEqual(self.asked(proxy, ASK + "Content-Length: 3\r\n", "POST", body=b"abc"), [])
        self.assertEqual(self.asked(proxy, ASK + "Transfer-Encoding: chunked\r\n", "POST", body=b"0\r\n\r\n"), [])
        self.assertEqual(self.asked(proxy, ASK, version="1.0"), [])

    def test_a_response_other_than_101_is_forwarded(self):
        proxy = self.start_with(SHOP + route())
        with Client(proxy.port) as client:
            # The bytes after the request are the next request, and pass the limits and routes.
            client.send(f"GET /plain HTTP/1.1\r\nHost: test\r\n{ASK}\r\nGET /next HTTP/1.1\r\nHost: test\r\n\r\n")
            self.assertEqual((client.answer().status, client.answer().status), (200, 200))
            self.upstream.script["/no"] = lambda sock, *_: sock.sendall(
                b"HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: other\r\nContent-Length: 0\r\n\r\n") or True
            answer = client.ask("/no", fields=ASK)
            self.assertEqual((answer.status, answer.get("upgrade")), (426, None))
            self.assertEqual(client.ask("/plain").status, 200)
        self.assertEqual(self.upstream.targets(), ["/plain", "/next", "/no", "/plain"])

    def test_a_101_to_a_protocol_that_was_not_requested(self):
        proxy = self.start_with(SHOP + route('to = ["echo", "other"]'))
        heads = {"/other": SWITCH % b"other", "/two": SWITCH % b"echo, other", "/none": SWITCH % b"",
                 "/bare": b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "/old": (SWITCH % b"echo").replace(b"/1.1", b"/1.0"),
                 "/alone": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n",
                 "/twice": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nUpgrade: echo\r\n\r\n"}
        for target, head in heads.items():
            self.upstream.script[target] = lambda sock, *_, head=head: sock.sendall(head + b"smuggled") or True
            with Client(proxy.port) as client:
                answer = client.ask(target, fields=ASK)
                self.assertEqual((answer.status, b"smuggled" in answer.body), (502, False), target)
        self.upstream.script["/unasked"] = lambda sock, *_: sock.sendall(SWITCH % b"echo") or True
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/unasked").status, 502)

    def test_interim_responses_come_first(self):
        self.upstream.script["/early"] = lambda sock, *_: sock.sendall(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SWITCH % b"echo") or False
        with Client(self.start_with(SHOP + route()).port) as client:
            client.send(f"GET /early HTTP/1.1\r\nHost: test\r\n{ASK}\r\n")
            self.assertEqual([client.reader.head()[0][9:12] for _ in range(2)], ["103", "101"])

    def test_other_fields_of_the_101(self):
        self.upstream.script["/said"] = lambda sock, *_: sock.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade, x-mine\r\nUpgrade: echo\r\nX-Mine: 1\r\n"
            b"Sec-WebSocket-Accept: abc\r\nContent-Length: 5\r\nServer: x\r\n\r\nhello") or False
        config = SHOP + limit("rate", "9/1h") + route(limits='["rate"]', more='[route.response_headers]\nremove = ["Server"]\n')
        client = self.over(self.start_with(config), "/said")
        self.assertEqual(client.head["sec-websocket-accept"], "abc")
        self.assertEqual(client.head["ratelimit-policy"], '"rate";q=9;w=3600')
        self.assertFalse({"server", "x-mine", "content-length"} & set(client.head))
        self.assertEqual(client.ended(), b"hello")

    def test_errors_in_a_configuration(self):
        proxy = self.start_with(SHOP)
        for upgrade, why in (("to = \"h2c\"", ":8:6: route `/` upgrade: `to` is `h2c`, but must be a protocol such as websocket"),
                             ("to = [\"echo\", \"HTTP/2.0\"]", ":8:15: "), ("to = \"a b\"", ":8:6: "),
                             ("seats = \"handshake\"", ":7:1: route `/` upgrade: missing `to`"),
                             ("to = \"echo\"\nseats = \"never\"", ":9:9: route `/` upgrade: `seats` is `never`, but must be `connection` or `handshake`"),
                             ("to = \"echo\"\nidle = \"0s\"", ":9:8: ")):
            with open(proxy.file, "w") as file:
                file.write(self.filled(SHOP + route(upgrade)))
            result = subprocess.run([PROXY, "--config", proxy.file, "--check"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2, upgrade)
            self.assertIn(why, result.stderr)
        for wrong in ("h2c", "a b", ""):
            result = subprocess.run([PROXY, "--upstream", "127.0.0.1:1", "--upgrade", wrong], capture_output=True, text=True)
            self.assertIn("--upgrade is", result.stderr)


class Held(TunnelTest):
    def test_a_tunnel_holds_seats_while_it_lasts(self):
        config = (SHOP + limit("seats", "2 seats") + limit("mine", "2 seats", 'key = "client"\n') + limit("rate", "100/1h")
                  + route(limits='["seats", "mine", "rate"]'))
        proxy = self.start_with(config)
        tunnels = [self.over(proxy) for _ in range(2)]
        in_use = lambda: [proxy.numbers()[name]["in use"] for name in ("seats", "mine")]
        self.assertEqual(in_use(), [2, 2])
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 503)
            tunnels[0].close()
            wait_until(lambda: in_use() == [1, 1])
            self.assertEqual(client.ask("/").status, 200)
        tunnels[1].abort()
        wait_until(lambda: in_use() == [0, 0])

    def test_a_tunnel_may_hold_seats_until_the_handshake_ends(self):
        config = ('[[upstream]]\nname = "shop"\n[[upstream.server]]\naddress = "UPSTREAM"\nseats = 1\nmax_connections = 1\n' +
                  limit("seats", "1 seats") + limit("rate", "4/1h") + route('to = "echo"\nseats = "handshake"', '["seats", "rate"]'))
        proxy = self.start_with(config)
        tunnels = [self.over(proxy) for _ in range(3)]
        self.assertEqual(proxy.numbers()["seats"]["in use"], 0)
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
            self.assertEqual(client.ask("/").status, 429)  # the permits of the rate stay used
        for client in tunnels:
            client.send(b"hello")
            self.assertEqual(client.reader.exactly(5), b"hello")

    def test_after_a_handshake_its_seat_and_a_place_at_the_server_are_free(self):
        queue = limit("one", "1 seats").replace("max_waiting 0 patience 0s", "patience 20s")
        proxy = self.start_with('threads = 4\n[[upstream]]\nname = "shop"\n[[upstream.server]]\naddress = "UPSTREAM"\nseats = 1\n'
                                + queue + queue.replace("one", "two")
                                + route('to = "echo"\nseats = "handshake"', '["one", "two"]'))
        statuses = set()

        def shake_hands(_):
            for _ in range(20):
                with Client(proxy.port) as client:
                    client.send(f"GET /echo HTTP/1.1\r\nHost: test\r\n{ASK}\r\n")
                    statuses.add(client.reader.head()[0].split()[1])

        in_parallel(16, shake_hands)
        self.assertLessEqual(statuses, {"101", "503"})  # on a busy machine the patience of the upstream's seats may end

    def test_adaptive_seats_ignore_the_duration_of_a_tunnel(self):
        proxy = self.start_with(SHOP + limit("seats", "20 aimd min 1 max 40") + route(limits='["seats"]'))
        for _ in range(30):
            client, upstream = self.both_ends(proxy)
            client.abort()
            self.assertTrue(self.ended(upstream, reset=True))
        wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)
        self.assertEqual(proxy.numbers()["seats"]["seats"], 20)

    def test_a_tunnel_without_bytes_ends_after_the_idle_limit(self):
        proxy = self.start_with(SHOP + limit("seats", "9 seats") + route('to = "echo"\nidle = "2s"', '["seats"]'))
        begun = time.monotonic()
        client, upstream = self.both_ends(proxy)
        self.assertTrue(self.ended(client.sock, reset=OVER_TLS))
        self.assertGreaterEqual(time.monotonic() - begun, 1.99)
        self.assertTrue(self.ended(upstream))
        wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)


class Ends(TunnelTest):
    def test_a_reset_of_one_side_resets_the_other_side(self):
        proxy = self.start_with(SHOP + route())
        client, upstream = self.both_ends(proxy)
        client.abort()
        self.assertTrue(self.ended(upstream, reset=True))
        client, upstream = self.both_ends(proxy)
        reset(upstream)
        self.assertTrue(self.ended(client.sock, reset=True))
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_client_that_resets_while_the_upstream_does_not_read(self):
        proxy = self.start_with(SHOP + limit("seats", "1 seats") + route(limits='["seats"]'))
        client, upstream = self.both_ends(proxy)
        client.sock.setblocking(False)
        quiet = 0
        while quiet < 20:
            try:
                client.sock.send(b"x" * 65536)
                quiet = 0
            except BlockingIOError:
                quiet += not select.select([], [client.sock], [], 0.02)[1]
        client.abort()
        wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)

    def test_a_client_that_disconnects_during_the_handshake(self):
        for abort in (False, True):
            with self.subTest(abort_on_hang_up=abort):
                go = threading.Event()

                def slow(sock, request, reader):
                    go.wait(PATIENCE)
                    return sent_back(sock, request, reader)

                self.upstream.script["/slow"] = slow
                proxy = self.start_with(f"[clients]\nabort_on_hang_up = {str(abort).lower()}\n" + SHOP + limit("seats", "1 seats") +
                                        route(limits='["seats"]'))
                asked = self.upstream.targets().count("/slow")
                client = Client(proxy.port)
                client.send(f"GET /slow HTTP/1.1\r\nHost: test\r\n{ASK}\r\nearly")
                wait_until(lambda: self.upstream.targets().count("/slow") > asked)
                client.abort()
                wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0 or proxy.numbers()["seats"]["in use"] == (0 if abort else 1))
                if not abort:
                    self.assertEqual(proxy.numbers()["seats"]["in use"], 1)  # the upstream still works
                go.set()
                wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)
                wait_until(lambda: proxy.numbers()["proxy"]["disconnected"] == 1)

    def test_an_upstream_that_times_out(self):
        self.upstream.script["/never"] = lambda sock, *_: sock.recv(1) and False
        proxy = self.start_with('[timeouts]\nupstream = "300ms"\n' + SHOP + limit("seats", "1 seats") + route(limits='["seats"]'))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/never", fields=ASK).status, 504)
        wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)

    def test_the_log_has_a_line_after_the_tunnel(self):
        proxy = self.start_with('access_log = "-"\n' + SHOP + route())
        client = self.over(proxy)
        client.send(b"hello")
        self.assertEqual(client.reader.exactly(5), b"hello")
        client.close()
        self.assertIn('"GET /echo HTTP/1.1" 101 5 ', proxy.process.stdout.readline())
        self.assertEqual(proxy.numbers()["proxy"]["answered"], 1)

    # A tunnel that was silent for a second is closed, and not reset.
    def test_the_end_of_the_proxy(self):
        proxy = self.start_with('drain = "1400ms"\n' + SHOP + limit("seats", "3 seats") + route(limits='["seats"]'))
        client, upstream = self.both_ends(proxy)
        begun = time.monotonic()
        proxy.process.send_signal(signal.SIGTERM)
        self.assertTrue(self.ended(client.sock, reset=OVER_TLS))
        self.assertGreater(time.monotonic() - begun, 1.3)
        self.assertTrue(self.ended(upstream))
        self.assertEqual(proxy.process.wait(PATIENCE), 0)

    def test_the_end_of_the_proxy_after_the_end_of_the_tunnel(self):
        proxy = self.start_with(f'drain = "60s"\n[[listen]]\naddress = "127.0.0.1:{self.unused_port()}"\n' + SHOP + route())
        client, upstream = self.both_ends(proxy)
        proxy.process.send_signal(signal.SIGTERM)
        wait_until(lambda: rejects(proxy.port), "the port to be closed")
        client.send(b"still")
        self.assertEqual(upstream.recv(5), b"still")
        client.close()
        upstream.close()
        self.assertEqual(proxy.process.wait(PATIENCE), 0)


class Reloads(TunnelTest):
    def reload(self, proxy, config):
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())

    def test_a_tunnel_survives_a_reload_and_its_seats_count(self):
        config = lambda n, upgrade='to = "echo"': SHOP + limit("seats", f"{n} seats") + route(upgrade, '["seats"]')
        proxy = self.start_with('drain = "200ms"\n' + config(3))
        tunnels = [self.both_ends(proxy) for _ in range(2)]
        self.reload(proxy, 'drain = "200ms"\n' + config(1, None))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/", fields=ASK).status, 503)
            time.sleep(0.5)  # longer than the drain
            for one, upstream in tunnels:
                one.send(b"hello")
                self.assertEqual(upstream.recv(5), b"hello")
            tunnels[0][0].abort()
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 1)
            self.assertEqual(client.ask("/").status, 503)
            tunnels[1][0].abort()
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)
            self.assertEqual(client.ask("/").status, 200)

    def test_a_tunnel_to_a_removed_server_ends_after_the_drain(self):
        other = Upstream()
        self.addCleanup(other.close)
        other.script["/hold"] = self.hold
        proxy = self.start_with('drain = "1400ms"\n' + SHOP + route())
        client, upstream = self.both_ends(proxy)
        begun = time.monotonic()
        self.reload(proxy, 'drain = "1400ms"\n' + SHOP.replace("UPSTREAM", f"127.0.0.1:{other.port}") + route())
        stays = self.both_ends(proxy)
        self.assertTrue(self.ended(client.sock, reset=OVER_TLS))
        self.assertGreater(time.monotonic() - begun, 1.3)
        self.assertTrue(self.ended(upstream))
        stays[0].send(b"hello")
        self.assertEqual(stays[1].recv(5), b"hello")


if __name__ == "__main__":
    main(at_once=6)
