"""rules.md agrees with the parsers: each text in it is valid, and its tables have all options, bounds and defaults."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PROXY = os.environ.get("WEIR_PROXY", "build/release/src/weir-proxy")
PAGE = (pathlib.Path(__file__).resolve().parents[2] / "src/docs/reference/rules.md").read_text()


def read(**members):
    """Whether weir-proxy accepts a limit with these members, and the configuration without defaults or the error."""
    lines = ["[[upstream]]", 'name = "a"', 'servers = "a:1"', "[[limit]]", 'name = "a"']
    lines += [f'{key} = "{value}"' for key, value in members.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run([PROXY, "--config", file.name, "--print-config"], capture_output=True, text=True)
    return done.returncode == 0, done.stdout or done.stderr


def read_rule(text):
    return read(rule=text, **({"count": "4xx"} if "penalty" in text else {}))


def read_queue(text):
    return read(rule="1 seats", queue=text)


def rows(part):
    """The rows of the first table in the part, without its head."""
    table = re.search(r"\|(?:---\|)+\n((?:\|.*\n)+)", part)
    return [[cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table[1].splitlines()]


def part_of(title):
    return re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.S | re.M)[1]


# The rules whose options have a table, and a function that parses a text behind the rule.
KINDS = {title: lambda rest, title=title: read_rule(f"{title} {rest}") for title in re.findall(r"^### `(.*)`$", PAGE, re.M)}
OPTIONS = [(title, parse, rows(part_of(f"`{title}`"))) for title, parse in KINDS.items()]
OPTIONS.append(("Queues", read_queue, rows(part_of("Queues"))))
UNBOUNDED = {"name", "partitions", "zone", "max_expected_wait", "patience"}


class Rules(unittest.TestCase):
    def test_examples(self):
        examples = [text for row in rows(part_of("Kinds of rules")) for text in re.findall("`(.*?)`", row[0])]
        self.assertGreater(len(examples), 12)
        for text in examples:
            good, message = read_rule(text)
            self.assertTrue(good, message)
        queues = re.findall("`(.*?)`", re.search("Examples: (.*)", part_of("Queues"))[1])
        self.assertGreater(len(queues), 2)
        for text in queues:
            good, message = read_queue(text)
            self.assertTrue(good, message)

    def test_error_messages(self):
        for message in re.findall(r"```text\n(weir::.*)\n```", PAGE):
            rule = re.search("`(.*?)`", message)
            self.assertIn(message, read_rule(rule[1] if rule else "0 seats")[1])

    def test_each_kind_has_a_table(self):
        words = set()
        for head in ("1 zzz", "1/1s zzz"):
            found = re.search("expected (.*), found", read_rule(head)[1])[1]
            words |= set(re.split(", | or ", found)) - {"a time", "as in 1/1s", "burst", "the end of the text"}
        self.assertEqual(words, {title.split()[1] for title in KINDS if " " in title} | {"exact"})

    def test_tables_have_the_options_of_the_parser(self):
        for title, parse, table in OPTIONS:
            with self.subTest(title):
                found = re.split(", | or ", re.search("expected (.*), found", parse("zzz")[1])[1])
                self.assertEqual([row[0].strip("`") for row in table], [word for word in found if word != "the end of the text"])

    def test_bounds(self):
        for title, parse, table in OPTIONS:
            for name, value, *_ in table:
                name = name.strip("`")
                if name in UNBOUNDED:
                    continue
                with self.subTest(title, option=name):
                    is_time = re.search("[0-9](ns|s|h)|`first`", value)
                    wrong = "zzz" if " or " in value else "-1ns" if is_time else "-1"
                    good, message = parse(f"{name} {wrong}")
                    self.assertFalse(good)
                    expected = re.escape(value).replace("`min`", "[0-9]+").replace("`burst`", "100").replace("`first`", "1min")
                    self.assertRegex(message, expected + "(, found|\n)")
                    for bound in re.findall(r"(?<![`\w])(?:from|to|least) ([0-9.]+(?:ns|s|h)?)", value):
                        if not (name == "min" and bound.endswith("000")):  # min must not exceed max
                            good, message = parse(f"{name} {bound}")
                            self.assertTrue(good, message)

    def test_numbers(self):
        for text in ("0 seats", "0/1s", "0/1s sliding", "0/1s fixed", "0/1s bursty", "0/1s warming", "1/0s",
                     "1000000000000001 seats", "67108865/1s", "16777217 seats max_hold 1s", "10 /60s", "10/ 60s",
                     "10/60 s", "unlimited seats"):
            self.assertFalse(read_rule(text)[0], text)
        for text in ("0/1s bucket", "0/1s leaky", "1000000000000000 seats", "67108864/1s", "16777216 seats max_hold 1s",
                     " 10/60s  &  3 seats "):
            self.assertTrue(read_rule(text)[0], text)
        unlimited = [row[0] for _, parse, table in OPTIONS for row in table
                     if row[0] != "`name`" and parse(row[0].strip("`") + " unlimited")[0]]
        self.assertEqual(unlimited, ["`max_waiting`", "`max_waiting_permits`"])

    def test_defaults(self):
        for title, parse, table in OPTIONS:
            for name, _, default, *_ in table:
                name, literal = name.strip("`"), re.fullmatch("`(.*)`", default)
                if not literal or name == "initial" and "burst" in default:
                    continue
                with self.subTest(title, option=name):
                    self.assertEqual(parse(f"{name} {literal[1]}"), parse(""))

    def test_orders(self):
        orders = next(row[1] for row in rows(part_of("Queues")) if row[0] == "`order`")
        table = re.search(r"\| order \|.*\n\|.*\n((?:\|.*\n)+)", PAGE)[1]
        self.assertEqual(sorted(re.split(", | or ", orders)), sorted(re.findall("^. `(.*?)`", table, re.M)))


if __name__ == "__main__":
    if not os.access(PROXY, os.X_OK):
        print("skipped: there is no", PROXY)
        sys.exit(77)
    unittest.main()
