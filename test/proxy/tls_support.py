"""Certificates in temporary folders, and clients of TLS."""

import contextlib
import hashlib
import hmac
import os
import re
import select
import shutil
import signal
import ssl
import struct
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
ALERT, HANDSHAKE, DATA = 21, 22, 23  # kinds of records


def openssl(*arguments, **how):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, timeout=PATIENCE, **how)


class Certificates:
    """Self-signed certificates in a temporary folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-tls-")
        self.made = {}

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
        self.made[file] = self.der(file)

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


def client_hello(context=None):
    """The records of a ClientHello."""
    outgoing = ssl.MemoryBIO()
    tls = (context or client_context()).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="a.example")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def message_in(records):
    """The bytes in records."""
    message = b""
    while records:
        size = int.from_bytes(records[3:5], "big")
        message, records = message + records[5 : 5 + size], records[5 + size :]
    return message


def in_records(message, size):
    """A message of a handshake in records of `size` bytes."""
    pieces = [message[i : i + size] for i in range(0, len(message), size)]
    return b"".join(struct.pack("!BHH", HANDSHAKE, 0x301, len(piece)) + piece for piece in pieces)


class RecordClient(Client):
    """A client of TLS 1.2 that can send records of any kind. They are encrypted with ChaCha20-Poly1305 (RFC 8439, RFC 7905)."""

    def __init__(self, port):
        super().__init__(port)
        context = client_context(high=ssl.TLSVersion.TLSv1_2, ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")
        incoming, outgoing, received = ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        with tempfile.NamedTemporaryFile("r") as log:
            context.keylog_filename = log.name
            tls = context.wrap_bio(incoming, outgoing, server_hostname="a.example")
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    break
                self.send(outgoing.read())
                piece = self.sock.recv(65536)
                received += piece
                incoming.write(piece)
            client_random, secret = map(bytes.fromhex, log.read().split()[-2:])
        seed = b"key expansion" + received[11:43] + client_random
        a, block = seed, b""
        while len(block) < 76:
            a = hmac.digest(secret, a, hashlib.sha256)
            block += hmac.digest(secret, a + seed, hashlib.sha256)
        self.key, self.nonce, self.number = block[:32], int.from_bytes(block[64:76], "big"), 1  # Finished was record 0

    def record(self, kind, data):
        """The next record."""
        nonce = (self.nonce ^ self.number).to_bytes(12, "big")
        head = struct.pack("!QBHH", self.number, kind, 0x303, len(data))
        self.number += 1
        stream = b"".join(self.block(i, nonce) for i in range(len(data) // 64 + 2))
        sealed = bytes(a ^ b for a, b in zip(data, stream[64:]))
        padded = lambda text: text + bytes(-len(text) % 16)
        tag = self.tag(stream, padded(head) + padded(sealed) + struct.pack("<QQ", len(head), len(sealed)))
        return struct.pack("!BHH", kind, 0x303, len(sealed) + 16) + sealed + tag

    # The columns, then the diagonals.
    QUARTERS = [(i, 4 + (i + k) % 4, 8 + (i + 2 * k) % 4, 12 + (i + 3 * k) % 4) for k in (0, 1) for i in range(4)]

    def block(self, n, nonce):
        begin = struct.unpack("<16I", b"expand 32-byte k" + self.key + n.to_bytes(4, "little") + nonce)
        x, mask = list(begin), 0xFFFFFFFF
        for i, j, k, m in self.QUARTERS * 10:
            a, b, c, d = x[i], x[j], x[k], x[m]
            for first, second in ((16, 12), (8, 7)):
                a = a + b & mask
                d ^= a
                d = (d << first | d >> 32 - first) & mask
                c = c + d & mask
                b ^= c
                b = (b << second | b >> 32 - second) & mask
            x[i], x[j], x[k], x[m] = a, b, c, d
        return struct.pack("<16I", *(one + other & mask for one, other in zip(begin, x)))

    @staticmethod
    def tag(key, text):
        r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
        total = 0
        for i in range(0, len(text), 16):
            total = (total + int.from_bytes(text[i : i + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
        return ((total + int.from_bytes(key[16:32], "little")) % (1 << 128)).to_bytes(16, "little")

    def next_kind(self):
        """Receives a record, and returns its kind."""
        kind, _, size = struct.unpack("!BHH", self.reader.exactly(5))
        self.reader.exactly(size)
        return kind


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
        return next(file for file, der in self.files.made.items() if der == got)

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
                piece = client.sock.recv(65536)
                if not piece:
                    raise EOFError
                incoming.write(piece)
            finally:
                client.send(outgoing.read())


def cpu_seconds(proxy):
    with open(f"/proc/{proxy.process.pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(proxy):
    """In KiB."""
    with open(f"/proc/{proxy.process.pid}/status") as status:
        return int(status.read().split("VmRSS:")[1].split()[0])


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
