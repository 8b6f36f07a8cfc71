#!/usr/bin/env python3
"""The server name of a TLS connection: as a key of limits, and compared with the Host of its requests."""

from support import Client, ProxyTest, main, skip
from tls_support import BUILT_WITHOUT, Certificates, TlsClient, built_in, client_context, reload_of, ssl

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class TlsNames(ProxyTest):
    @classmethod
    def setUpClass(cls):
        cls.files = files = Certificates()
        cls.addClassCleanup(files.folder.cleanup)
        files.make("a", "a.example", "*.a.example", "other.example")
        files.make("b", "b.example")
        files.make("b-rsa", "b.example", "only-rsa.example", kind="rsa")

    def ask(self, port, name, host, context=None, target="/", version="1.1", fields=""):
        """The status of a request for `host` on a connection for `name`; without Host if it is None."""
        with TlsClient(port, name, context) as client:
            fields += f"Host: {host}\r\n" if host is not None else ""
            client.send(f"GET {target} HTTP/{version}\r\n{fields}\r\n")
            return client.answer().status

    def test_a_request_for_another_name_is_misdirected(self):
        port = self.start_with(self.files.listen("a", "b")).port
        for name, host, expected in [
                ("a.example", "a.example", 200), ("A.Example", "a.eXample", 200), ("a.example", "a.example:8443", 200),
                ("a.example", "A.example.:443", 200),
                ("a.example", "b.example", 421), ("b.example", "a.example", 421), ("b.example", "b.example.evil", 421),
                ("a.example", "127.0.0.1", 421), ("a.example", "[::1]:443", 421), ("a.example", "unknown.example", 421),
                # The certificate has both names.
                ("a.example", "other.example", 200), ("other.example", "x.a.example", 200), ("x.a.example", "y.a.example", 200),
                ("a.example", "x.y.a.example", 421), ("b.example", "other.example", 421),
                # A client that states no name, or an address, may ask for any host.
                (None, "b.example", 200), (None, "unknown.example", 200), ("127.0.0.1", "b.example", 200)]:
            with self.subTest(name=name, host=host):
                self.assertEqual(self.ask(port, name, host), expected)
        self.assertEqual(self.ask(port, "a.example", None, version="1.0"), 200)
        self.assertEqual(self.ask(port, "a.example", None, target="http://b.example/", version="1.0"), 421)
        self.assertEqual(self.ask(port, "a.example", "a.example", target="http://a.example/"), 200)

    def test_each_request_of_a_connection_is_checked(self):
        """The response states the reason, and ends the connection."""
        port = self.start_with(self.files.listen("a", "b")).port
        with TlsClient(port) as client:
            self.assertEqual(client.ask().status, 200)
            client.host = "b.example"
            answer = client.ask()
            self.assertEqual((answer.status, answer.body), (421, b"the connection is for another server name\n"))
            self.assertEqual(client.sock.recv(1), b"")
        self.assertEqual(self.upstream.targets(), ["/"])

    def test_certificates_that_no_client_of_the_name_gets_do_not_count(self):
        """The client gets one of each kind of key, the first of the name."""
        port = self.start_with(self.files.listen("b", "b-rsa")).port
        rsa = client_context(high=TLS_1_2, ciphers="ECDHE-RSA-AES128-GCM-SHA256")
        self.assertEqual(self.ask(port, "b.example", "only-rsa.example", rsa), 200)
        self.files.make("b2", "b.example", "second.example")
        port = self.start_with(self.files.listen("b", "b2")).port  # no client of b.example gets the second one
        self.assertEqual(self.ask(port, "b.example", "second.example"), 421)
        self.assertEqual(self.ask(port, "second.example", "b.example"), 200)

    def test_unknown_names_with_the_first_certificate(self):
        port = self.start_with(self.files.listen("a", "b", more='unknown_name = "first"\n')).port
        for name, host, expected in [("x.test", "x.test", 200), ("x.test", "a.example", 200), ("x.test", "y.test", 421),
                                     ("x.test", "b.example", 421)]:
            with self.subTest(name=name, host=host):
                self.assertEqual(self.ask(port, name, host), expected)

    def test_resumed_sessions_and_reloads(self):
        for high in (TLS_1_2, TLS_1_3):
            port = self.unused_port()
            proxy = self.start_with(self.files.listen("a", "b", port=port))
            context = client_context(high=high)
            with TlsClient(port, "a.example", context) as client:
                self.assertEqual(client.ask().status, 200)
                session = client.sock.session
            with TlsClient(port, "a.example", context, session) as again:
                again.host = "other.example"
                self.assertEqual(again.ask().status, 200)
                self.assertTrue(again.sock.session_reused)
                # The connection keeps the certificates that it has.
                self.assertIn("reloaded", reload_of(self, proxy, self.files.listen("b", port=port)))
                self.assertEqual(again.ask().status, 200)
                again.host = "b.example"
                self.assertEqual(again.ask().status, 421)
            self.assertIn("reloaded", reload_of(self, proxy, self.files.listen("a", "b", port=port)))
            # A session of another name: TLS 1.2 keeps the name of the session, and TLS 1.3 takes the new one.
            with TlsClient(port, "b.example", context, session) as other:
                self.assertEqual(other.ask().status, 421 if high == TLS_1_2 else 200)

    def test_without_tls_any_host_is_served(self):
        plain = self.unused_port()
        self.start_with(self.files.listen("a") + f'[[listen]]\naddress = "127.0.0.1:{plain}"\n')
        with Client(plain) as client:
            for client.host in ("a.example", "b.example"):
                self.assertEqual(client.ask().status, 200)

    def test_a_check_is_for_any_host(self):
        """It describes a request of another connection."""
        config = ('[clients]\ntrusted = "127.0.0.1"\n' + self.files.listen("a", more="check = {}\n") +
                  '[[route]]\ncheck = true\n')
        port = self.start_with(config).port
        described = "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n"
        self.assertEqual(self.ask(port, "a.example", "b.example", fields=described), 204)

    def test_each_name_has_its_own_limiter(self):
        limit = ('[[limit]]\nname = "each"\nrule = "2/1h"\nkey = "sni"\nqueue = "patience 0s"\n'
                 '[[route]]\nupstream = "shop"\nlimits = "each"\n')
        plain = self.unused_port()
        listen = self.files.listen("a", "b") + f'[[listen]]\naddress = "127.0.0.1:{plain}"\n'
        port = self.start_with(listen + limit).port
        of = lambda *names: [self.ask(port, name, name or "a.example") for name in names]
        self.assertEqual(of("a.example", "A.EXAMPLE", "a.Example"), [200, 200, 429])
        self.assertEqual(of("b.example", "b.example", "b.example"), [200, 200, 429])
        self.assertEqual(of("x.a.example"), [200])
        self.assertEqual(of(None, None, None), [200, 200, 429])  # one key for all without a name
        with Client(plain) as client:
            self.assertEqual(client.ask(fields="SNI: a.example\r\n").status, 429)


if __name__ == "__main__":
    if not built_in():
        skip(BUILT_WITHOUT)
    main(at_once=4)
