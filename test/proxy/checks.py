#!/usr/bin/env python3
"""Checks: another proxy describes a request of its client, and asks whether it may forward it."""

import os
import socket
import tempfile
import threading
import time

from support import Client, ProxyTest, Reader, main, wait_until

CHECKS = """
access_log = "LOG"
ratelimit_headers = "ietf"
[clients]
trusted = "127.0.0.1"
[[listen]]
address = "127.0.0.1:0"
check = { refuse = 403 }
[[limit]]
name = "each"
rule = "2/1h"
key = "client"
queue = "patience 0s"
[[limit]]
name = "slow"
rule = "1/1h"
key = ["header X-Api-Key or client", "path 2"]
queue = "patience 0s"
[[limit]]
name = "words"
rule = "10/1h burst 10"
cost = "header X-Cost"
queue = "patience 0s"
[[route]]
host = "words.example"
check = true
limits = ["words"]
[[route]]
path = "/slow"
method = "POST"
check = true
limits = ["slow"]
[[route]]
path = "/open"
check = true
[[route]]
path = "/limited"
check = true
limits = ["each"]
"""


def fields(target, method="GET", client="192.0.2.1", more=""):
    return (f"X-Forwarded-Method: {method}\r\nX-Forwarded-Uri: {target}\r\nX-Forwarded-Host: shop.example\r\n"
            f"X-Forwarded-For: {client}\r\n{more}")


class Checks(ProxyTest):
    def start_with_log(self, config):
        folder = tempfile.TemporaryDirectory(prefix="weir-checks-")
        self.addCleanup(folder.cleanup)
        self.log = os.path.join(folder.name, "log")
        return self.start_with(config.replace("LOG", self.log))

    def lines(self, n):
        def read():
            with open(self.log) as file:
                return file.read().splitlines()

        wait_until(lambda: len(read()) >= n, f"{n} lines in the log")
        return read()

    def test_the_described_request_is_limited(self):
        proxy = self.start_with_log(CHECKS)
        with Client(proxy.port) as asker:
            for left in (1, 0):
                granted = asker.ask("/check", fields=fields("/limited/a?b=c"))
                self.assertEqual((granted.status, granted.body), (204, b""))
                self.assertIn(f";r={left}", granted.get("ratelimit"))
                self.assertIsNone(granted.get("content-length"))
            refused = asker.ask("/check", fields=fields("/limited/a"))
            self.assertEqual(refused.status, 403)
            self.assertGreater(int(refused.get("retry-after")), 3500)
            self.assertIn(";r=0", refused.get("ratelimit"))
            other = asker.ask("/check", fields=fields("/limited/a", client="192.0.2.2"))
            self.assertEqual(other.status, 204)
            self.assertEqual(asker.ask("/check", fields=fields("/open")).status, 204)
            self.assertEqual(asker.ask("/check", fields=fields("/elsewhere")).status, 404)
            # The path of the check itself selects nothing.
            self.assertEqual(asker.ask("/limited", fields=fields("/open")).status, 204)
        lines = self.lines(7)
        self.assertIn(' 192.0.2.1 "GET /limited/a?b=c HTTP/1.1" 204', lines[0])
        self.assertIn('"GET /limited/a HTTP/1.1" 403', lines[2])
        self.assertIn("each", lines[2])
        self.assertEqual(self.upstream.requests, [])

    def test_route_key_and_cost_are_those_of_the_described_request(self):
        proxy = self.start_with_log(CHECKS)
        with Client(proxy.port) as asker:
            def status(target, **how):
                return asker.ask("/check", fields=fields(target, **how)).status

            key = "X-Api-Key: a\r\n"
            self.assertEqual(status("/slow/x", method="POST", more=key), 204)
            self.assertEqual(status("/slow/x", method="POST", more=key), 403)
            self.assertEqual(status("/slow/y", method="POST", more=key), 204)
            self.assertEqual(status("/slow/x", method="GET", more=key), 404)
            self.assertEqual(status("/slow/%78/", method="POST", more=key), 403)
            self.assertEqual(status("/slow/x", method="POST", more="X-Api-Key: b\r\n"), 204)

            def cost(n):
                words = fields("/", more=f"X-Cost: {n}\r\n").replace("shop.example", "words.example")
                return asker.ask("/check", fields=words).status

            self.assertEqual(cost(8), 204)
            self.assertEqual(cost(8), 403)
            self.assertEqual(cost(2), 204)

    def test_what_is_not_described_or_invalid_is_rejected(self):
        proxy = self.start_with_log(CHECKS)
        good = fields("/open")
        cases = {
            "X-Forwarded-Uri: /open\r\n": 400,  # no method
            "X-Forwarded-Method: GET\r\n": 400,  # no target
            good + "X-Forwarded-Uri: /open\r\n": 400,
            good + "x-forwarded-method: GET\r\n": 400,
            good + "X-Forwarded-Host: b\r\n": 400,
            fields("/limited/../open"): 204,
            fields("/open/%2e%2e/limited"): 204,
            fields("open"): 400,
            fields("/a b"): 400,
            fields("/open", method="G T"): 400,
            fields("/open", method="CONNECT"): 501,
            fields("/" + "a" * 9000): 414,
            fields("/open").replace("shop.example", "shop.example, b"): 400,
            fields("/open").replace("shop.example", "a b"): 400,
            # The fields of another program have no meaning here.
            "X-Original-Method: GET\r\nX-Original-URI: /open\r\n": 400,
        }
        for case, status in cases.items():
            with self.subTest(case=case[:80]), Client(proxy.port) as asker:
                self.assertEqual(asker.ask("/check", fields=case).status, status)

    def test_only_a_trusted_peer_may_ask(self):
        proxy = self.start_with_log(CHECKS.replace('"127.0.0.1"\n[[listen]]', '"127.0.0.2"\n[[listen]]'))
        with Client(proxy.port) as asker:
            refused = asker.ask("/check", fields=fields("/open"))
            self.assertEqual(refused.status, 403)
            self.assertIn(b"trusted", refused.body)
        with Client(proxy.port, source="127.0.0.2") as asker:
            self.assertEqual(asker.ask("/check", fields=fields("/open")).status, 204)
        # Two threads may write the lines in either order.
        self.assertEqual(sum('"GET /check HTTP/1.1" 403' in line for line in self.lines(2)), 1)

    def test_other_descriptions(self):
        original = CHECKS.replace("{ refuse = 403 }", '{ described_by = "x-original" }')
        proxy = self.start_with_log(original)
        client = "X-Forwarded-For: 192.0.2.1\r\nX-Original-Method: GET\r\n"
        with Client(proxy.port) as asker:
            for url in ("X-Original-URI: /limited", "X-Original-URL: https://shop.example/limited?a"):
                self.assertEqual(asker.ask("/", fields=f"{client}{url}\r\n").status, 204)
            # The default of `refuse`.
            self.assertEqual(asker.ask("/", fields=f"{client}X-Original-URL: http://a/limited\r\n").status, 429)
            words = f"{client}X-Original-URL: HTTPS://words.example\r\nX-Cost: 10\r\n"
            self.assertEqual(asker.ask("/", fields=words).status, 204)
            self.assertEqual(asker.ask("/", fields=words).status, 429)
            both = f"{client}X-Original-URL: http://a/open\r\nX-Original-URI: /open\r\n"
        with Client(proxy.port) as asker:
            self.assertEqual(asker.ask("/", fields=both).status, 400)
        itself = CHECKS.replace("{ refuse = 403 }", '{ described_by = "itself" }')
        proxy = self.start_with_log(itself)
        with Client(proxy.port) as asker:
            self.assertEqual(asker.ask("/open", fields=fields("/limited")).status, 204)
            self.assertEqual(asker.ask("/slow/a", method="POST", fields="X-Api-Key: a\r\n").status, 204)
            self.assertEqual(asker.ask("/slow/a", method="POST", fields="X-Api-Key: a\r\n").status, 429)

    def test_a_check_waits_in_line_and_leaves_it(self):
        proxy = self.start_with_log(CHECKS.replace('"2/1h"\nkey = "client"\nqueue = "patience 0s"',
                                                   '"1/1s"\nqueue = "patience 60s"'))
        ask = b"GET / HTTP/1.1\r\nHost: a\r\n" + fields("/limited").encode() + b"\r\n"
        with Client(proxy.port) as first, Client(proxy.port) as second, Client(proxy.port) as third:
            self.assertEqual(first.ask("/", fields=fields("/limited")).status, 204)
            second.send(ask)
            wait_until(lambda: proxy.numbers()["each"]["waiting"] == 1, "the second check")
            second.close()
            wait_until(lambda: proxy.numbers()["each"]["waiting"] == 0, "its end")
            self.assertEqual(third.ask("/", fields=fields("/limited")).status, 204)
            self.assertEqual(proxy.numbers()["each"]["granted"], 2)

    def test_methods_and_bodies_of_the_check(self):
        proxy = self.start_with_log(CHECKS)
        with Client(proxy.port) as asker:
            for method in ("HEAD", "OPTIONS", "POST", "REPORT"):
                self.assertEqual(asker.ask("/", method=method, fields=fields("/open")).status, 204)
            # The method of the check, not the described one, decides whether a body follows.
            refused = asker.ask("/", fields=fields("/slow/a", method="POST", more="X-Api-Key: a\r\n"))
            self.assertEqual(refused.status, 204)
            refused = asker.ask("/", method="HEAD", fields=fields("/slow/a", method="POST", more="X-Api-Key: a\r\n"))
            self.assertEqual((refused.status, refused.body), (403, b""))
            body = b"x" * 1000
            for _ in range(2):
                length = f"Content-Length: {len(body)}\r\n"
                self.assertEqual(asker.ask("/", method="POST", fields=fields("/open", more=length), body=body).status, 204)
        # A body that is announced and never comes does not delay the response.
        with Client(proxy.port) as asker:
            began = time.monotonic()
            self.assertEqual(asker.ask("/", fields=fields("/open", more="Content-Length: 5\r\n")).status, 204)
            self.assertLess(time.monotonic() - began, 5)
        # Pipelined checks are answered in order.
        with Client(proxy.port) as asker:
            one = b"GET / HTTP/1.1\r\nHost: a\r\n"
            asker.send(b"".join(one + fields(t).encode() + b"\r\n" for t in ("/open", "/none", "/open")))
            self.assertEqual([asker.answer().status for _ in range(3)], [204, 404, 204])

    def test_checks_beside_requests(self):
        # One thread, so that the requests and the checks have the same memory.
        mixed = "threads = 1\n" + CHECKS.replace("[[limit]]\nname = \"each\"", """[[listen]]
address = "unix:SOCKET"
[[upstream]]
name = "shop"
servers = "UPSTREAM"
[[route]]
path = "/shop"
upstream = "shop"
limits = ["each"]
[[limit]]
name = "each\"""", 1)
        folder = tempfile.TemporaryDirectory(prefix="weir-checks-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "s")
        proxy = self.start_with_log(mixed.replace("SOCKET", path))

        def plain():
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(path)
                sock.sendall(b"GET /shop HTTP/1.1\r\nHost: a\r\n" + fields("/open").encode() + b"\r\n")
                return Reader(sock).head()[0].split(" ")[1]

        self.assertEqual(plain(), "200")
        with Client(proxy.port) as asker:
            self.assertEqual(asker.ask("/", fields=fields("/shop")).status, 404)
            # The request and the check share the limit of the client.
            self.assertEqual(asker.ask("/", fields=fields("/limited")).status, 204)
            self.assertEqual(asker.ask("/", fields=fields("/limited")).status, 403)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0, "the end of the connection")
        self.assertEqual(plain(), "429")
        self.assertEqual(self.upstream.targets(), ["/shop"])

    def test_the_rate_is_exact_over_two_askers(self):
        proxy = self.start_with_log("threads = 2\n" + CHECKS.replace('"2/1h"\nkey = "client"', '"300/1h"'))
        granted, lock = [0], threading.Lock()

        def ask():
            mine = 0
            with Client(proxy.port) as asker:
                for _ in range(400):
                    mine += asker.ask("/", fields=fields("/limited")).status == 204
            with lock:
                granted[0] += mine

        askers = [threading.Thread(target=ask) for _ in range(2)]
        for one in askers:
            one.start()
        for one in askers:
            one.join()
        self.assertEqual(granted[0], 300)

    def test_a_reload_changes_the_role_of_a_listener(self):
        proxy = self.start_with_log(CHECKS.replace('"127.0.0.1:0"', f'"127.0.0.1:{self.unused_port()}"'))
        with Client(proxy.port) as asker:
            self.assertEqual(asker.ask("/", fields=fields("/slow/a", method="POST")).status, 204)
            self.assertEqual(asker.ask("/", fields=fields("/slow/a", method="POST")).status, 403)
        proxy.write(proxy.config.replace("refuse = 403", "refuse = 401"))
        proxy.process.send_signal(1)

        def refused():
            with Client(proxy.port) as asker:
                return asker.ask("/", fields=fields("/slow/a", method="POST")).status == 401

        wait_until(refused, "the reload")


if __name__ == "__main__":
    main()
