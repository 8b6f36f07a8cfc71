#!/usr/bin/env python3
"""Limits of bytes over the wire: never above the rate, and not much below it on a machine of any load."""

import json
import re
import signal
import socket
import tempfile
import threading
import time

from admin_support import request, stats
from support import Client, ProxyTest, in_parallel, main, pattern, wait_until

ADMIN = '[admin]\naddress = "127.0.0.1:0"\n'
SLOW = 20  # times the time of the rate: a transfer takes less on a busy machine, too
PATIENCE = 60  # seconds for a transfer that a busy machine interrupts


def file(bandwidth, more="", limits='"bytes"', route=""):
    return (f'{ADMIN}[[upstream]]\nname = "a"\nservers = "UPSTREAM"\n[[limit]]\nname = "bytes"\nbandwidth = {bandwidth}\n{more}\n'
            f'[[route]]\nupstream = "a"\nlimits = [{limits}]\n{route}')


class Bandwidth(ProxyTest):
    def receive(self, client, n, began, rate, burst):
        """Receives a body, and checks that at each moment no more than the rate and the burst have arrived."""
        data = client.reader.data
        while len(data) < n:
            piece = client.sock.recv(65536)
            self.assertTrue(piece, "the connection ended")
            data += piece
            self.assertLessEqual(len(data), burst + rate * (time.monotonic() - began))
        self.assertEqual(data, pattern(n))
        client.reader.data = b""

    def download(self, client, target, n, rate, burst, fields=""):
        began = time.monotonic()
        client.send(f"GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
        self.assertIn(" 200 ", client.reader.head()[0])
        self.receive(client, n, began, rate, burst)
        took = time.monotonic() - began
        self.assertGreaterEqual(took, (n - burst) / rate)
        self.assertLess(took, max(SLOW * n / rate, PATIENCE))

    def test_a_download_has_the_rate_and_its_connection_continues(self):
        proxy = self.start_with(file("{ down = '1MB/s' }"))
        with Client(proxy.port) as client:
            self.download(client, "/bytes/2000000", 2_000_000, 1e6, 50_000)
            self.assertEqual(client.ask("/bytes/10000", "HEAD").status, 200)
            self.assertEqual(client.ask("/status/204").status, 204)
            self.assertEqual(client.ask("/chunked/30000").body, pattern(30_000))
            self.assertEqual(client.ask("/bytes/1000").body, pattern(1_000))
            self.assertEqual(client.ask("/until-close/60000").body, pattern(60_000))

    def test_an_upload_has_the_rate(self):
        proxy = self.start_with(file("{ up = '1MB/s' }"))
        began = time.monotonic()
        with Client(proxy.port) as client:
            body = pattern(1_500_000)
            got = client.ask("/stream-back", "POST", f"Content-Length: {len(body)}\r\n", body)
            self.assertEqual(got.body, body)
        took = time.monotonic() - began
        self.assertGreaterEqual(took, 1.45)
        self.assertLess(took, PATIENCE)

    def test_each_key_has_its_own_and_shares_it_evenly(self):
        proxy = self.start_with(file("{ down = '400kB/s' }", "key = 'header User'"))
        got = [0, 0, 0]
        all_asked = threading.Barrier(3)  # on a busy machine a request may be late
        body = pattern(3_000_000)

        def send_to_all_at_once(sock, *_):
            all_asked.wait()
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + body)
            return True

        self.upstream.script["/even"] = send_to_all_at_once
        began = time.monotonic()

        def take(i):
            with Client(proxy.port) as client:
                client.send(f"GET /even HTTP/1.1\r\nHost: test\r\nUser: {'a' if i < 2 else 'b'}\r\n\r\n")
                client.reader.head()
                got[i] = len(client.reader.data)
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    got[i] += len(client.sock.recv(65536))
                    if i == 2:
                        self.assertLessEqual(got[i], 20_000 + 4e5 * (time.monotonic() - began))

        in_parallel(3, take)
        self.assertLessEqual(got[0] + got[1], 20_000 + 4e5 * (time.monotonic() - began) + 65536)
        self.assertLess(max(got[:2]), 1.5 * min(got[:2]))
        self.assertGreater(got[2], 4e5 * 3 / SLOW)
        self.assertGreater(got[0] + got[1], 4e5 * 3 / SLOW)

    def test_a_tunnel_has_the_rate_and_its_end_comes_last(self):
        def echo(sock, _, reader):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n" + reader.data)
            while piece := sock.recv(65536):
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
            return False

        self.upstream.script["/echo"] = echo
        proxy = self.start_with(file("{ up = '500kB/s', down = '1MB/s' }", route='[route.upgrade]\nto = "echo"\n'))
        with Client(proxy.port) as client:
            began = time.monotonic()
            client.send("GET /echo HTTP/1.1\r\nHost: test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            self.assertIn(" 101 ", client.reader.head()[0])
            sender = threading.Thread(target=lambda: (client.send(pattern(1_000_000)), client.end_sending()))
            sender.start()
            self.receive(client, 1_000_000, began, 5e5, 25_000)
            sender.join()
            self.assertEqual(client.ended(), b"")

    def test_a_client_that_aborts_leaves_its_part_to_others(self):
        proxy = self.start_with(file("{ down = '200kB/s' }"))
        leaving = [Client(proxy.port) for _ in range(5)]
        for one in leaving:
            one.send("GET /bytes/5000000 HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_until(lambda: stats(proxy)["bandwidths"][0]["waiting"] == 5)
        for one in leaving:
            one.abort()
        wait_until(lambda: stats(proxy)["bandwidths"][0]["waiting"] == 0)
        with Client(proxy.port) as client:
            self.download(client, "/bytes/200000", 200_000, 2e5, 16_384)

    def test_a_server_that_closes_while_bytes_wait(self):
        def cut(sock, *_):
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + pattern(120_000))
            return False

        self.upstream.script["/cut"] = cut
        proxy = self.start_with(file("{ down = '200kB/s' }"))
        with Client(proxy.port) as client:
            client.send("GET /cut HTTP/1.1\r\nHost: test\r\n\r\n")
            client.reader.head()
            self.assertEqual(client.ended(), pattern(120_000))

    def test_a_client_that_does_not_read_stops_only_itself(self):
        proxy = self.start_with(file("{ down = '20MB/s' }"))
        with Client(proxy.port, receive_buffer=4096) as deaf, Client(proxy.port) as client:
            deaf.send("GET /bytes/50000000 HTTP/1.1\r\nHost: test\r\n\r\n")
            passed = -1

            def stands():
                nonlocal passed
                before, passed = passed, stats(proxy)["bandwidths"][0]["bytes"]
                time.sleep(0.3)
                return before == passed > 0

            wait_until(stands)
            self.download(client, "/bytes/4000000", 4_000_000, 2e7, 1e6)

    def test_a_reload_changes_running_transfers_and_frees_them(self):
        proxy = self.start_with(file("{ down = '10kB/s' }"))

        def reload(text):
            proxy.write(self.filled(text))
            proxy.process.send_signal(signal.SIGHUP)

        with Client(proxy.port) as client, Client(proxy.port) as other:
            for one in (client, other):
                one.send("GET /bytes/3000000 HTTP/1.1\r\nHost: test\r\n\r\n")
                one.reader.head()
            reload(file("{ down = '100kB/s' }"))
            wait_until(lambda: stats(proxy)["bandwidths"][0]["rate"] == "100kB/s")
            before = stats(proxy)["bandwidths"][0]["bytes"]
            wait_until(lambda: stats(proxy)["bandwidths"][0]["bytes"] > before + 50_000)
            reload(file("{ down = '1B/s' }").replace('name = "bytes"', 'name = "other"').replace('limits = ["bytes"]', "limits = []"))
            for one in (client, other):  # which would take 30 s
                self.assertEqual(one.reader.exactly(3_000_000), pattern(3_000_000))

    def test_a_drain_ends_transfers_that_wait(self):
        proxy = self.start_with("drain = '1s'\n" + file("{ down = '1kB/s', up = '1kB/s' }"))
        with Client(proxy.port) as client, Client(proxy.port) as other:
            client.send("GET /bytes/5000000 HTTP/1.1\r\nHost: test\r\n\r\n")
            client.reader.head()
            other.send(b"POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 100000\r\n\r\n" + pattern(100_000))
            wait_until(lambda: all(b["waiting"] == 1 for b in stats(proxy)["bandwidths"]))
            began = time.monotonic()
            proxy.stop()
            self.assertLess(time.monotonic() - began, 10)
            self.assertLess(len(client.ended()), 30_000)

    def test_the_log_has_the_time_for_which_bytes_waited(self):
        with tempfile.TemporaryDirectory(prefix="weir-log-") as folder:
            log = f'access_log = "{folder}/log"\naccess_log_format = "json"\n'
            other = '[[route]]\npath = "/chunked"\nupstream = "a"\n'
            proxy = self.start_with(log + file("{ down = '100kB/s burst 10kB' }").replace("[[route]]", other + "[[route]]", 1))
            with Client(proxy.port) as client:
                for target in ("/bytes/40000", "/chunked/40000"):
                    self.assertEqual(client.ask(target).body, pattern(40_000))
            proxy.stop()
            with open(f"{folder}/log") as lines:
                limited, other = map(json.loads, lines)
        self.assertGreaterEqual(limited["throttled"], 0.25)  # 30 kB wait
        self.assertGreaterEqual(limited["request_time"], limited["throttled"])
        self.assertEqual(limited["waited"], 0)
        self.assertNotIn("throttled", other)

    def test_figures(self):
        proxy = self.start_with(file("{ down = '1MB/s', up = '1MB/s' }"))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/bytes/100000").body, pattern(100_000))

        def of(name, direction):
            text = request(proxy, "/metrics").body.decode()
            return float(re.search(rf'^{name}{{limit="bytes",direction="{direction}"}} (.*)$', text, re.M)[1])

        wait_until(lambda: of("weir_bandwidth_bytes_total", "down") == 100_000)  # counted after the bytes are sent
        self.assertEqual(of("weir_bandwidth_bytes_total", "up"), 0)
        self.assertEqual(of("weir_bandwidth_waiting", "down"), 0)
        self.assertGreater(of("weir_bandwidth_wait_seconds_total", "down"), 0)


if __name__ == "__main__":
    main(at_once=4)
