#!/usr/bin/env python3
"""The admin server: its address and permitted clients, health, and the statistics as JSON and for Prometheus, also while the
proxy drains or reloads, or while clients do not read."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from admin_support import Watcher, ask, limit_of, port_of, put, request, stats
from support import PATIENCE, PROXY, Client, Proxy, ProxyTest, Reader, full_backlog, in_parallel, main, wait_until

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
ADMIN = '[admin]\naddress = "127.0.0.1:0"\n'
TEXT = "Content-Type: text/plain\r\n"


def shop(*limits, admin=ADMIN):
    return admin + '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n' + "".join(limits)


def limit(name, rule, more="", queue="max_waiting 0 patience 0s"):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "{queue}"\n{more}'


class Admin(ProxyTest):
    def setUp(self):
        super().setUp()
        self.over = threading.Event()
        self.addCleanup(self.over.set)

        def hang(sock, request, reader):
            self.over.wait(30)
            sock.sendall(EMPTY)
            return True

        self.upstream.script["/hang"] = hang

    def statuses(self, proxy, n, target="/"):
        with Client(proxy.port) as client:
            return [client.ask(target).status for _ in range(n)]

    # ---- Address

    def test_the_default_port_may_be_in_use(self):
        """A proxy takes port 9090 or a free one; both proxies print their address."""
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ours = True
            try:
                taken.bind(("127.0.0.1", 9090))
                taken.listen()
            except OSError:
                ours = False  # another program uses it, and may free it during the test
            proxies = [self.start(), self.start()]
            ports = [port_of(p) for p in proxies]
            self.assertNotEqual(*ports)
            self.assertFalse(ours and 9090 in ports)
            for proxy in proxies:
                self.assertEqual(request(proxy, "/healthz").status, 200)

    def test_a_configured_port_must_be_free(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for how in ({"config": self.filled(shop(admin=f'[admin]\naddress = "127.0.0.1:{port}"\n'))},):
                with self.assertRaisesRegex(AssertionError, f"admin: cannot listen on 127.0.0.1:{port}: address already in use"):
                    Proxy(**how)
            with self.assertRaisesRegex(AssertionError, f"admin: cannot listen on 127.0.0.1:{port}: address already in use"):
                Proxy("--upstream", f"127.0.0.1:{self.upstream.port}", "--admin", f"127.0.0.1:{port}")

    def test_it_can_be_disabled(self):
        self.assertNotIn("status page", self.start("--admin", "none").greeting)
        proxy = self.start_with(shop(limit("rate", "1/90s"), admin='[admin]\naddress = "none"\n'))
        self.assertNotIn("status page", proxy.greeting)
        self.assertEqual(self.statuses(proxy, 3), [200, 429, 429])

    def test_options_are_printed_as_a_file(self):
        for option, text in (("127.0.0.1:9091", '[admin]\naddress = "127.0.0.1:9091"\n'), ("none", '[admin]\naddress = "none"\n')):
            printed = subprocess.run([PROXY, "--upstream", "127.0.0.1:1", "--admin", option, "--print-config"],
                                     capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
            self.assertIn(text, printed)

    def test_it_can_listen_on_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "admin")
            proxy = self.start_with(shop(admin=f'[admin]\naddress = "unix:{path}"\n'))
            self.assertIn(f"; status page unix:{path}\n", proxy.greeting)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(PATIENCE)
                sock.connect(path)
                sock.sendall(b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertTrue(Reader(sock).rest().startswith(b"HTTP/1.1 200 OK\r\n"))

    def test_a_public_address_needs_allow(self):
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:9090", "example.org:9090"):
            with self.assertRaisesRegex(AssertionError, "list the permitted networks in `allow`"):
                Proxy(config=self.filled(shop(admin=f'[admin]\naddress = "{address}"\n')))
        with self.assertRaisesRegex(AssertionError, "--admin is `0.0.0.0:0`"):
            Proxy("--upstream", "127.0.0.1:1", "--admin", "0.0.0.0:0")

    def test_networks_that_are_not_allowed_are_rejected(self):
        proxy = self.start_with(shop(admin='[admin]\naddress = "0.0.0.0:0"\nallow = "203.0.113.0/24"\n'))
        port = int(re.search(r"status page http://0\.0\.0\.0:(\d+)\n", proxy.greeting)[1])
        self.assertEqual(request(proxy, "/healthz", host="x", port=port).status, 200)  # this machine itself
        mine = self.own_address()
        if mine is None:
            self.skipTest("this machine has no address but 127.0.0.1")
        for target in ("/", "/stats.json", "/metrics", "/healthz", "/readyz", "/events"):
            with socket.create_connection((mine, port), PATIENCE) as sock:
                sock.sendall(f"GET {target} HTTP/1.1\r\nHost: {mine}\r\n\r\n".encode())
                self.assertTrue(Reader(sock).rest().startswith(b"HTTP/1.1 403 "), target)
        with socket.create_connection((mine, port), PATIENCE) as sock:  # rejected before it sends a request
            self.assertTrue(Reader(sock).rest().startswith(b"HTTP/1.1 403 "))
        good = f'[admin]\naddress = "0.0.0.0:0"\nallow = "{mine}"\n'
        proxy.write(self.filled(shop(admin=good)))  # applies without a new listener
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())
        with socket.create_connection((mine, port), PATIENCE) as sock:
            sock.sendall(f"GET / HTTP/1.1\r\nHost: {mine}\r\n\r\n".encode())
            self.assertTrue(Reader(sock).rest().startswith(b"HTTP/1.1 200 "))

    @staticmethod
    def own_address():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))  # sends nothing
                address = probe.getsockname()[0]
                return None if address.startswith("127.") else address
            except OSError:
                return None

    # ---- Paths

    def test_other_paths_and_methods_are_rejected(self):
        proxy = self.start()
        for target, method, status in (
                ("/nothing", "GET", 404), ("/healthz", "POST", 405), ("/limits/x", "GET", 405), ("/stats.json", "DELETE", 405),
                ("/limits/x", "PUT", 403), ("/events", "HEAD", 405), ("/events", "POST", 405), ("/healthz?x=y", "GET", 200), ("/", "HEAD", 200)):
            with self.subTest(target=target, method=method):
                self.assertEqual(request(proxy, target, method).status, status)
        with ask(port_of(proxy), "GET / HTTP/1.1\r\n\r\n\r\n") as client:
            self.assertEqual(client.answer().status, 400)
        with ask(port_of(proxy), "PUT /limits/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n") as client:
            self.assertEqual(client.answer().status, 413)

    def test_a_host_name_that_another_site_may_own_is_rejected(self):
        proxy = self.start()
        port = port_of(proxy)
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example"):
            for target in ("/", "/stats.json", "/events"):
                self.assertEqual(request(proxy, target, host=host).status, 403, host)
        for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1", f"[::1]:{port}"):
            self.assertEqual(request(proxy, "/stats.json", host=host).status, 200, host)
        for target in ("/healthz", "/metrics"):  # Prometheus may use a host name
            self.assertEqual(request(proxy, target, host="weir-1.internal").status, 200)

    def test_it_is_ready_until_it_drains(self):
        proxy = self.start("--drain", "20s")
        wait_until(lambda: request(proxy, "/readyz").status == 200, "the proxy to accept clients")
        with Client(proxy.port) as client:
            client.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            with Watcher(port_of(proxy)) as watcher:
                proxy.process.send_signal(signal.SIGTERM)
                wait_until(lambda: request(proxy, "/readyz").status == 503, "it to drain")
                self.assertEqual(request(proxy, "/readyz").body, b"draining\n")
                self.assertEqual(request(proxy, "/healthz").status, 200)
                told = stats(proxy)
                self.assertEqual((told["ready"], told["draining"], told["connections"]["open"]), (False, True, 1))
                self.assertIn("shutting down", told["bottleneck"])
                while not watcher.event()[1].get("stats", {}).get("draining"):
                    pass
                self.over.set()
                self.assertEqual(client.answer().status, 200)
                watcher.client.ended()  # the proxy ends the event stream when it exits
        proxy.process.wait(PATIENCE)

    def test_stats_count_all_decisions(self):
        proxy = self.start_with(shop(
            limit("all", "4/90s", queue="max_waiting 1 patience 0s"),
            limit("key", "2/90s", 'key = "header X"\n'),
            limit("dry_run", "1/90s", "dry_run = true\n")))
        with Client(proxy.port) as client:
            got = [client.ask("/", fields=f"X: {x}\r\n").status for x in "aaabbbcc"]
        self.assertEqual(got, [200, 200, 429, 200, 200, 429, 429, 429])
        told = stats(proxy)
        self.assertEqual(told["requests"], {"answered": 4, "answered_by_route": 0, "rejected": 4, "disconnected": 0,
                                            "failed": 0, "malformed": 0})
        limits = {one["name"]: one for one in told["limits"]}
        self.assertEqual([limits[n]["granted"] for n in ("all", "key", "dry_run")], [4, 4, 1])
        self.assertEqual((limits["all"]["rule"], limits["all"]["key"], limits["key"]["key"]),
                         ("4/90s", "total", "header X or client"))
        # If both limits would reject a request, exactly one of them counts the rejection.
        self.assertEqual(limits["all"]["rejected_total"] + limits["key"]["rejected_total"], 4)
        self.assertEqual(limits["all"]["rejected"]["no_permit"] + limits["key"]["rejected"]["no_permit"], 4)
        self.assertEqual((limits["dry_run"]["rejected"]["no_permit"], limits["dry_run"]["dry_run"]), (3, True))
        self.assertEqual(limits["key"]["keys"], 3)
        server = told["upstreams"][0]["servers"][0]
        self.assertEqual((server["name"], server["responses"], server["down"], server["connect_failures"]),
                         (f"127.0.0.1:{self.upstream.port}", 4, False, 0))

        def most():
            return sum(c["rejected"] for name in ("all", "key") for c in limit_of(proxy, name)["top_rejected"]
                       if c["client"] == "127.0.0.1")
        wait_until(lambda: most() == 4, "the client to be named")

    def test_waits_and_reasons(self):
        proxy = self.start("--seats", 1, "--queue", 1, "--patience", "20s")
        with Client(proxy.port) as holder, Client(proxy.port) as waiter, Client(proxy.port) as late:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            waiter.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: limit_of(proxy, "seats")["waiting"] == 1)
            self.assertEqual(late.ask("/").status, 503)
            seats = limit_of(proxy, "seats")
            self.assertEqual((seats["in_use"], seats["waiting"], seats["capacity"], seats["rejected"]["queue_full"]), (1, 1, 1, 1))
            self.assertEqual(seats["rejected_total"], 1)
            wait_until(lambda: "its queue is full" in stats(proxy)["bottleneck"] or
                       "1 waiting" in stats(proxy)["bottleneck"], "the bottleneck")
            wait_until(lambda: stats(proxy)["bottleneck"].startswith("`seats` delays requests: 1 waiting"))
            self.over.set()
            self.assertEqual((holder.answer().status, waiter.answer().status), (200, 200))
        seats = limit_of(proxy, "seats")
        self.assertEqual((seats["granted"], seats["granted_immediately"], seats["waited"], seats["waits"]["count"]), (2, 1, 1, 1))
        self.assertGreater(seats["waits"]["p50"], 0)
        self.assertGreaterEqual(seats["waits"]["p50"] * 1.0001, seats["waited_max"])
        self.assertEqual(seats["recent_waits"]["count"], 1)
        wait_until(lambda: stats(proxy)["bottleneck"] == "No limit is delaying requests.")

    def test_a_client_that_disconnects_was_not_rejected(self):
        proxy = self.start("--seats", 1, "--patience", "20s")
        with Client(proxy.port) as holder, Client(proxy.port) as waiter:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            waiter.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: limit_of(proxy, "seats")["waiting"] == 1)
            waiter.abort()
            wait_until(lambda: limit_of(proxy, "seats")["waiting"] == 0)
            seats = limit_of(proxy, "seats")
            self.assertEqual((seats["rejected"]["disconnected"], seats["rejected_total"], seats["top_rejected"]), (1, 0, []))
            self.over.set()
            self.assertEqual(holder.answer().status, 200)

    def test_a_server_that_is_down(self):
        port = self.unused_port()
        proxy = self.start_with(ADMIN + '[[upstream]]\nname = "shop"\n'
                                f'servers = ["UPSTREAM", "127.0.0.1:{port}"]\n'
                                'health = { every = "20ms", timeout = "30s", fall = 1 }\n')
        wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][1]["down"])
        self.assertEqual([s["down"] for s in stats(proxy)["upstreams"][0]["servers"]], [False, True])
        wait_until(lambda: stats(proxy)["bottleneck"] ==
                   f"No limit is delaying requests. Server 127.0.0.1:{port} of `shop` is down.")
        self.assertIn(f'weir_upstream_server_up{{upstream="shop",server="127.0.0.1:{port}"}} 0\n',
                      request(proxy, "/metrics").body.decode())

    def test_a_check_has_one_time_limit_for_connect_and_response(self):
        # The first attempt to connect meets a full backlog; the second succeeds a second later. The response takes another
        # second.
        with contextlib.ExitStack() as accepted, full_backlog() as (slow, others):
            proxy = self.start_with(ADMIN + '[[upstream]]\nname = "shop"\n'
                                    f'servers = "127.0.0.1:{slow.getsockname()[1]}"\n'
                                    'health = { path = "/healthz", every = "1h", timeout = "1500ms", fall = 1 }\n')
            time.sleep(0.5)
            others.close()
            came = accepted.enter_context(slow.accept()[0])
            while not came.recv(1):
                came = accepted.enter_context(slow.accept()[0])
            time.sleep(1)
            with contextlib.suppress(OSError):
                came.sendall(EMPTY)
            wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["down"])

    # ---- Metrics

    def test_metrics_agree_with_stats(self):
        proxy = self.start_with(shop(limit("all \\\\ \\\"1\\\"", "2/90s"), limit("key", "1/90s", 'key = "client"\n')))
        self.statuses(proxy, 5)
        answer = request(proxy, "/metrics")
        self.assertEqual(answer.get("content-type"), "text/plain; version=0.0.4; charset=utf-8")
        text = answer.body.decode()
        self.assertNotIn("127.0.0.1\"", text.replace(f"127.0.0.1:{self.upstream.port}", ""))  # no client
        sys.path.append("/usr/lib/python3/dist-packages")  # Debian's packages; this Python may be another one
        try:
            from prometheus_client.parser import text_string_to_metric_families
        except ImportError:
            self.skipTest("python3-prometheus-client is missing")
        families = {f.name: f for f in text_string_to_metric_families(text)}
        for name, family in families.items():
            self.assertRegex(name, "^weir_[a-z_]+$")
            self.assertTrue(family.documentation.endswith("."), name)
            if family.type == "counter":
                self.assertTrue(all(s.name.endswith("_total") for s in family.samples), name)
            if family.type == "histogram":
                self.assertTrue(name.endswith("_seconds"), name)
            labels = [tuple(sorted(s.labels.items())) + (s.name,) for s in family.samples]
            self.assertEqual(len(labels), len(set(labels)), "two samples of the same name and labels")
        told = stats(proxy)
        for one in told["limits"]:
            decisions = {(s.labels["decision"], s.labels["reason"]): s.value for s in families["weir_limit_decisions"].samples
                         if s.labels["limit"] == one["name"]}
            self.assertEqual(decisions[("granted", "")], one["granted_immediately"])
            self.assertEqual(decisions[("delayed", "")], one["waited"])
            rejected = {why: n for (what, why), n in decisions.items() if what == "rejected"}
            rejected["disconnected"] = decisions["cancelled", ""]
            self.assertEqual(rejected, one["rejected"])
            buckets = [(float(s.labels["le"]), s.value) for s in families["weir_limit_wait_seconds"].samples
                       if s.labels["limit"] == one["name"] and s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], (float("inf"), one["granted"]))
            self.assertEqual([n for _, n in buckets], sorted(n for _, n in buckets))
        requests = {s.labels["result"]: s.value for s in families["weir_requests"].samples}
        self.assertEqual(requests, told["requests"])
        count = [s.value for s in families["weir_upstream_response_seconds"].samples if s.name.endswith("_count")]
        self.assertEqual(count, [told["requests"]["answered"]])

    # ---- Event streams

    def test_names_are_not_altered(self):
        name = 'Gäste <b>"☕\\`'
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        proxy = self.start_with(shop(limit(quoted, "5/90s"), admin=ADMIN + "write = true\n"))
        self.assertEqual([one["name"] for one in stats(proxy)["limits"]], [name])
        self.assertIn(f'weir_limit_in_use{{limit="{quoted}"}} 0\n', request(proxy, "/metrics").body.decode())
        with Watcher(port_of(proxy)) as watcher:
            watcher.event()
            told = watcher.event()[1]["stats"]["limits"][0]["name"]
        self.assertEqual(put(proxy, told, "6/90s"), (200, "6/90s"))

    def test_events_agree_with_stats(self):
        proxy = self.start("--rate", "2/90s", "--patience", "0s")
        with Watcher(port_of(proxy)) as watcher:
            self.assertEqual((watcher.status, watcher.type), (200, "text/event-stream"))
            self.assertEqual(watcher.event()[0], "history")
            self.assertEqual(self.statuses(proxy, 5), [200, 200, 429, 429, 429])
            points = {}
            while sum(p[0] + sum(p[4:]) for p in points.values()) < 5:
                name, data = watcher.event()
                self.assertEqual(name, "state")
                of = data["stats"]["limits"][0]
                for i, p in enumerate(reversed(data["last"]["limits"][str(of["id"])])):
                    points[data["last"]["second"] - i] = p
            self.assertEqual(sum(p[0] for p in points.values()), 2)
            self.assertEqual((of["granted"], of["rejected_total"]), (2, 3))
        with Watcher(port_of(proxy)) as again:
            name, data = again.event()
            past = data["limits"][str(of["id"])]
            self.assertEqual((name, sum(p[0] for p in past), sum(p[4] for p in past)), ("history", 2, 3))

    def test_a_hundred_clients_watch_and_some_never_read(self):
        proxy = self.start("--seats", 3)
        watchers = [Watcher(port_of(proxy)) for _ in range(100)]
        try:
            self.assertEqual({w.status for w in watchers}, {200})
            in_parallel(10, lambda i: [w.event() for w in watchers[10 * i:10 * i + 9] for _ in range(4)])
            self.assertEqual(self.statuses(proxy, 20), [200] * 20)
            self.assertEqual(request(proxy, "/stats.json").status, 200)
        finally:
            for w in watchers:
                w.client.abort()
        self.assertEqual(request(proxy, "/healthz").status, 200)

    def test_too_many_watchers_do_not_block_other_requests(self):
        proxy = self.start()
        watchers = []
        try:
            while len(watchers) < 400:
                watchers.append(Watcher(port_of(proxy)))
                if watchers[-1].status == 503:
                    break
            self.assertEqual(watchers[-1].status, 503)
            self.assertGreater(len(watchers), 20)
            self.assertEqual(request(proxy, "/metrics").status, 200)
        finally:
            for w in watchers:
                w.client.close()

    def test_health_and_metrics_answer_although_others_take_their_places(self):
        proxy = self.start()
        port = port_of(proxy)
        with contextlib.ExitStack() as others:
            for _ in range(128):
                others.callback(Watcher(port).client.close)

            def probe():
                for path in ("/healthz", "/readyz", "/metrics"):
                    begun = time.monotonic()
                    self.assertEqual(request(proxy, path).status, 200)
                    self.assertLess(time.monotonic() - begun, 4)

            # Clients that send nothing.
            for _ in range(300):
                others.callback(Client(port).close)
            probe()
            # Clients that want to watch, and come again as soon as they are rejected.
            over = threading.Event()

            def knock(_):
                while not over.is_set():
                    with contextlib.suppress(OSError, EOFError):
                        Watcher(port).client.close()

            threads = [threading.Thread(target=knock, args=(i,)) for i in range(20)]
            for t in threads:
                t.start()
            try:
                for _ in range(5):
                    probe()
            finally:
                over.set()
                for t in threads:
                    t.join()

    def test_connections_of_one_address_do_not_close_those_of_another(self):
        port = port_of(self.start())
        with Client(port, source="127.0.0.2") as probe, contextlib.ExitStack() as others:
            probe.send("GET /healthz")
            oldest, *_ = [others.enter_context(Client(port)) for _ in range(300)]
            with contextlib.suppress(ConnectionResetError):
                oldest.ended()  # the others have taken its place
            probe.send(" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(probe.answer().status, 200)

    def test_a_client_that_sends_no_request_is_closed_soon(self):
        proxy = self.start()
        with Client(port_of(proxy)) as client:
            client.send("GET /healthz HTTP/1.1\r\n")
            begun = time.monotonic()
            self.assertEqual(client.ended(), b"")
            self.assertLess(time.monotonic() - begun, 8)

    def test_a_limit_that_is_full_of_keys_is_reported(self):
        for more, when_full, statuses, text in (("", "share", [200, 429], "share one limiter"),
                                                ('when_full = "reject"\n', "reject", [503, 503], "are rejected")):
            proxy = self.start_with(shop(limit("key", "1/90s", f'key = "header X-Key"\nmax_keys = 20\n{more}')))
            with Client(proxy.port) as client:
                found = [client.ask("/", fields=f"X-Key: {n}\r\n").status for n in range(22)]
                self.assertEqual((found[:20], found[20:]), ([200] * 20, statuses))
                self.assertEqual(client.ask("/", fields="X-Key: 3\r\n").status, 429)
            self.assertEqual(proxy.process.stderr.readline(),
                             f"weir-proxy: limit key: 20 of 20 keys are in use; requests with further keys {text}\n")
            told = limit_of(proxy, "key")
            self.assertEqual((told["keys"], told["max_keys"], told["when_full"]), (20, 20, when_full))
            metrics = request(proxy, "/metrics").body.decode()
            self.assertIn('weir_limit_keys{limit="key"} 20\n', metrics)
            self.assertIn('weir_limit_max_keys{limit="key"} 20\n', metrics)

    def test_a_limit_that_is_full_of_memory_is_reported(self):
        proxy = self.start_with(shop(limit("key", "1/90s", 'key = "header X-Key"\nmax_memory = 1000000\nwhen_full = "reject"\n')))
        with Client(proxy.port) as client:
            statuses = [client.ask("/", fields=f"X-Key: {n}\r\n").status for n in range(3000)]
            self.assertEqual(set(statuses), {200, 503})
            kept = statuses.count(200)
            self.assertEqual(statuses[:kept].count(503), 0)
            self.assertEqual(client.ask("/", fields="X-Key: 3\r\n").status, 429)
        self.assertIn("warning: limit `key`: 100000 keys can take", proxy.process.stderr.readline())
        said = proxy.process.stderr.readline()
        self.assertRegex(said, r"weir-proxy: limit key: its keys take (9[5-9]|10[0-2])\d{4} of 1000000 bytes; "
                               r"requests with further keys are rejected\n")
        metrics = request(proxy, "/metrics").body.decode()
        self.assertIn(f'weir_limit_keys{{limit="key"}} {kept}\n', metrics)
        self.assertIn('weir_limit_max_memory_bytes{limit="key"} 1000000\n', metrics)
        memory = limit_of(proxy, "key")["memory"]
        self.assertIn(f'weir_limit_memory_bytes{{limit="key"}} {memory}\n', metrics)
        self.assertGreater(memory, kept * 500)

    # ---- Reload

    def test_a_reload_removes_a_limit_from_the_stats(self):
        proxy = self.start_with(shop(limit("a", "5/90s"), limit("b", "5/90s")))
        with Watcher(port_of(proxy)) as watcher:
            names = [one["name"] for one in watcher.event() and watcher.event()[1]["stats"]["limits"]]
            self.assertEqual(names, ["a", "b"])
            proxy.write(self.filled(shop(limit("b", "6/90s"), limit("c", "5/90s"))))
            proxy.process.send_signal(signal.SIGHUP)
            self.assertIn("configuration reloaded", proxy.process.stderr.readline())
            while names != ["b", "c"]:
                name, data = watcher.event()
                names = [one["name"] for one in data["stats"]["limits"]]
            self.assertLessEqual(set(data["last"]["limits"]), {str(one["id"]) for one in data["stats"]["limits"]})
        self.assertEqual(limit_of(proxy, "b")["rule"], "6/90s")
        self.assertNotIn('limit="a"', request(proxy, "/metrics").body.decode())

    def test_a_dry_run_adds_no_rejections_to_the_history(self):
        strict = shop(limit("quota", "2/90s"))
        dry_run = shop(limit("quota", "2/90s", "dry_run = true\n"))
        proxy = self.start_with(dry_run)
        self.assertEqual(self.statuses(proxy, 5), [200] * 5)

        def next_state(fits):
            while True:
                name, data = watcher.event()
                if name == "state" and fits(data["stats"]["limits"][0]):
                    return data

        with Watcher(port_of(proxy)) as watcher:
            for config, is_dry_run in ((strict, False), (dry_run, True), (strict, False)):
                for _ in range(2):  # the first event may be older than a second
                    next_state(lambda l: l["rejected"]["no_permit"] >= 3)
                proxy.write(self.filled(config))
                proxy.process.send_signal(signal.SIGHUP)
                self.assertIn("configuration reloaded", proxy.process.stderr.readline())
                data = next_state(lambda l: l["dry_run"] == is_dry_run)
                self.assertEqual([p[4:12] for points in data["last"]["limits"].values() for p in points], [[0] * 8])
                self.assertEqual(data["stats"]["bottleneck"], "No limit is delaying requests.")
                self.statuses(proxy, 3)


if __name__ == "__main__":
    main(at_once=6)
