#!/usr/bin/env python3
"""TLS towards clients: certificates by name, versions, resumption, reloads, and clients that break the protocol."""

import contextlib
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from support import PATIENCE, PROXY, Client, ProxyTest, Reader, in_parallel, main, pattern, skip, wait_until

if not shutil.which("openssl"):
    skip("there is no openssl; to mend it, run test/setup")
BUILT_WITHOUT = "this weir-proxy was built without TLS"
GET = "GET %s HTTP/1.1\r\nHost: a.example\r\n\r\n"
UNRECOGNIZED_NAME, PROTOCOL_VERSION, NO_APPLICATION_PROTOCOL = 112, 70, 120


def openssl(*arguments, **how):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, timeout=PATIENCE, **how)


class Certificates:
    """Self-signed certificates in a temporary folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-tls-")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def make(self, file, *names, kind="ec", days=None, extensions=(), subject="/CN=common.example"):
        """Makes FILE.pem and FILE.key."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["-newkey", "rsa:2048"]
        more = [f"subjectAltName={','.join('DNS:' + n for n in names)}"] if names else []
        openssl("req", "-x509", *key, "-nodes", "-subj", subject, "-keyout", self.path(file + ".key"), "-out",
                self.path(file + ".pem"), *(part for e in [*more, *extensions] for part in ("-addext", e)), check=True)
        if days:
            openssl("x509", "-in", self.path(file + ".pem"), "-signkey", self.path(file + ".key"), "-days", days,
                    "-out", self.path(file + ".pem"), check=True)
        os.chmod(self.path(file + ".key"), 0o600)

    def der(self, file):
        with open(self.path(file + ".pem")) as pem:
            return ssl.PEM_cert_to_DER_cert(pem.read())

    def entry(self, file, key=None):
        return f'{{ certificate = "{self.path(file + ".pem")}", key = "{self.path((key or file) + ".key")}" }}'

    def listen(self, *files, port=0, more=""):
        return (f'[[listen]]\naddress = "127.0.0.1:{port}"\ntls = [{", ".join(map(self.entry, files))}]\n{more}'
                '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n')


def client_context(low=ssl.TLSVersion.TLSv1_2, high=ssl.TLSVersion.TLSv1_3, ciphers=None):
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if low < ssl.TLSVersion.TLSv1_2:
        made.set_ciphers("DEFAULT@SECLEVEL=0")
    elif ciphers:
        made.set_ciphers(ciphers)
    made.minimum_version, made.maximum_version = low, high
    return made


class TlsClient(Client):
    def __init__(self, port, name="a.example", context=None, session=None):
        super().__init__(port)
        self.host = name or self.host
        self.sock = (context or client_context()).wrap_socket(
            self.sock, server_hostname=name, session=session, suppress_ragged_eofs=False)
        self.reader = Reader(self.sock)

    def certificate(self):
        return self.sock.getpeercert(binary_form=True)


def both_ways(client, data, size):
    """Sends bytes, and receives at least `size` bytes meanwhile. Python's SSL objects allow no second thread."""
    sock, got, data = client.sock, bytearray(), memoryview(data)
    sock.setblocking(False)
    while data or len(got) < size:
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            data = data[sock.send(data[:16384]) if data else 0 :]
        try:
            piece = sock.recv(65536)
            if not piece:
                raise EOFError
            got += piece
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            select.select([sock], [sock] if data else [], [], PATIENCE)
    sock.settimeout(PATIENCE)
    return bytes(got)


def alert_of(error):
    """The number of the alert that the proxy sent."""
    names = {"unrecognized name": UNRECOGNIZED_NAME, "protocol version": PROTOCOL_VERSION,
             "no application protocol": NO_APPLICATION_PROTOCOL}
    text = str(error).lower().replace("_", " ")
    return next((n for name, n in names.items() if name in text), text)


def reload_of(test, proxy, config):
    """Reloads a configuration, and returns the first line of the result."""
    proxy.write(test.filled(config))
    proxy.process.send_signal(signal.SIGHUP)
    return proxy.process.stderr.readline()


class Tls(ProxyTest):
    @classmethod
    def setUpClass(cls):
        cls.files = files = Certificates()
        cls.addClassCleanup(files.folder.cleanup)
        files.make("a", "a.example", "*.a.example")
        files.make("b", "b.example", "x.a.example")
        files.make("a-rsa", "a.example", kind="rsa")
        files.make("new", "a.example", "new.example")
        files.make("common")

    def start_tls(self, *files, more="", config="", **how):
        return self.start_with(config + self.files.listen(*files, more=more), **how)

    def reload(self, proxy, config):
        return reload_of(self, proxy, config)

    def served(self, proxy, name, **how):
        """The certificate of a client that asks for this name, by its file; or the number of the alert."""
        try:
            with TlsClient(proxy.port, name, client_context(**how)) as client:
                self.assertEqual(client.ask("/").status, 200)
                got = client.certificate()
        except ssl.SSLError as e:
            return alert_of(e)
        return next(f for f in ("a", "b", "a-rsa", "new", "common") if self.files.der(f) == got)

    # ---- Certificates

    def test_the_name_selects_the_certificate(self):
        proxy = self.start_tls("a", "b")
        for name, expected in [("a.example", "a"), ("A.Example", "a"), ("b.example", "b"), ("y.a.example", "a"),
                               ("x.a.example", "b"),  # exact before wildcard
                               ("y.x.a.example", UNRECOGNIZED_NAME),  # a wildcard matches one label
                               ("c.example", UNRECOGNIZED_NAME), ("common.example", UNRECOGNIZED_NAME),
                               (None, "a")]:
            with self.subTest(name=name):
                self.assertEqual(self.served(proxy, name), expected)

    def test_an_address_counts_as_no_name(self):
        proxy = self.start_tls("a", "b")
        done = openssl("s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "127.0.0.1", input=b"")
        self.assertIn(b"CN = common.example", done.stdout)

    def test_an_unknown_name_can_get_the_first_certificate(self):
        proxy = self.start_tls("b", "a", more='unknown_name = "first"\n')
        self.assertEqual([self.served(proxy, n) for n in ("c.example", None, "a.example")], ["b", "b", "a"])

    def test_the_common_name_counts_without_another(self):
        proxy = self.start_tls("a", "common")
        self.assertEqual(self.served(proxy, "common.example"), "common")

    def test_a_client_gets_the_kind_of_key_that_it_can_verify(self):
        two = dict(high=ssl.TLSVersion.TLSv1_2)
        for order in [("a", "a-rsa"), ("a-rsa", "a")]:
            proxy = self.start_tls(*order)
            for name in ("a.example", None):
                self.assertEqual(self.served(proxy, name, ciphers="ECDHE-RSA-AES128-GCM-SHA256", **two), "a-rsa")
                self.assertEqual(self.served(proxy, name, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256", **two), "a")

    def test_a_reload_replaces_all_certificates(self):
        """Also the one for no name and, here, for an unknown one."""
        names = ("a.example", None, "unknown.example", "new.example")
        first = 'unknown_name = "first"\n'
        port = self.unused_port()
        listen = lambda *files, more="": self.files.listen(*files, port=port, more=more)
        proxy = self.start_with(listen("a"))
        served = lambda: [self.served(proxy, n) for n in names]
        self.assertEqual(served(), ["a", "a", UNRECOGNIZED_NAME, UNRECOGNIZED_NAME])
        self.assertIn("reloaded", self.reload(proxy, listen("new", "b")))
        self.assertEqual(served(), ["new", "new", UNRECOGNIZED_NAME, "new"])
        self.assertIn("reloaded", self.reload(proxy, listen("new", "b", more=first)))
        self.assertEqual(served(), ["new", "new", "new", "new"])
        self.assertIn("reloaded", self.reload(proxy, listen("b", "a", more=first)))
        self.assertEqual(served(), ["a", "b", "b", "b"])

    def test_a_reload_reads_the_same_files_again(self):
        self.files.make("renewed", "a.example")
        proxy = self.start_tls("renewed")
        before = self.files.der("renewed")
        self.files.make("renewed", "a.example")
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.certificate(), before)
        self.assertIn("reloaded", self.reload(proxy, proxy.config))

        def certificate():
            with TlsClient(proxy.port) as client:
                return client.certificate()

        # the greeting has the port of the first configuration
        self.assertEqual(certificate(), self.files.der("renewed"))

    def test_a_broken_file_changes_nothing(self):
        self.files.make("broken", "a.example")
        proxy = self.start_tls("broken")
        before = self.files.der("broken")
        with open(self.files.path("broken.pem"), "w") as file:
            file.write("nothing")
        with TlsClient(proxy.port) as kept:
            said = self.reload(proxy, proxy.config)
            self.assertIn("broken.pem`: it has no certificate in PEM format", said)
            self.assertIn("stays active", proxy.process.stderr.readline())
            self.assertEqual(kept.ask().status, 200)
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.certificate(), before)

    def check(self, config):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        file = os.path.join(folder, "weir.toml")
        with open(file, "w") as out:
            out.write(self.filled(config))
        done = subprocess.run([PROXY, "--config", file, "--check"], capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def test_errors_name_the_file_and_the_reason(self):
        files = self.files
        files.make("staple", "a.example", extensions=["tlsfeature=status_request"])
        files.make("open", "a.example")
        os.chmod(files.path("open.key"), 0o644)
        files.make("locked", "a.example")
        openssl("ec", "-in", files.path("locked.key"), "-aes128", "-passout", "pass:x", "-out",
                files.path("secret.key"), check=True)
        os.chmod(files.path("secret.key"), 0o600)
        files.make("nameless", subject="/O=nobody")
        listen = lambda entry: files.listen().replace("tls = []", f"tls = [{entry}]")
        with open(files.path("cut.pem"), "w") as out, open(files.path("a.pem")) as whole:
            out.write(whole.read()[:300])
        for entry, why in [
                (files.entry("a", "b"), r"b.key`: the key does not fit the certificate `.*a.pem`"),
                (files.entry("none", "a"), r"none.pem`: No such file or directory"),
                (files.entry("a", "none"), r"none.key`: No such file or directory"),
                (files.entry("cut", "a"), r"cut.pem`: "),
                (files.entry("open"), r"open.key`: all users of this machine may read or write the key"),
                (files.entry("a", "secret"), r"secret.key`: the key is encrypted"),
                (files.entry("staple"), r"staple.pem`: clients reject this certificate without OCSP stapling"),
                (f'{files.entry("a")}, {files.entry("nameless")}', r"nameless.pem`: it has no DNS name"),
                ('{ certificate = "/", key = "/" }', r"/`: it is not a regular file"),
                ('{ certificate = "a.pem" }', r"missing `key`: a file"),
                ("", r"`tls` has no certificate")]:
            with self.subTest(why=why):
                status, said = self.check(listen(entry))
                self.assertEqual(status, 2, said)
                self.assertRegex(said, "listen `127.0.0.1:0`.*" + why)
        self.assertEqual(self.check(files.listen("nameless", "a")), (0, ""))

    def test_a_relative_path_starts_at_the_configuration_file(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for end in (".pem", ".key"):
            shutil.copy(self.files.path("a" + end), folder)
        file = os.path.join(folder, "weir.toml")
        with open(file, "w") as out:
            out.write(self.filled(self.files.listen("a").replace(self.files.folder.name + "/", "")))
        done = subprocess.run([os.path.abspath(PROXY), "--config", file, "--check"], capture_output=True, text=True,
                              cwd="/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_certificate_out_of_its_time_is_said(self):
        self.files.make("expired", "a.example", days=-1)
        status, said = self.check(self.files.listen("expired"))
        self.assertEqual(status, 0)
        self.assertRegex(said, r"listen `127.0.0.1:0`: certificate `.*expired.pem` expired at \d{4}-")

    # ---- The protocol

    def test_tls_1_2_and_1_3_only(self):
        proxy = self.start_tls("a", "a-rsa")
        version = ssl.TLSVersion
        for v in (version.TLSv1_2, version.TLSv1_3):
            with TlsClient(proxy.port, context=client_context(v, v)) as client:
                self.assertEqual(client.ask().status, 200)
                self.assertEqual(client.sock.version(), {version.TLSv1_2: "TLSv1.2", version.TLSv1_3: "TLSv1.3"}[v])
        for v in (version.TLSv1, version.TLSv1_1):
            with self.assertRaises(ssl.SSLError) as failed:
                TlsClient(proxy.port, context=client_context(v, v))
            self.assertEqual(alert_of(failed.exception), PROTOCOL_VERSION)

    def test_tls_1_2_has_forward_secrecy_and_authenticated_ciphers_only(self):
        proxy = self.start_tls("a", "a-rsa")
        for ciphers in ("ECDHE-RSA-AES128-SHA256", "AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-SHA"):
            with self.assertRaises(ssl.SSLError):
                TlsClient(proxy.port, context=client_context(high=ssl.TLSVersion.TLSv1_2, ciphers=ciphers))

    def test_the_protocol_is_http_1(self):
        proxy = self.start_tls("a")
        for offered, chosen in [(["h2", "http/1.1"], "http/1.1"), (["http/1.0"], "http/1.0"), ([], None)]:
            context = client_context()
            if offered:
                context.set_alpn_protocols(offered)
            with TlsClient(proxy.port, context=context) as client:
                self.assertEqual(client.sock.selected_alpn_protocol(), chosen)
        context = client_context()
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError) as failed:
            TlsClient(proxy.port, context=context)
        self.assertEqual(alert_of(failed.exception), NO_APPLICATION_PROTOCOL)

    def test_no_renegotiation(self):
        proxy = self.start_tls("a")
        process = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername",
                                    "a.example", "-tls1_2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        with process:
            process.stdin.write(b"R\n")
            process.stdin.flush()
            self.assertIn(b"no renegotiation", process.communicate(timeout=PATIENCE)[0])

    def s_client(self, proxy, *options, text=b""):
        """The output of `openssl s_client`, which sends `text`."""
        done = openssl("s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "a.example", *options,
                       input=text)
        return (done.stdout + done.stderr).decode("latin-1")

    def test_no_early_data(self):
        proxy = self.start_tls("a")
        session = self.files.path("early-session")
        request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
        self.assertIn("Max Early Data: 0", self.s_client(proxy, "-sess_out", session, "-ign_eof", text=request))

    def test_sessions_are_resumed_over_threads_and_reloads(self):
        port = self.unused_port()
        config = "threads = 4\n" + self.files.listen("a", port=port)
        proxy = self.start_with(config)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_context(high=high)
            with TlsClient(proxy.port, context=context) as first:
                self.assertEqual(first.ask().status, 200)
                self.assertFalse(first.sock.session_reused)
                session = first.sock.session

            def reused(name="a.example"):
                with TlsClient(proxy.port, name, context, session) as again:
                    self.assertEqual(again.ask().status, 200)
                    return again.sock.session_reused

            self.assertEqual([reused() for _ in range(8)], [True] * 8)
            self.assertIn("reloaded", self.reload(proxy, config))
            self.assertEqual([reused() for _ in range(4)], [True] * 4)
            self.assertIn("reloaded", self.reload(proxy, config.replace("threads = 4\n", "threads = 4\n\n")))
            self.assertTrue(reused())

    def test_a_resumed_session_of_tls_1_3_brings_a_new_ticket(self):
        proxy = self.start_tls("a")
        context, session = client_context(), None
        for resumed in (False, True, True):  # a client that uses each ticket once
            with TlsClient(proxy.port, context=context, session=session) as client:
                self.assertEqual(client.ask().status, 200)
                self.assertEqual(client.sock.session_reused, resumed)
                self.assertNotEqual(client.sock.session, session)
                session = client.sock.session

    def test_a_session_is_valid_at_its_listener_only(self):
        ports = self.unused_port(), self.unused_port()
        second = f'[[listen]]\naddress = "127.0.0.1:{ports[1]}"\ntls = [{self.files.entry("a")}]\n'
        self.start_with(self.files.listen("a", port=ports[0]) + second)
        context = client_context()
        with TlsClient(ports[0], context=context) as first:
            first.ask()
            session = first.sock.session
        reused = []
        for port in ports:
            with TlsClient(port, context=context, session=session) as again:
                self.assertEqual(again.ask().status, 200)
                reused.append(again.sock.session_reused)
        self.assertEqual(reused, [True, False])

    def test_a_resumed_session_of_a_name_that_is_gone_is_refused(self):
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", "b", port=port))
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_context(high=high)
            with TlsClient(port, "b.example", context) as first:
                first.ask()
                session = first.sock.session
            self.assertIn("reloaded", self.reload(proxy, self.files.listen("a", port=port)))
            with self.assertRaises(ssl.SSLError) as failed:
                TlsClient(port, "b.example", context, session)
            self.assertEqual(alert_of(failed.exception), UNRECOGNIZED_NAME)
            self.assertIn("reloaded", self.reload(proxy, self.files.listen("a", "b", port=port)))

    # ---- HTTP over it

    def test_the_upstream_learns_of_it(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="X-Forwarded-Proto: http\r\n")
        self.assertEqual(dict(self.upstream.requests[0].fields)["x-forwarded-proto"], "https")

    def test_a_trusted_peer_states_the_protocol_itself(self):
        proxy = self.start_tls("a", config='[clients]\ntrusted = "127.0.0.1"\n')
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="X-Forwarded-Proto: http\r\n")
            client.ask("/")
        self.assertEqual([dict(r.fields)["x-forwarded-proto"] for r in self.upstream.requests], ["http", "https"])

    def test_requests_in_one_record(self):
        proxy = self.start_tls("a")
        for n in (3, 100):
            for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with TlsClient(proxy.port, context=client_context(high=high)) as client:
                    client.send("".join(GET % f"/bytes/{i}" for i in range(n)))
                    self.assertEqual([len(client.answer().body) for _ in range(n)], list(range(n)))
                    client.send(GET % "/bytes/7")
                    self.assertEqual(len(client.answer().body), 7)

    def test_many_records_at_once(self):
        """The proxy has all of them before it reads the first."""
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            body = b"x" * 200
            n = 200
            for i in range(n):
                client.send(f"POST /digest?{i} HTTP/1.1\r\nHost: a.example\r\nContent-Length: 200\r\n\r\n".encode() + body)
            expected = hashlib.sha256(body).hexdigest().encode()
            self.assertEqual([client.answer().body for _ in range(n)], [expected] * n)

    def test_large_bodies(self):
        proxy = self.start_tls("a", "a-rsa", config='[clients]\nmin_body_rate = 0\n')
        size = 5_000_000
        body = pattern(size)
        for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with TlsClient(proxy.port, context=client_context(high=high)) as client:
                self.assertEqual(client.ask(f"/bytes/{size}").body, body)
                self.assertEqual(client.ask(f"/chunked/{size}").body, body)
                got = client.ask("/digest", "POST", f"Content-Length: {size}\r\n", body).body
                self.assertEqual(got.decode(), hashlib.sha256(body).hexdigest())
                client.send("POST /digest HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n")
                for i in range(0, size, 70_000):
                    piece = body[i : i + 70_000]
                    client.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                client.send("0\r\n\r\n")
                self.assertEqual(client.answer().body.decode(), hashlib.sha256(body).hexdigest())

    def test_both_directions_at_once(self):
        proxy = self.start_tls("a")
        size = 3_000_000
        body = pattern(size)
        with TlsClient(proxy.port) as client:
            client.send(f"POST /stream-back HTTP/1.1\r\nHost: a.example\r\nContent-Length: {size}\r\n\r\n")
            client.reader.data = both_ways(client, body, size)
            self.assertEqual(client.answer().body, body)

    def test_a_client_that_reads_slowly(self):
        """Writes stop in the middle of a record, and continue there."""
        proxy = self.start_tls("a")
        size = 8_000_000
        with TlsClient(proxy.port) as client:
            client.send(GET % f"/bytes/{size}")
            time.sleep(0.3)
            got = hashlib.sha256()
            status, fields = client.reader.head()
            left = size
            while left > 0:
                piece = client.reader.exactly(min(left, 100_000))
                got.update(piece)
                left -= len(piece)
                time.sleep(0.002)
            self.assertEqual(got.digest(), hashlib.sha256(pattern(size)).digest())

    def test_short_records(self):
        """A client asks for records of 512 bytes (RFC 6066), and reads slowly."""
        proxy = self.start_tls("a")
        request = b"GET /bytes/1000000 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"
        for version in ("-tls1_2", "-tls1_3"):
            done = openssl("s_client", "-connect", f"127.0.0.1:{proxy.port}", "-servername", "a.example",
                           "-maxfraglen", 512, version, "-quiet", "-ign_eof", input=request)
            self.assertTrue(done.stdout.endswith(b"\r\n\r\n" + pattern(1_000_000)))

    def test_an_answer_that_ends_by_close_is_announced(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:  # which raises an error for an end without announcement
            client.send("GET /until-close/100000 HTTP/1.0\r\n\r\n")
            self.assertEqual(len(client.answer().body), 100_000)
        with TlsClient(proxy.port) as client:
            client.ask("/", fields="Connection: close\r\n")
            self.assertEqual(client.sock.recv(10), b"")

    def test_a_cut_answer_is_not_announced(self):
        """An upstream cuts a chunked answer, which the client of HTTP/1.0 gets without chunks."""
        def cut(sock, request, reader):
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            return False

        self.upstream.script["/cut"] = cut
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            client.send("GET /cut HTTP/1.0\r\n\r\n")
            with self.assertRaises(OSError):  # SSLEOFError or a reset
                client.answer()
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_body_that_ends_without_announcement_is_incomplete(self):
        proxy = self.start_tls("a")
        for end in (lambda c: c.sock.shutdown(socket.SHUT_WR), lambda c: c.sock.unwrap()):
            with TlsClient(proxy.port) as client:
                client.send("POST /digest HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100\r\n\r\n" + "x" * 50)
                wait_until(lambda: proxy.numbers()["proxy"]["open"] == 1)
                with contextlib.suppress(OSError):
                    end(client)
                wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        self.assertEqual(self.upstream.targets(), [])

    def test_an_upgraded_connection(self):
        """Bytes in both directions, ends of one side, and bytes right behind the request."""
        def echo(sock, request, reader):
            sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            while reader.data or reader.more():
                sock.sendall(reader.data)
                reader.data = b""
            sock.sendall(b"end")
            return False

        self.upstream.script["/echo"] = echo
        route = '[[route]]\nupstream = "shop"\nupgrade = { to = "websocket" }\n'
        proxy = self.start_with(self.files.listen("a") + route)
        upgrade = "GET /echo HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        body = pattern(2_000_000)
        with TlsClient(proxy.port) as client:
            client.send(upgrade)
            self.assertEqual(client.reader.head()[0].split(" ")[1], "101")
            client.send("hello")
            self.assertEqual(client.reader.exactly(5), b"hello")
            self.assertEqual(both_ways(client, body, len(body)), body)

    def test_a_waiting_request_whose_client_goes(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(PATIENCE)
        limit = '[[limit]]\nname = "one"\nrule = "1 seats"\nqueue = "patience 60s"\n[[route]]\nupstream = "shop"\nlimits = "one"\n'
        proxy = self.start_with(self.files.listen("a") + limit)
        with TlsClient(proxy.port) as first:
            first.send(GET % "/hang")
            wait_until(lambda: proxy.numbers()["one"]["in use"] == 1)
            with TlsClient(proxy.port) as second:
                second.send(GET % "/a" + GET % "/b")
                wait_until(lambda: proxy.numbers()["one"]["waiting"] == 1)
            wait_until(lambda: proxy.numbers()["one"]["waiting"] == 0)
            over.set()

    def test_behind_a_load_balancer(self):
        """The header of the PROXY protocol comes before TLS, also in one segment with it, and in pieces."""
        trusted = '[clients]\ntrusted = "127.0.0.1"\n'
        proxy = self.start_tls("a", more="proxy_protocol = true\n", config=trusted)
        one = b"PROXY TCP4 192.0.2.7 192.0.2.2 1 2\r\n"
        two = (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + socket.inet_aton("192.0.2.8") +
               socket.inet_aton("192.0.2.2") + struct.pack("!HH", 1, 2))
        for header in (one, two):
            for step in (1, 10, len(header)):
                incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = client_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
                with Client(proxy.port) as client:
                    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with contextlib.suppress(ssl.SSLWantReadError):
                        tls.do_handshake()
                    pieces = [header[i : i + step] for i in range(0, len(header), step)]
                    pieces[-1] += outgoing.read()
                    for piece in pieces:
                        client.send(piece)
                        time.sleep(0.001)
                    self.drive(tls.do_handshake, client, incoming, outgoing)
                    tls.write((GET % "/").encode())
                    client.send(outgoing.read())
                    self.assertIn(b"200 OK", self.drive(lambda: tls.read(1000), client, incoming, outgoing))
        clients = [dict(r.fields)["x-forwarded-for"] for r in self.upstream.requests]
        self.assertEqual(clients, ["192.0.2.7"] * 3 + ["192.0.2.8"] * 3)

    @staticmethod
    def drive(step, client, incoming, outgoing):
        """Repeats a step of a TLS object until it is done."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                client.send(outgoing.read())
                incoming.write(client.sock.recv(65536))
            finally:
                client.send(outgoing.read())

    # ---- Clients that break the protocol

    def hello(self):
        """A ClientHello."""
        outgoing = ssl.MemoryBIO()
        tls = client_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.example")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def test_a_hello_in_single_bytes(self):
        proxy = self.start_tls("a")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context().wrap_bio(incoming, outgoing, server_hostname="a.example")
        with Client(proxy.port) as client:
            client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
            for byte in outgoing.read():
                client.send(bytes([byte]))
            self.drive(tls.do_handshake, client, incoming, outgoing)
            for byte in (GET % "/").encode():
                tls.write(bytes([byte]))
                client.send(outgoing.read())
            self.assertIn(b"200 OK", self.drive(lambda: tls.read(1000), client, incoming, outgoing))

    def test_an_unfinished_handshake_ends(self):
        proxy = self.start_tls("a", config='[timeouts]\nhandshake = "300ms"\nheader = "10s"\n')
        for n in (1, 50, 10_000):
            with Client(proxy.port) as client:
                client.send(self.hello()[:n])
                began = time.monotonic()
                client.ended()
                self.assertLess(time.monotonic() - began, 5)
        with Client(proxy.port) as steady:  # bytes do not extend the time
            began = time.monotonic()
            with contextlib.suppress(OSError):
                for byte in self.hello():
                    steady.send(bytes([byte]))
                    time.sleep(0.02)
                    if time.monotonic() - began > 5:
                        break
            self.assertLess(time.monotonic() - began, 5)

    def test_silence_ends(self):
        proxy = self.start_tls("a", config='[timeouts]\nheader = "300ms"\n')
        with Client(proxy.port) as client:
            self.assertEqual(client.ended(), b"")
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.sock.recv(1), b"")

    def test_garbage(self):
        proxy = self.start_tls("a")
        hello = self.hello()
        for bad in (GET % "/", b"\x16\x03\x01\xff\xff" + b"x" * 70_000, b"\0" * 100, hello[:40] + b"\xff" * 500,
                    b"\x80\x2e\x01\x00\x02" + b"x" * 44, b"\x15\x03\x03\x00\x02\x02\x00", hello + hello,
                    hello + b"\x17\x03\x03\x00\x05xxxxx"):
            with Client(proxy.port) as client, contextlib.suppress(OSError):
                client.send(bad)
                client.ended()
        with Client(proxy.port) as client:
            client.send(hello)
            client.abort()
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.ask().status, 200)
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        self.assertEqual(self.upstream.targets(), ["/"])

    def test_tls_at_the_plain_port(self):
        proxy = self.start()
        with Client(proxy.port) as client:
            client.send(self.hello())
            self.assertIn(b"400", client.ended()[:20])

    def test_a_broken_record_ends_the_connection(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as client:
            self.assertEqual(client.ask().status, 200)
            with socket.socket(fileno=os.dup(client.sock.fileno())) as plain:
                plain.sendall(b"\x17\x03\x03\x00\x20" + b"x" * 32)
            with self.assertRaises(OSError):
                while client.sock.recv(100):
                    pass
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)

    def test_a_plain_port_redirects(self):
        plain = lambda port: f'[[listen]]\naddress = "127.0.0.1:{self.port}"\nhttps_port = {port}\n'
        self.port = self.unused_port()
        proxy = self.start_with(self.files.listen("a") + plain(443))
        ask = lambda text: self.answer_to(self.port, text)
        for target, host, location in [
                ("/a/b?c=d&e", "x.example", "https://x.example/a/b?c=d&e"),
                ("/", "x.example:80", "https://x.example/"),
                ("/", "[::1]:8080", "https://[::1]/"),
                ("http://y.example/z", "y.example", "https://y.example/z"),
                ("//evil.example/", "x.example", "https://x.example//evil.example/")]:
            answer = ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            self.assertEqual((answer.status, answer.get("location")), (308, location))
        self.assertEqual(ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").get("location"), "https://a/")
        self.assertEqual(ask("GET / HTTP/1.0\r\n\r\n").status, 400)
        self.assertEqual(ask("GET / HTTP/1.1\r\nHost: a b\r\n\r\n").status, 400)
        with Client(self.port) as client:  # the connection is kept, and a body is dropped
            self.assertEqual([client.ask("/", "POST", "Content-Length: 3\r\n", b"abc").status for _ in range(3)], [308] * 3)
        self.assertEqual(self.upstream.targets(), [])
        self.assertIn("reloaded", self.reload(proxy, self.files.listen("a") + plain(8443)))
        self.assertEqual(ask(GET % "/x").get("location"), "https://a.example:8443/x")

    def answer_to(self, port, text):
        with Client(port) as client:
            client.send(text)
            return client.answer()

    def test_the_demo_has_a_certificate_of_its_own(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        proxy = subprocess.Popen([PROXY, "--demo", "--tls", "--listen", "127.0.0.1:0", "--admin", "none"], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder})
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.terminate)
        port = int(re.search(r"https://127.0.0.1:(\d+)", proxy.stdout.readline())[1])
        self.assertEqual(os.listdir(folder), [])
        with TlsClient(port, "localhost") as client:
            self.assertEqual(client.ask().status, 200)
            with open(self.files.path("demo.pem"), "w") as pem:
                pem.write(ssl.DER_cert_to_PEM_cert(client.certificate()))
        trusting = ssl.create_default_context(cafile=self.files.path("demo.pem"))
        for name in ("localhost", "127.0.0.1"):
            with TlsClient(port, name, trusting) as client:
                self.assertEqual(client.ask().status, 200)

    # ---- Limits of handshakes

    def limits(self, *all, key='key = "client"\n'):
        return "".join(f'[[limit]]\nname = "{name}"\nrule = "{rule}"\n{key}{more}' for name, rule, more in all)

    def test_handshakes_of_a_client_are_limited_before_they_begin(self):
        """The client that exceeds the limit gets a reset, and the proxy neither reads its bytes nor signs."""
        limit = self.limits(("new", "3/1h", 'queue = "patience 0s"\n'))
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "new"\n') + limit)
        kept = [TlsClient(port) for _ in range(3)]
        for _ in range(2):
            with self.assertRaises(ConnectionResetError):
                TlsClient(port)
        for client in kept:
            self.assertEqual([client.ask().status for _ in range(5)], [200] * 5)  # requests are not limited
            client.close()
        other = TlsClient.__new__(TlsClient)
        Client.__init__(other, port, source="127.0.0.9")  # another client has its own permits
        other.sock = client_context().wrap_socket(other.sock, server_hostname="a.example")
        other.close()
        self.assertEqual(proxy.numbers()["new"]["granted"], 4)

    def test_a_resumed_handshake_costs_a_quarter_and_a_failed_one_twice(self):
        limit = self.limits(("new", "100/1h", 'cost = 4\nqueue = "patience 0s"\n'))
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "new"\n') + limit)
        context = client_context()

        def connect(name="a.example", session=None):
            with TlsClient(port, name, context, session) as client:
                client.ask()
                return client.sock.session

        session = connect()  # 4
        connect(session=session)  # 1
        for _ in range(2):
            with self.assertRaises(ssl.SSLError):
                connect("unknown.example")  # 8 each
        with Client(port) as client:
            client.send("x" * 100)  # 8
            client.ended()
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        # 100 - 29 = 71 permits are left: 17 full handshakes
        for _ in range(17):
            connect()
        with self.assertRaises(ConnectionResetError):
            connect()

    def test_handshakes_in_progress_take_turns(self):
        """A seat is held during the handshake only. A client that waits for one, and disconnects, leaves the queue."""
        limit = self.limits(("progress", "1 seats", 'queue = "max_waiting 1 patience 20s"\n'), key="")
        port = self.unused_port()
        proxy = self.start_with(self.files.listen("a", port=port, more='handshake_limits = "progress"\n') + limit)
        seats = lambda: proxy.numbers()["progress"]
        with TlsClient(port) as done:
            self.assertEqual(done.ask().status, 200)
            self.assertEqual(seats()["in use"], 0)
            with Client(port) as half:
                half.send(self.hello()[:10])
                wait_until(lambda: seats()["in use"] == 1)
                with Client(port) as waits:
                    waits.send(self.hello())
                    wait_until(lambda: seats()["waiting"] == 1)
                    with self.assertRaises(ConnectionResetError):
                        TlsClient(port)  # the queue is full
                wait_until(lambda: seats()["waiting"] == 0)
                waiting = threading.Thread(target=lambda: TlsClient(port).close())
                waiting.start()
                wait_until(lambda: seats()["waiting"] == 1)
            waiting.join()
            wait_until(lambda: seats()["in use"] == 0)
            self.assertEqual(done.ask().status, 200)

    def test_limits_of_handshakes_are_by_client_or_for_all(self):
        listen = self.files.listen("a", more='handshake_limits = ["one"]\n')
        for more, why in [
                ('rule = "3/1s"\nkey = "header X"\n', "`one` cannot limit handshakes: its key is not `client`"),
                ('rule = "3/1s"\ncost = "bytes"\n', "`one` cannot limit handshakes: its cost is not a number"),
                ('bandwidth = "1MB/s"\n', "`one` cannot limit handshakes: it limits bytes")]:
            status, said = self.check(listen + f'[[limit]]\nname = "one"\n{more}')
            self.assertEqual(status, 2, said)
            self.assertIn("listen `127.0.0.1:0`: " + why, said)
        status, said = self.check(listen)
        self.assertIn("unknown limit `one`", said)
        status, said = self.check('[[listen]]\naddress = "127.0.0.1:0"\nhandshake_limits = "one"\n[[upstream]]\nname = "a"\n'
                                  'servers = "UPSTREAM"\n[[limit]]\nname = "one"\nrule = "3/1s"\n')
        self.assertIn("`handshake_limits` requires `tls`", said)

    # ---- What the operator sees

    def metrics(self, proxy):
        address = re.search(r"status page http://127.0.0.1:(\d+)", proxy.greeting)[1]
        with Client(int(address)) as client:
            return client.ask("/metrics", fields="Connection: close\r\n").body.decode()

    def test_metrics_count_handshakes(self):
        proxy = self.start_tls("a", config='[admin]\naddress = "127.0.0.1:0"\n[timeouts]\nhandshake = "500ms"\n')
        Client(proxy.port).close()  # no handshake
        with TlsClient(proxy.port) as client:
            client.ask()
            session, context = client.sock.session, client.sock.context
        TlsClient(proxy.port, context=context, session=session).close()
        for name in ("unknown.example", None):
            with contextlib.suppress(ssl.SSLError):
                TlsClient(proxy.port, name, client_context(ciphers="AES128-SHA", high=ssl.TLSVersion.TLSv1_2))
        for text in (GET % "/", self.hello()[:20]):
            with Client(proxy.port) as client:
                client.send(text)
                client.ended()
        with Client(proxy.port) as client:
            client.send(self.hello()[:20])
            client.sock.shutdown(socket.SHUT_WR)
            client.ended()
        count = lambda: {m[1]: int(m[2]) for m in re.finditer(
            r'^weir_tls_handshakes(?:_failed)?_total\{(?:result|reason)="(\w+)"\} (\d+)', self.metrics(proxy), re.M) if int(m[2])}
        expected = {"full": 1, "resumed": 1, "unknown_name": 1, "no_common_cipher": 1, "not_tls": 1, "timeout": 1,
                    "disconnected": 1}
        wait_until(lambda: count() == expected)
        end = subprocess.run(["openssl", "x509", "-noout", "-enddate", "-in", self.files.path("a.pem")],
                             capture_output=True, text=True).stdout.split("=")[1].strip()
        self.assertIn(f'weir_tls_certificate_expires_seconds{{listener="127.0.0.1:0",certificate="{self.files.path("a.pem")}"}} '
                      f'{ssl.cert_time_to_seconds(end)}', self.metrics(proxy))

    def test_the_access_log_has_what_was_agreed(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        log = os.path.join(folder, "log")
        proxy = self.start_tls("a", config=f'access_log = "{log}"\naccess_log_format = "json"\n')
        with TlsClient(proxy.port) as named, TlsClient(proxy.port, None) as nameless:
            named.ask()
            cipher = named.sock.cipher()[0]
            wait_until(lambda: os.path.exists(log) and open(log).read().count("\n") == 1)
            nameless.ask()
            wait_until(lambda: open(log).read().count("\n") == 2)
        first, second = map(json.loads, open(log))
        self.assertEqual([first[k] for k in ("tls_version", "tls_cipher", "server_name")], ["TLSv1.3", cipher, "a.example"])
        self.assertIsNone(second["server_name"])

    # ---- Reloads under load

    def test_reloads_lose_no_connection(self):
        port = self.unused_port()
        config = self.files.listen("a", port=port)
        proxy = self.start_with(config)
        over = threading.Event()
        served = []

        def work(i):
            context = client_context(high=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3][i % 2])
            session = None
            with TlsClient(port, context=context) as kept:
                while not over.is_set():
                    with TlsClient(port, context=context, session=session) as client:
                        self.assertEqual(client.ask("/bytes/30000").body, pattern(30_000))
                        session = client.sock.session
                    self.assertEqual(kept.ask("/").status, 200)
                    served.append(1)

        def reload(i):
            try:
                n = 0
                while n < 20 or (len(served) < 40 and n < 2000):
                    files = ["a"] if n % 2 else ["new", "a", "a-rsa"]
                    self.assertIn("reloaded", self.reload(proxy, self.files.listen(*files, port=port)))
                    n += 1
            finally:
                over.set()

        in_parallel(5, lambda i: work(i) if i < 4 else reload(i))
        self.assertGreaterEqual(len(served), 40)

    def test_a_drain_ends_idle_connections(self):
        proxy = self.start_tls("a")
        with TlsClient(proxy.port) as idle, Client(proxy.port) as silent:
            self.assertEqual(idle.ask().status, 200)
            proxy.stop()
            self.assertEqual(idle.sock.recv(1), b"")
            self.assertEqual(silent.ended(), b"")


def built_in():
    done = subprocess.run([PROXY, "--config", "/dev/stdin", "--check"], capture_output=True, text=True, input=(
        '[[listen]]\naddress = "127.0.0.1:1"\ntls = [{certificate = "/x", key = "/x"}]\n'
        '[[upstream]]\nname = "a"\nservers = "127.0.0.1:1"\n'))
    return BUILT_WITHOUT not in done.stderr


if __name__ == "__main__":
    if os.access(PROXY, os.X_OK) and not built_in():
        skip(BUILT_WITHOUT)
    main(at_once=4)
