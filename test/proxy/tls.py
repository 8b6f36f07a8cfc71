#!/usr/bin/env python3
"""TLS towards clients: certificates by name, versions, resumption, and reloads."""

import os
import shutil
import ssl
import subprocess
import tempfile

from client_certificates import Authority
from support import PATIENCE, PROXY
from tls_support import (UNRECOGNIZED_NAME, PROTOCOL_VERSION, NO_APPLICATION_PROTOCOL, TlsClient, TlsTest,
                         alert_of, client_context, cpu_seconds, openssl, run_tests)


class Tls(TlsTest):
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
        self.assertRegex(done.stdout, b"CN ?= ?common.example")

    def test_an_unknown_name_can_get_the_first_certificate(self):
        proxy = self.start_tls("b", "a", more='unknown_name = "first"\n')
        self.assertEqual([self.served(proxy, n) for n in ("c.example", None, "a.example")], ["b", "b", "a"])

    def test_the_common_name_counts_without_another(self):
        proxy = self.start_tls("a", "common")
        self.assertEqual(self.served(proxy, "common.example"), "common")

    def certificate_for(self, proxy, name):
        with TlsClient(proxy.port, name) as client:
            self.assertEqual(client.ask().status, 200)
            return client.certificate()

    def test_the_name_selects_one_of_two_hundred_certificates(self):
        """They differ in their names only. The signatures are wrong, which neither the proxy nor this client verifies.
        A start takes less CPU time per certificate than four handshakes."""
        files = self.files
        files.make("n000", "n000.example", "*.n000.example")
        ders = [files.der("n000").replace(b"n000", b"n%03d" % i) for i in range(200)]
        for i, der in enumerate(ders):
            with open(files.path(f"n{i:03}.pem"), "w") as pem:
                pem.write(ssl.DER_cert_to_PEM_cert(der))
        entries = ", ".join(files.entry(f"n{i:03}", "n000") for i in range(200))
        proxy = self.start_with(files.listen().replace("tls = []", f"tls = [{entries}]"))
        begin = cpu_seconds(proxy)
        for i, der in enumerate(ders):
            self.assertEqual(self.certificate_for(proxy, f"{'x.' * (i % 2)}n{i:03}.example"), der)
        self.assertLess(begin, 4 * (cpu_seconds(proxy) - begin))
        for name in ("n200.example", "x.n200.example", "x.x.n000.example"):
            self.assertEqual(self.served(proxy, name), UNRECOGNIZED_NAME)

    def test_a_certificate_for_two_hundred_names(self):
        names = [f"m{i}.example" for i in range(200)]
        self.files.make("many", *names)
        proxy = self.start_tls("a", "many")
        for name in names:
            self.assertEqual(self.certificate_for(proxy, name), self.files.der("many"))
        self.assertEqual(self.served(proxy, "m200.example"), UNRECOGNIZED_NAME)
        with TlsClient(proxy.port, names[0]) as client:
            statuses = []
            for client.host in [*names, "a.example"]:
                statuses.append(client.ask().status)
            self.assertEqual(statuses, [200] * 200 + [421])

    def test_a_client_gets_the_kind_of_key_that_it_can_verify(self):
        two = dict(high=ssl.TLSVersion.TLSv1_2)
        for order in [("a", "a-rsa"), ("a-rsa", "a")]:
            proxy = self.start_tls(*order)
            for name in ("a.example", None):
                self.assertEqual(self.served(proxy, name, ciphers="ECDHE-RSA-AES128-GCM-SHA256", **two), "a-rsa")
                self.assertEqual(self.served(proxy, name, ciphers="ECDHE-ECDSA-AES128-GCM-SHA256", **two), "a")

    def test_an_exact_name_comes_before_a_wildcard_of_another_kind(self):
        self.files.make("exact-rsa", "e.wild.example", kind="rsa")
        self.files.make("wild", "*.wild.example", "wild.example")
        rsa = dict(high=ssl.TLSVersion.TLSv1_2, ciphers="ECDHE-RSA-AES128-GCM-SHA256")
        for order in [("exact-rsa", "wild"), ("wild", "exact-rsa")]:
            proxy = self.start_tls(*order)
            for name, expected in [("e.wild.example", "exact-rsa"), ("f.wild.example", "wild"), ("wild.example", "wild"),
                                   (None, order[0])]:
                with self.subTest(order=order, name=name):
                    self.assertEqual(self.served(proxy, name), expected)
            self.assertEqual(self.served(proxy, "e.wild.example", **rsa), "exact-rsa")
            with TlsClient(proxy.port, "e.wild.example", client_context(**rsa)) as client:
                client.host = "f.wild.example"  # a name that its certificate does not have
                self.assertEqual(client.ask().status, 421)
            with TlsClient(proxy.port, "f.wild.example") as client:
                client.host = "e.wild.example"  # one that its certificate has, too
                self.assertEqual(client.ask().status, 200)

    def test_the_first_certificate_may_begin_with_a_wildcard(self):
        port = self.unused_port()
        self.files.make("first", "w.example", "*.w.example")
        self.files.make("only", "*.w.example")
        self.files.make("other-first", "*.w.example", "w.example")
        first = 'unknown_name = "first"\n'
        proxy = self.start_with(self.files.listen("first", "b", port=port, more=first))
        for file in ("other-first", "only", "first", "only"):
            self.assertIn("reloaded", self.reload(proxy, self.files.listen(file, "b", port=port, more=first)))
            for name in (None, "127.0.0.1", "unknown.example", "x.w.example"):
                with self.subTest(file=file, name=name):
                    self.assertEqual(self.served(proxy, name), file)
        self.assertIn("reloaded", self.reload(proxy, self.files.listen("only", "b", port=port)))
        self.assertEqual([self.served(proxy, n) for n in (None, "unknown.example")], ["only", UNRECOGNIZED_NAME])

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
        """By a check, at the start and at a reload. It is served: perhaps its clients have another clock."""
        files = Authority()
        self.addCleanup(files.folder.cleanup)
        files.make("a", "a.example")
        files.make_authority("root")
        for name, begin, end in [("expired", -9000, -10), ("early", 9000, 10_000)]:
            files.issue(name, "/CN=a", "root", begin, end, "subjectAltName=DNS:a.example\n")
            os.chmod(files.path(name + ".key"), 0o600)
        port = self.unused_port()
        listen = lambda *names: files.listen(*names, port=port)
        for name, what in [("expired", "expired at"), ("early", "is not valid before")]:
            said = rf"listen `127.0.0.1:{port}`: certificate `.*/{name}.pem` {what} \d{{4}}-"
            with self.subTest(name=name):
                status, text = self.check(listen("a", name))
                self.assertEqual(status, 0)
                self.assertRegex(text, said)
                proxy = self.start_with(listen(name))
                self.assertRegex(proxy.process.stderr.readline(), said)
                self.assertEqual(self.certificate_for(proxy, "a.example"), files.der(name))
                self.assertIn("reloaded", self.reload(proxy, listen("a")))
                self.assertRegex(self.reload(proxy, listen(name)), said)
                self.assertIn("reloaded", proxy.process.stderr.readline())
                self.assertEqual(self.certificate_for(proxy, "a.example"), files.der(name))
                proxy.stop()

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

    def test_each_certificate_has_the_protocols(self):
        """Also after a reload, and in a resumed session."""
        port = self.unused_port()
        listen = lambda *files: self.files.listen(*files, port=port, more='unknown_name = "first"\n')
        proxy = self.start_with(listen("a", "b"))

        def chosen(name, *offered, high=ssl.TLSVersion.TLSv1_3):
            """The protocol of a connection, and of one that resumes its session; or the alert."""
            context, session, found = client_context(high=high), None, []
            context.set_alpn_protocols(offered)
            try:
                for _ in range(2):
                    with TlsClient(port, name, context, session) as client:
                        self.assertEqual(client.ask().status, 200)
                        self.assertEqual(client.sock.session_reused, bool(session))
                        session = client.sock.session
                        found.append(client.sock.selected_alpn_protocol())
            except ssl.SSLError as e:
                return alert_of(e)
            return found

        for files in (None, ("b", "a"), ("new", "b", "a-rsa")):
            if files:
                self.assertIn("reloaded", self.reload(proxy, listen(*files)))
            for name in ("a.example", "b.example", "x.a.example", "unknown.example", None):
                for high in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                    with self.subTest(files=files, name=name, high=high):
                        self.assertEqual(chosen(name, "h2", "http/1.1", high=high), ["http/1.1"] * 2)
                        self.assertEqual(chosen(name, "h2", high=high), NO_APPLICATION_PROTOCOL)

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


if __name__ == "__main__":
    run_tests()
