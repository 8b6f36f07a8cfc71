"""A headless Chromium driven by chromedriver, for the pages that the programs write."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.request

from ports import reserve

PATIENCE = 60.0
# The visible texts and marks whose contrast with their background is below the minimum, and the number of each kind. The
# argument has the property with the colour of each kind of mark.
CONTRAST = """const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
const read = text => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
const known = {};
const rgba = text => known[text] ??= read(text);
const light = c => [0, 1, 2].map(i => c[i] / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
const ratio = (a, b) => { const [x, y] = [light(rgba(a)), light(rgba(b))].sort((m, n) => n - m); return (x + 0.05) / (y + 0.05); };
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (rgba(c)[3] === 255) return c; } return 'white'; };
const visible = e => e.getClientRects().length && !e.closest('.hidden, .skip, defs');
const weak = [], count = {text: 0, mark: 0};
const check = (kind, e, colour, least) => { ++count[kind]; const r = ratio(colour, behind(kind === 'text' ? e : e.parentElement)); if (r < least) weak.push([kind, e.getAttribute('class'), e.textContent.slice(0, 20), colour, r]); };
for (const e of document.body.querySelectorAll('*'))
  if (visible(e) && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    check('text', e, getComputedStyle(e)[e.closest('svg') ? 'fill' : 'color'], 4.5);
for (const [marks, property] of Object.entries(arguments[0]))
  for (const e of document.querySelectorAll(marks)) {
    const colour = getComputedStyle(e)[property];
    if (visible(e) && colour.startsWith('rgb')) check('mark', e, colour, 3);
  }
return [weak, count];"""
# Adds a script, a style and a handler, as a name from outside could if it became markup. Returns whether one of them has an
# effect.
INJECT = """const made = ['script', 'style'].map(tag => document.createElement(tag));
made[0].textContent = 'document.body.dataset.injected = 1';
made[1].textContent = 'body { letter-spacing: 7px }';
document.head.append(...made);
document.body.insertAdjacentHTML('beforeend', '<p style="word-spacing: 7px" onclick="document.body.dataset.injected = 1"></p>');
const p = document.body.lastChild;
p.click();
return document.body.dataset.injected === '1' || [p.style, getComputedStyle(document.body), getComputedStyle(p)].some(s => [s.letterSpacing, s.wordSpacing].includes('7px'));"""


def is_here():
    return bool(shutil.which("chromedriver") and shutil.which("chromium"))


class Browser:
    def __init__(self, folder):
        self.reservation = reserve()
        port = self.reservation.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(self.url + "/status", timeout=PATIENCE).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        options = {"args": [
            "--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}/chromium"]}
        self.session = ""
        logs = {"performance": "ALL", "browser": "ALL"}
        found = self.ask("session", {"capabilities": {"alwaysMatch": {"browserName": "chrome",
                                                                      "goog:chromeOptions": options,
                                                                      "goog:loggingPrefs": logs}}})
        self.session = "session/" + found["sessionId"] + "/"

    def ask(self, command, body):
        request = urllib.request.Request(f"{self.url}/{self.session}{command}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]

    def run(self, script, *args):
        return self.ask("execute/sync", {"script": script, "args": args})

    def devtools(self, command, **params):
        return self.ask("goog/cdp/execute", {"cmd": command, "params": params})

    def go_to(self, url):
        self.ask("url", {"url": url})

    def clear(self):
        """Leaves the page, and forgets its messages."""
        self.go_to("about:blank")
        self.console()

    def requests(self, page):
        """The URLs that the document has requested since the last call."""
        events = [json.loads(e["message"])["message"] for e in self.ask("se/log", {"type": "performance"})]
        return [e["params"]["request"]["url"] for e in events
                if e["method"] == "Network.requestWillBeSent" and e["params"]["documentURL"] == page]

    def open(self, path):
        """Opens a file. Returns the URLs that it requests until it is loaded."""
        page = "file://" + path
        self.go_to(page)
        return self.requests(page)

    def console(self):
        """The console messages since the last call."""
        return [e["message"] for e in self.ask("se/log", {"type": "browser"})]

    def screen(self, width, height, scheme, media=""):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def check_screens(self, test, marks, also=lambda name: None):
        """Checks the width and the contrast on a desktop, a tablet, a phone and paper, in both colour schemes. Calls `also` on
        each screen, with its name."""
        colours = {}
        for width, height, media in ((1280, 900, ""), (834, 1100, ""), (390, 800, ""), (718, 1000, "print")):
            for scheme in ("light", "dark"):
                with test.subTest(width=width, scheme=scheme, media=media):
                    self.screen(width, height, scheme, media)
                    test.assertEqual(self.run("return innerWidth"), width)
                    test.assertLessEqual(self.run("return document.documentElement.scrollWidth"), width)
                    colours.setdefault(media, set()).add(self.run("return getComputedStyle(document.body).backgroundColor"))
                    weak, count = self.run(CONTRAST, marks)
                    test.assertEqual(weak, [])
                    test.assertGreater(count["text"], 30)
                    test.assertGreater(count["mark"], 10)
                    if not media:
                        also(f"{width}-{scheme}")
        test.assertEqual([len(colours[""]), colours["print"]], [2, {"rgb(255, 255, 255)"}])
        self.screen(1280, 900, "light")

    def check_policy(self, test):
        """Checks that the policy of the page has blocked nothing, and blocks what the page does not have itself."""
        test.assertEqual(self.console(), [])
        test.assertFalse(self.run(INJECT))
        blocked = self.console()
        test.assertEqual(len(blocked), 4, blocked)
        for text in blocked:
            test.assertIn("Content Security Policy", text)

    def printed_pages(self):
        """The number of pages on paper of the size A4."""
        pdf = base64.b64decode(self.devtools("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
        return len(re.findall(rb"/Type\s*/Page\b", pdf))

    def picture(self, path):
        """Writes a picture of the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, optimizeForSpeed=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def press(self, *keys):
        down = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": down}]})

    def close(self):
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/{self.session}".rstrip("/"), method="DELETE"),
                               timeout=PATIENCE).close()
        self.driver.terminate()
        self.driver.wait(PATIENCE)


class BrowserTest(unittest.TestCase):
    """A test of a page. All tests of a class share a browser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.browser.clear()
