"""A certificate and a client's socket for tests whose connections are encrypted (WEIR_OVER_TLS)."""

import contextlib
import os
import re
import socket
import ssl
import tempfile
import threading

from authority import make_self_signed

FOLDER = tempfile.TemporaryDirectory(prefix="weir-over-tls-")
CERTIFICATE, KEY = (os.path.join(FOLDER.name, name) for name in ("a.pem", "a.key"))
make_self_signed(CERTIFICATE, KEY)
TRUSTING = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


def encrypt(config):
    """Gives each listener without a certificate one."""
    line = f'tls = [{{ certificate = "{CERTIFICATE}", key = "{KEY}" }}]\n'
    return re.sub(r"(\[\[listen\]\]\n)(?!tls = )", lambda found: found[1] + line, config)


class EncryptedSocket:
    """The client's end of an encrypted connection, used like a plain socket: one thread may send while another receives, it can
    end the sending direction alone, and a connection that ends without announcement was reset."""

    def __init__(self, plain):
        self.plain = plain
        self.turn = threading.Lock()  # OpenSSL allows one call at a time
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = TRUSTING.wrap_bio(self.incoming, self.outgoing)
        self.received = b""
        self.unsent = b""
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
                break
            self.flush()
            self.take(plain.recv(65536))
        self.flush()

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def flush(self):
        with self.turn:
            self.unsent += self.outgoing.read()
        self.plain.sendall(self.unsent)
        self.unsent = b""

    def take(self, piece):
        if not piece:
            raise ConnectionResetError("the connection ended without announcement")
        with self.turn:
            self.incoming.write(piece)

    def recv(self, most):
        while True:
            if self.received:
                piece, self.received = self.received[:most], self.received[most:]
                return piece
            try:
                with self.turn:
                    return self.tls.read(most)
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                self.take(self.plain.recv(65536))

    def sendall(self, data):
        with self.turn:
            self.tls.write(data)
        self.flush()

    def send(self, data):
        """Accepts one record if the socket accepts all earlier ones."""
        if not self.unsent:
            with self.turn:
                data = data[:16384]
                self.tls.write(data)
                self.unsent = self.outgoing.read()
        elif self.send_rest():
            raise BlockingIOError
        else:
            return self.send(data)
        self.send_rest()
        return len(data)

    def send_rest(self):
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.unsent = self.unsent[self.plain.send(self.unsent) :]
        return self.unsent

    def shutdown(self, how):
        assert how == socket.SHUT_WR
        self.end_sending()

    def end_sending(self):
        with self.turn:  # for both: nothing may arrive between them
            with contextlib.suppress(ssl.SSLWantReadError):
                while piece := self.tls.read(65536):  # `unwrap` drops what arrived before it
                    self.received += piece
            with contextlib.suppress(ssl.SSLWantReadError):  # for the other side's announcement
                self.tls.unwrap()
        self.flush()
