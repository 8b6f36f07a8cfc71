"""write_cpp.py: the pages of a small header, and of the headers of weir, whose public names all have words."""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "src/docs/reference"))
from write_cpp import Reference

HEADER = """#pragma once
namespace weir {

/// The state of a gate.
enum class state {
    open,  ///< it grants
    /// It rejects.
    shut,
    silent
};

/// Options of a gate.
struct gate_options {
    /// The name, any of `a|b`.
    int name = 3;
    int nameless = 4;

    /// Reads a text.
    ///
    /// @throws std::invalid_argument if it is wrong
    static gate_options parse(char const* text);
};

/// A gate of `T`, for [all], a < b: see `gate_options::name`.
///
///     gate<int> g;   // code
///
/// Checks:
/// 1. The first.
/// 2. The second.
///
/// @return nothing
template <class T, class U = int>
class gate {
public:
    gate(gate&&) noexcept;
    gate(gate const&) = delete;
    gate& operator=(gate&& other) noexcept;
    ~gate();

    /// Opens it.
    void open(T const& by);
    /// Opens it for `n`.
    [[nodiscard]] bool open(int n = 1) const noexcept
        requires(sizeof(T) > 1);
    void shut();
    void inside(detail::key) noexcept;

    /// A part.
    struct part {
        /// Its size.
        int size;
    };

protected:
    void hidden();
};

namespace detail {
/// Internal.
struct key {};
}  // namespace detail
namespace policy {
/// Internal, too.
struct rule {};
}  // namespace policy

/// Makes a gate.
gate<int> make(gate_options const& o);
/// The usual gate.
using usual = gate<int>;
/// An internal type.
using inner = detail::key;

}  // namespace weir
"""


def pages_of(reference):
    return {name: "\n\n".join(blocks) for name, blocks in reference.pages()}


class SmallHeader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            header = pathlib.Path(folder, "weir/gate.hpp")
            header.parent.mkdir()
            header.write_text(HEADER)
            cls.reference = Reference(folder)
        cls.pages = pages_of(cls.reference)

    def test_pages(self):
        self.assertEqual(set(self.pages), {"gate", "gate_options", "gate_hpp", "index"})
        self.assertIn("| [`weir/gate.hpp`](./gate_hpp.md) | [`gate`](./gate.md), [`gate_options`](./gate_options.md), `state`, "
                      "`make`, `usual`, `inner` |", self.pages["index"])

    def test_names_without_words(self):
        names = [line.partition(": ")[2] for line in self.reference.without_words()]
        self.assertEqual(names, ["weir::gate::shut", "weir::gate_options::nameless", "weir/gate.hpp::state::silent"])

    def test_a_class(self):
        page = self.pages["gate"]
        self.assertIn("```cpp\ntemplate <class T, class U = int>\nclass gate;\n```", page)
        self.assertIn("A gate of `T`, for \\[all\\], a &lt; b: see", page)
        self.assertIn("see [`gate_options::name`](./gate_options.md#name).\n\n```cpp\ngate<int> g;   // code\n```\n\nChecks:\n\n"
                      "1. The first.\n2. The second.\n\nReturns: nothing", page)
        self.assertNotRegex(page, "hidden|inside|~gate|operator=|delete")

    def test_overloads_have_one_heading(self):
        self.assertIn("## `open` {#open}\n\n```cpp\nvoid open(T const& by);\n```\n\nOpens it.\n\n```cpp\n"
                      "bool open(int n = 1) const noexcept\n    requires (sizeof(T) > 1);\n```\n\n"
                      "Opens it for `n`.\n\n", self.pages["gate"])
        self.assertEqual(self.pages["gate"].count("`open`"), 1)

    def test_a_nested_class(self):
        self.assertIn('## `part` {#part}\n\nA part.\n\n| member | type | default | meaning |\n|---|---|---|---|\n'
                      '| <a id="part-45size"></a>`size` | `int` |  | Its size. |', self.pages["gate"])

    def test_options_are_a_table(self):
        page = self.pages["gate_options"]
        self.assertIn('| <a id="name"></a>`name` | `int` | `3` | The name, any of `a\\|b`. |', page)
        self.assertIn("## `parse` {#parse}\n\n```cpp\nstatic gate_options parse(char const* text);\n```\n\nReads a text.\n\n"
                      "- throws `std::invalid_argument`: if it is wrong", page)

    def test_a_header(self):
        page = self.pages["gate_hpp"]
        self.assertIn("| value | meaning |\n|---|---|\n| `open` | it grants |\n| `shut` | It rejects. |\n", page)
        self.assertIn("```cpp\ngate<int> make(gate_options const& o);\n```\n\nMakes a gate.", page)
        self.assertIn("```cpp\nusing usual = gate<int>;\n```\n\nThe usual gate.", page)
        self.assertIn("using inner = /* unspecified */;", page)


class Headers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference = Reference(ROOT / "include")
        cls.pages = pages_of(cls.reference)

    def test_all_public_names_have_words(self):
        self.assertEqual(list(self.reference.without_words()), [])

    def test_each_header_of_users_has_a_page(self):
        others = ("weir.hpp", "version.hpp")  # which has macros only: explanation/abi.md
        headers = [h for h in (ROOT / "include/weir").glob("*.hpp") if h.name not in others]
        self.assertGreater(len(headers), 30)
        for header in headers:
            self.assertIn(header.stem + "_hpp", self.pages)

    def test_links_lead_to_headings(self):
        links = 0
        for name, page in self.pages.items():
            for target, fragment in re.findall(r"\]\(\./(\w+)\.md(#[\w-]+)?\)", page):
                self.assertIn(target, self.pages, name)
                if fragment:
                    self.assertRegex(self.pages[target], rf'\{{{fragment}\}}|<a id="{fragment[1:]}">', name)
                links += 1
        self.assertGreater(links, 500)

    def test_a_limiter(self):
        page = self.pages["basic_limiter"]
        for name in ("try_enter", "enter", "async_enter", "run", "stats", "close", "configure"):
            self.assertIn(f"\n## `{name}` {{#{name}}}\n", page)
        self.assertIn("1. The operation was cancelled before it started: `asio::error::operation_aborted`.\n2. ", page)

    def test_no_signature_names_internals(self):
        for name, page in self.pages.items():
            for code in re.findall("```cpp\n(.*?)```", page, re.S):
                self.assertNotIn("detail::", code, name)

    def test_no_anchor_is_repeated(self):
        for name, page in self.pages.items():
            anchors = re.findall(r'\{#([\w-]+)\}|<a id="([\w-]+)">', page)
            self.assertEqual(len(anchors), len(set(anchors)), name)


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("skipped: doxygen is not installed")
        sys.exit(77)
    unittest.main()
