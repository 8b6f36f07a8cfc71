#!/usr/bin/env python3
"""TLS towards servers: verification, names, resumption, and reloads."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

import authority
from admin_support import request, stats
from support import PATIENCE, PROXY, Client, Proxy, Upstream, in_parallel, main, pattern, wait_until
from tls_upstream_support import TRUSTED, OTHER, UNTRUSTED, FAILED, TlsTest, SLOW, closes


class Verification(TlsTest):
    def refuses(self, proxy, reason, body=UNTRUSTED):
        answer = self.ask(proxy)
        self.assertEqual((answer.status, answer.body), (502, body), self.said(proxy))
        self.assertEqual(self.upstream.requests, [])
        self.assertRegex(self.said(proxy), rf"upstream shop: server \S+:{self.upstream.port}: TLS: .*{reason}")

    def accepts(self, proxy):
        answer = self.ask(proxy)
        self.assertEqual((answer.status, answer.body), (200, b"hello\n"), answer.body)

    def test_names(self):
        self.accepts(self.start_shop())
        self.accepts(self.start_shop("127.0.0.1"))
        self.assertEqual([h[3] for h in self.upstream.handshakes], ["localhost", None])
        self.assertEqual({h[2] for h in self.upstream.handshakes}, {"http/1.1"})

    def test_a_wrong_name(self):
        self.upstream.certify(TRUSTED.issue("else", "DNS:else.example", "DNS:localhost.example"))
        self.refuses(self.start_shop(), "hostname mismatch")
        self.refuses(self.start_shop("127.0.0.1"), "IP address mismatch")
        self.assertIsInstance(self.upstream.handshakes[0], OSError)

    def test_an_address_must_be_an_address_in_the_certificate(self):
        self.upstream.certify(TRUSTED.issue("name-of-address", "DNS:127.0.0.1"))
        self.refuses(self.start_shop("127.0.0.1"), "IP address mismatch")

    def test_the_common_name_does_not_count(self):
        self.upstream.certify(TRUSTED.issue("common", subject="/CN=localhost"))
        self.refuses(self.start_shop(), "hostname mismatch")
        self.upstream.certify(TRUSTED.issue("common-too", "IP:127.0.0.9", subject="/CN=localhost"))
        self.refuses(self.start_shop(), "hostname mismatch")

    def test_expired(self):
        self.upstream.certify(TRUSTED.issue("expired", "DNS:localhost", days=-1))
        self.refuses(self.start_shop(), "certificate has expired")

    def test_another_authority(self):
        self.upstream.certify(OTHER.issue("foreign", "DNS:localhost"), OTHER)
        self.refuses(self.start_shop(), "unable to get local issuer certificate")

    def test_the_system_does_not_trust_the_authority_of_the_test(self):
        self.refuses(self.start_shop(tls=""), "unable to get local issuer certificate")

    def test_the_authorities_of_the_system(self):
        def trusts():
            os.environ["SSL_CERT_FILE"] = TRUSTED.file

        self.accepts(self.start_with(self.shop(tls=""), preexec_fn=trusts))
        proxy = Proxy("--upstream", f"https://localhost:{self.upstream.port}", "--admin", "none", preexec_fn=trusts)
        self.addCleanup(self.finish, proxy)
        self.accepts(proxy)
        # Then the authorities of a file replace them.
        self.refuses_only(self.start_with(self.shop(tls=f'authorities = "{OTHER.file}"'), preexec_fn=trusts))

    def refuses_only(self, proxy):
        self.assertEqual((self.ask(proxy).body), UNTRUSTED)

    def test_self_signed(self):
        key, pem = TRUSTED.path("own.key"), TRUSTED.path("own.pem")
        TRUSTED.make_key("own")
        authority.openssl("req", "-x509", "-key", key, "-subj", "/CN=own", "-days", 2, "-addext",
                          "subjectAltName = DNS:localhost", "-out", pem)
        self.upstream.certify("own")
        self.refuses(self.start_shop(), "self-signed certificate")
        self.accepts(self.start_shop(tls=f'authorities = "{pem}"'))

    def test_a_certificate_of_a_server_as_authority(self):
        self.accepts(self.start_shop(tls=f'authorities = "{TRUSTED.path("local.pem")}"'))
        self.upstream.certify("second")
        before = len(self.upstream.requests)
        self.refuses_only(self.start_shop(tls=f'authorities = "{TRUSTED.path("local.pem")}"'))
        self.assertEqual(len(self.upstream.requests), before)

    def test_wildcards(self):
        self.upstream.certify(TRUSTED.issue("wildcard", "DNS:*.w.example"))
        for host, good in (("a.w.example", True), ("A.W.Example", True), ("b.a.w.example", False), ("w.example", False)):
            proxy = self.start_shop("127.0.0.1", f'authorities = "{TRUSTED.file}", server_name = "{host}"')
            self.assertEqual(self.ask(proxy).status, 200 if good else 502, host)

    def test_a_name_of_all_servers(self):
        self.upstream.certify(TRUSTED.issue("public", "DNS:api.example"))
        self.accepts(self.start_shop("127.0.0.1", f'authorities = "{TRUSTED.file}", server_name = "api.example"'))
        self.assertEqual(self.upstream.handshakes[0][3], "api.example")
        self.refuses_only(self.start_shop("127.0.0.1", f'authorities = "{TRUSTED.file}", server_name = "127.0.0.1"'))

    def test_insecure(self):
        self.upstream.certify(OTHER.issue("bad", "DNS:else", days=-1), OTHER)
        for top in ("", 'log_level = "error"\n'):
            proxy = self.start_shop(tls="insecure = true", top=top)
            self.accepts(proxy)
            self.assertRegex(self.said(proxy), "upstream `shop`: with `insecure` the proxy accepts any certificate")

    def test_a_server_with_an_old_version(self):
        old = TRUSTED.server("local", ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
        self.upstream.certify(context=old)
        self.refuses(self.start_shop(), "(protocol version|unsupported protocol)", FAILED)

    def test_version_1_2(self):
        self.upstream.certify(context=TRUSTED.server("local", high=ssl.TLSVersion.TLSv1_2))
        self.accepts(self.start_shop())
        self.assertEqual(self.upstream.handshakes[0][0], "TLSv1.2")

    def test_a_server_without_tls(self):
        self.upstream.close()
        plain = self.upstream = Upstream.__new__(Upstream)
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        plain.port, plain.requests = listener.getsockname()[1], []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock:
                        if sock.recv(1, socket.MSG_PEEK):
                            sock.recv(65536)
                            sock.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        self.refuses(self.start_shop(), "the server does not use TLS at this port", FAILED)

    def test_a_certificate_of_the_proxy(self):
        TRUSTED.issue("proxy", subject="/CN=proxy")
        shown = f'authorities = "{TRUSTED.file}", certificate = "{TRUSTED.path("proxy.pem")}", key = "{TRUSTED.path("proxy.key")}"'
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            demanding = TRUSTED.server("local", version, version, demands=True)
            self.upstream.certify(context=demanding)
            self.accepts(self.start_shop(tls=shown))
            self.assertEqual(self.upstream.sockets[-1].getpeercert()["subject"], ((("commonName", "proxy"),),))
            self.upstream.requests.clear()
            self.refuses(self.start_shop(), "(certificate required|handshake failure)", FAILED)

    def test_an_untrusted_server_counts_as_failed(self):
        bad = self.server(OTHER.issue("bad-one", "DNS:localhost"), OTHER)
        proxy = self.start_shop(servers=[bad, self.upstream], more='health = { every = "50ms", timeout = "30s", fall = 2 }\n')
        for _ in range(10):
            self.accepts(proxy)
        self.assertEqual(bad.requests, [])
        wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["down"], "the server to be down")
        self.assertFalse(stats(proxy)["upstreams"][0]["servers"][1]["down"])

    def test_reasons_are_counted_and_logged(self):
        self.upstream.certify(TRUSTED.issue("old", "DNS:localhost", days=-1))
        proxy = self.start_shop(top='access_log = "-"\n')
        self.assertIn("certificate has expired", proxy.process.stderr.readline())  # before the first request
        for _ in range(5):
            self.assertEqual(self.ask(proxy).status, 502)
        metrics = request(proxy, "/metrics").body.decode()
        server = f'upstream="shop",server="localhost:{self.upstream.port}"'
        for reason, n in (("certificate", 6), ("other", 0)):
            self.assertIn(f'weir_upstream_tls_failures_total{{{server},reason="{reason}"}} {n}\n', metrics)
        self.assertIn(f"weir_upstream_connect_failures_total{{{server}}} 5\n", metrics)
        self.assertNotIn("certificate has expired", self.said(proxy))  # not for each request


class Start(TlsTest):
    """Before the first request the proxy shakes hands with each server."""

    def warning_of(self, proxy):
        return proxy.process.stderr.readline()

    def test_a_bad_certificate(self):
        self.upstream.certify(TRUSTED.issue("gone", "DNS:localhost", days=-1))
        proxy = self.start_shop()
        self.assertRegex(self.warning_of(proxy),
                         rf"upstream shop: server localhost:{self.upstream.port}: TLS: .*certificate has expired")
        self.assertEqual(self.upstream.requests, [])

    def test_a_good_server(self):
        proxy = self.start_shop()
        wait_until(lambda: self.upstream.attempts, "a handshake")
        self.assertEqual(self.upstream.attempts, [("TLSv1.3", False, None, "localhost")])
        # The first request verifies the certificate again.
        self.assertEqual(self.ask(proxy).status, 200)
        self.assertEqual([h[1] for h in self.upstream.handshakes], [False])
        self.assertNotIn("TLS", self.said(proxy))

    def test_a_server_that_does_not_shake_hands(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            proxy = self.start_with('[timeouts]\nupstream = "100ms"\n[[upstream]]\nname = "shop"\n'
                                    f'servers = ["https://127.0.0.1:{port}"]\ntls = {{ authorities = "{TRUSTED.file}" }}\n')
            self.assertEqual(self.warning_of(proxy), f"weir-proxy: warning: 127.0.0.1:{port} is not reachable "
                             "(Connection timed out); requests get 504 until it is\n")

    def test_a_server_that_ends_the_handshake(self):
        with socket.create_server(("127.0.0.1", 0)) as rude:
            port = rude.getsockname()[1]

            def reset():
                sock, _ = rude.accept()
                with sock:
                    sock.recv(65536)

            threading.Thread(target=reset, daemon=True).start()
            proxy = self.start_with('[[upstream]]\nname = "shop"\n'
                                    f'servers = ["https://127.0.0.1:{port}"]\ntls = {{ authorities = "{TRUSTED.file}" }}\n')
            self.assertRegex(self.warning_of(proxy),
                             rf"127.0.0.1:{port} is not reachable \(.*\); requests get 502 until it is\n")


class Configuration(TlsTest):
    def check(self, text):
        with open(os.path.join(TRUSTED.folder, f"check-{id(text)}.toml"), "w") as file:
            file.write(text)
        done = subprocess.run([PROXY, "--config", file.name, "--check"], capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def test_errors(self):
        TRUSTED.make_key("foreign-key")
        with open(TRUSTED.path("readable.key"), "w") as file, open(TRUSTED.path("local.key")) as key:
            file.write(key.read())
        os.chmod(file.name, 0o644)
        with open(TRUSTED.path("empty.pem"), "w"):
            pass
        local = TRUSTED.path("local.pem")
        for tls, words in (
                ('authorities = "/no/such"', "upstream `shop`: `/no/such`: "),
                (f'authorities = "{TRUSTED.path("empty.pem")}"', "no certificate"),
                (f'authorities = "{TRUSTED.path("local.key")}"', "no certificate"),
                (f'certificate = "{local}", key = "{TRUSTED.path("foreign-key.key")}"', "does not fit"),
                (f'certificate = "{local}", key = "{TRUSTED.path("readable.key")}"', "upstream `shop`: "),
                (f'certificate = "{local}"', "missing `key`")):
            status, said = self.check(self.shop(tls=tls))
            self.assertEqual(status, 2, said)
            self.assertIn(words, said)
        status, said = self.check(self.shop(tls="insecure = true"))
        self.assertEqual(status, 0)
        self.assertIn("accepts any certificate", said)
        self.assertEqual(self.check(self.shop()), (0, ""))

    def test_a_relative_path_starts_at_the_folder_of_the_file(self):
        self.assertEqual(self.check(self.shop(tls='authorities = "authority.pem"')), (0, ""))


class Sessions(TlsTest):
    def test_kept_connections(self):
        proxy = self.start_shop(top="threads = 1\n" + SLOW)
        for pause in (0, 0.3, 0.3):
            time.sleep(pause)
            self.assertEqual(self.ask(proxy).status, 200)
        self.assertEqual(len(self.upstream.handshakes), 1)

    def test_new_connections_resume_the_session(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.upstream.handshakes.clear()
            self.upstream.certify(context=TRUSTED.server("local", version, version))
            proxy = self.start_shop(top="threads = 2\n")
            for _ in range(6):
                self.assertEqual(self.ask(proxy, "/until-close/10").status, 200)
            self.assertEqual([h[1] for h in self.upstream.handshakes], [False] + [True] * 5, version)

    def test_a_server_that_forgets_its_sessions(self):
        proxy = self.start_shop()
        for _ in range(3):
            self.upstream.certify()  # with another key for tickets
            self.assertEqual(self.ask(proxy, "/until-close/10").status, 200)
        self.assertEqual([h[1] for h in self.upstream.handshakes], [False] * 3)

    def test_a_closed_connection_is_not_used(self):
        proxy = self.start_shop(top="threads = 1\n" + SLOW)
        for announces in (True, False):
            for pause in (0.0, 0.2):
                self.upstream.script["/close"] = closes(announces, pause=pause)
                self.assertEqual(self.ask(proxy, "/close").status, 200)
                time.sleep(pause + 0.1)
                # A POST would not be repeated.
                answer = self.ask(proxy, method="POST", fields="Content-Length: 2\r\n", body=b"ab")
                self.assertEqual(answer.status, 200)

    def test_a_connection_that_ends_with_the_next_request_is_repeated(self):
        proxy = self.start_shop(top="threads = 1\n" + SLOW)
        self.assertEqual([self.ask(proxy, "/once").status for _ in range(3)], [200] * 3)
        self.assertEqual(len(self.upstream.handshakes), 3)

    def test_bytes_behind_a_response_are_not_the_next_response(self):
        proxy = self.start_shop(top="threads = 1\n" + SLOW)
        evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        sent = threading.Event()

        def answer_twice(sock, request, reader):
            sock.sendall(evil.replace(b"evil", b"good") + evil)
            sent.set()
            return True

        def answer_in_two_records(sock, request, reader):
            sock.sendall(evil.replace(b"evil", b"good"))
            sock.sendall(evil)
            sent.set()
            return True

        for script in (answer_twice, answer_in_two_records):
            self.upstream.script["/twice"] = script
            for pause in (0, 0.2):
                sent.clear()
                self.assertEqual(self.ask(proxy, "/twice").body, b"good")
                # A response that arrives behind the next request would be taken for its response.
                self.assertTrue(sent.wait(PATIENCE))
                time.sleep(pause)
                self.assertEqual(self.ask(proxy).body, b"hello\n")


class Reloads(TlsTest):
    def test_a_change_of_authorities(self):
        good, bad = f'authorities = "{TRUSTED.file}"', f'authorities = "{OTHER.file}"'
        proxy = self.start_with(f'threads = 1\n{SLOW}' + self.shop())
        self.assertEqual(self.ask(proxy).status, 200)
        self.reload(proxy, SLOW + self.shop(tls=good))
        self.assertEqual(self.ask(proxy).status, 200)
        self.assertEqual(len(self.upstream.handshakes), 1)  # nothing changed: the connection stays
        self.reload(proxy, SLOW + self.shop(tls=bad))
        self.assertEqual(self.ask(proxy).body, UNTRUSTED)
        self.reload(proxy, SLOW + self.shop(tls="insecure = true"))
        self.assertEqual(self.ask(proxy).status, 200)
        self.reload(proxy, SLOW + self.shop(tls=good))
        self.assertEqual(self.ask(proxy).status, 200)
        # The server may see the end of the failed one after the next one.
        wait_until(lambda: len(self.upstream.handshakes) == 4)
        failed = [h for h in self.upstream.handshakes if isinstance(h, OSError)]
        resumed = [h[1] for h in self.upstream.handshakes if not isinstance(h, OSError)]
        self.assertEqual(len(failed), 1)
        # No session of before was resumed, though the server would have done so.
        self.assertEqual(resumed, [False, False, False])

    def test_a_change_of_the_file_of_authorities(self):
        file = TRUSTED.path("changing.pem")
        shutil.copy(TRUSTED.file, file)
        proxy = self.start_with(SLOW + self.shop(tls=f'authorities = "{file}"'))
        self.assertEqual(self.ask(proxy).status, 200)
        shutil.copy(OTHER.file, file)
        self.assertEqual(self.ask(proxy).status, 200)  # not before the reload
        self.reload(proxy, proxy.config)
        self.assertEqual(self.ask(proxy).body, UNTRUSTED)

    def test_a_bad_file_changes_nothing(self):
        proxy = self.start_with(SLOW + self.shop())
        proxy.write(self.shop(tls='authorities = "/no/such"'))
        proxy.process.send_signal(signal.SIGHUP)
        while "reload failed" not in (line := proxy.process.stderr.readline()):
            self.assertTrue(line)
        self.assertEqual(self.ask(proxy).status, 200)

    def test_reloads_under_traffic(self):
        both = TRUSTED.path("both.pem")
        with open(both, "w") as out:
            for file in (TRUSTED.file, OTHER.file):
                with open(file) as one:
                    out.write(one.read())
        proxy = self.start_with(SLOW + self.shop())
        stop = threading.Event()
        served = [0] * 4

        def work(i):
            if i == 0:
                for n in range(30):
                    tls = f'authorities = "{(TRUSTED.file, both)[n % 2]}"' if n % 5 else "insecure = true"
                    proxy.write(SLOW + self.shop(tls=tls))
                    proxy.process.send_signal(signal.SIGHUP)
                    time.sleep(0.1)
                return stop.set()
            while not stop.is_set() or served[i - 1] <= 20:
                with Client(proxy.port) as client:
                    for target, size in (("/bytes/30000", 30000), ("/chunked/50000", 50000), ("/until-close/9", 9)):
                        answer = client.ask(target)
                        self.assertEqual((answer.status, answer.body), (200, pattern(size)))
                        served[i - 1] += 1

        in_parallel(5, work)


if __name__ == "__main__":
    main(at_once=4)
