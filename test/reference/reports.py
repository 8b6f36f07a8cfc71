"""The pages about metrics, the access log, the status page and the report of weir-replay agree with the programs."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/proxy"))
import support
from admin_support import Watcher, port_of, post, put, request, stats
from support import Client, ProxyTest

REPLAY = os.environ.get("WEIR_REPLAY", "build/release/src/weir-replay")


def page(name):
    return (ROOT / f"src/docs/reference/{name}.md").read_text()


def tables(text, title):
    """The rows of all tables whose first column has this title, without backticks in the first cell."""
    found = re.findall(rf"^\| {re.escape(title)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)
    assert found, title
    return [[cell.strip() for cell in line.strip("| ").split("|")] for part in found for line in part.splitlines()]


def names(cell):
    return re.findall("`(.*?)`", cell)


CONFIG = """
access_log = "FOLDER/access.log"
access_log_format = "json"
[admin]
address = "127.0.0.1:0"
write = true
[[upstream]]
name = "shop"
[[upstream.server]]
address = "UPSTREAM"
seats = 3
[[store]]
name = "counts"
url = "unix:/nonexistent/redis"
[agent]
path = "FOLDER/agent.sock"
store = "counts"
[[limit]]
name = "client"
rule = "1/1h"
key = "client"
[[limit]]
name = "trial"
rule = "1/1h"
dry_run = true
[[limit]]
name = "shared"
rule = "100/1s"
store = "counts"
on_failure = "open"
[[limit]]
name = "slow"
rule = "10/1s burst 1"
queue = "patience 10s"
[[limit]]
name = "pipe"
key = "client"
bandwidth = { up = "1MB/s", down = "9MB/s" }
[[upstream]]
name = "gone"
servers = "127.0.0.1:UNUSED"
health = { every = "50ms", fall = 1 }
[[listen]]
address = "127.0.0.1:0"
[[listen]]
address = "127.0.0.2:0"
tcp = { upstream = "shop" }
[[route]]
path = "/none"
respond = 403
[[route]]
path = "/slow"
respond = 204
limits = ["slow"]
[[route]]
path = "/gone"
upstream = "gone"
[[route]]
upstream = "shop"
limits = ["client", "trial", "shared", "pipe"]
"""


def families(text):
    """Name, type, labels and help of each family of metrics, and the values of each label."""
    found, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, name, meaning = line.split(" ", 3)
            found[name] = [None, [], meaning]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            found[name][0] = kind
        else:
            labels = re.findall(r'(\w+)="([^"]*)"', line)
            found[name][1] = [label for label, _ in labels if label != "le"]
            for label, value in labels:
                values.setdefault(label, set()).add(value)
    return found, values


def members(value, path=""):
    """The path and the type of each member of a JSON value."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from members(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for part in value:
            yield from members(part, path + "[]")
    else:
        yield path, {bool: "flag", int: "number", float: "number", str: "text"}.get(type(value), "null")


def seen(*values):
    return {member for value in values for member in members(value)}


ENCRYPTED = '[[upstream]]\nname = "encrypted"\nservers = ["https://127.0.0.1:2"]\n'


class Proxy(ProxyTest):
    @classmethod
    def setUpClass(cls):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(CONFIG.replace("UPSTREAM", "127.0.0.1:1").replace("UNUSED", "2"))
            file.write('[[listen]]\naddress = "127.0.0.1:0"\ntls = [{ certificate = "/none", key = "/none" }]\n')
            file.flush()
            done = subprocess.run([support.PROXY, "--config", file.name, "--check"], capture_output=True, text=True)
        if "was built without" in done.stderr:
            support.skip(done.stderr)

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="weir-reference-")
        self.addCleanup(self.folder.cleanup)

    def start_serving(self, listeners="", **replaced):
        config = CONFIG.replace("FOLDER", self.folder.name).replace("UNUSED", str(self.unused_port()))
        for old, new in replaced.items():
            config = config.replace(f'"{old}"', f'"{new}"')
        proxy = self.start_with(config + listeners)
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/a").status, client.ask("/b").status], [200, 429])
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/none").status, 403)
        return proxy

    def log(self):
        with open(os.path.join(self.folder.name, "access.log")) as file:
            return file.read().splitlines()

    def tls_listener(self):
        file = os.path.join(self.folder.name, "tls.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a.example", "-keyout",
                               file, "-out", file + ".crt"], capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return f'[[listen]]\naddress = "127.0.0.3:0"\ntls = [{{ certificate = "{file}.crt", key = "{file}" }}]\n'

    def introduced_listener(self):
        return f'[[listen]]\naddress = "unix:{self.folder.name}/introduced"\nproxy_protocol = true\n'

    def test_metrics(self):
        listeners = self.tls_listener() + self.introduced_listener() + ENCRYPTED
        found, values = families(request(self.start_serving(listeners), "/metrics").body.decode())
        described = {names(row[0])[0]: [row[1], names(row[2]), row[3]] for row in tables(page("metrics"), "metric")}
        self.assertEqual(described, found)
        for label in ("result", "decision", "reason", "kind", "mode"):
            with self.subTest(label):
                rows = tables(page("metrics"), f"`{label}`")
                self.assertEqual({name for row in rows for name in names(row[0])}, values[label] - {""})

    def test_members_of_stats(self):
        proxy = self.start_serving(self.tls_listener() + self.introduced_listener())
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/slow").status for _ in range(2)], [204, 204])
        self.assertEqual(put(proxy, "trial", "2/1h")[0], 200)
        support.wait_until(lambda: stats(proxy)["limits"][0]["top_rejected"], "the list of rejected clients")
        support.wait_until(lambda: "since" in stats(proxy)["limits"][0] and "down_since" in stats(proxy)["upstreams"][1]["servers"][0])
        described = {(names(row[0])[0], row[1]) for row in tables(page("status"), "member")}
        self.assertEqual(described, seen(stats(proxy)))

    def test_members_of_a_preview(self):
        status, text = post(self.start_serving(), "client", "preview", "2/1h")
        self.assertEqual(status, 200, text)
        described = {(name, row[1]) for row in tables(page("status"), "member of a preview") for name in names(row[0])}
        self.assertEqual(described, seen(json.loads(text)))

    def test_events(self):
        proxy = self.start_serving()
        support.wait_until(lambda: stats(proxy)["limits"][0]["top_rejected"], "the end of the first second")
        with Watcher(port_of(proxy)) as watcher:
            events = [watcher.event() for _ in range(3)]
        (first, past), (second, now), (third, _) = events
        described = {names(row[0])[0]: names(row[1]) for row in tables(page("status"), "event")}
        self.assertEqual([first, second, third], [*described, "state"])
        self.assertEqual([list(past), list(now)], [["second", "all", "limits", "servers"], ["stats", "last"]])
        self.assertEqual([[name for name in described["history"] if name != "id"], described["state"][0]], [list(past), "stats"])
        self.assertEqual(list(now["last"]), list(past))
        limit = now["stats"]["limits"][0]
        seconds = past["limits"][str(limit["id"])]
        reasons = list(limit["rejected"])
        listed = [names(row[0])[0].rpartition(".")[2] for row in tables(page("status"), "member") if "[].rejected." in row[0]]
        self.assertEqual(listed, reasons)
        for title, points in (("`all`", past["all"]), ("a server", past["servers"]["shop\n" + now["stats"]["upstreams"][0]["servers"][0]["name"]]),
                              ("a limit", seconds)):
            last = tables(page("status"), f"position in {title}")[-1][0]
            self.assertEqual({len(point) for point in points}, {int(last) + 1}, title)
        rejected = next(row for row in tables(page("status"), "position in a limit") if "rejected" in row[1])
        self.assertEqual(rejected[0], f"4 to {3 + len(reasons)}")
        sums = [sum(numbers) for numbers in zip(*seconds)]
        self.assertEqual([sums[0], sums[4 + reasons.index("deadline_unreachable")]], [1, 1])

    def test_paths_of_the_status_page(self):
        proxy = self.start_serving()
        paths = [names(row[0])[0].split(" ") for row in tables(page("status"), "request")]
        for method, path in paths:
            if method == "GET" and path != "/events":
                self.assertEqual(request(proxy, path).status, 200, path)
        listed = re.findall("/[a-z.]*", request(proxy, "/unknown").body.decode())
        self.assertEqual({path for method, path in paths if method == "GET"}, {*listed, "/events"})
        text = re.search("The response is .*", page("status"))[0]
        for status, limit, rule in (
            (200, "client", "2/1h"), (400, "client", "0/1h"), (404, "none", "2/1h"), (409, "client", "2 seats"),
        ):
            self.assertEqual(put(proxy, limit, rule)[0], status)
            self.assertIn(str(status), text)
        actions = [path.rpartition("/")[2] for method, path in paths if method == "POST"]
        self.assertEqual([post(proxy, "client", action, "3/1h")[0] for action in actions], [200, 200])
        self.assertEqual([post(proxy, "client", "undo")[0], post(proxy, "shared", "preview", "90/1s")[0]], [409, 409])
        self.assertEqual(put(proxy, "client", "2/1h", host="example.org")[0], 403)

    def test_members_of_the_access_log(self):
        self.start_serving()
        support.wait_until(lambda: len(self.log()) == 3, "the access log")
        lines = [json.loads(line) for line in self.log()]
        rows = tables(page("access-log"), "member")
        order = [names(row[0])[0] for row in rows]
        of_bandwidth = tables(page("access-log"), "member with a bandwidth")
        further = [names(row[0])[0] for row in of_bandwidth]
        self.assertEqual({tuple(line) for line in lines}, {(*order,), (*order, *further)})
        for line in lines:
            for name, kind, _ in rows + (of_bandwidth if further[0] in line else []):
                self.assertIn({str: "text", type(None): "null"}.get(type(line[names(name)[0]]), "number"), kind.split(" or "))
        example = json.loads(re.search("```json\n(.*?)\n```", page("access-log"))[1])
        self.assertEqual(list(example), order)

    def test_fields_of_the_text_log(self):
        self.start_serving(json="text")
        support.wait_until(lambda: len(self.log()) == 3, "the access log")
        example = re.search("```text\n(.*?)\n```", page("access-log"))[1]
        count = len(tables(page("access-log"), "member"))
        for line in [example, *self.log()]:
            fields = re.findall(r'"[^"]*"|\S+', line)
            self.assertEqual(len(fields), count)
            self.assertRegex(line, r'^\S+Z \S+ "[^"]*" \d+ \d+ \d+\.\d{3} \d+\.\d{3} \S+ "[^"]*" \S+$')


class Replay(unittest.TestCase):
    def report(self, log, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
            file.write(log)
            file.flush()
            done = subprocess.run([REPLAY, file.name, "--json", *options], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_members(self):
        line = '10.0.0.1 - - [01/Aug/1995:00:00:0%d +0000] "GET /a HTTP/1.0" 200 5\n'
        log = "".join(line % i for i in (1, 1, 1, 2)) + "junk\n"
        free = ("--max-unreadable", "50%", "--service-time", "1s")
        reports = [
            self.report(log, *free, "--limit", "1/10s", "--limit", "1 seats per client"),
            self.report(log, *free, "--find", "1/10s"),
            self.report(log, *free, "--find", "1kB/s down"),
            self.report(log, *free, "--find", "1/10s", "--limit", "1/20s per client"),
        ]
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write('[[upstream]]\nname = "a"\nservers = "127.0.0.1:1"\n[[limit]]\nname = "bytes"\nkey = "client"\n'
                         'bandwidth = { down = "1MB/s" }\n')
            config.flush()
            reports.append(self.report(log, *free, "--config", config.name))
        described = {(names(row[0])[0], row[1]) for row in tables(page("replay-report"), "member")}
        found = {(re.sub(r"(rules\[\]\.rejected|by_spread)\.[^.\[]+", r"\1.NAME", path), kind) for path, kind in seen(*reports)}
        self.assertEqual(described, found)

    def test_reasons(self):
        source = (ROOT / "src/replay/outcome.cpp").read_text()
        row = next(row for row in tables(page("replay-report"), "member") if "rejected.NAME" in row[0])
        self.assertEqual(names(row[2]), re.findall('return "(.*)";', source))


if __name__ == "__main__":
    if not os.access(REPLAY, os.X_OK):
        support.skip(f"there is no {REPLAY}")
    support.main(at_once=4)
