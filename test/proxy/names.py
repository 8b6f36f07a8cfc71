#!/usr/bin/env python3
"""The addresses behind the names of servers change while the proxy runs. The test has its own /etc/hosts, in its own mount
namespace."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from support import Client, ProxyTest, Upstream, hangs_until, main, skip, wait_until

INSIDE = "WEIR_TEST_HAS_ITS_OWN_HOSTS"


class UpstreamAt(Upstream):
    """An upstream at another address of this machine, at the port of another upstream."""

    def __init__(self, address, port):
        self.requests, self.script, self.lock = [], {}, threading.Lock()
        self.connections = self.now = self.most = 0
        self.listener = socket.create_server((address, port), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()


class Names(ProxyTest):
    def setUp(self):
        super().setUp()
        self.other = UpstreamAt("127.0.0.2", self.upstream.port)
        self.addCleanup(self.other.close)
        self.points_to("127.0.0.1")

    def points_to(self, address):
        with open("/etc/hosts", "w") as file:
            file.write(f"{address} up.test\n")

    def config(self, resolve):
        return f'[[upstream]]\nname = "shop"\nservers = "up.test:{self.upstream.port}"\nresolve = "{resolve}"\n'

    def test_a_reload_resolves_names_again(self):
        proxy = self.start_with(self.config("0s"))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
            self.points_to("127.0.0.2")
            self.assertEqual(client.ask("/").status, 200)
            self.assertEqual((len(self.upstream.requests), len(self.other.requests)), (2, 0))
            proxy.process.send_signal(signal.SIGHUP)
            self.assertIn("reloaded", proxy.process.stderr.readline())
            # The kept connection to the old address is not used again.
            self.assertEqual([client.ask("/").status for _ in range(3)], [200] * 3)
        self.assertEqual((len(self.upstream.requests), len(self.other.requests)), (2, 3))

    def test_names_are_resolved_again_while_the_proxy_runs(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = hangs_until(over)
        proxy = self.start_with(self.config("100ms"))
        with Client(proxy.port) as client, Client(proxy.port) as waiter:
            waiter.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: self.upstream.targets() == ["/hang"])
            self.points_to("127.0.0.2")
            self.assertIn(f"server up.test:{self.upstream.port} has other addresses", proxy.process.stderr.readline())
            self.assertEqual(client.ask("/").status, 200)
            self.assertEqual(self.other.targets(), ["/"])
            # A request at the old address ends there.
            over.set()
            self.assertEqual(waiter.answer().status, 200)

    def test_a_name_that_cannot_be_resolved_keeps_its_addresses(self):
        proxy = self.start_with(self.config("100ms"))
        with open("/etc/hosts", "w"):
            pass
        self.assertIn("cannot resolve `up.test`: ", proxy.process.stderr.readline())
        proxy.process.send_signal(signal.SIGHUP)
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
        line = proxy.process.stderr.readline()
        while "reloaded" not in line:
            self.assertIn("cannot resolve `up.test:", line)
            line = proxy.process.stderr.readline()


if __name__ == "__main__":
    if INSIDE not in os.environ:
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            skip("no permission for a mount namespace")
        os.execvpe("unshare", ["unshare", "-m", sys.executable, "-B", *sys.argv], os.environ | {INSIDE: "1"})
    with tempfile.NamedTemporaryFile() as hosts:
        subprocess.run(["mount", "--bind", hosts.name, "/etc/hosts"], check=True)
        main()
