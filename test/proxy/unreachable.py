#!/usr/bin/env python3
"""The ports on which tests expect no program: no program that runs beside a test may get one from the kernel."""

import errno
import socket

from support import Client, ProxyTest, Upstream, main


class Unreachable(ProxyTest):
    def check(self, port):
        """Another program gets a port by `bind` with port 0 exactly if it could bind to it without SO_REUSEADDR."""
        with socket.socket() as other:
            self.assertEqual(other.connect_ex(("127.0.0.1", port)), errno.ECONNREFUSED)
        with socket.socket() as other, self.assertRaises(OSError) as rejected:
            other.bind(("127.0.0.1", port))
        self.assertEqual(rejected.exception.errno, errno.EADDRINUSE)

    def test_a_closed_upstream_keeps_its_port_and_can_be_reopened(self):
        self.upstream.close()
        self.check(self.upstream.port)
        again = Upstream(self.upstream.port)
        self.addCleanup(again.close)
        with Client(self.upstream.port) as client:
            self.assertEqual(client.ask("/").status, 200)
        self.assertEqual((again.targets(), self.upstream.targets()), (["/"], []))
        again.close()
        self.check(self.upstream.port)

    def test_an_unused_port_rejects_connections(self):
        self.check(self.unused_port())


if __name__ == "__main__":
    main()
