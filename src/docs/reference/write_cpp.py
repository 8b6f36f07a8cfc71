#!/usr/bin/env python3
"""Writes the reference of the C++ interface in Markdown, from the comments in the headers, with Doxygen.

usage: write_cpp.py FOLDER [HEADERS]
       write_cpp.py --without-words [HEADERS]     only prints the public names that have no words

FOLDER gets a page for each public class, a page for each header with its functions, aliases, constants and
enumerations, and an index. HEADERS is the folder of the headers, by default include. Public are the names in the
namespaces below, except members that the language defines and functions without words that take a type of `detail`.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[3]
NAMESPACES = ("weir", "weir::testing", "weir::agent", "weir::redis", "weir::mysql", "weir::postgres", "weir::order")
# Policies are template arguments: programs name them, but do not call their members.
POLICIES = ("seats sliding_log sliding_window fixed_window token_bucket leaky_bucket smooth_bursty smooth_warming_up adaptive "
            "adaptive_rate calendar_window resting_seats server_quota penalty any all").split()
# A program calls the members of these.
RULES = ("weir::policy::rate_tree", "weir::policy::rate_tree_turns", "weir::policy::tree_node")
DOXYFILE = """
INPUT = {headers}
FILE_PATTERNS = *.hpp
RECURSIVE = YES
INPUT_FILTER = "sed 's|^ *///|///|; s|::inline v[0-9_]*||'"
EXCLUDE_PATTERNS = */detail/*
EXCLUDE_SYMBOLS = *detail::*
STRIP_FROM_PATH = {headers}
STRIP_FROM_INC_PATH = {headers}
OUTPUT_DIRECTORY = {out}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
SORT_MEMBER_DOCS = NO
QUIET = YES
WARNINGS = NO
"""


def plain(node):
    """The code of a node on one line, as a programmer writes it; Doxygen writes `std::span< T > &all=none`."""
    text = "" if node is None else " ".join("".join(node.itertext()).split()).replace("detail::", "")
    parts, depth = re.split(r"((?<=\w)< ?|(?<!-) ?>(?!=))", text), 0
    for i in range(1, len(parts), 2):
        if parts[i].startswith("<"):
            parts[i], depth = "<", depth + 1
        elif depth:
            parts[i], depth = ">", depth - 1
    text = re.sub(r" (&&?|\*)(?=[,)>]|\.\.\.|$)", r"\1", "".join(parts))
    text = re.sub(r" (&&?|\*)(?=\w)", r"\1 ", text)
    return re.sub(r"(?<=[\w)])=(?=[\w{\"-])", " = ", text)


def escaped(text):
    """Text without marks of Markdown and HTML."""
    return re.sub(r"([*_\[\]\\])", r"\\\1", text).replace("<", "&lt;")


# ---- Words

class Words:
    """The comments of one page, as blocks of Markdown."""

    def __init__(self, places):
        self.places = places  # the target of a link by Doxygen's id

    def inline(self, node):
        parts = [escaped(node.text or "")]
        for child in node:
            if child.tag == "computeroutput":
                code = f"`{''.join(child.itertext())}`"
                refs = [self.places.get(ref.get("refid")) for ref in child.iter("ref")]
                parts.append(f"[{code}]({refs[0]})" if len(refs) == 1 and refs[0] else code)
            elif child.tag in ("emphasis", "bold"):
                parts.append(f"*{self.inline(child)}*")
            elif child.tag == "ref":
                target = self.places.get(child.get("refid"))
                parts.append(f"[{self.inline(child)}]({target})" if target else self.inline(child))
            else:
                parts.append(self.inline(child))
            parts.append(escaped(child.tail or ""))
        return re.sub(r"\s+", " ", "".join(parts))

    def paragraph(self, para):
        """The blocks of a paragraph, which may contain code and lists."""
        blocks, text = [], xml.Element("para")
        text.text = para.text

        def flush():
            nonlocal text
            if words := self.inline(text).strip():
                blocks.append(words)
            text = xml.Element("para")

        for child in para:
            if child.tag in ("verbatim", "programlisting"):
                flush()
                blocks.append("```cpp\n" + "".join(child.itertext()).strip("\n") + "\n```")
            elif child.tag in ("itemizedlist", "orderedlist"):
                flush()
                marks = ("-" if child.tag == "itemizedlist" else f"{i + 1}." for i in range(len(child)))
                blocks.append("\n".join(f"{mark} " + " ".join(self.blocks(item)) for mark, item in zip(marks, child)))
            elif child.tag == "parameterlist":
                flush()
                blocks.append("\n".join(self.parameter(item, child.get("kind")) for item in child))
            elif child.tag == "simplesect":
                flush()
                blocks.append({"return": "Returns: "}.get(child.get("kind"), "") + " ".join(self.blocks(child)))
            else:
                text.append(child)
                continue
            text.text = child.tail
        flush()
        return blocks

    def parameter(self, item, kind):
        names = ", ".join(f"`{plain(name)}`" for name in item.iter("parametername"))
        words = " ".join(self.blocks(item.find("parameterdescription")))
        return f"{'- throws' if kind == 'exception' else '-'} {names}: {words}"

    def blocks(self, node):
        return [block for para in node.findall("para") for block in self.paragraph(para)]

    def of(self, node):
        """The blocks of the comment of a class or a member."""
        return self.blocks(node.find("briefdescription")) + self.blocks(node.find("detaileddescription"))

    def line(self, node):
        """The comment as a cell of a table; empty if it needs more than a cell."""
        blocks = self.of(node)
        fits = not any("\n" in block or block.startswith(("- ", "1. ")) for block in blocks)
        return " ".join(blocks).replace("|", "\\|") if fits else ""


# ---- Members

def has_words(node):
    return any("".join(node.find(part).itertext()).strip() for part in ("briefdescription", "detaileddescription"))


def is_special(member, owner):
    """Whether the language defines the member: copies, moves, and the destructor."""
    name, arguments = member.findtext("name"), plain(member.find("argsstring"))
    own = owner.rpartition("::")[2]
    takes_own = re.match(rf"\({own}(?:<.*>)?(?: const)?&", arguments) and name in (own, "operator=")
    return name == "~" + own or bool(takes_own) or name == own and arguments == "() = default"


def is_internal(member):
    return "detail::" in "".join(member.find("argsstring").itertext()) if member.find("argsstring") is not None else False


def signature(member):
    name, kind = member.findtext("name"), member.get("kind")
    head = template(member)
    if kind == "typedef":
        meaning = plain(member.find("type")).removeprefix("typedef ")
        is_hidden = "detail::" in "".join(member.find("type").itertext())
        return head + f"using {name} = {'/* unspecified */' if is_hidden else meaning};"
    kind_of_result = plain(member.find("type"))
    if kind == "variable":
        return head + f"{kind_of_result} {name} {plain(member.find('initializer'))}".rstrip() + ";"
    words = ["explicit"] * (member.get("explicit") == "yes") + ["static"] * (member.get("static") == "yes")
    words += [kind_of_result] if kind_of_result else []
    needs = plain(member.find("requiresclause")).strip()
    return head + " ".join(words + [name]) + plain(member.find("argsstring")) + (f"\n    requires {needs}" if needs else "") + ";"


def template(node):
    parameters = node.find("templateparamlist")
    if parameters is None:
        return ""
    def one(p):
        name = " ".join(filter(None, (plain(p.find("type")), p.findtext("declname"))))
        default = plain(p.find("defval"))
        return name + (f" = {default}" if default else "")
    names = list(map(one, parameters.findall("param")))
    separator = ", " if sum(map(len, names)) < 75 else ",\n          "
    return "template <" + separator.join(names) + ">\n"


def anchor(name):
    return re.sub(r"[^\w]+", lambda m: "-" + "-".join(str(ord(c)) for c in m[0].strip()), name).strip("-").lower()


class Reference:
    def __init__(self, headers):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["doxygen", "-"], input=DOXYFILE.format(headers=headers, out=folder), text=True, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            read = lambda id: xml.parse(f"{folder}/xml/{id}.xml").getroot().find("compounddef")
            index = xml.parse(f"{folder}/xml/index.xml").getroot()
            everything = {c.findtext("name"): read(c.get("refid")) for c in index
                          if c.get("kind") in ("class", "struct", "namespace", "concept")}
        def is_public(name):
            if name in RULES:
                return name in everything
            if name in everything and everything[name].get("kind") in ("class", "struct"):
                return everything[name].get("prot") == "public" and is_public(name.rpartition("::")[0])
            return name in NAMESPACES

        self.classes = {name: c for name, c in everything.items() if name not in NAMESPACES and is_public(name)}
        self.namespaces = [everything[name] for name in NAMESPACES if name in everything]
        self.others = {}  # by header: functions, aliases, constants, enumerations and concepts
        for member in (m for n in self.namespaces for m in n.iter("memberdef")):
            self.others.setdefault(member.find("location").get("file"), []).append(member)
        for members in self.others.values():
            members.sort(key=lambda m: int(m.find("location").get("line")))
        self.concepts = {name: c for name, c in everything.items()
                         if c.get("kind") == "concept" and name.rpartition("::")[0] in NAMESPACES}
        policies = everything.get("weir::policy")
        self.policies = [everything[name] for name in map("weir::policy::{}".format, POLICIES) if name in everything]
        self.policies += [m for m in policies.iter("memberdef") if m.findtext("name") in POLICIES] if policies is not None else []
        nodes = [*self.classes.values(), *self.concepts.values(), *self.policies]
        self.headers = sorted({node.find("location").get("file") for node in nodes} | set(self.others))
        self.places = {}
        for name, c in self.classes.items():
            self.places[c.get("id")] = f"./{self.page(name)}.md" + (f"#{anchor(self.nested(name))}" if self.nested(name) else "")
            for m in self.members(c):
                self.place(m, f"./{self.page(name)}.md", self.nested(name))
        for header, members in self.others.items():
            for m in members:
                self.place(m, f"./{self.page_of_header(header)}.md", "")
        self.words = Words(self.places)

    def place(self, member, page, nested):
        target = f"{page}#{anchor((nested + '-' if nested else '') + member.findtext('name'))}"
        self.places[member.get("id")] = target
        for value in member.iter("enumvalue"):
            self.places[value.get("id")] = target

    # ---- Names

    def outermost(self, name):
        """The class whose page has the class of this name."""
        outer = name.rpartition("::")[0]
        return self.outermost(outer) if outer in self.classes else name

    def nested(self, name):
        return name[len(self.outermost(name)) + 2:]

    def page(self, name):
        return self.outermost(name).removeprefix("weir::").replace("::", "_")

    @staticmethod
    def page_of_header(header):
        return re.sub(r"[/.]", "_", header.removeprefix("weir/"))

    @staticmethod
    def members(c):
        """The public members in the order of their declaration, except members that the language defines."""
        found = [m for s in c.findall("sectiondef") for m in s.findall("memberdef")
                 if m.get("prot") == "public" and m.get("kind") in ("function", "typedef", "variable", "enum")]
        found = [m for m in found if has_words(m) or not (is_special(m, c.findtext("compoundname")) or is_internal(m))]
        return sorted(found, key=lambda m: int(m.find("location").get("line")))

    def without_words(self):
        """The public names that no comment describes."""
        for name, c in [*self.classes.items(), *self.concepts.items()]:
            if not has_words(c):
                yield f"{c.find('location').get('file')}: {name}"
        groups = [(name, self.members(c)) for name, c in self.classes.items()] + list(self.others.items())
        for name, members in groups:
            for m in members:
                where = f"{m.find('location').get('file')}:{m.find('location').get('line')}: {name}::{m.findtext('name')}"
                if not has_words(m) and m.get("kind") != "enum":
                    yield where
                for value in m.iter("enumvalue"):
                    if not has_words(value):
                        yield f"{where}::{value.findtext('name')}"

    # ---- Pages

    def table_of(self, titles, rows):
        lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])

    def section(self, members, level, nested, owner=""):
        """A heading for each name, with all overloads of that name; variables as a table."""
        variables = [m for m in members if m.get("kind") == "variable" and self.words.line(m)]
        if variables:
            code = lambda text: f"`{text}`".replace("|", "\\|") if text else ""
            name = lambda m: f'<a id="{self.places[m.get("id")].rpartition("#")[2]}"></a>`{m.findtext("name")}`'
            default = lambda m: code(plain(m.find("initializer")).removeprefix("=").strip())
            rows = [(name(m), code(plain(m.find("type"))), default(m), self.words.line(m)) for m in variables]
            yield self.table_of(("member", "type", "default", "meaning"), rows)
        names = {}
        for m in members:
            if m not in variables:
                names.setdefault(m.findtext("name"), []).append(m)
        for name, overloads in names.items():
            title = "Constructors" if name == owner else "Destructor" if name == "~" + owner else f"`{name}`"
            yield f"{'#' * level} {title} {{#{anchor((nested + '-' if nested else '') + name)}}}"
            for m in overloads:
                yield from self.enumeration(m) if m.get("kind") == "enum" else \
                    ["```cpp\n" + signature(m) + "\n```", *self.words.of(m)]

    def enumeration(self, m):
        yield from self.words.of(m)
        values = m.findall("enumvalue")
        if all(self.words.line(v) or not self.words.of(v) for v in values):
            yield self.table_of(("value", "meaning"), ((f"`{v.findtext('name')}`", self.words.line(v)) for v in values))
        else:
            for v in values:
                first, *others = self.words.of(v)
                yield from (f"`{v.findtext('name')}`: {first}", *others)

    def class_page(self, name):
        c = self.classes[name]
        header = c.find("location").get("file")
        yield f"# {name}"
        yield f"Header [`{header}`](./{self.page_of_header(header)}.md)"
        yield f"```cpp\n{template(c)}{c.get('kind')} {name.rpartition('::')[2]};\n```"
        yield from self.words.of(c)
        for base in c.findall("basecompoundref"):
            if self.places.get(base.get("refid")) and base.get("prot") == "public":
                yield f"It also has the members of [`{plain(base)}`]({self.places[base.get('refid')]})."
        yield from self.section(self.members(c), 2, "", name.rpartition("::")[2])
        for inner in self.classes:
            if inner != name and self.outermost(inner) == name:
                yield f"## `{self.nested(inner)}` {{#{anchor(self.nested(inner))}}}"
                yield from self.words.of(self.classes[inner])
                yield from self.section(self.members(self.classes[inner]), 3, self.nested(inner), inner.rpartition("::")[2])

    def header_page(self, header):
        of_header = lambda nodes: [n for n in nodes if n.find("location").get("file") == header]
        yield f"# {header}"
        yield f"```cpp\n#include <{header}>\n```"
        rows = [(f"[`{name}`](./{self.page(name)}.md)", " ".join(self.words.of(c)[:1]).replace("|", "\\|"))
                for name, c in self.classes.items() if c.find("location").get("file") == header and not self.nested(name)]
        if rows:
            yield self.table_of(("class", "meaning"), rows)
        for concept in of_header(self.concepts.values()):
            yield f"## `{concept.findtext('compoundname').rpartition('::')[2]}`"
            yield from self.words.of(concept)
        for policy in of_header(self.policies):
            name = policy.findtext("compoundname") or "weir::policy::" + policy.findtext("name")
            yield f"## `{name}`"
            yield from self.words.of(policy)
        yield from self.section(self.others.get(header, []), 2, "")

    def pages(self):
        """The name and the text of each page."""
        for name in self.classes:
            if not self.nested(name):
                yield self.page(name), self.class_page(name)
        for header in self.headers:
            yield self.page_of_header(header), self.header_page(header)
        yield "index", self.index()

    def index(self):
        yield "# C++"
        yield ("These pages are made from the comments in the headers. `weir/weir.hpp` includes the headers of all "
               "limiters and pools.")
        def row(header):
            names = [f"[`{name.removeprefix('weir::')}`](./{self.page(name)}.md)" for name, c in self.classes.items()
                     if c.find("location").get("file") == header and not self.nested(name)]
            others = dict.fromkeys(m.findtext("name") for m in self.others.get(header, []))
            return f"[`{header}`](./{self.page_of_header(header)}.md)", ", ".join(names + [f"`{name}`" for name in others])
        yield self.table_of(("header", "names"), map(row, self.headers))


def main(arguments):
    only_names = "--without-words" in arguments
    arguments = [a for a in arguments if a != "--without-words"]
    if len(arguments) not in ((0, 1) if only_names else (1, 2)):
        print(__doc__, file=sys.stderr)
        return 2
    reference = Reference(arguments[-1] if len(arguments) == (1 if only_names else 2) else ROOT / "include")
    if only_names:
        names = list(reference.without_words())
        print(*names, sep="\n", end="\n" if names else "")
        return bool(names)
    folder = pathlib.Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    for name, blocks in reference.pages():
        (folder / f"{name}.md").write_text("\n\n".join(blocks) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
