#!/usr/bin/env python3
"""TLS towards servers: verification, names, resumption, reloads, ends of responses, and servers that break the protocol."""

import collections
import contextlib
import hashlib
import os
import random
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import authority
from admin_support import request, stats
from support import (KEEPS_MEMORY, PATIENCE, PROXY, Client, Proxy, ProxyTest, Reader, Upstream, in_parallel, main, pattern,
                     skip, wait_until)

if not shutil.which("openssl"):
    skip("there is no openssl; to mend it, run test/setup")
if "without TLS" in subprocess.run([PROXY, "--upstream", "https://127.0.0.1:1", "--check"], capture_output=True,
                                   text=True).stderr:
    skip("this weir-proxy was built without TLS")

TRUSTED = authority.Authority()
OTHER = authority.Authority()
for name in ("local", "second"):
    TRUSTED.issue(name, "DNS:localhost", "IP:127.0.0.1")
UNTRUSTED = b"the upstream's certificate is not accepted\n"
FAILED = b"TLS to the upstream failed\n"


class Encrypted(Upstream):
    """An upstream with TLS. `handshakes` has (version, whether it resumed, protocol of ALPN, name of SNI), or an error."""

    def __init__(self, file="local", by=TRUSTED, context=None):
        self.context = None
        self.certify(file, by, context)
        self.handshakes = []
        self.sockets = []
        super().__init__()

    def certify(self, file="local", by=TRUSTED, context=None):
        """Replaces the certificate for new connections."""
        context = context or by.server(file)

        def note_name(sock, name, _):
            sock.name = name

        context.sni_callback = note_name
        self.tls = context

    def serve(self, sock):
        try:
            sock = authority.accepted(self.tls, sock)
        except OSError as e:
            if not isinstance(e, ssl.SSLEOFError):  # at its start the proxy looks whether there is a server
                self.handshakes.append(e)
            return
        self.handshakes.append((sock.version(), sock.session_reused, sock.selected_alpn_protocol(),
                                getattr(sock, "name", None)))
        self.sockets.append(sock)
        super().serve(sock)


class TlsTest(ProxyTest):
    def setUp(self):
        self.upstream = self.server()

    def server(self, *arguments, **how):
        made = Encrypted(*arguments, **how)
        self.addCleanup(made.close)
        return made

    def shop(self, host="localhost", tls=f'authorities = "{TRUSTED.file}"', more="", servers=None):
        addresses = ", ".join(f'"https://{host}:{s.port}"' for s in servers or [self.upstream])
        return f'[admin]\naddress = "127.0.0.1:0"\n[[upstream]]\nname = "shop"\nservers = [{addresses}]\n{more}' + (
            f"tls = {{ {tls} }}\n" if tls else "")

    def start_shop(self, *arguments, top="", **how):
        return self.start_with(top + self.shop(*arguments, **how))

    def said(self, proxy):
        """Ends the proxy. Returns the lines that it wrote to standard error."""
        return proxy.stop()

    def ask(self, proxy, target="/", **how):
        with Client(proxy.port) as client:
            return client.ask(target, **how)

    def reload(self, proxy, config):
        proxy.write(config)
        proxy.process.send_signal(signal.SIGHUP)
        while "configuration reloaded" not in (line := proxy.process.stderr.readline()):
            self.assertTrue(line and "failed" not in line, line)


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
        proxy = self.start_shop(tls="insecure = true")
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
        proxy = self.start_shop(servers=[bad, self.upstream], more='health = { every = "50ms", fall = 2 }\n')
        for _ in range(10):
            self.accepts(proxy)
        self.assertEqual(bad.requests, [])
        wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["down"], "the server to be down")
        self.assertFalse(stats(proxy)["upstreams"][0]["servers"][1]["down"])

    def test_reasons_are_counted_and_logged(self):
        self.upstream.certify(TRUSTED.issue("old", "DNS:localhost", days=-1))
        proxy = self.start_shop(top='access_log = "-"\n')
        for _ in range(5):
            self.assertEqual(self.ask(proxy).status, 502)
        metrics = request(proxy, "/metrics").body.decode()
        server = f'upstream="shop",server="localhost:{self.upstream.port}"'
        for reason, n in (("certificate", 5), ("other", 0)):
            self.assertIn(f'weir_upstream_tls_failures_total{{{server},reason="{reason}"}} {n}\n', metrics)
        self.assertIn(f"weir_upstream_connect_failures_total{{{server}}} 5\n", metrics)
        said = self.said(proxy)
        self.assertEqual(said.count("certificate has expired"), 1, said)  # not for each request


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


SLOW = '[timeouts]\nupstream_idle = "10s"\n'  # to give up a kept connection


def closes(announces, first=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", pause=0.0):
    """A script that sends `first`, and closes the connection after `pause`, with or without an announcement."""
    def close(sock, request, reader):
        sock.sendall(first)
        time.sleep(pause)
        sock.announces = announces
        return False

    return close


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

        def answer_twice(sock, request, reader):
            sock.sendall(evil.replace(b"evil", b"good") + evil)
            return True

        def answer_in_two_records(sock, request, reader):
            sock.sendall(evil.replace(b"evil", b"good"))
            sock.sendall(evil)
            return True

        for script in (answer_twice, answer_in_two_records):
            self.upstream.script["/twice"] = script
            for pause in (0, 0.2):
                self.assertEqual(self.ask(proxy, "/twice").body, b"good")
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
        # No session of before was resumed, though the server would have done so.
        handshakes = [h if isinstance(h, OSError) else h[1] for h in self.upstream.handshakes]
        self.assertEqual([handshakes[0], *handshakes[2:]], [False, False, False])
        self.assertIsInstance(handshakes[1], OSError)

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
            while not stop.is_set():
                with Client(proxy.port) as client:
                    for target, size in (("/bytes/30000", 30000), ("/chunked/50000", 50000), ("/until-close/9", 9)):
                        answer = client.ask(target)
                        self.assertEqual((answer.status, answer.body), (200, pattern(size)))
                        served[i - 1] += 1

        in_parallel(5, work)
        self.assertGreater(min(served), 20)


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
                        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                        return other.close()
                left -= len(data)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


class Faults(TlsTest):
    def test_damaged_bytes_never_reach_a_client(self):
        damage = Damage(self, self.upstream.port, seed=int(os.environ.get("WEIR_SEED", "1")))
        proxy = self.start_shop(servers=[damage], top='threads = 2\n[timeouts]\nupstream = "500ms"\n')
        outcomes = collections.Counter()
        end = time.monotonic() + float(os.environ.get("WEIR_SECONDS", "2"))

        def work(i):
            choose = random.Random(i)
            while time.monotonic() < end:
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
        self.assertGreater(outcomes[200], 10, outcomes)
        self.assertGreater(outcomes[502] + outcomes["aborted"], 10, outcomes)
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
            self.assertLess(abs(time.monotonic() - began - 0.4), 0.35)

    def test_a_handshake_that_never_ends_fails_a_check(self):
        class Silent:
            pass

        with socket.create_server(("127.0.0.1", 0)) as listener:
            Silent.port = listener.getsockname()[1]
            proxy = self.start_shop(servers=[Silent, self.upstream],
                                    more='health = { every = "20ms", timeout = "60ms", fall = 2 }\n')
            wait_until(lambda: stats(proxy)["upstreams"][0]["servers"][0]["down"], "the server to be down")
            self.assertEqual(self.ask(proxy).status, 200)

    def test_checks_with_a_path(self):
        proxy = self.start_shop(more='health = { path = "/check", every = "20ms", fall = 1, rise = 1 }\n')
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

            def serve():
                while True:
                    sock, _ = listener.accept()
                    if sock.recv(1, socket.MSG_PEEK):  # at its start the proxy looks whether there is a server
                        break
                    sock.close()
                header = b""
                if version == 1:
                    while not header.endswith(b"\r\n"):
                        header += sock.recv(1)
                elif version == 2:
                    header = sock.recv(16, socket.MSG_WAITALL)
                    header += sock.recv(struct.unpack(">H", header[14:])[0], socket.MSG_WAITALL)
                sock = authority.accepted(TRUSTED.server("local"), sock)
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
