"""A strict parser of structured fields (RFC 9651): a field that a client must ignore raises ValueError.

Bare items are int, decimal.Decimal, str, bool, bytes, Token, Date and Display. An item is a pair of a bare item and its
parameters, a dictionary. An inner list is a pair of a list of items and its parameters."""

import base64
import decimal
import re
import string

KEY = re.compile(r"[a-z*][a-z0-9_\-.*]*")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
TOKEN = re.compile(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*")
BYTES = re.compile(r":([A-Za-z0-9+/=]*):")


class Token(str):
    pass


class Display(str):
    pass


class Date(int):
    pass


class _Text:
    def __init__(self, text):
        if not all(0x20 <= ord(c) <= 0x7E or c == "\t" for c in text):
            raise ValueError(f"no field of ASCII: {text!r}")
        self.text = text.strip(" ")
        self.at = 0

    def peek(self):
        return self.text[self.at : self.at + 1]

    def skip(self, characters):
        while self.peek() and self.peek() in characters:
            self.at += 1

    def take(self, character):
        if self.peek() != character:
            raise ValueError(f"no {character!r} at {self.at} of {self.text!r}")
        self.at += 1

    def match(self, pattern):
        found = pattern.match(self.text, self.at)
        if not found:
            raise ValueError(f"nothing to be read at {self.at} of {self.text!r}")
        self.at = found.end()
        return found

    def string(self):
        self.take('"')
        out = ""
        while True:
            c = self.peek()
            self.at += 1
            if c == "" or c == "\t":
                raise ValueError(f"a string that does not end in {self.text!r}")
            if c == '"':
                return out
            if c == "\\":
                c = self.peek()
                self.at += 1
                if c not in ('"', "\\"):
                    raise ValueError(f"a wrong escape in {self.text!r}")
            out += c

    def display(self):
        self.take("%")
        self.take('"')
        out = b""
        while True:
            c = self.peek()
            self.at += 1
            if c == "" or c == "\t":
                raise ValueError(f"a string that does not end in {self.text!r}")
            if c == '"':
                return Display(out.decode("utf-8", "strict"))
            if c == "%":
                digits = self.text[self.at : self.at + 2]
                if len(digits) != 2 or not set(digits) <= set("0123456789abcdef"):
                    raise ValueError(f"a wrong escape in {self.text!r}")
                self.at += 2
                out += bytes([int(digits, 16)])
            else:
                out += c.encode()

    def number(self):
        text = self.match(NUMBER)[0]
        whole, point, fraction = text.lstrip("-").partition(".")
        if self.peek() == "." or len(whole) > (12 if point else 15) or len(fraction) > 3:
            raise ValueError(f"no number: {text}")
        return decimal.Decimal(text) if point else int(text)

    def bare_item(self):
        c = self.peek()
        if c == '"':
            return self.string()
        if c == "%":
            return self.display()
        if c == ":":
            return base64.b64decode(self.match(BYTES)[1], validate=True)
        if c == "?":
            return self.match(re.compile(r"\?[01]"))[0] == "?1"
        if c == "@":
            self.take("@")
            seconds = self.number()
            if not isinstance(seconds, int):
                raise ValueError("a date with a fraction")
            return Date(seconds)
        if c == "-" or c in tuple(string.digits):
            return self.number()
        return Token(self.match(TOKEN)[0])

    def parameters(self):
        found = {}
        while self.peek() == ";":
            self.take(";")
            self.skip(" ")
            name = self.match(KEY)[0]
            found.pop(name, None)
            found[name] = True
            if self.peek() == "=":
                self.take("=")
                found[name] = self.bare_item()
        return found

    def item(self):
        return self.bare_item(), self.parameters()

    def member(self):
        if self.peek() != "(":
            return self.item()
        self.take("(")
        items = []
        while True:
            self.skip(" ")
            if self.peek() == ")":
                self.take(")")
                return items, self.parameters()
            items.append(self.item())
            if self.peek() not in (" ", ")"):
                raise ValueError(f"an inner list that does not end in {self.text!r}")

    def list(self):
        members = []
        while self.at < len(self.text):
            members.append(self.member())
            self.skip(" \t")
            if self.at == len(self.text):
                return members
            self.take(",")
            self.skip(" \t")
            if self.at == len(self.text):
                raise ValueError(f"a comma at the end of {self.text!r}")
        return members


def parse_list(lines):
    """The members of a list in one or several lines of a message."""
    return _Text(", ".join(lines)).list()
