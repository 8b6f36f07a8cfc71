#!/usr/bin/env python3
"""The client of a request: the peer, or the address that a trusted peer reports; never an address that a client reports of
itself."""

import socket
import struct

from support import Client, ProxyTest, main

SHOP = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
LIMIT = '[[limit]]\nname = "client"\nrule = "1/60s"\nkey = "client"\nqueue = "max_waiting 0 patience 0s"\n'
TRUSTED = '[clients]\ntrusted = ["127.0.0.2", "10.0.0.0/8", "fd00::/8"]\n'


class Origin(ProxyTest):
    def who(self, proxy, fields, source="127.0.0.2"):
        """The status of a request. The limit grants one request per client, so 200 means that the client is new."""
        with Client(proxy.port, source=source) as client:
            return client.ask("/", fields=fields).status

    def counts_as_new(self, proxy, *requests):
        for fields, new in requests:
            self.assertEqual(self.who(proxy, fields), 200 if new else 429, fields)

    def test_the_right_most_address_that_is_not_trusted(self):
        proxy = self.start_with(TRUSTED + SHOP + LIMIT)
        self.counts_as_new(
            proxy, ("X-Forwarded-For: 192.0.2.1\r\n", True), ("X-Forwarded-For: 192.0.2.1\r\n", False),
            # The client itself may have written the addresses on the left.
            ("X-Forwarded-For: 8.8.8.8, 192.0.2.1\r\n", False), ("X-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n", True),
            ("X-Forwarded-For: 192.0.2.1, 10.1.1.1, 10.9.9.9\r\n", False),
            ("X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 192.0.2.1\r\n", False),
            ("X-Forwarded-For: ::ffff:192.0.2.1\r\n", False), ("X-Forwarded-For: 192.0.2.1:4711\r\n", False),
            ("X-Forwarded-For: 2001:db8::1\r\n", True), ("X-Forwarded-For: [2001:db8::2]:80\r\n", False),
            ("X-Forwarded-For: ,192.0.2.1 , \r\n", False),
            # If all addresses are trusted, the first one is the client.
            ("X-Forwarded-For: 10.5.5.5, 10.1.1.1\r\n", True), ("X-Forwarded-For: 10.5.5.5\r\n", False),
            # An invalid address ends the search: the client is the address that reported it.
            ("X-Forwarded-For: 192.0.2.77, unknown, 10.6.6.6\r\n", True), ("X-Forwarded-For: 10.6.6.6\r\n", False),
            ("", True), ("X-Forwarded-For: garbage\r\n", False), ("Forwarded: for=192.0.2.99\r\n", False))

    def test_a_quote_opened_by_a_client_does_not_hide_addresses(self):
        # A trusted proxy appends the address of its peer to the text from the client, in the same line.
        proxy = self.start_with(TRUSTED + SHOP + LIMIT)
        self.counts_as_new(
            proxy, ("X-Forwarded-For: 192.0.2.1\r\n", True), ('X-Forwarded-For: ", 192.0.2.1\r\n', False),
            ('X-Forwarded-For: 8.8.8.8:", 192.0.2.1\r\n', False), ('X-Forwarded-For: [8.8.8.8]:", 192.0.2.1\r\n', False),
            ('X-Forwarded-For: "\\, 192.0.2.1\r\n', False),
            ("", True), ("X-Forwarded-For: 8.8.8.8:x\r\n", False), ("X-Forwarded-For: [8.8.8.8]x\r\n", False),
            ("X-Forwarded-For: [8.8.8.8\r\n", False))
        proxy = self.start_with(TRUSTED + 'forwarded_by = "forwarded"\n' + SHOP + LIMIT)
        self.counts_as_new(
            proxy, ("", True), ('Forwarded: for=8.8.8.8;x=", for=192.0.2.1\r\n', False),
            ('Forwarded: for=8.8.8.8;x=", for="[2001:db8::1]"\r\n', False),
            ('Forwarded: for=8.8.8.8;x=";y="z", for=192.0.2.1\r\n', False),
            ('Forwarded: for=8.8.8.8;x="a"b, for=192.0.2.1\r\n', True))

    def test_an_untrusted_peer_cannot_name_the_client(self):
        proxy = self.start_with(TRUSTED + SHOP + LIMIT)
        statuses = [self.who(proxy, f"X-Forwarded-For: 192.0.2.{n}\r\n", source="127.0.0.9") for n in range(3)]
        self.assertEqual(statuses, [200, 429, 429])
        none = self.start_with(SHOP + LIMIT)
        self.assertEqual([self.who(none, f"X-Forwarded-For: 192.0.2.{n}\r\n") for n in range(3)], [200, 429, 429])

    def test_forwarded(self):
        proxy = self.start_with(TRUSTED + 'forwarded_by = "forwarded"\n' + SHOP + LIMIT)
        self.counts_as_new(
            proxy, ("Forwarded: for=192.0.2.1\r\n", True), ("Forwarded: proto=http;For=192.0.2.1;by=10.0.0.1\r\n", False),
            ('Forwarded: for="192.0.2.1:4711"\r\n', False), ("Forwarded: for=192.0.2.1, for=192.0.2.2\r\n", True),
            ('Forwarded: for="[2001:db8::1]:80", for=10.0.0.1\r\n', True), ('Forwarded: for="[2001:db8::1]"\r\n', False),
            ('Forwarded: for=192.0.2.1;x="a, for=192.0.2.50"\r\n', False), ("Forwarded: for=_hidden\r\n", True),
            ("Forwarded: proto=http\r\n", False), ("X-Forwarded-For: 192.0.2.60\r\n", False))

    def test_the_upstream_gets_the_whole_list(self):
        proxy = self.start_with(TRUSTED + SHOP)
        self.who(proxy, "X-Forwarded-For: 192.0.2.1\r\n")
        self.assertEqual(dict(self.upstream.requests[0].fields)["x-forwarded-for"], "192.0.2.1, 127.0.0.2")

    def test_only_a_trusted_peer_sets_the_protocol_and_the_host(self):
        proxy = self.start_with(TRUSTED + SHOP)
        fields = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.example\r\n"
        for source, sent in (("127.0.0.2", ("https", "shop.example")), ("127.0.0.9", ("http", "test"))):
            self.who(proxy, fields, source=source)
            seen = self.upstream.requests[-1].fields
            names = [name for name, _ in seen]
            self.assertEqual((dict(seen)["x-forwarded-proto"], dict(seen)["x-forwarded-host"]), sent)
            self.assertEqual((names.count("x-forwarded-proto"), names.count("x-forwarded-host")), (1, 1))

    def test_the_log_names_the_client(self):
        proxy = self.start_with('access_log = "-"\n' + TRUSTED + SHOP)
        self.who(proxy, "X-Forwarded-For: 192.0.2.1\r\n")
        self.assertIn(" 192.0.2.1 \"GET / HTTP/1.1\" 200 ", proxy.process.stdout.readline())


class Introduced(ProxyTest):
    def start_balanced(self):
        return self.start_with(TRUSTED + '[[listen]]\naddress = "127.0.0.1:0"\nproxy_protocol = true\n' + SHOP + LIMIT)

    def talk(self, proxy, introduction, source="127.0.0.2", pieces=False):
        """The status of a request on a new connection; None if the proxy closes it."""
        with Client(proxy.port, source=source) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
            if pieces:
                for n in range(len(introduction)):
                    client.send(introduction[n : n + 1])
                client.send(request)
            else:
                client.send(introduction + request)
            try:
                return client.answer().status
            except (EOFError, ConnectionResetError):
                return None

    def two(self, source, family=0x11, command=0x21, more=b""):
        if ":" in source:
            addresses = socket.inet_pton(socket.AF_INET6, source) * 2
        else:
            addresses = socket.inet_aton(source) * 2
        block = addresses + struct.pack(">HH", 4711, 80) + more
        return b"\r\n\r\n\x00\r\nQUIT\n" + struct.pack(">BBH", command, family, len(block)) + block

    def test_version_1(self):
        proxy = self.start_balanced()
        one = b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n"
        self.assertEqual([self.talk(proxy, one) for _ in range(2)], [200, 429])
        self.assertEqual(self.talk(proxy, b"PROXY TCP6 2001:db8::1 2001:db8::9 4711 80\r\n", pieces=True), 200)
        self.assertEqual([self.talk(proxy, b"PROXY UNKNOWN\r\n"), self.talk(proxy, b"PROXY UNKNOWN a b c d\r\n")],
                         [200, 429])  # the peer
        self.assertEqual(dict(self.upstream.requests[0].fields)["x-forwarded-for"], "192.0.2.1")

    def test_version_2(self):
        proxy = self.start_balanced()
        self.assertEqual([self.talk(proxy, self.two("192.0.2.1")), self.talk(proxy, self.two("192.0.2.1", more=b"x" * 300))],
                         [200, 429])
        self.assertEqual(self.talk(proxy, self.two("2001:db8::1", 0x21), pieces=True), 200)
        self.assertEqual([self.talk(proxy, self.two("192.0.2.7", command=0x20)), self.talk(proxy, self.two("192.0.2.8", 0))],
                         [200, 429])  # the peer

    def test_an_invalid_header_closes_the_connection(self):
        proxy = self.start_balanced()
        for wrong in (b"", b"PROXY TCP4 192.0.2.1\r\n", b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80 \r\n",
                      b"PROXY TCP6 192.0.2.1 192.0.2.9 4711 80\r\n", b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 99999\r\n",
                      b"PROXY TCP4 x y 1 2\r\n", b"PROXY " + b"x" * 200 + b"\r\n", self.two("192.0.2.1", command=0x31),
                      self.two("192.0.2.1", command=0x22), b"\r\n\r\n\x00\r\nQUIT\n!\x11\x00\x04abcd"):
            self.assertEqual(self.talk(proxy, wrong), None, wrong)
        self.assertEqual(len(self.upstream.requests), 0)

    def test_an_untrusted_peer_cannot_name_the_client(self):
        proxy = self.start_balanced()
        self.assertEqual(self.talk(proxy, b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n", source="127.0.0.9"), None)

    def test_a_connection_sends_the_header_once(self):
        proxy = self.start_balanced()
        with Client(proxy.port, source="127.0.0.2") as client:
            client.send(b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n")
            self.assertEqual([client.ask("/").status, client.ask("/").status], [200, 429])


if __name__ == "__main__":
    main()
