#!/usr/bin/env python3
"""The live page under load, in a headless Chromium: it shows the numbers of `/stats.json`, continues after a restart of the
proxy, fits a small screen, works without a mouse, and does not grow. The test stores screenshots in the folder WEIR_PICTURES."""

import contextlib
import functools
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

import support
from admin_support import limit_of, post, stats
from support import Client, Proxy, ProxyTest, main, skip

from browser import BrowserTest, is_here  # found by `support`

# Each question keeps three programs busy.
wait_until = functools.partial(support.wait_until, every=0.05)
PICTURES = os.environ.get("WEIR_PICTURES", "build/pictures")
FIGURES = """const found = {};
const lines = e => e ? [...e.querySelectorAll(':scope tbody tr')].map(row => [...row.cells].map(cell => cell.textContent)) : null;
for (const body of document.querySelectorAll('[data-limit]')) {
  const of = found[body.dataset.limit] = {rule: body.querySelector('code').textContent};
  for (const cell of body.querySelectorAll('.row > [data-is]')) of[cell.dataset.is] = cell.textContent;
  for (const is of ['reasons', 'top_rejected', 'waits']) of[is] = lines(body.querySelector(`.detail [data-is=${is}]`));
}
return found;"""
SERVERS = "return [...document.querySelectorAll('[data-server] .row')].map(r => [...r.cells].map(c => c.textContent))"
SENTENCE = "return document.getElementById('sentence').textContent"
OPEN = "for (const b of document.querySelectorAll('[aria-expanded=false]')) b.click()"
# The texts of the page for the reasons of rejections.
REASONS = {"no_permit": "requests do not wait there", "queue_full": "its queue is full", "timed_out": "they timed out",
           "deadline_unreachable": "they would wait too long", "disconnected": "the client disconnected"}
# The marks of the page, and the property that has their colour.
MARKS = {"path.area:not([d=''])": "fill", ".spark path:not([d=''])": "fill", "path.line, line.cursor": "stroke",
         ".key.line, .meter, input, button:not(.plain)": "borderTopColor", ".key:not(.line, .hatch), .length": "backgroundColor"}
ELEMENTS = "return document.getElementsByTagName('*').length"
# Repeats the last event as the events of the next seconds.
SPEED_UP = """const [n] = arguments, stats_now = JSON.parse(JSON.stringify(stats)), last = {second, all: [[9, 1, 2, 3, 4, 5000, 90000, 6, 7]], limits: {}, servers: {}};
for (const l of stats_now.limits) last.limits[l.id] = [[5, 4, 3, 2, 1, 2, 0, 0, 0, 0, 1, 0, 70000]];
for (const u of stats_now.upstreams) for (const s of u.servers) last.servers[u.name + '\\n' + s.name] = [[9, 1, 8000, 2]];
for (let i = 0; i < n; ++i) {
  ++last.second;
  last.all[0][0] = i % 50;
  stats_now.now = new Date(Date.parse(stats_now.now) + 1000).toISOString();
  events.dispatchEvent(new MessageEvent('state', {data: JSON.stringify({stats: stats_now, last})}));
}"""


def number(text):
    """The number in a text; -1 if the page shows none yet."""
    found = re.search(r"[\d,]+$|[\d,]+(?= |$)", text)
    return int(found[0].replace(",", "")) if found else -1


class Page(BrowserTest, ProxyTest):
    def setUp(self):
        super().setUp()
        self.admin, self.unused = self.unused_port(), self.unused_port()
        self.url = f"http://127.0.0.1:{self.admin}/"

    def config(self, *limits):
        return (f'[admin]\naddress = "127.0.0.1:{self.admin}"\nwrite = true\n'
                f'[[upstream]]\nname = "shop"\nservers = ["UPSTREAM", "127.0.0.1:{self.unused}"]\n'
                'health = { every = "50ms", timeout = "30s", fall = 1 }\n' + "".join(limits) +
                '[[limit]]\nname = "pipe"\nkey = "client"\nbandwidth = { down = "9MB/s" }\n')

    @staticmethod
    def limit(name, rule, more="", queue="max_waiting 6 patience 400ms"):
        return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "{queue}"\n{more}'

    def all_limits(self):
        return (self.limit("stove", "3 seats"), self.limit("each guest", "30/1s burst 5", 'key = "client"\n'),
                self.limit("house", "200/1s"), self.limit("a try", "5/1s", "dry_run = true\n"))

    @contextlib.contextmanager
    def load(self, proxy, clients=24):
        """Runs clients at several addresses: some send the next request immediately, and some pause first."""
        over = threading.Event()

        def work(i):
            with Client(proxy.port, source=f"127.0.0.{2 + i % 7}") as client:
                while not over.is_set():
                    client.ask(f"/sleep/{(5, 20, 60)[i % 3]}")
                    over.wait(0.01 * (i % 5))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(clients)]
        for t in threads:
            t.start()
        try:
            yield
        finally:
            over.set()
            for t in threads:
                t.join()

    def run_js(self, script, *args):
        return self.browser.run(script, *args)

    def is_live(self):
        return self.run_js("return document.body.className") == "" and self.run_js(FIGURES)

    def pictures(self, name):
        """Checks the page on each screen, and takes pictures."""
        os.makedirs(PICTURES, exist_ok=True)
        with self.subTest(name):
            self.browser.check_screens(self, MARKS, lambda screen: self.browser.picture(os.path.join(PICTURES, f"{name}-{screen}.png")))

    def check_numbers(self, proxy):
        """Waits until the page shows the numbers of /stats.json, without load. All rows are open."""
        told = {}

        def same():
            told["stats"] = stats(proxy)
            self.run_js(OPEN)
            told["page"] = self.run_js(FIGURES)
            for one in told["stats"]["limits"]:
                page = told["page"].get(one["name"])
                if not page or page["rule"] != one["rule"]:
                    return False
                asked = one["granted"] + one["rejected_total"] + one["rejected"]["disconnected"]
                if asked and [number(page["waiting"]), number(page["lately"])] != [one["waiting"], one["rejected_total"]]:
                    return False
                if [[client, number(n)] for client, n, _ in page["top_rejected"]] != \
                        [[c["client"], c["rejected"]] for c in one["top_rejected"]]:
                    return False
                if [[why, number(n)] for why, n in page["reasons"]] != [[REASONS[why], n] for why, n in one["rejected"].items() if n]:
                    return False
                if [number(line[2]) for line in page["waits"]] != [r["count"] for r in one["recent_waits"]["ranges"]]:
                    return False
            servers = [s for u in told["stats"]["upstreams"] for s in u["servers"]]
            return [[row[0].split()[1], row[1], number(row[8]), number(row[9])] for row in self.run_js(SERVERS)] == [
                ["down" if s["down"] else "up", f"shop · {s['name']}", s["connect_failures"], s["connections"]] for s in servers]
        try:
            wait_until(same, "the page to show the numbers of /stats.json")
        except AssertionError:
            self.fail(f"the page shows {told['page']}, {self.run_js(SERVERS)}, but /stats.json returns {told['stats']}")
        self.assertEqual(len(told["page"]), len(told["stats"]["limits"]))
        return told["stats"]

    def open_page(self, proxy):
        self.browser.go_to(self.url)
        wait_until(self.is_live, "the page to be live")

    def test_a_listener_for_any_protocol_has_a_row(self):
        proxy = self.start_with(self.config(self.limit("stove", "3 seats")) + '[[listen]]\naddress = "127.0.0.1:0"\n[[listen]]\naddress = "127.0.0.2:0"\n'
                                'tcp = { upstream = "shop" }\n[[route]]\nupstream = "shop"\n')
        port = int(re.search(r"tcp://127\.0\.0\.2:(\d+)", proxy.greeting)[1])
        with socket.create_connection(("127.0.0.2", port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertTrue(client.recv(10))
            self.open_page(proxy)
            texts = "return [...document.querySelectorAll('#tcp tbody td')].map(e => e.textContent)"
            wait_until(lambda: self.run_js(texts)[:4] == ["127.0.0.2:0", "shop", "1", "0"])
        wait_until(lambda: self.run_js(texts)[2:8] == ["0", "0", "1", "0", "0", "0"])
        self.assertEqual(self.run_js(texts)[8:], ["1 kB", "1 kB"])
        self.assertFalse(self.run_js("return document.getElementById('tcp-part').hidden"))

    def test_a_listener_with_tls_shows_handshakes_and_certificates(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        file = os.path.join(folder, "<b>.pem")  # a name that looks like markup
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a.example", "-days", "20", "-addext", "subjectAltName=DNS:a.example",
                               "-keyout", file + ".key", "-out", file], capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        proxy = self.start_with(self.config(self.limit("stove", "3 seats")) + '[[listen]]\naddress = "127.0.0.1:0"\n[[listen]]\n'
                                f'address = "127.0.0.2:0"\ntls = [{{ certificate = "{file}", key = "{file}.key" }}]\n'
                                '[[route]]\nupstream = "shop"\n')
        port = int(re.search(r"https://127\.0\.0\.2:(\d+)", proxy.greeting)[1])
        trusting = ssl.create_default_context(cafile=file)
        with socket.create_connection(("127.0.0.2", port)) as sock, trusting.wrap_socket(sock, server_hostname="a.example"):
            pass
        for name, expected in (("b.example", ssl.SSLError), (None, None)):
            with socket.create_connection(("127.0.0.2", port)) as sock:
                if expected:
                    self.assertRaises(expected, trusting.wrap_socket, sock, server_hostname=name)
                else:
                    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    self.assertIn(b"400", sock.recv(100))
        self.open_page(proxy)
        text = "return document.getElementById('handshakes').textContent"
        wait_until(lambda: self.run_js(text) == "1 full handshake · 0 resumed · 0 rejected by limits · "
                                                "2 failed (1 unknown name, 1 not tls)", "the handshakes")
        cells = self.run_js("return [...document.querySelectorAll('#certificates tbody td')].map(e => e.textContent)")
        self.assertEqual([cells[0], cells[1], cells[3]], ["127.0.0.2:0", file, "20 days"])
        self.assertFalse(self.run_js("return document.getElementById('tls-part').hidden"))

    def test_shows_the_numbers_of_stats_json(self):
        proxy = self.start_with(self.config(*self.all_limits()))
        port = proxy.port
        self.open_page(proxy)
        asked = self.browser.requests(self.url)
        self.assertEqual(asked[0], self.url)
        self.assertTrue(all(one.startswith(self.url) or one.startswith("data:") for one in asked), asked)
        with self.load(proxy):
            wait_until(lambda: re.search(r"(rejects|delays) requests since \d\d:\d\d:\d\d", self.run_js(SENTENCE)), "the problem")
            self.assertIn(self.run_js("return document.querySelector('tbody[data-limit]').dataset.limit"), ("stove", "each guest"))
            self.pictures("load")
            pipe = self.run_js("return [...document.querySelectorAll('#bandwidths tbody td')].map(e => e.textContent)")
            self.assertEqual(pipe[:3], ["to clients", "pipe", "9MB/s"])
            self.assertRegex(pipe[3], r"^client \([1-7]\)$")
            self.assertRegex(pipe[4], r"^[1-9][\d.]* [kM]?B$")
            self.help()
            self.run_js(OPEN)
            self.pictures("open")
            labels = self.run_js("return [...document.querySelectorAll('svg.plot')].map(e => e.getAttribute('aria-label'))")
            self.assertEqual(len(labels), 4 + 3 * len(self.all_limits()))
            other_size = "return [...document.querySelectorAll('svg.plot')].filter(e => Math.abs(e.viewBox.baseVal.width - e.clientWidth) > 1).length"
            wait_until(lambda: self.run_js(other_size) == 0, "the plots to have the size of the window")
            for label in labels:
                self.assertRegex(label, r" since \d\d:\d\d: now .* \d.*; highest [\d.,]+")
        told = self.check_numbers(proxy)
        rejected = {one["name"]: one["rejected_total"] for one in told["limits"]}
        self.assertGreater(rejected["stove"] + rejected["each guest"], 0)
        self.keyboard()
        self.changes(proxy)
        # The limits are calm after ten seconds; a server is still down.
        wait_until(lambda: re.search(r"^▲ 1 of 2 servers of shop is down since [\d:]+ \(\d+ s\)\.$", self.run_js(SENTENCE)))
        self.assertEqual(self.browser.console(), [])

        # After a reload the page shows the new limits only.
        proxy.write(self.filled(self.config(*self.all_limits()[:2], self.limit("a new one", "9/1s"))))
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: set(self.run_js(FIGURES)) == {"stove", "each guest", "a new one"}, "the limits of the new file")
        self.check_numbers(proxy)
        self.assertEqual(self.browser.console(), [])

        # After a restart of the proxy the page reconnects automatically.
        self.finish(proxy)
        wait_until(lambda: self.run_js("return document.body.className") == "off", "the page to notice the end of the proxy")
        self.assertIn("connection lost", self.run_js("return document.getElementById('link').textContent"))
        again = Proxy(config=self.filled(self.config(*self.all_limits()) + f'[[listen]]\naddress = "127.0.0.1:{port}"\n'))
        self.addCleanup(self.finish, again)
        wait_until(lambda: self.is_live() and "a try" in self.run_js(FIGURES), "the page to reconnect")
        with Client(again.port) as client:
            client.ask("/")
        # A client may have the response before the request is counted.
        wait_until(lambda: self.check_numbers(again)["requests"]["answered"] == 1, "the page to show the request")

    def help(self):
        """The larger rule that would help, which a click previews."""
        text = "return document.getElementById('help').textContent"
        said = re.compile(r"^With ([\d,]+ seats|[\d,]+/1s burst [\d,]+) it would have rejected (none|[\d,]+) of [\d,]+ requests in the last \d+ (s|min) instead of [\d,]+\.$")
        wait_until(lambda: said.match(self.run_js(text)), "the rule that would help")
        name, rule = self.run_js("""const rule = document.querySelector('#help button'), limit = stats.limits.find(l => l.id === help.limit);
            rule.click();
            return [limit.name, rule.textContent]""")
        row = f'document.querySelector("[data-limit=\'{name}\']")'
        self.assertEqual(self.run_js(f"return {row}.querySelector('input').value"), rule)
        wait_until(lambda: rule in self.run_js(f"return {row}.querySelector('output').textContent"), "its preview")

    def keyboard(self):
        self.run_js("document.activeElement.blur(); scrollTo(0, 0)")
        seen = set()
        for _ in range(60):
            self.browser.press("\ue004")  # Tab
            seen.add(self.run_js("return document.activeElement.tagName"))
        self.assertLessEqual({"svg", "INPUT", "BUTTON", "A"}, seen)
        self.run_js("document.querySelector('[data-limit=stove] svg.plot').focus()")
        values = "return document.activeElement.closest('figure').textContent"
        self.browser.press("\ue010")  # End
        told = [self.run_js(values)]
        self.assertRegex(told[0], r"^Requests/s, \d\d:\d\d:\d\d")
        while not re.search(r"granted after a wait [1-9]", told[-1]):
            self.assertLess(len(told), 300, told)  # the oldest second
            self.browser.press("\ue012")  # ArrowLeft
            told.append(self.run_js(values))
        self.browser.press("\ue00c")  # Escape
        self.assertNotRegex(self.run_js(values), r"^Requests/s, ")
        self.run_js("document.querySelector('[data-limit=stove] td.name button').focus()")
        self.browser.press("\ue007")  # Enter
        self.assertEqual(self.run_js("return document.querySelectorAll('[data-limit=stove] .detail').length"), 0)
        self.browser.press("\ue007")
        self.assertEqual(self.run_js("return document.querySelectorAll('[data-limit=stove] .detail').length"), 1)

    def changes(self, proxy):
        """Previews and changes a rule with the keyboard only, and restores it."""
        output = "return document.querySelector('[data-limit=stove] output').textContent"
        changed = "return document.querySelector('[data-limit=stove] [data-is=changed]').textContent"

        def type_in(rule):
            self.run_js("const i = document.querySelector('[data-limit=stove] input'); i.focus(); i.select()")
            self.browser.press(*rule, "\ue007")  # Enter

        # The page asks for help at the same time, each with a slow connection.
        self.run_js("""window.requests = window.most = 0;
            window.plainFetch = window.fetch;
            window.fetch = async (...what) => {
                most = Math.max(most, ++requests);
                await new Promise(passed => setTimeout(passed, 500));
                return plainFetch(...what).finally(() => --requests);
            };
            help.asking = true;
            askForHelp(stats.limits.find(limit => limit.name === 'stove'));""")
        type_in("5 seats")
        wait_until(lambda: re.search(r"requests? of the last \d+ (s|min), if", self.run_js(output)), "the preview")
        self.assertEqual(self.run_js("return most"), 1)
        wait_until(lambda: not self.run_js("return help.asking"), "the help")
        self.run_js("window.fetch = plainFetch; help.asking = true")  # the page makes no preview meanwhile
        found = json.loads(post(proxy, "stove", "preview", "5 seats")[1])
        self.assertGreater(found["now"]["rejected"], found["then"]["rejected"])
        table = self.run_js("return [...document.querySelectorAll('[data-limit=stove] output tr')]"
                            ".map(row => [...row.cells].map(cell => cell.textContent))")
        self.assertEqual(table[0], ["", "3 seats (now)", "5 seats"])
        for name, row in (("granted", table[1]), ("rejected", table[2]), ("waited", table[3])):
            self.assertEqual([row[0], *(number(cell.split(" (")[0]) for cell in row[1:])],
                             [name, *(found[side][name] for side in ("now", "then"))])
        self.assertEqual(len(table), 5)
        self.pictures("preview")
        self.assertEqual(limit_of(proxy, "stove")["rule"], "3 seats")  # nothing changed yet
        self.run_js("document.querySelector('[data-limit=stove] input').focus()")
        self.browser.press("\ue004", "\ue004", "\ue007")  # to `Apply`, behind `Preview`
        wait_until(lambda: self.run_js(FIGURES)["stove"]["rule"] == "5 seats", "the page to show the new rule")
        self.assertEqual(limit_of(proxy, "stove")["rule"], "5 seats")
        wait_until(lambda: "Rule is now 5 seats" in self.run_js(output))
        wait_until(lambda: re.fullmatch(r"Changed at \d\d:\d\d:\d\d from 3 seats. Undo: 3 seats", self.run_js(changed)),
                   "the rule before")
        type_in("no rule")
        wait_until(lambda: "column" in self.run_js(output), "the error to be shown")
        self.assertEqual(limit_of(proxy, "stove")["rule"], "5 seats")
        self.browser.press("\ue004", "\ue004", "\ue004", "\ue007")  # to the button after `Apply`
        wait_until(lambda: limit_of(proxy, "stove")["rule"] == "3 seats", "the rule to be restored")
        wait_until(lambda: self.run_js(changed) == "", "the button to go")
        self.assertEqual(self.run_js("return document.activeElement.name"), "rule")
        self.assertEqual([one for one in self.browser.console() if "400" not in one], [])
        self.run_js("help.asking = false")

    def test_many_limits_with_hostile_names(self):
        names = ['</script><img src=x onerror="document.title=1">', "\u2028\u2029", "<b>&amp;`'", "a" * 200, "-- ${1}"]
        limits = [self.limit(name.replace('"', '\\"'), "1/1h", queue="patience 0s") for name in names]
        limits += [self.limit(f"limit {i}", f"{1000 + i}/1s burst 50") for i in range(55)]
        routes = "".join(f'[[route]]\npath = "/{i}"\nupstream = "shop"\nlimits = [{", ".join(self.toml(n) for n in some)}]\n'
                         for i, some in enumerate([names[:1], names[1:2], names[2:3], names[3:4], names[4:],
                                                   *[[f"limit {i}" for i in range(k, k + 11)] for k in range(0, 55, 11)]]))
        proxy = self.start_with(self.config(*limits) + routes)
        self.open_page(proxy)
        with Client(proxy.port) as client:
            for i in range(10):
                for _ in range(2):
                    client.ask(f"/{i}")
        wait_until(lambda: [n for n, f in self.run_js(FIGURES).items() if f["lately"] == "1"] == sorted(names, key=names.index) or
                   {n for n, f in self.run_js(FIGURES).items() if f["lately"] == "1"} == set(names))
        top = self.run_js("return [...document.querySelectorAll('tbody[data-limit]')].map(e => e.dataset.limit)")
        self.assertEqual(set(top[:5]), set(names))
        self.pictures("many")
        self.assertLess(self.run_js("return document.documentElement.scrollHeight"), 2 * 1100)  # 60 limits are two screens
        self.run_js(OPEN.replace("document.", "[...document.").replace("')) b", "')].slice(0, 5)) b"))
        wait_until(lambda: self.run_js("return document.querySelectorAll('.detail').length") == 5)
        self.pictures("hostile")
        self.assertEqual(self.run_js("return document.querySelectorAll('img').length"), 0)
        self.assertEqual({n for n in self.run_js("return [...document.querySelectorAll('td.name button')].map(e => e.textContent)")
                          if not n.startswith("limit ")}, set(names))
        self.run_js("const f = document.getElementById('filter'); f.focus()")
        self.run_js("for (const b of document.querySelectorAll('[aria-expanded=true]')) b.click(); document.getElementById('filter').focus()")
        self.browser.press(*"limit 54")
        shown = "return [...document.querySelectorAll('tbody[data-limit]:not([hidden])')].map(e => e.dataset.limit)"
        self.assertEqual(self.run_js(shown), ["limit 54"])
        self.browser.press("\ue00c")  # Escape
        self.assertEqual(len(self.run_js(shown)), 60)
        self.browser.check_policy(self)

    def test_a_limit_that_is_full_of_keys_warns(self):
        def limit(name, more):
            return self.limit(name, "9/1h", 'key = "header X-Key"\n' + more)

        for further, text in (("share", "share one limiter"), ("reject", "are rejected")):
            proxy = self.start_with(self.config(limit("full", f'max_keys = 20\nwhen_full = "{further}"\n'), limit("empty", ""),
                                                limit("evicts", 'max_keys = 10\nevict_within = "24h"\n')))
            with Client(proxy.port) as client:
                for n in range(20):
                    client.ask("/", fields=f"X-Key: {n}\r\n")
            self.open_page(proxy)
            wait_until(lambda: self.run_js(FIGURES)["full"]["state"] == "◇ near", "the limit to be full")
            self.assertEqual(self.run_js(FIGURES)["full"]["use"], "keys 100 %")
            self.assertEqual([self.run_js(FIGURES)["empty"][cell] for cell in ("state", "use")], ["● ok", "–"])
            self.run_js(OPEN)
            full, empty, evicts = self.run_js("return ['full', 'empty', 'evicts'].map(name => document.querySelector(`[data-limit=${name}] .panes > p`).textContent)")
            memory = r"which take \d+ kB of 1,074 MB \([<\d.]+ %\) of memory"
            self.assertRegex(full, rf"Keys: 20 of 20 \(100 %\), {memory}\. While no tracked key makes place, requests with further keys {text}\. Queue")
            self.assertRegex(empty, rf"Keys: 20 of 100,000 \(<0\.1 %\), {memory}\. Queue")
            self.assertRegex(evicts, rf"Keys: \d+ of 10 \(\d+ %\), {memory}; \d+ evicted\. ")
            self.finish(proxy)

    @staticmethod
    def toml(text):
        return '"' + text.replace('"', '\\"') + '"'

    def test_does_not_grow(self):
        proxy = self.start_with(self.config(*self.all_limits()))
        self.open_page(proxy)
        self.run_js("document.querySelector('td.name button').click()")

        def speed_up(seconds):
            for _ in range(seconds // 100):
                self.run_js(SPEED_UP, 100)

        def used():
            for _ in range(3):
                self.browser.devtools("HeapProfiler.collectGarbage")
            return self.browser.devtools("Runtime.getHeapUsage")["usedSize"]

        growth = []
        for _ in range(4):  # a leak grows each time, and what Chromium compiles does not
            speed_up(300)
            elements, heap = self.run_js(ELEMENTS), used()
            speed_up(300)
            # The number of the labels at the axes depends on the time.
            self.assertLess(abs(self.run_js(ELEMENTS) - elements), 60)
            growth.append(used() - heap)
            if growth[-1] < 250_000:
                break
        self.assertLess(growth[-1], 250_000, growth)
        self.assertEqual(self.browser.console(), [])


if __name__ == "__main__":
    if not is_here():
        skip("chromium or chromedriver is missing")
    main()
