#pragma once

#include <fmt/format.h>

#include <toml++/toml.h>

#include <concepts>
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace config {

using position = toml::source_position;

/// The errors in a file, in the order of its lines.
class problem_list {
public:
    explicit problem_list(std::string_view file) : file_(file) {}

    void add(position at, std::string text) { found_.emplace_back(at, std::move(text)); }
    [[nodiscard]] bool empty() const noexcept { return found_.empty(); }
    [[nodiscard]] std::vector<std::string> lines() &&;

private:
    std::string file_;
    std::vector<std::pair<position, std::string>> found_;
};

/// The expected values and their conversion from a node. `make` returns nothing for an invalid node, or throws a
/// `std::invalid_argument` with details.
template <class T>
struct kind {
    std::string expected;
    std::function<std::optional<T>(toml::node const&)> make;
};

/// The value of a node as messages quote it.
[[nodiscard]] std::string text_of(toml::node const& node);

/// Reads a table of a file. It reports each invalid member, and each member that no call has read.
class table_reader {
public:
    /// `where` names the table in messages, such as ``limit `a` ``; empty for the whole file.
    table_reader(toml::table const& table, std::string where, problem_list& problems)
        : table_(table), where_(std::move(where)), problems_(problems) {}

    void set_name(std::string where) { where_ = std::move(where); }
    [[nodiscard]] std::string const& name() const noexcept { return where_; }
    [[nodiscard]] position at() const noexcept { return table_.source().begin; }
    [[nodiscard]] position at(std::string_view key) const noexcept {
        auto const* const node = table_.get(key);
        return node ? node->source().begin : at();
    }
    [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }
    /// Returns whether there is a member `key`. It counts as read.
    [[nodiscard]] bool claim(std::string_view key) { return find(key) != nullptr; }

    [[nodiscard]] bool is_empty_list(std::string_view key) const {
        auto const* const list = table_[key].as_array();
        return list && list->empty();
    }

    /// Reads the member `key`; returns whether it exists and is valid.
    template <class T, class Into>
    bool get(std::string_view key, Into& into, kind<T> const& what) {
        auto const* const node = find(key);
        if (!node)
            return false;
        auto made = make(key, *node, what);
        if (made)
            into = std::move(*made);
        return made.has_value();
    }
    /// Reads the member `key` as `get` does, and reports a missing member.
    template <class T, class Into>
    bool require(std::string_view key, Into& into, kind<T> const& what) {
        if (!has(key))
            problem(at(), fmt::format("missing `{}`: {}", key, what.expected));
        return get(key, into, what);
    }

    /// Reads a list of values and calls `each(value, position)` for each valid one. A single value counts as a list of
    /// one.
    template <class T, class Each>
    void list(std::string_view key, kind<T> const& what, Each each) {
        auto const* const node = find(key);
        if (!node)
            return;
        auto const one = [&](toml::node const& element) {
            if (auto made = make(key, element, what))
                each(std::move(*made), element.source().begin);
        };
        if (auto const* const all = node->as_array()) {
            for (auto const& element : *all)
                one(element);
        } else {
            one(*node);
        }
    }

    /// Calls `read(reader)` for the table `key`, if it exists.
    template <class Read>
    void table(std::string_view key, Read read) {
        auto const* const node = find(key);
        if (!node)
            return;
        if (auto const* const t = node->as_table())
            member(*t, std::string(key), read);
        else
            problem(node->source().begin, must_be(key, *node, "a table"));
    }
    /// Calls `read(reader)` for each table in the list `key`.
    template <class Read>
    void tables(std::string_view key, Read read) {
        auto const* const node = find(key);
        if (!node)
            return;
        auto const* const all = node->as_array();
        if (!all)
            return problem(
                node->source().begin,
                must_be(key, *node, fmt::format("a list of tables, each under [[{}]]", key)));
        for (auto const& element : *all) {
            if (auto const* const t = element.as_table())
                member(*t, std::string(key), read);
            else
                problem(element.source().begin, must_be(key, element, "a table"));
        }
    }

    /// Calls `each(key, node)` for all members, for a table with arbitrary keys.
    template <class Each>
    void all(Each each) {
        for (auto const& [key, node] : table_) {
            asked_.emplace(key.str());
            each(key.str(), node);
        }
    }
    template <class T>
    [[nodiscard]] std::optional<T> make(std::string_view key, toml::node const& node,
                                        kind<T> const& what) {
        try {
            if (auto made = what.make(node))
                return made;
            problem(node.source().begin, must_be(key, node, what.expected));
        } catch (std::invalid_argument const& wrong) {
            problem(node.source().begin,
                    fmt::format("{}: {}", must_be(key, node, what.expected), wrong.what()));
        }
        return std::nullopt;
    }

    void problem(position at, std::string_view text) {
        problems_.add(at, where_.empty() ? std::string(text) : fmt::format("{}: {}", where_, text));
    }

    /// Reports each member that no call has read. Call it last.
    void finish();

private:
    [[nodiscard]] toml::node const* find(std::string_view key) {
        asked_.emplace(key);
        return table_.get(key);
    }
    template <class Read>
    void member(toml::table const& t, std::string name, Read read) {
        table_reader reader(t, where_.empty() ? std::move(name) : where_ + ' ' + name, problems_);
        read(reader);
        reader.finish();
    }
    [[nodiscard]] static std::string must_be(std::string_view key, toml::node const& node,
                                             std::string_view expected) {
        return fmt::format("`{}` is {}, but must be {}", key, text_of(node), expected);
    }

    toml::table const& table_;
    std::string where_;
    problem_list& problems_;
    std::set<std::string, std::less<>> asked_;
};

}  // namespace config
