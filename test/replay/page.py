#!/usr/bin/env python3
"""The page of --report, in a headless Chromium: it shows the numbers of --json, fits a small screen, and
loads nothing from the network."""

import html
import json
import os
import re
import sys

from support import ReplayTest, main, random_lines, skip

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from browser import BrowserTest, is_here

# The marks of the page, and the property that has their colour.
MARKS = {"polygon.granted, polygon.waiting, .bar rect": "fill", ".key:not(.hatch)": "backgroundColor", ".key.hatch": "outlineColor"}
TABLE = "return [...document.getElementById(arguments[0]).rows].map(r => [...r.cells].map(c => c.textContent))"


def number(text):
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))


class Page(BrowserTest, ReplayTest):
    def test_shows_the_numbers_of_json_and_loads_nothing(self):
        lines = random_lines(5000)
        lines[7] = lines[7].replace("10.0.0.", "<b>&amp;\xe4\"</b>" * 9)
        self.page = self.path("page.html")
        done = self.run_it(self.write(lines), "--limit", "6/1s", "--limit", "1/1s per client", "--versus", "9/1s",
                           "--versus", "1/1s", "--patience", "700ms", "--json", "--report", self.page)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        report = json.loads(done.stdout)
        self.assertEqual([o["rejected"] > 0 for o in report["outcomes"]], [True] * 3)

        browser = self.browser
        greedy = self.write(['<img src="http://127.0.0.1:9/a.png">'], "greedy.html")
        self.assertEqual(browser.open(greedy), ["file://" + greedy, "http://127.0.0.1:9/a.png"])
        browser.clear()
        self.assertEqual(browser.open(self.page), ["file://" + self.page])
        self.assertEqual(browser.run("return document.getElementById('command').textContent"), report["command"])
        self.summary(browser, report)
        for i, o in enumerate(report["outcomes"]):
            self.time(browser, i, o)
            self.waits(browser, i, o)
            self.assertEqual([[name, number(asked), number(rejected), share] for name, asked, rejected, share, _ in
                              browser.run(TABLE, f"keys-{i}")[1:]],
                             [[f"{k['of']} {k['key']}", k["requests"], k["rejected"], f"{100 * k['rejected'] / k['requests']:.2f} %"]
                              for k in o["top_rejected"]])
        browser.check_screens(self, MARKS, self.screen)
        self.assertEqual(browser.run("return performance.getEntriesByType('resource').length"), 0)
        browser.check_policy(self)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        self.assertNotRegex(html.unescape(text), r"(?i)https?:|url\((?!#)|<script|<link|\bsrc=|@import")

    def test_begins_with_the_difference(self):
        lines = random_lines(3000)
        self.page = self.path("page.html")
        done = self.run_it(self.write(lines), "--limit", "6/1s", "--versus", "9/1s", "--patience", "700ms", "--json", "--report", self.page)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        old, new = json.loads(done.stdout)["outcomes"]
        browser = self.browser
        browser.open(self.page)
        said = browser.run("return document.querySelector('.difference').textContent")
        self.assertEqual(said.split(".")[0], f"9/1s rejects {new['rejected']:,} instead of {old['rejected']:,} requests")
        table = {row[0]: row for row in browser.run(TABLE, "summary")}
        self.assertEqual(table[""], ["", "6/1s", "9/1s", "difference"])
        for name, member in (("granted immediately", "granted_immediately"), ("rejected", "rejected"), ("requests", "requests")):
            difference = new[member] - old[member]
            self.assertEqual(table[name][3], f"{difference:+,}".replace("-", "\u2212").replace("+0", "0"), name)
        self.assertEqual(table["wait p99"][3], "")
        self.assertEqual(browser.printed_pages(), 2)

    def summary(self, browser, report):
        table = {row[0].strip(): row[1:] for row in browser.run(TABLE, "summary")}
        self.assertEqual(table[""], [o["name"] for o in report["outcomes"]])
        for name, member in (("requests", "requests"), ("granted immediately", "granted_immediately"), ("granted after a wait", "waited"),
                             ("rejected", "rejected"), ("longest queue", "longest_queue")):
            self.assertEqual([number(cell) for cell in table[name]], [o[member] for o in report["outcomes"]], name)
        for cell, o in zip(table["rejected"], report["outcomes"]):
            self.assertIn(f"({100 * o['rejected_share']:.2f} %)", cell)

    def time(self, browser, i, o):
        table = browser.run(TABLE, f"time-{i}")
        self.assertEqual(table[0], ["from", "requests", "granted", "rejected", "waiting"])
        time = o["over_time"]
        self.assertEqual(table[1][0], time["begin"])
        self.assertEqual([[number(cell) for cell in row[1:]] for row in table[1:]],
                         [list(row) for row in zip(time["requests"], time["granted"], time["rejected"], time["waiting"])])

        # The areas show the same numbers: granted requests, and rejected ones on top of them.
        top, granted, both = browser.run("""const figure = [...document.querySelectorAll('figure:has(polygon.granted)')][arguments[0]];
return [figure.querySelector('.y span').textContent, ...['granted', 'rejected'].map(c => figure.querySelector('polygon.' + c).getAttribute('points'))]""", i)

        def numbers(points):
            heights = [float(p.split(",")[1]) for p in points.split()][1:-1:2]
            return [round((150 - y) / 150 * float(top.replace(",", "")) * time["step"]) for y in heights]
        self.assertEqual(numbers(granted), time["granted"])
        self.assertEqual(numbers(both), [a + b for a, b in zip(time["granted"], time["rejected"])])

    def waits(self, browser, i, o):
        _, immediately, *waited = browser.run(TABLE, f"waits-{i}")
        self.assertEqual((immediately[0], number(immediately[2])), ("immediately", o["granted_immediately"]))
        self.assertEqual(sum(number(row[2]) for row in waited), o["waited"])

    def screen(self, _):
        # The texts of plots do not shrink with them, and the plots have one scale.
        small = self.browser.run("return Math.min(...[...document.body.querySelectorAll('*')].filter(e => e.textContent.trim())"
                                 ".map(e => parseFloat(getComputedStyle(e).fontSize)))")
        self.assertGreaterEqual(small, 12)
        scales = self.browser.run("return [...document.querySelectorAll('.sides')].map(s => [...s.querySelectorAll('.y')].map(y => y.textContent))")
        self.assertTrue(all(len(set(one)) <= 1 for one in scales), scales)


if __name__ == "__main__":
    if not is_here():
        skip("chromium or chromedriver is missing")
    main()
