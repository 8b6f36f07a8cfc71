#!/usr/bin/env python3
"""Certificates of clients: who is served, by which subject, over resumed sessions and reloads."""

import contextlib
import datetime
import json
import os
import shutil
import ssl
import tempfile
import time

from support import Client, ProxyTest, in_parallel, main, skip, wait_until
from tls_support import (BUILT_WITHOUT, Certificates, TlsClient, alert_of, built_in, client_context, handshakes_of, openssl,
                         reload_of)

TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
BAD = {"expired": "certificate expired", "early": "bad certificate", "self-signed": "unknown ca", "stranger": "unknown ca",
       "server-only": "unsupported certificate", "altered": "decrypt error"}
LIMIT = '[[limit]]\nname = "each"\nrule = "2/1h"\nkey = {key}\nqueue = "patience 0s"\n'
ROUTE = '[[route]]\nupstream = "shop"\n'


class Authority(Certificates):
    """Certificates of servers, authorities, and clients in a temporary folder."""

    def make_authority(self, file, by=None):
        """A root, or an authority that another one issued."""
        if not by:
            self.make(file, subject=f"/CN={file}", extensions=["keyUsage=keyCertSign"])
            return
        self.issue(file, f"/CN={file}", by, extensions="basicConstraints=critical,CA:true\nkeyUsage=keyCertSign\n")

    def issue(self, file, subject, by, begin=None, end=None, extensions="extendedKeyUsage=clientAuth\n"):
        """A certificate of an authority, valid for a day from now unless `begin` and `end`, in seconds from now, differ."""
        folder = self.path(f"issued-{file}")
        os.mkdir(folder)
        config = os.path.join(folder, "config")
        with open(config, "w") as out:
            fields = "".join(f"{name} = optional\n" for name in ("organizationName", "organizationalUnitName", "commonName"))
            out.write(f"[ca]\ndefault_ca = d\n[d]\ndatabase = {folder}/index\nnew_certs_dir = {folder}\nunique_subject = no\n"
                      f"rand_serial = yes\ndefault_md = sha256\npolicy = p\npreserve = yes\nx509_extensions = e\n"
                      f"[p]\n{fields}[e]\n{extensions}[req]\ndistinguished_name = n\nstring_mask = utf8only\n[n]\n")
        open(os.path.join(folder, "index"), "w").close()
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-utf8", "-config", config,
                "-subj", subject, "-keyout", self.path(file + ".key"), "-out", os.path.join(folder, "csr"), check=True)
        at = lambda seconds: (datetime.datetime.now(datetime.timezone.utc) +
                              datetime.timedelta(seconds=seconds)).strftime("%Y%m%d%H%M%SZ")
        openssl("ca", "-batch", "-notext", "-config", config, "-cert", self.path(by + ".pem"), "-keyfile",
                self.path(by + ".key"), "-in", os.path.join(folder, "csr"), "-out", self.path(file + ".pem"), "-startdate",
                at(begin or -86_400), "-enddate", at(end or 86_400), "-utf8", check=True)

    def append(self, to, *files):
        """Puts certificates of other files behind the ones of `to`."""
        with open(self.path(to + ".pem"), "a") as out:
            for file in files:
                with open(self.path(file + ".pem")) as one:
                    out.write(one.read())

    def ask_for(self, authorities="root", required=True, **how):
        """A listener that asks for certificates."""
        required = str(required).lower()
        return self.listen("a", more='client_certificates = { authorities = "%s", required = %s }\n' %
                           (self.path(authorities + ".pem"), required), **how)

    def context(self, file=None, high=TLS_1_3):
        """The context of a client that has this certificate."""
        made = client_context(high=high)
        if file:
            made.load_cert_chain(self.path(file + ".pem"), self.path(file + ".key"))
        return made


class ClientCertificates(ProxyTest):
    @classmethod
    def setUpClass(cls):
        cls.files = files = Authority()
        cls.addClassCleanup(files.folder.cleanup)
        files.make("a", "a.example")
        files.make_authority("root")
        files.make_authority("other-root")
        files.make_authority("middle", by="root")
        files.issue("anna", "/O=shop/CN=anna", "root")
        files.issue("bert", "/CN=bert", "root")
        files.issue("carl", "/CN=carl", "middle")
        files.issue("expired", "/CN=anna", "root", begin=-9000, end=-10)
        files.issue("early", "/CN=anna", "root", begin=9000, end=10_000)
        files.make("self-signed", subject="/CN=anna")
        files.issue("stranger", "/CN=anna", "other-root")
        files.issue("server-only", "/CN=anna", "root", extensions="extendedKeyUsage=serverAuth\n")
        shutil.copy(files.path("anna.key"), files.path("altered.key"))
        signed = bytearray(files.der("anna"))
        signed[-1] ^= 1  # the signature
        with open(files.path("altered.pem"), "w") as out:
            out.write(ssl.DER_cert_to_PEM_cert(bytes(signed)))

    def outcome(self, port, file=None, high=TLS_1_3, fields="", target="/"):
        """The status of a request of a client with this certificate, or the alert that it gets."""
        try:
            with TlsClient(port, context=self.files.context(file, high)) as client:
                return client.ask(target, fields=fields).status
        except ssl.SSLError as e:
            return alert_of(e)

    def subjects(self):
        """The subjects that the upstream got."""
        return [dict(r.fields).get("x-subject") for r in self.upstream.requests]

    def sends_subject(self, more=""):
        return ROUTE + more + '[route.request_headers]\nadd = { X-Subject = "{client_certificate}" }\n'

    # ---- Who is served

    def test_a_required_certificate(self):
        proxy = self.start_with('[admin]\naddress = "127.0.0.1:0"\n' + self.files.ask_for())
        port = proxy.port
        for high in (TLS_1_2, TLS_1_3):
            self.assertEqual(self.outcome(port, "anna", high), 200)
            for file in BAD:
                with self.subTest(file=file, high=high):
                    self.assertRegex(str(self.outcome(port, file, high)), BAD[file])
        self.assertIn("certificate required", str(self.outcome(port, None, TLS_1_3)))
        self.assertIn("handshake failure", str(self.outcome(port, None, TLS_1_2)))
        self.assertEqual(self.upstream.targets(), ["/"] * 2)
        wait_until(lambda: handshakes_of(proxy) == {"full": 2, "no_certificate": 2, "bad_certificate": 12}, "the counts")

    def test_an_optional_certificate(self):
        proxy = self.start_with(self.files.ask_for(required=False) + self.sends_subject())
        for high in (TLS_1_2, TLS_1_3):
            for file in ("anna", None):
                self.assertEqual(self.outcome(proxy.port, file, high), 200)
            for file, why in BAD.items():
                self.assertRegex(str(self.outcome(proxy.port, file, high)), why)
        self.assertEqual(self.subjects(), ["CN=anna,O=shop", ""] * 2)

    def test_failures_cost_twice(self):
        limit = '[[limit]]\nname = "new"\nrule = "6/1h"\ncost = 1\nkey = "client"\nqueue = "patience 0s"\n'
        listen = self.files.ask_for().replace("[[upstream]]", 'handshake_limits = "new"\n[[upstream]]')
        port = self.start_with(listen + limit).port
        self.assertEqual([self.outcome(port, "anna"), self.outcome(port, "bert")], [200, 200])  # 2
        for file in (None, "expired"):
            self.assertIn("certificate", str(self.outcome(port, file)))  # 2 each
        with self.assertRaises(ConnectionResetError):
            self.outcome(port, "anna")

    def test_the_reason_arrives_behind_a_large_request(self):
        """Unread bytes would make the system reset the connection, and the client lose the alert."""
        port = self.start_with(self.files.ask_for()).port
        for _ in range(20):
            with self.assertRaisesRegex(ssl.SSLError, "(?i)certificate.required"):
                with TlsClient(port) as client:
                    client.send("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\n" + "x" * 50_000)
                    client.answer()

    def test_an_authority_below_the_root(self):
        """The client sends the certificates between. An authority in the file needs no issuer there."""
        files = self.files
        shutil.copy(files.path("carl.key"), files.path("chain.key"))
        files.append("chain", "carl", "middle")
        root, middle = (self.start_with(files.ask_for(one)).port for one in ("root", "middle"))
        self.assertIn("unknown ca", str(self.outcome(root, "carl")))
        self.assertEqual([self.outcome(root, "chain"), self.outcome(middle, "carl"), self.outcome(middle, "chain")], [200] * 3)
        self.assertIn("unknown ca", str(self.outcome(middle, "anna")))

    def test_a_client_sends_at_most_32_kib_of_certificates(self):
        files, most = self.files, 32 * 1024
        leaf, other = len(files.der("carl")), len(files.der("middle"))
        # Each has 5 bytes more in TLS 1.3, and 3 in TLS 1.2.
        for file, n in (("fits", (most - leaf - 10) // (other + 5)), ("too-long", most // (other + 3))):
            shutil.copy(files.path("carl.key"), files.path(file + ".key"))
            files.append(file, "carl", *["middle"] * n)
        port = self.start_with(files.ask_for()).port

        def is_served(file, high):
            with contextlib.suppress(OSError):  # the client still sends when the proxy ends the connection
                return self.outcome(port, file, high) == 200

        for high in (TLS_1_2, TLS_1_3):
            self.assertEqual([bool(is_served(file, high)) for file in ("fits", "too-long", "anna")], [True, False, True])

    def test_several_authorities_and_their_names(self):
        self.files.append("both", "other-root", "root")
        port = self.start_with(self.files.ask_for("both")).port
        self.assertEqual([self.outcome(port, "anna"), self.outcome(port, "stranger")], [200, 200])
        for version in ("-tls1_2", "-tls1_3"):
            done = openssl("s_client", "-connect", f"127.0.0.1:{port}", "-servername", "a.example", version, input=b"")
            self.assertIn(b"Acceptable client certificate CA names\nCN=other-root\nCN=root\n", done.stdout.replace(b" = ", b"="))

    # ---- Its subject

    def test_each_subject_has_its_own_limiter(self):
        config = self.files.ask_for(required=False) + LIMIT.format(key='"client_certificate"') + ROUTE + 'limits = "each"\n'
        port = self.start_with(config).port
        of = lambda file, **how: [self.outcome(port, file, **how) for _ in range(3)]
        self.assertEqual(of("anna"), [200, 200, 429])
        self.assertEqual(of("bert", high=TLS_1_2), [200, 200, 429])
        self.assertEqual(of(None), [200, 200, 429])  # a key for all requests without one
        self.assertEqual(of("anna", fields="Client-Certificate: CN=bert\r\n"), [429] * 3)

    def test_a_missing_subject_can_be_replaced_or_rejected(self):
        config = self.files.ask_for(required=False) + LIMIT.format(key='"client_certificate or header X-Key or reject"')
        port = self.start_with(config + ROUTE + 'limits = "each"\n').port
        self.assertEqual([self.outcome(port) for _ in range(3)], [400] * 3)
        self.assertEqual([self.outcome(port, fields="X-Key: 1\r\n") for _ in range(3)], [200, 200, 429])
        self.assertEqual([self.outcome(port, "anna", fields="X-Key: 1\r\n") for _ in range(3)], [200, 200, 429])

    def test_requests_without_tls_have_no_subject(self):
        plain = self.unused_port()
        config = self.files.ask_for() + f'[[listen]]\naddress = "127.0.0.1:{plain}"\n' + self.sends_subject()
        self.start_with(config)
        with Client(plain) as client:
            self.assertEqual(client.ask(fields="X-Subject: CN=anna\r\n").status, 200)
        self.assertEqual(self.subjects(), [""])

    def test_a_client_cannot_forge_the_field(self):
        proxy = self.start_with("[clients]\npass_underscores = true\n" + self.files.ask_for(required=False) +
                                self.sends_subject())
        forged = ["X-Subject: CN=root\r\n", "x-subject: CN=root\r\nX-SUBJECT: CN=root\r\n", "X_Subject: CN=root\r\n",
                  "X-Subject: CN=root\r\nConnection: X-Subject\r\n"]
        for fields in forged:
            for file in ("bert", None):
                self.assertEqual(self.outcome(proxy.port, file, fields=fields), 200)
        with TlsClient(proxy.port) as client:
            client.send("POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nTrailer: X-Subject\r\n\r\n"
                        "1\r\nx\r\n0\r\nX-Subject: CN=root\r\n\r\n")
            self.assertEqual(client.answer().status, 200)
        for r in self.upstream.requests:
            self.assertEqual([n for n, _ in r.fields if n.replace("_", "-") == "x-subject"], ["x-subject"], r.fields)
        self.assertEqual(self.subjects(), ["CN=bert", ""] * len(forged) + [""])

    def test_odd_subjects(self):
        """Printable ASCII in the field, the log and the key: no line break, no quote that ends a text."""
        files = self.files
        folder = self.enterContext(tempfile.TemporaryDirectory())
        log = os.path.join(folder, "log")
        config = (f'access_log = "{log}"\naccess_log_format = "json"\n' + files.ask_for() +
                  LIMIT.format(key='"client_certificate"') + self.sends_subject('limits = "each"\n'))
        port = self.start_with(config).port
        long = [f"{i:064d}" for i in range(64)]
        subjects = {
            "quote": ('/CN="anna" \\\\ <a>;b,c=d\\+e', r'CN=\"anna\" \\ \<a\>\;b\,c=d\+e'),
            "line": ("/CN=a\r\nX-Admin: yes\r\n\r\nGET", r"CN=a\0D\0AX-Admin: yes\0D\0A\0D\0AGET"),
            "utf8": ("/CN=Zo\u00eb \u4e16\u754c", r"CN=Zo\C3\AB \E4\B8\96\E7\95\8C"),
            "control": ("/CN=a\x7f\x01\x1b[2J", r"CN=a\7F\01\1B[2J"),
            "blanks": ("/CN= a ", r"CN=\ a\20"),
            "hash": ("/CN=#00", r"CN=\#00"),
            "long": ("".join("/OU=" + one for one in long), ",".join("OU=" + one for one in reversed(long)))}
        for name, (subject, text) in subjects.items():
            with self.subTest(name=name):
                files.issue("odd-" + name, subject, "root")
                outcomes = [self.outcome(port, "odd-" + name, target="/" + name) for _ in range(3)]
                self.assertEqual(outcomes, [200, 200, 429])
                got = [r for r in self.upstream.requests if r.target == "/" + name]
                self.assertEqual([dict(r.fields)["x-subject"] for r in got], [text] * 2)
                self.assertNotIn("x-admin", dict(got[0].fields))
        wait_until(lambda: open(log).read().count("\n") == 3 * len(subjects))
        logged = [json.loads(line)["client_certificate"] for line in open(log)]
        self.assertEqual(logged, [text for _, text in subjects.values() for _ in range(3)])

    def test_a_certificate_without_a_subject_counts_as_none(self):
        self.files.issue("nobody", "/", "root")
        port = self.start_with(self.files.ask_for() + self.sends_subject()).port
        self.assertEqual(self.outcome(port, "nobody"), 200)
        self.assertEqual(self.subjects(), [""])

    def test_a_check_has_no_subject(self):
        """Its peer is another proxy, whose certificate is not the client's."""
        listen = self.files.ask_for().replace("[[upstream]]", "check = {}\n[[upstream]]")
        port = self.start_with('[clients]\ntrusted = "127.0.0.1"\n' + listen + LIMIT.format(key='"client_certificate or reject"') +
                               '[[route]]\ncheck = true\nlimits = "each"\n').port
        described = "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n"
        self.assertEqual(self.outcome(port, "anna", fields=described), 400)

    # ---- Resumed sessions

    def resume(self, port, context, session):
        """Whether the proxy resumes the session, and the subject that the upstream gets; or the alert."""
        try:
            with TlsClient(port, context=context, session=session) as client:
                self.assertEqual(client.ask().status, 200)
                return client.sock.session_reused, self.subjects()[-1]
        except ssl.SSLError as e:
            return alert_of(e)

    def begin(self, port, file, high):
        context = self.files.context(file, high)
        with TlsClient(port, context=context) as client:
            self.assertEqual(client.ask().status, 200)
            return context, client.sock.session

    def test_a_resumed_session_keeps_the_subject(self):
        proxy = self.start_with(self.files.ask_for(required=False) + self.sends_subject())
        for high in (TLS_1_2, TLS_1_3):
            for file, subject in (("anna", "CN=anna,O=shop"), (None, "")):
                known = self.begin(proxy.port, file, high)
                self.assertEqual(self.resume(proxy.port, *known), (True, subject))
                self.assertIn("reloaded", reload_of(self, proxy, proxy.config))
                self.assertEqual(self.resume(proxy.port, *known), (True, subject))

    def test_a_session_is_verified_again_elsewhere(self):
        """At another listener, with other authorities, or where a certificate is required."""
        files, ports = self.files, (self.unused_port(), self.unused_port())
        second = lambda more: f'[[listen]]\naddress = "127.0.0.1:{ports[1]}"\ntls = [{files.entry("a")}]\n{more}'
        open_to_all = second("")
        strict = second(f'client_certificates = {{ authorities = "{files.path("other-root.pem")}" }}\n')
        config = lambda *of, more=open_to_all: files.ask_for(*of, port=ports[0]) + more + self.sends_subject()
        proxy = self.start_with(config("root"))
        for high in (TLS_1_2, TLS_1_3):
            anna = self.begin(ports[0], "anna", high)
            nobody = self.begin(ports[1], None, high)
            self.assertEqual(self.resume(ports[1], *anna), (False, ""))
            self.assertIn("reloaded", reload_of(self, proxy, config("root", more=strict)))
            for session in (anna, nobody):
                self.assertRegex(str(self.resume(ports[1], *session)), "unknown ca|certificate required|handshake failure")
            self.assertIn("reloaded", reload_of(self, proxy, config("other-root")))
            self.assertIn("unknown ca", str(self.resume(ports[0], *anna)))
            self.assertIn("reloaded", reload_of(self, proxy, config("other-root", False)))
            self.assertIn("unknown ca", str(self.resume(ports[0], *anna)))
            anonymous = self.begin(ports[0], None, high)
            self.assertEqual(self.resume(ports[0], *anonymous), (True, ""))
            self.assertIn("reloaded", reload_of(self, proxy, config("other-root", True)))
            self.assertRegex(str(self.resume(ports[0], *anonymous)), "certificate required|handshake failure")
            self.assertIn("reloaded", reload_of(self, proxy, config("root")))

    def test_a_session_ends_with_the_certificate(self):
        for high in (TLS_1_2, TLS_1_3):
            name = f"brief{int(high)}"
            self.files.issue(name, "/CN=brief", "root", end=4)
            until = time.time() + 4
            port = self.start_with(self.files.ask_for() + self.sends_subject()).port
            known = self.begin(port, name, high)
            self.assertEqual(self.resume(port, *known), (True, "CN=brief"))
            time.sleep(max(0, until - time.time()) + 1.1)
            self.assertIn("expired", str(self.resume(port, *known)))

    # ---- The file of the authorities

    def test_errors_name_the_file_and_the_reason(self):
        files = self.files
        write = lambda name, text: open(files.path(name + ".pem"), "w").write(text)
        with open(files.path("root.pem")) as root:
            whole = root.read()
        write("empty", "")
        write("text", "nothing\n")
        write("cut", whole[:300])
        write("second-cut", whole + whole[:300])
        write("garbled", whole.replace(whole[100:140], "A" * 40))
        shutil.copy(files.path("a.key"), files.path("only-key.pem"))
        config = files.path("crl.conf")
        open(files.path("index"), "w").close()
        with open(config, "w") as out:
            out.write(f"[ca]\ndefault_ca = d\n[d]\ndatabase = {files.path('index')}\ndefault_md = sha256\ndefault_crl_days = 1\n")
        openssl("ca", "-gencrl", "-config", config, "-cert", files.path("root.pem"), "-keyfile", files.path("root.key"), "-out",
                files.path("revoked.pem"), check=True)
        files.append("revoked", "root")
        proxy = self.start_with(files.ask_for())
        for file, why in [("none", "No such file or directory"), ("empty", "it has no certificate in PEM format"),
                          ("text", "it has no certificate in PEM format"), ("only-key", "it has no certificate in PEM format"),
                          ("cut", ""), ("second-cut", ""), ("garbled", ""),
                          ("revoked", "it has a list of revoked certificates")]:
            with self.subTest(file=file):
                said = reload_of(self, proxy, files.ask_for(file))
                self.assertIn(f"listen `127.0.0.1:0`: `{files.path(file + '.pem')}`: {why}", said)
                self.assertIn("stays active", proxy.process.stderr.readline())
                self.assertEqual([self.outcome(proxy.port, "anna")], [200])
                self.assertIn("certificate required", str(self.outcome(proxy.port)))

    def test_reloads_under_load(self):
        """No client of both authorities fails, and none without a certificate is served."""
        self.files.append("two", "other-root", "root")
        port = self.unused_port()
        proxy = self.start_with(self.files.ask_for("root", port=port))

        def work(i):
            for _ in range(20):
                if i == 0:
                    self.assertIn("certificate required", str(self.outcome(port)))
                elif i < 3:
                    self.assertEqual(self.outcome(port, "anna"), 200)
                else:
                    file = ["two", "root"][_ % 2]
                    self.assertIn("reloaded", reload_of(self, proxy, self.files.ask_for(file, port=port)))

        in_parallel(4, work)


if __name__ == "__main__":
    if not built_in():
        skip(BUILT_WITHOUT)
    main(at_once=4)
