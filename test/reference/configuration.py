"""weir.schema.json and the reader of weir-proxy agree: on the keys of each table, their values, bounds and defaults."""

import concurrent.futures
import copy
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../src/docs/reference"))
from write_tables import PROGRAMS, SCHEMA, Table, toml

try:
    import jsonschema
except ImportError:
    jsonschema = None
try:
    import tomllib
except ImportError:
    tomllib = None

FOLDER = tempfile.TemporaryDirectory(prefix="weir-reference-")
with open(os.path.join(FOLDER.name, "busy.html"), "w") as busy:
    busy.write("busy\n")

# A valid document. The test of a key changes its table, which is the first one of a list.
BASE = {
    "upstream": [{"name": "shop", "servers": ["127.0.0.1:1"]}],
    "store": [{"name": "counts", "url": "redis://a"}],
    "limit": [{"name": "everybody", "rule": "100/1s"}],
}
# The other keys that a table needs.
NEEDS = {
    ("listen",): {"address": "127.0.0.1:1"},
    ("listen", "tls"): {"certificate": "/a", "key": "/b"},
    ("listen", "client_certificates"): {"authorities": "/a"},
    ("listen", "tcp"): {"upstream": "shop"},
    ("listen", "tcp", "route"): {"sni": "db.example.org", "upstream": "shop"},
    ("state",): {"file": "/a"},
    ("agent",): {"path": "/a", "store": "counts"},
    ("upstream", "server"): {"address": "127.0.0.1:2"},
    ("route",): {"upstream": "shop"},
    ("route", "upgrade"): {"to": "websocket"},
    ("route", "body"): {"file": "busy.html"},
    ("limit", "bandwidth"): {"down": "1MB/s"},
    ("listen", "tcp", "bandwidth"): {"down": "1MB/s"},
    ("body",): {"status": 404, "file": "busy.html"},
}
# The other keys that the table above a table needs, in place of those in NEEDS.
NEEDS_ABOVE = {
    ("route", "body"): {"respond": 503},
    ("listen", "client_certificates"): {"address": "127.0.0.1:1", "tls": [{"certificate": "/a", "key": "/b"}]},
}
# The other tables that a table needs.
NEEDS_BESIDE = {
    ("listen", "check"): {"clients": {"trusted": "10.0.0.1"}, "route": [{"check": True}]},
    ("limit", "bandwidth"): {"limit": [{"name": "bytes"}]},
    ("upstream", "tls"): {"upstream": [{"name": "shop", "servers": ["https://a:1"]}]},
}
# The other tables that a key needs.
BESIDE_KEY = {
    ("upstream", "proxy_protocol"): {"listen": [{"address": "127.0.0.1:1", "tcp": {"upstream": "shop"}}]},
    ("listen", "limits"): {"limit": [{"name": "everybody", "bandwidth": {"down": "1MB/s"}}]},
}
# The other keys that a key needs; None removes a key.
NEEDS_OF_KEY = {
    ("listen", "proxy_protocol"): {"address": "unix:/a"},
    ("listen", "mode"): {"address": "unix:/a"},
    ("listen", "handshake_limits"): {"tls": [{"certificate": "/a", "key": "/b"}]},
    ("listen", "alpn"): {"tls": [{"certificate": "/a", "key": "/b"}], "tcp": {"upstream": "shop"}},
    ("listen", "unknown_name"): {"tls": [{"certificate": "/a", "key": "/b"}]},
    ("upstream", "tls", "certificate"): {"key": "/b"},
    ("upstream", "tls", "key"): {"certificate": "/a"},
    ("limit", "shared_as"): {"store": "counts"},
    ("limit", "prefetch"): {"store": "counts"},
    ("limit", "timeout"): {"store": "counts"},
    ("limit", "on_failure"): {"store": "counts"},
    ("limit", "max_keys"): {"key": "client"},
    ("limit", "max_memory"): {"key": "client"},
    ("limit", "evict_within"): {"key": "client"},
    ("limit", "when_full"): {"key": "client"},
    ("limit", "overrides"): {"key": "client"},
    ("limit", "tree"): {"rule": None, "key": "client"},
    ("limit", "priority"): {"queue": "order priority"},
    ("limit", "weights"): {"queue": "order fair"},
    ("limit", "estimate"): {"cost": "response bytes", "rule": "1000000000000000/1s bucket"},
    ("route", "cost"): {"limits": "everybody"},
    ("route", "respond"): {"upstream": None},
    ("route", "check"): {"upstream": None},
    ("route", "upstream_path"): {"path": "/api"},
}
# Texts of these kinds follow a grammar that only the reader checks, or name another table.
LOOSE = {"rule", "byte_rate", "queue", "listen_address", "server_address", "admin_address", "network", "failure_mode", "limit_name"}
LOOSE_KEYS = {("route", "upstream"), ("listen", "tcp", "upstream"), ("listen", "tcp", "route", "upstream"), ("limit", "store"), ("agent", "store"), ("limit", "overrides"), ("body", "file"), ("body", "type"),
              ("route", "body", "file"), ("route", "body", "type"),
              ("store", "url"), ("upstream", "name"), ("limit", "name")}


def changed(path, values, beside=None):
    """The document BASE, in which the table of the path has these values and the values that it needs."""
    document = copy.deepcopy({**BASE, **NEEDS_BESIDE.get(path, {}), **(beside or {})})
    at = document
    for depth in range(len(path)):
        name = path[depth]
        is_list = TABLES[path[: depth + 1]].is_list
        at = at.setdefault(name, [{}] if is_list else {})
        at = at[0] if is_list else at
        needs = NEEDS_ABOVE.get(path[: depth + 2], {}) if depth + 1 < len(path) else {}
        for key, value in (needs or NEEDS.get(path[: depth + 1], {})).items():
            at.setdefault(key, value)
    for key, value in values.items():
        at[key] = value
        if value is None:
            del at[key]
    return document


def with_key(path, key, value):
    return changed(path, {**NEEDS_OF_KEY.get((*path, key), {}), key: value}, BESIDE_KEY.get((*path, key)))


@functools.lru_cache(maxsize=None)
def read_text(text):
    with tempfile.NamedTemporaryFile("w", suffix=".toml", dir=FOLDER.name) as file:
        file.write(text)
        file.flush()
        done = subprocess.run([PROGRAMS["weir-proxy"], "--config", file.name, "--print-config"],
                              capture_output=True, text=True)
    assert done.returncode in (0, 2), done
    return done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr


def read(document):
    """Whether the proxy accepts the document, and the configuration without defaults or the errors."""
    return read_text("".join(f"{key} = {toml(value)}\n" for key, value in document.items()))


TABLES = {t.path: t for t in Table((), SCHEMA).all()}
KEYS = [(path, key) for path, t in TABLES.items() for key in t.keys]


def where(path, key):
    return ".".join((*path, key.name))


def is_map(key):
    return key.value.get("type") == "object"


def fits(document):
    return not jsonschema or jsonschema.Draft7Validator(SCHEMA).is_valid(document)


class Configuration(unittest.TestCase):
    def accept(self, document):
        good, text = read(document)
        self.assertTrue(good, text)
        self.assertTrue(fits(document), f"the schema rejects {document}")
        return text

    def reject(self, document, because="."):
        good, text = read(document)
        self.assertFalse(good, f"the proxy accepts {document}")
        self.assertRegex(text, because)
        if jsonschema:
            self.assertFalse(fits(document), f"the schema accepts {document}")

    def test_each_table_has_the_keys_of_the_reader(self):
        for path, t in TABLES.items():
            with self.subTest(t.title):
                good, text = read(changed(path, {"unknown": 1}))
                self.assertFalse(good)
                found = re.search("unknown key `unknown`; valid keys: (.*)", text)[1].split(", ")
                self.assertEqual(found, sorted([key.name for key in t.keys] + [part.path[-1] for part in t.tables]))
                if jsonschema:
                    self.assertFalse(fits(changed(path, {"unknown": 1})))

    def test_each_table_is_a_table_or_a_list_of_tables(self):
        for path, t in TABLES.items():
            if path:
                self.reject(changed(path[:-1], {path[-1]: 5}),
                            "must be a " + ("list of tables" if t.is_list else "table"))

    def test_messages_describe_values_with_the_same_words(self):
        for path, key in KEYS:
            with self.subTest(where(path, key)):
                _, text = read(with_key(path, key.name, 5 if is_map(key) else {}))
                found = re.search(f"`{key.name}` is (?:a table|`5`), but must be (.*)|`{key.name}` must start with (.*)", text)
                words = (found[1] or found[2]).replace(", such as 500ms, 10s or 2min", "")
                self.assertTrue(words == key.values or is_map(key) and words == "a table", (words, key.values))

    def test_examples_are_valid_and_differ_from_the_default(self):
        for path, key in KEYS:
            with self.subTest(where(path, key)):
                for example in key.schema["examples"]:
                    text = self.accept(with_key(path, key.name, example))
                    if (*path, key.name) not in (("upstream", "name"), ("limit", "name"), ("store", "name")):
                        self.assertNotEqual(text, read(with_key(path, key.name, None))[1])

    def test_a_default_changes_nothing(self):
        for path, key in KEYS:
            if "default" in key.schema:
                with self.subTest(where(path, key)):
                    given = self.accept(with_key(path, key.name, key.schema["default"]))
                    if (*path, key.name) == ("admin", "address"):  # is printed if it was given
                        given = given.replace('[admin]\naddress = "127.0.0.1:9090"\n\n', "")
                    self.assertEqual(given, self.accept(with_key(path, key.name, None)))

    def test_required_keys(self):
        for path, key in KEYS:
            with self.subTest(where(path, key)):
                document = with_key(path, key.name, None)
                if key.required:
                    self.reject(document, f"missing `{key.name}`")
                elif (*path, key.name) not in (("route", "upstream"), ("listen", "tcp", "upstream"), ("upstream", "servers"), ("route", "respond"), ("route", "check"), ("limit", "rule"), ("limit", "tree"),
                                                  ("limit", "bandwidth", "down"), ("upstream", "tls", "certificate"),
                                                  ("upstream", "tls", "key"), ("listen", "tcp", "bandwidth", "down")):
                    self.accept(document)

    def test_bounds(self):
        bounded = 0
        for path, key in KEYS:
            v = key.value
            with self.subTest(where(path, key)):
                if v.get("type") == "integer":
                    good, bad = [v["minimum"], v["maximum"]], [v["minimum"] - 1, v["maximum"] + 1]
                elif "x-minimum" in v:
                    good = [v["x-minimum"], v["x-maximum"]]
                    bad = ["86400001ms"] if v["x-maximum"] == "24h" else ["60001ms"]
                    bad += ["999999ns"] if v["x-minimum"] == "1ms" else ["-1ns"]
                else:
                    continue
                for value in good:
                    self.accept(with_key(path, key.name, value))
                for value in bad:
                    wrong, text = read(with_key(path, key.name, value))
                    self.assertFalse(wrong, value)
                    self.assertIn(f"`{key.name}` is `{value}`, but must be a", text)
                    if isinstance(value, int) and jsonschema:
                        self.assertFalse(fits(with_key(path, key.name, value)))
                bounded += 1
        self.assertGreater(bounded, 20)

    def test_choices(self):
        for path, key in KEYS:
            for choice in key.value.get("enum", []):
                self.accept(with_key(path, key.name, choice))
                self.reject(with_key(path, key.name, choice.upper()))

    @unittest.skipIf(not jsonschema, "python3-jsonschema is not installed")
    def test_the_schema_finds_mistakes_and_gives_no_false_alarm(self):
        values = [True, 5, 1.5, "", "a\u0001", "a b", "a", "1s", {}, [], [5], ["a"], {"a": 5}, {"a b": "c"}]
        cases = [(path, key, value, with_key(path, key.name, value)) for path, key in KEYS for value in values]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = list(pool.map(lambda case: read(case[3])[0], cases))
        for (path, key, value, document), good in zip(cases, verdicts):
            with self.subTest(where(path, key), value=value):
                if good:
                    self.assertTrue(fits(document), "the reader accepts it, the schema does not")
                    continue
                name = key.schema.get("allOf", key.schema.get("anyOf", [{}]))[0].get("$ref", "").rpartition("/")[2]
                is_text = isinstance(value, str) or isinstance(value, list) and all(isinstance(v, str) for v in value)
                if not (is_text and (name in LOOSE or key.value.get("title", "").startswith(("a file", "a name", "a host"))
                                     or "x-minimum" in key.value or (*path, key.name) in LOOSE_KEYS)
                        or is_map(key) and isinstance(value, dict)):
                    self.assertFalse(fits(document), "the reader rejects it, the schema does not")

    @unittest.skipIf(not jsonschema, "python3-jsonschema is not installed")
    def test_the_schema_knows_combinations(self):
        for path, values in (
            (("listen",), {"unknown_name": "first"}), (("listen",), {"client_certificates": {"authorities": "/a"}}), (("listen",), {"handshake_limits": []}), (("listen",), {"limits": [], "https_port": 443}), (("listen",), {"limits": [], "tcp": {"upstream": "shop"}}),
            (("limit",), {"prefetch": 1}), (("limit",), {"shared_as": "a"}), (("limit",), {"timeout": "1s"}),
            (("limit",), {"on_failure": "open"}), (("limit",), {"max_keys": 5}), (("limit",), {"when_full": "reject"}),
            (("limit",), {"max_memory": 1000000}), (("route",), {"respond": 403, "upstream": None, "upstream_timeout": "1s"}),
            (("route",), {"respond": 403, "upstream": None, "upstream_path": "/"}),
            (("route",), {"body": {"file": "busy.html"}}),
            (("limit",), {"priority": "Priority"}), (("limit",), {"weights": {}}), (("limit",), {"estimate": 5}), (("limit",), {"count": []}),
            (("limit",), {"rule": None}), (("limit",), {"key": "client", "tree": {"/": "1/1s burst 2", "/*": "most 1/1s"}}),
            (("limit",), {"rule": None, "tree": {"/": "1/1s burst 2", "/*": "most 1/1s"}}),
            (("limit",), {"rule": None, "key": "client", "when_full": "share", "tree": {"/": "1/1s burst 2", "/*": "most 1/1s"}}),
            (("limit",), {"bandwidth": {"down": "1MB/s"}}), (("limit",), {"rule": None, "bandwidth": {}}),
            (("limit",), {"rule": None, "bandwidth": {"down": "1MB/s"}, "queue": "patience 1s"}),
            (("limit",), {"rule": None, "key": "client", "bandwidth": {"down": "1MB/s"}, "overrides": {"10.0.0.1": {}}}),
            (("limit",), {"rule": None, "key": "client", "bandwidth": {"down": "1MB/s"}, "overrides": {"10.0.0.1": {"both": "1MB/s"}}}),
            (("limit",), {"overrides": {"10.0.0.1": "1/1s"}}), (("route",), {"respond": 403}), (("route",), {"upstream": None}),
            (("upstream",), {"servers": None}), (("route",), {"limits": ["everybody"] * 16}), ((), {"upstream": None}),
        ):
            with self.subTest(values=values):
                self.reject(changed(path, values))

    @unittest.skipIf(not jsonschema or not tomllib, "python3-jsonschema is not installed, or Python is older than 3.11")
    def test_whole_files_fit(self):
        source = pathlib.Path(HERE).parents[1]
        texts = [(source / "src/package/weir-proxy.toml").read_text()]
        for page in (source / "README.md", *source.glob("src/docs/**/*.md")):
            if "node_modules" not in page.parts:
                texts += re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
        whole = [text for text in texts if "[[upstream]]" in text]
        self.assertGreaterEqual(len(whole), 2)
        for text in whole:
            errors = [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(tomllib.loads(text))]
            self.assertEqual(errors, [])

    def test_the_schema_is_one(self):
        if jsonschema:
            jsonschema.Draft7Validator.check_schema(SCHEMA)


if __name__ == "__main__":
    if not os.access(PROGRAMS["weir-proxy"], os.X_OK):
        print("skipped: there is no", PROGRAMS["weir-proxy"])
        sys.exit(77)
    if not jsonschema:
        print("python3-jsonschema is not installed: the schema is compared with the reader, but not used")
    unittest.main()
