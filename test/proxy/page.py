#!/usr/bin/env python3
"""The live page under load, in a headless Chromium: it shows the numbers of `/stats.json`, continues after a restart of the
proxy, fits a small screen and works without a mouse. The test stores screenshots in the folder WEIR_PICTURES."""

import contextlib
import os
import re
import signal
import tempfile
import threading
import time

from admin_support import limit_of, stats
from support import Client, Proxy, ProxyTest, main, skip, wait_until

from browser import Browser, is_here  # found by `support`

PICTURES = os.environ.get("WEIR_PICTURES", "build/pictures")
FIGURES = """const found = {};
for (const card of document.querySelectorAll('[data-limit]')) {
  const of = found[card.dataset.limit] = {rule: card.querySelector('code').textContent, top_rejected: {}, sums: {}};
  for (const cell of card.querySelectorAll('dd')) of[cell.dataset.is] = cell.textContent;
  for (const row of card.querySelectorAll('tr')) of.top_rejected[row.cells[0].textContent] = row.cells[1].textContent;
  for (const one of card.querySelectorAll('[data-sum]')) of.sums[one.dataset.sum] = one.textContent;
}
return found;"""
SERVERS = "return [...document.querySelectorAll('[data-upstream] tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
TOTALS = "return Object.fromEntries([...document.querySelectorAll('[data-proxy] dd')].map(c => [c.dataset.is, c.textContent]))"


def number(text):
    return int(re.search(r"[\d,]+$|[\d,]+(?= |$)", text)[0].replace(",", ""))


class Page(ProxyTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.browser = Browser(folder.name)
        self.addCleanup(self.browser.close)
        self.admin, self.unused = self.unused_port(), self.unused_port()
        self.url = f"http://127.0.0.1:{self.admin}/"

    def config(self, *limits):
        return (f'[admin]\naddress = "127.0.0.1:{self.admin}"\nwrite = true\n'
                f'[[upstream]]\nname = "shop"\nservers = ["UPSTREAM", "127.0.0.1:{self.unused}"]\n'
                'health = { every = "50ms", fall = 1 }\n' + "".join(limits))

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
        os.makedirs(PICTURES, exist_ok=True)
        colours = set()
        for width, height, scheme in ((1280, 900, "light"), (1280, 900, "dark"), (400, 800, "light"), (400, 800, "dark")):
            self.browser.screen(width, height, scheme)
            self.assertEqual(self.run_js("return innerWidth"), width)
            self.assertLessEqual(self.run_js("return document.documentElement.scrollWidth"), width)
            colours.add(self.run_js("return getComputedStyle(document.body).backgroundColor"))
            self.browser.picture(os.path.join(PICTURES, f"{name}-{width}-{scheme}.png"))
        self.assertEqual(len(colours), 2)
        self.browser.screen(1280, 900, "light")

    def check_numbers(self, proxy):
        """Waits until the page shows the numbers of /stats.json, without load."""
        told = {}

        def same():
            told["stats"], told["page"] = stats(proxy), self.run_js(FIGURES)
            for one in told["stats"]["limits"]:
                page = told["page"].get(one["name"])
                if not page or page["rule"] != one["rule"]:
                    return False
                names = ("waiting", "granted", "waited", "rejected_total")
                if [number(page[n]) for n in names] != [one[n] for n in names]:
                    return False
                if number(page["in_use"].split(" of ")[0]) != one["in_use"]:
                    return False
                if {c["client"]: c["rejected"] for c in one["top_rejected"]} != \
                        {client: number(n) for client, n in page["top_rejected"].items()}:
                    return False
                sums = {name: number(text) for name, text in page["sums"].items()}
                expected = {"granted": one["granted_immediately"], "waited": one["waited"], **one["rejected"]}
                if sums != {name: n for name, n in expected.items() if n}:
                    return False
            servers = told["stats"]["upstreams"][0]["servers"]
            if [[row[0], *(number(row[i]) for i in (1, 3, 5))] for row in self.run_js(SERVERS)] != [
                    [s["name"] + (": down" if s["down"] else ""), s["connections"], s["responses"], s["connect_failures"]] for s in servers]:
                return False
            totals = {name: number(text) for name, text in self.run_js(TOTALS).items() if name in told["stats"]["requests"]}
            return totals == told["stats"]["requests"]
        try:
            wait_until(same, "the page to show the numbers of /stats.json")
        except AssertionError:
            self.fail(f"the page shows {told['page']}, but /stats.json returns {told['stats']}")
        self.assertEqual(len(told["page"]), len(told["stats"]["limits"]))
        return told["stats"]

    def test_shows_the_numbers_of_stats_json(self):
        proxy = self.start_with(self.config(*self.all_limits()))
        port = proxy.port
        self.browser.go_to(self.url)
        wait_until(self.is_live, "the page to be live")
        asked = self.browser.requests(self.url)
        self.assertEqual(asked[0], self.url)
        self.assertTrue(all(one.startswith(self.url) or one.startswith("data:") for one in asked), asked)
        with self.load(proxy):
            sentences = set()
            end = time.monotonic() + float(os.environ.get("WEIR_SECONDS", "8"))
            while time.monotonic() < end:
                sentences.add(self.run_js("return document.getElementById('sentence').textContent"))
            self.assertTrue(any("rejects" in s or "delays requests" in s for s in sentences), sentences)
            self.pictures("load")
        told = self.check_numbers(proxy)
        rejected = {one["name"]: one["rejected_total"] for one in told["limits"]}
        self.assertGreater(rejected["stove"] + rejected["each guest"], 0)
        wait_until(lambda: "No limit is delaying requests" in self.run_js("return document.getElementById('sentence').textContent"))
        self.pictures("quiet")

        self.keyboard()
        self.changes(proxy)
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
        self.assertEqual(self.check_numbers(again)["requests"]["answered"], 1)

    def keyboard(self):
        self.run_js("document.activeElement.blur()")
        seen = set()
        for _ in range(40):
            self.browser.press("\ue004")  # Tab
            seen.add(self.run_js("return document.activeElement.tagName"))
        self.assertLessEqual({"svg", "INPUT", "BUTTON", "A"}, seen)
        self.run_js("document.querySelector('[data-limit=stove] svg').focus()")
        caption = "return document.activeElement.parentNode.querySelector('figcaption').textContent"
        told = []
        for key in ("\ue010", *["\ue012"] * 12):  # End, then ArrowLeft
            self.browser.press(key)
            told.append(self.run_js(caption))
        self.assertRegex(told[0], r"^\d+ s ago: ")
        self.assertTrue(any("granted immediately" in one for one in told), told)
        self.browser.press("\ue00c")  # Escape
        self.assertNotIn("ago", self.run_js(caption))

    def changes(self, proxy):
        """Changes a rule with the keyboard only."""
        self.run_js("const i = document.querySelector('[data-limit=stove] input'); i.focus(); i.select()")
        self.browser.press(*"5 seats", "\ue007")
        wait_until(lambda: self.run_js(FIGURES)["stove"]["rule"] == "5 seats", "the page to show the new rule")
        self.assertEqual(limit_of(proxy, "stove")["rule"], "5 seats")
        output = "return document.querySelector('[data-limit=stove] output').textContent"
        wait_until(lambda: "Rule is now 5 seats" in self.run_js(output))
        self.run_js("const i = document.querySelector('[data-limit=stove] input'); i.focus(); i.select()")
        self.browser.press(*"no rule", "\ue007")
        wait_until(lambda: "column" in self.run_js(output), "the error to be shown")
        self.assertEqual(limit_of(proxy, "stove")["rule"], "5 seats")
        self.assertEqual([one for one in self.browser.console() if "400" not in one], [])


if __name__ == "__main__":
    if not is_here():
        skip("chromium or chromedriver is missing")
    main()
