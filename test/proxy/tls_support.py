"""Certificates in temporary folders, and clients of TLS."""

import contextlib
import os
import re
import select
import shutil
import signal
import ssl
import subprocess
import tempfile

from admin_support import request
from authority import make_self_signed
from support import PATIENCE, PROXY, Client, ProxyTest, Reader, main, skip

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
        of_kind = {} if kind == "ec" else {"kind": ["rsa:2048"]}
        more = [f"subjectAltName={','.join('DNS:' + n for n in names)}"] if names else []
        make_self_signed(self.path(file + ".pem"), self.path(file + ".key"), subject,
                         *(part for e in [*more, *extensions] for part in ("-addext", e)), **of_kind)
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


class TlsTest(ProxyTest):
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

    def check(self, config):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        file = os.path.join(folder, "weir.toml")
        with open(file, "w") as out:
            out.write(self.filled(config))
        done = subprocess.run([PROXY, "--config", file, "--check"], capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

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


def handshakes_of(proxy):
    """The positive numbers of handshakes, by result or reason."""
    found = re.finditer(r'^weir_tls_handshakes(?:_failed)?_total\{(?:result|reason)="(\w+)"\} ([1-9]\d*)$',
                        request(proxy, "/metrics").body.decode(), re.M)
    return {one[1]: int(one[2]) for one in found}


def built_in():
    done = subprocess.run([PROXY, "--config", "/dev/stdin", "--check"], capture_output=True, text=True, input=(
        '[[listen]]\naddress = "127.0.0.1:1"\ntls = [{certificate = "/x", key = "/x"}]\n'
        '[[upstream]]\nname = "a"\nservers = "127.0.0.1:1"\n'))
    return BUILT_WITHOUT not in done.stderr


def run_tests(at_once=4):
    """Runs the tests of the program, unless weir-proxy has no TLS."""
    if os.access(PROXY, os.X_OK) and not built_in():
        skip(BUILT_WITHOUT)
    main(at_once)
