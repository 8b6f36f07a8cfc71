#!/usr/bin/env python3
"""Writes the tables of the reference between `<!-- table: NAME -->` and `<!-- end -->`, from their sources.

usage: write_tables.py [--check]
  --check   writes nothing, prints the differences, and fails if there are any

The table `configuration` is made from weir.schema.json, `options weir-proxy` and `options weir-replay` from these
programs.
The environment variables WEIR_PROXY and WEIR_REPLAY have the paths of the programs.
"""
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = HERE.parents[2] / "build/release/src"
PROGRAMS = {
    "weir-proxy": os.environ.get("WEIR_PROXY", RELEASE / "weir-proxy"),
    "weir-replay": os.environ.get("WEIR_REPLAY", RELEASE / "weir-replay"),
}
SCHEMA = json.loads((HERE / "weir.schema.json").read_text())


def table(titles, rows):
    """The lines of a Markdown table."""
    cells = lambda row: "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
    return [cells(titles), "|" + "---|" * len(titles), *map(cells, rows)]


# ---- The configuration

class Key:
    """A key of a table of the configuration."""

    def __init__(self, name, schema, required):
        self.name = name
        self.schema = schema
        self.required = required

    @property
    def description(self):
        return self.schema["description"]

    @property
    def value(self):
        """The schema of the value, or of an element of the list that may replace a value."""
        found = self.schema.get("allOf", self.schema.get("anyOf", [self.schema]))[0]
        return SCHEMA["definitions"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found

    @property
    def is_list(self):
        """Whether the value may be a list of values."""
        return "anyOf" in self.schema

    @property
    def values(self):
        """The valid values, as the proxy's error messages describe them."""
        v = self.value
        if "title" in v:
            return v["title"]
        if v["type"] == "boolean":
            return "true or false"
        if v["type"] == "integer":
            return f"a number from {v['minimum']} to {v['maximum']}"
        *first, last = (f"`{one}`" for one in v["enum"])
        return ", ".join(first) + " or " + last

    @property
    def row(self):
        if "default" in self.schema:
            default = code(self.schema["default"])
        else:
            default = "required" if self.required else self.schema.get("x-default", "none")
        example = code(self.schema["examples"][0], self.name)
        values = self.values + (", or a list" if self.is_list else "")
        return f"`{self.name}`", values, default, f"{self.description} Example: {example}."


def toml(value):
    """The value in TOML."""
    if isinstance(value, dict):
        pairs = (f"{key if re.fullmatch('[A-Za-z0-9_-]+', key) else json.dumps(key)} = {toml(v)}" for key, v in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def code(value, key=None):
    return f"`{key} = {toml(value)}`" if key else f"`{toml(value)}`"


class Table:
    """A table of the configuration, with its path of keys; the path of the whole file is empty."""

    def __init__(self, path, schema, is_list=False):
        self.path = path
        self.is_list = is_list
        self.schema = schema
        self.keys = []
        self.tables = []
        for name, part in schema["properties"].items():
            if "properties" in part:
                self.tables.append(Table((*path, name), part))
            elif "properties" in part.get("items", {}):
                self.tables.append(Table((*path, name), part["items"], is_list=True))
            else:
                self.keys.append(Key(name, part, name in schema.get("required", [])))

    @property
    def title(self):
        if not self.path:
            return "Top level"
        return "`" + "[" * (1 + self.is_list) + ".".join(self.path) + "]" * (1 + self.is_list) + "`"

    def all(self):
        yield self
        for part in self.tables:
            yield from part.all()


def configuration():
    for t in Table((), SCHEMA).all():
        yield from ("", "#" * max(2, 1 + len(t.path)) + " " + t.title, "", t.schema["description"], "")
        yield from table(("key", "value", "default", "meaning"), (key.row for key in t.keys))
    yield ""


# ---- The options of the programs

ENOUGH = {"weir-proxy": ("--check", "--upstream", "127.0.0.1:1"), "weir-replay": ("/dev/null", "--limit", "1/1s")}


def run(program, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "WEIR_STORE"}
    done = subprocess.run([PROGRAMS[program], *arguments], capture_output=True, text=True, env=environment)
    return done.stdout + done.stderr


def options_of(program):
    """The options with the type of their value and the text of --help."""
    text = re.split(r"\n(?:Options|OPTIONS):\n", run(program, "--help"))[1].split("\n\n")[0]
    found = []
    for line in text.splitlines():
        if option := re.match(r"  (--\S+)(?: ([A-Z][A-Z:/0-9]*))?(?: \(Env:\w+\))?(?:  +(.*))?$", line):
            found.append([option[1], option[2], option[3] or ""])
        else:
            found[-1][2] = (found[-1][2] + " " + line.strip()).strip()
    return found


def values_of(program, option):
    """The valid values as the error message for an invalid value describes them; empty for any text."""
    if option in ("--config", "--report", "--versus"):  # a file, or a list
        return ""
    message = run(program, *ENOUGH[program], option, "\1")
    found = re.search(r"(?:, but must be | must start with )(.*)", message)
    return re.sub(r": weir::.*|, such as 500ms, 10s or 2min$", "", found[1]) if found else ""


# Values that no other option has in the printed configuration; `true` for a flag.
SAMPLES = {"HOST:PORT": "127.0.0.1:77", "N": "77", "BYTES": "7777777", "N/TIME": "77/1s", "TIME": "77s", "BITS": "27", "URL": "redis://77",
           "NAME": "77", "MODE": "open", "PROTOCOL": "77", "FILE": "77", "KIND": "both", "FORMAT": "json", "LEVEL": "error"}
SAMPLES_OF = {"--upstream": "127.0.0.1:77", "--store-timeout": "17s"}


def keys_of(option, kind):
    """The keys of weir.toml that the option of weir-proxy sets, by their tables, as --print-config shows them."""
    arguments = {"--upstream": "127.0.0.1:1", "--rate": "5/1s", "--per-client-rate": "5/1s", "--store": "redis://a"}
    sample = SAMPLES_OF.get(option, SAMPLES[kind]) if kind else None
    arguments[option] = sample
    printed = run("weir-proxy", "--print-config", *(word for pair in arguments.items() for word in pair if word))
    keys, where = {}, ""
    for line in printed.splitlines():
        where = line if line.startswith("[") else where
        key, equals, value = line.partition(" = ")
        if equals and re.search(rf"(?<![\w.]){re.escape(sample or 'true')}(?![\w.])", value):
            keys[f"`{key}` in `{where}`" if where else f"`{key}`"] = None
    return ", ".join(keys)


def options(program):
    has_keys = program == "weir-proxy"

    def row(name, kind, text):
        cells = [f"`{name} {kind}`" if kind else f"`{name}`", values_of(program, name) if kind else "", text]
        is_setting = name not in ("--help", "--version", "--config", "--check", "--reload", "--print-config", "--demo")
        return cells + [keys_of(name, kind) if is_setting else ""] if has_keys else cells

    titles = ["option", "value", "meaning"] + ["key of weir.toml"] * has_keys
    yield from table(titles, (row(*option) for option in options_of(program)))


# ---- The pages

def written(text):
    """The text with fresh tables."""
    def fresh(found):
        kind, _, argument = found[1].partition(" ")
        lines = {"configuration": configuration, "options": options}[kind](*([argument] if argument else []))
        return f"<!-- table: {found[1]} -->\n" + "\n".join(lines) + "\n<!-- end -->"

    return re.sub(r"<!-- table: (.*?) -->\n.*?<!-- end -->", fresh, text, flags=re.S)


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    differs = False
    for page in sorted(HERE.glob("*.md")):
        old = page.read_text()
        new = written(old)
        if arguments and old != new:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True),
                                                       str(page), "with fresh tables"))
        elif old != new:
            page.write_text(new)
    if differs:
        print("The tables of the reference are out of date; run src/docs/reference/write_tables.py")
    return differs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
