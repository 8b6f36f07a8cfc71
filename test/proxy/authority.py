"""Certificates for servers, signed by an authority of the test, and upstreams that use TLS."""

import atexit
import contextlib
import os
import shutil
import ssl
import subprocess
import tempfile

PATIENCE = 20.0


def openssl(*arguments, **how):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, timeout=PATIENCE, check=True, **how)


def openssl_version():
    return tuple(map(int, openssl("version").stdout.split()[1].split(b".")[:2]))


def expired():
    """The options for a certificate whose time is over. OpenSSL 3.4 no longer accepts a negative number of days."""
    return ["-days", -1] if openssl_version() < (3, 4) else ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]


def make_self_signed(certificate, key, subject="/CN=test", *options, kind=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
    """Makes the files of a certificate and its key."""
    openssl("req", "-x509", "-newkey", *kind, "-nodes", "-subj", subject, "-keyout", key, "-out", certificate, *options)


class Authority:
    """An authority, and the certificates that it signed, in a temporary folder."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weir-authority-")
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.file = self.path("authority.pem")
        self.make_key("authority")
        self.serial = 0
        openssl("req", "-x509", "-key", self.path("authority.key"), "-subj", "/CN=Authority", "-days", 2, "-out", self.file)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_key(self, name):
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.path(name + ".key"))
        os.chmod(self.path(name + ".key"), 0o600)

    def issue(self, file, *names, subject="/CN=some server", days=1):
        """Makes FILE.pem and FILE.key. A name is `DNS:x` or `IP:x`. Returns `file`."""
        self.make_key(file)
        self.serial += 1
        openssl("req", "-new", "-key", self.path(file + ".key"), "-subj", subject, "-out", self.path(file + ".csr"))
        with open(self.path(file + ".ext"), "w") as extensions:
            extensions.write("basicConstraints = CA:FALSE\n")
            if names:
                extensions.write(f"subjectAltName = {','.join(names)}\n")
        openssl("x509", "-req", "-in", self.path(file + ".csr"), "-CA", self.file, "-CAkey", self.path("authority.key"),
                "-set_serial", self.serial, *(["-days", days] if days > 0 else expired()), "-extfile", self.path(file + ".ext"),
                "-out", self.path(file + ".pem"))
        return file

    def server(self, file, low=ssl.TLSVersion.TLSv1_2, high=ssl.TLSVersion.TLSv1_3, demands=False):
        """The context of a server with that certificate."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if low < ssl.TLSVersion.TLSv1_2:
            made.set_ciphers("DEFAULT@SECLEVEL=0")
        made.minimum_version, made.maximum_version = low, high
        made.load_cert_chain(self.path(file + ".pem"), self.path(file + ".key"))
        made.set_alpn_protocols(["http/1.1"])
        if demands:
            made.verify_mode = ssl.CERT_REQUIRED
            made.load_verify_locations(self.file)
        return made


def end_of_output(sock):
    """Announces the end, and does not wait for the other side."""
    with contextlib.suppress(OSError, ValueError):
        sock.setblocking(False)
        sock.unwrap()


def accepted(context, sock):
    """The encrypted socket, whose `close` announces the end of the output. Throws OSError if the handshake fails."""
    class Announcing(ssl.SSLSocket):
        def close(self):
            if getattr(self, "announces", True):
                end_of_output(self)
            super().close()

        def __exit__(self, *_):
            self.close()

    context.sslsocket_class = Announcing
    try:
        sock.settimeout(PATIENCE)
        made = context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False)
        made.settimeout(None)
        return made
    except BaseException:
        sock.close()
        raise
