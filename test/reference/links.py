"""Each link between pages of src/docs/reference leads to a file and, behind `#`, to a heading."""

import pathlib
import re
import unittest

PAGES = pathlib.Path(__file__).resolve().parents[2] / "src/docs/reference"


def anchors(text):
    """The anchors of the headings of a page, as GitHub and VitePress make them."""
    titles = re.findall("^#+ (.*)$", re.sub("^```.*?^```", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w -]", "", title).lower().strip().replace(" ", "-") for title in titles}


class Links(unittest.TestCase):
    def test_links(self):
        count = 0
        for page in PAGES.glob("*.md"):
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if re.match("https?:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page.parent / path if path else page
                self.assertTrue(file.is_file(), f"{page.name}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(file.read_text()), f"{page.name}: {target}")
                count += 1
        self.assertGreater(count, 20)

    def test_the_index_names_all_pages(self):
        named = set(re.findall(r"\]\((.*?\.md)\)", (PAGES / "index.md").read_text()))
        self.assertEqual(named, {page.name for page in PAGES.glob("*.md")} - {"index.md"})


if __name__ == "__main__":
    unittest.main()
