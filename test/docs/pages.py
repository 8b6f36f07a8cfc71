"""The pages of the documentation, as blocks, headings, links and words: README.md, all Markdown below src/docs, and the
pages for developers."""
import os
import re

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))


class Block:
    """A fenced block: `kind` is the first word behind the fence, `marks` are the others, `first` is its first line."""

    def __init__(self, page, words, first):
        self.page, self.first = page, first
        self.kind, self.marks = (words[0], words[1:]) if words else ("", [])
        self.lines = []

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)

    @property
    def place(self):
        return f"{self.page.name}:{self.first}"


class Page:
    """One Markdown file; `prose` has the lines outside of blocks with their numbers."""

    def __init__(self, name, root=ROOT):
        self.name, self.root = name, root
        self.path = os.path.join(root, name)
        with open(self.path, encoding="utf-8") as file:
            self.text = file.read()
        self.blocks, self.prose = [], []
        block, indent = None, 0
        for number, line in enumerate(self.text.splitlines(), 1):
            fence = re.match(r"( *)```(.*)", line)
            if block is None and fence:
                indent = len(fence[1])
                block = Block(self, fence[2].split(), number + 1)
            elif block is not None and fence:
                self.blocks.append(block)
                block = None
            elif block is not None:
                block.lines.append(line[indent:] if not line[:indent].strip() else line)
            else:
                self.prose.append((number, line))
        if block is not None:
            raise ValueError(f"{block.place}: this block has no end")

    def code(self):
        """The texts in backticks outside of blocks, with their lines."""
        for number, line in self.prose:
            for text in re.findall(r"`` ?(.+?) ?``|`([^`]+)`", line):
                yield number, text[0] or text[1]

    def links(self):
        """The targets of links, with their lines."""
        for number, line in self.prose:
            bare = re.sub(r"``.+?``|`[^`]*`", "", line)
            for target in re.findall(r"\]\(([^)\s]+)\)", bare):
                yield number, target

    def anchors(self):
        """The anchors of the headings, as GitHub and VitePress derive them."""
        found = set()
        for _, line in self.prose:
            heading = re.match(r"#+ +(.*)", line)
            if not heading:
                continue
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
            name, again = slug, 0
            while name in found:
                again += 1
                name = f"{slug}-{again}"
            found.add(name)
        return found


def all_pages(root=ROOT):
    """README.md first, then the pages below src/docs in alphabetical order, then the pages for developers."""
    names = ["README.md"]
    for folder, folders, files in os.walk(os.path.join(root, "src", "docs")):
        folders[:] = sorted(f for f in folders if f != "node_modules" and not f.startswith("."))
        names += [os.path.relpath(os.path.join(folder, f), root) for f in sorted(files) if f.endswith(".md")]
    for name in (".github/CONTRIBUTING.md", "src/weir/README.md"):
        if os.path.exists(os.path.join(root, name)):
            names.append(name)
    return [Page(name, root) for name in names]
