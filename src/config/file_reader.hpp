#pragma once

#include "configuration.hpp"
#include "kinds.hpp"
#include "table_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace config {

/// The names of tables, and the places that refer to them. A reference may come before its table.
class names {
public:
    explicit names(std::string what) : what_(std::move(what)) {}

    void give(std::string const& name, table_reader& by) {
        if (!given_.emplace(name, by.at("name")).second)
            by.problem(by.at("name"), fmt::format("duplicate {} `{}`", what_, name));
    }
    void use(std::string const& name, position at, std::string where) {
        used_.push_back({name, at, std::move(where)});
    }
    void check(problem_list& problems) const {
        for (auto const& one : used_) {
            if (!given_.contains(one.name))
                problems.add(one.at, fmt::format("{}: unknown {} `{}`{}", one.where, what_,
                                                 one.name, known()));
        }
    }
    void refuse(std::string const& name, problem_list& problems, std::string_view why) const {
        if (auto const found = given_.find(name); found != given_.end())
            problems.add(found->second, fmt::format("{} `{}`: {}", what_, name, why));
    }
    // `why` is the effect of a name without a use.
    void find_unused(problem_list& warnings, std::string_view why) const {
        std::set<std::string_view> used;
        for (auto const& one : used_)
            used.insert(one.name);
        for (auto const& [name, at] : given_)
            if (!used.contains(name))
                warnings.add(at, fmt::format("warning: {} `{}`: {}", what_, name, why));
    }

private:
    struct use_of {
        std::string name;
        position at;
        std::string where;
    };

    [[nodiscard]] std::string known() const {
        return given_.empty()
                   ? ""
                   : fmt::format("; defined: {}", fmt::join(given_ | std::views::keys, ", "));
    }

    std::string what_;
    std::map<std::string, position> given_;
    std::vector<use_of> used_;
};

/// Reads a configuration file. The tables of a kind are read in the order of the file; `read_KIND.cpp` has the functions
/// for each kind.
class file_reader {
public:
    file_reader(toml::table const& file, std::string_view path, problem_list& problems)
        : path_(path), file_(file, "", problems), problems_(problems), warnings_(path) {}

    [[nodiscard]] configuration read();

private:
    void read_clients(table_reader& t);
    void read_admin(table_reader& t);
    void read_state(table_reader& t);
    void read_timeouts(table_reader& t);
    void read_listener(table_reader& t);
    void read_check(table_reader& t, listener& l);
    void read_tls(table_reader& t, listener& l);
    void read_limits_of_listener(table_reader& t, listener& l);
    void check_names_of_items();
    void check_handshake_limits();
    // Whether a listener names the limit, for its handshakes or for its bytes.
    [[nodiscard]] bool is_of_listener(std::string_view name) const;
    [[nodiscard]] std::string_view why_not_for_handshakes(std::string_view name) const;
    void read_upstream(table_reader& t);
    void read_encryption(table_reader& t, upstream& u);
    void read_hash(table_reader& t, upstream& u);
    void read_store(table_reader& t);
    void read_agent(table_reader& t);
    [[nodiscard]] bool is_only_agent() const;
    void read_limit(table_reader& t);
    void read_limit_of_bytes(table_reader& t, limit l);
    void warn_of_no_rule(table_reader& t, limit const& l);
    void warn_of_memory(table_reader& t, limit const& l, std::string_view rule);
    void warn_of_burst(table_reader& t, std::string_view whose, bandwidth const& b);
    void read_key(table_reader& t, limit& l);
    void read_overrides(table_reader& t, limit& l, bool has_kind);
    void read_byte_overrides(table_reader& t, limit& l);
    void read_weights(table_reader& t, limit& l);
    void warn_of_clients(position at, limit const& l, std::string_view key,
                         std::optional<named_clients> const& who);
    void read_cost(table_reader& t, limit& l, bool ruled);
    void read_count(table_reader& t, limit& l, bool ruled);
    void read_sharing(table_reader& t, limit& l, bool ruled);
    void read_route(table_reader& t);
    void use_upstream(std::string const& name, position at, std::string const& where);
    void require_no_end(table_reader& t, position at, std::string_view name);
    void read_conditions(table_reader& t, route& r);
    void read_costs(table_reader& t, route& r);
    void read_changes(table_reader& t, field_changes& changes);
    void read_body(table_reader& t);
    void read_content(table_reader& t, body& b);

    // Reports the name of a field that no request has, because the proxy drops it.
    void check_field(position at, std::string_view name);
    void check_fields(position at, key_part const& part);
    // Reads the name of a table. Later messages about the table contain the name.
    [[nodiscard]] std::string name_of(table_reader& t, std::string_view what, names& all) {
        std::string name;
        if (t.require("name", name, text("a name"))) {
            t.set_name(fmt::format("{} `{}`", what, name));
            all.give(name, t);
        }
        return name;
    }
    void complete();
    void find_settings_without_effect();
    void warn_of_shadows(std::size_t i, std::vector<std::size_t> const& by);

    std::string_view path_;
    table_reader file_;
    problem_list& problems_;
    problem_list warnings_;
    configuration made_;
    std::vector<position> routes_at_;
    std::vector<position> handshake_limits_;  // in the order of the file
    std::optional<position> checks_at_;       // the first listener for checks
    names upstreams_{"upstream"};
    names stores_{"store"};
    names limits_{"limit"};
};

}  // namespace config
