"""src/docs/build builds the site, and each link inside it leads to a file and to an element.

usage: site.py FOLDER"""

import html.parser
import pathlib
import subprocess
import sys
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "src/docs"


class Page(html.parser.HTMLParser):
    """The links and the ids of a page, and its text."""

    def __init__(self, file):
        super().__init__()
        self.links, self.ids, self.words = [], set(), []
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id":
                self.ids.add(value)

    def handle_data(self, data):
        self.words.append(data)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {file.resolve(): Page(file) for file in SITE.rglob("*.html")}

    def test_each_page_of_the_sources_is_in_the_site(self):
        sources = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if "node_modules" not in page.parts]
        self.assertGreater(len(sources), 10)
        for page in sources:
            self.assertIn((SITE / page.with_suffix(".html")).resolve(), self.pages)
        self.assertGreater(len(self.pages), len(sources) + 100)  # of the C++ interface

    def test_links(self):
        links = 0
        for file, page in self.pages.items():
            for link in page.links:
                parts = urllib.parse.urlsplit(link)
                if parts.scheme or file.name == "404.html" or link == "/":
                    continue
                path = urllib.parse.unquote(parts.path)
                target = SITE / path.lstrip("/") if path.startswith("/") else file.parent / path if path else file
                target = (target / "index.html" if path.endswith("/") else target).resolve()
                where = f"{file.relative_to(SITE)}: {link}"
                self.assertTrue(target.is_file(), where)
                if parts.fragment and target in self.pages:
                    self.assertIn(urllib.parse.unquote(parts.fragment), self.pages[target].ids, where)
                links += 1
        self.assertGreater(links, 1000)

    def test_braces_and_brackets_of_code_remain(self):
        for name, code in (
            ("reference/cpp/partitions.html", '{{"live", 70}, {"batch", 30}}'),
            ("reference/cpp/basic_limiter.html", "asio::awaitable<permit, Executor>"),
            ("reference/weir-toml.html", 'add = { X-Through = "weir" }'),
        ):
            self.assertTrue(code in "".join(self.pages[(SITE / name).resolve()].words), code)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv.pop(1)).resolve()
    SITE = folder / "site"
    status = subprocess.run([DOCS / "build", folder]).returncode
    if status:
        sys.exit(status)
    unittest.main()
