"""A headless Chromium driven by chromedriver, for the pages that the programs write."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request

from ports import reserve

PATIENCE = 60.0


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
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
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

    def screen(self, width, height, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        """Writes a picture of the whole page."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
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
