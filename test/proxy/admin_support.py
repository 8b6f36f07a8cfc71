"""Sends requests to the admin server of a weir-proxy."""

import contextlib
import json
import re
import time
import urllib.parse

from support import Client

TEXT = "Content-Type: text/plain\r\n"


def port_of(proxy):
    return int(re.search(r"; status page http://127\.0\.0\.1:(\d+)\n$", proxy.greeting)[1])


def here(proxy):
    return f"127.0.0.1:{port_of(proxy)}"


def ask(port, text):
    """Sends a request to the admin server, and returns the client when the response begins.

    The server closes a connection that sends no header within 2 s. If a busy machine delayed this client, it asks again."""
    while True:
        begun = time.monotonic()
        client = Client(port, encrypted=False)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.send(text)
        was_late = time.monotonic() - begun > 1
        with contextlib.suppress(ConnectionResetError):
            if client.reader.more():
                return client
        client.close()
        if not was_late:
            raise EOFError("the connection ended without a response")


def request(proxy, target, method="GET", fields="", body=b"", host=None, port=None):
    """Sends a request to the admin server; `host` replaces the Host that names its address."""
    length = f"Content-Length: {len(body)}\r\n" if method in ("PUT", "POST") else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: {host or here(proxy)}\r\n{fields}{length}\r\n"
    with ask(port or port_of(proxy), head.encode() + body) as client:
        return client.answer(method)


def stats(proxy):
    answer = request(proxy, "/stats.json")
    assert answer.status == 200, (answer.status, answer.body)
    return json.loads(answer.body)


def limit_of(proxy, name):
    return next(one for one in stats(proxy)["limits"] if one["name"] == name)


def put(proxy, name, rule, fields=TEXT, host=None):
    answer = request(proxy, "/limits/" + urllib.parse.quote(name, safe=""), "PUT", fields, rule.encode(), host)
    return answer.status, answer.body.decode().rstrip("\n")


def post(proxy, name, action, rule="", fields=TEXT, host=None):
    """Sends a `POST` of `preview` or `undo`."""
    target = f"/limits/{urllib.parse.quote(name, safe='')}/{action}"
    answer = request(proxy, target, "POST", fields, rule.encode(), host)
    return answer.status, answer.body.decode().rstrip("\n")


class Watcher:
    """Reads `/events`, as a browser does."""

    def __init__(self, port):
        self.client = ask(port, f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n")
        first, fields = self.client.reader.head()
        self.status = int(first.split()[1])
        self.type = dict(fields)["content-type"]

    def event(self):
        """The name and the data of the next event that has a name."""
        while True:
            block = self.client.reader.until(b"\n\n").decode()
            fields = dict(line.split(": ", 1) for line in block.split("\n"))
            if "event" in fields:
                return fields["event"], json.loads(fields["data"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()
