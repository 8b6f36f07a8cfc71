"""Servers with TLS, and upstreams of them."""

import shutil
import signal
import ssl
import subprocess
import time

import authority
from admin_support import request
from support import PROXY, Client, ProxyTest, Upstream, skip

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


SLOW = '[timeouts]\nupstream_idle = "10s"\n'  # to give up a kept connection


def closes(announces, first=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", pause=0.0):
    """A script that sends `first`, and closes the connection after `pause`, with or without an announcement."""
    def close(sock, request, reader):
        sock.sendall(first)
        time.sleep(pause)
        sock.announces = announces
        return False

    return close


class Encrypted(Upstream):
    """An upstream with TLS. `handshakes` has (version, whether it resumed, protocol of ALPN, name of SNI), or an error;
    `attempts` has the same for connections without a request."""

    def __init__(self, file="local", by=TRUSTED, context=None):
        self.context = None
        self.certify(file, by, context)
        self.handshakes = []
        self.attempts = []
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
            self.handshakes.append(e)
            return
        # At its start the proxy only tries the handshake: it offers no protocol.
        is_attempt = sock.selected_alpn_protocol() is None
        (self.attempts if is_attempt else self.handshakes).append(
            (sock.version(), sock.session_reused, sock.selected_alpn_protocol(), getattr(sock, "name", None)))
        if not is_attempt:
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
