#include "plan.hpp"

#include "config/read.hpp"
#include "limiting/request.hpp"
#include "tool/arguments.hpp"
#include "tool/text.hpp"
#include "tool/trouble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace replay {
namespace {

std::optional<std::string_view> behind(std::string_view word, std::string_view text) {
    if (!text.starts_with(word) || text.size() == word.size())
        return {};
    return text.substr(word.size());
}

key key_of(key_part part) {
    return {.parts = {std::move(part)}};
}
key_part field(std::string name, bool may_be_missing = false) {
    return {{logs::key_source::kind::field, std::move(name), may_be_missing}, {}};
}
key_part segment(std::int64_t n, bool may_be_missing = false) {
    return {{logs::key_source::kind::target, {}, may_be_missing}, n};
}

std::optional<key> key_of(std::string_view text) {
    if (text == "client")
        return key();
    if (text == "path")
        return key_of(segment(0));
    if (text.starts_with("header ") && text.size() > 7)
        return key_of(field(std::string(text)));
    if (auto const name = behind("field ", text))
        return key_of(field(std::string(*name)));
    if (auto const digits = behind("path ", text))
        if (auto const n = tool::number_of(*digits); n && *n >= 1 && *n <= 100)
            return key_of(segment(*n));
    return {};
}

// A part of a key in a configuration. The log may lack its value.
key_part part_of(config::key_part const& part) {
    using source = config::key_part::kind;
    switch (part.what) {
        case source::header:
            return field("header " + part.name, true);
        case source::cookie:
            return field("cookie " + part.name, true);
        case source::claim:
            return field("claim " + part.name, true);
        case source::segment:
            return segment(part.number, true);
        case source::sni:
            return field("server_name", true);
        case source::client_certificate:
            return field(to_string(part), true);
        case source::query: {
            auto made = segment(0, true);
            made.segment.reset();
            made.parameter = part.name;
            return made;
        }
        case source::client:
        case source::shared:
        case source::reject:
            break;
    }
    return {};
}

key key_of(config::limit const& l) {
    using source = config::key_part::kind;
    key k{.parts = {}, .v4_prefix = l.v4_prefix, .v6_prefix = l.v6_prefix};
    for (auto const& part : l.key) {
        auto& made = k.parts.emplace_back(part_of(part));
        for (auto const& other : part.otherwise)
            if (other.what != source::shared && other.what != source::reject)
                made.otherwise.push_back(part_of(other));
    }
    return k;
}

void set_queue(weir::queue_options& queue, std::string_view text) {
    if (auto const n = tool::number_of(text)) {
        queue.max_waiting = *n;
        validate(queue);
    } else {
        queue = config::queue_of(text, queue.patience);
    }
}

rule rule_of_file(std::string const& option, std::string_view text) {
    try {
        return rule::parse(text);
    } catch (tool::usage_error const& wrong) {
        tool::reject(option, text,
                     fmt::format("a rule such as \"100/1s per client\": {}", wrong.what()));
    }
}

}  // namespace

rule rule_of(std::string const& option, std::string_view text) {
    auto r = rule_of_file(option, text);
    if (config::is_penalty(r.config))
        tool::reject(option, text,
                     "a rule such as \"100/1s per client\": a penalty requires `count` in a "
                     "[[limit]] of --config");
    return r;
}

rule rule::parse(std::string_view text) {
    constexpr std::string_view word = " per ";
    rule r;
    auto const at = text.rfind(word);
    try {
        r.config = config::rule_of(text.substr(0, at));
    } catch (std::invalid_argument const& wrong) {
        throw tool::usage_error(wrong.what());
    }
    if (at == text.npos)
        return r;
    r.per = key_of(text.substr(at + word.size()));
    if (!r.per)
        throw tool::usage_error(fmt::format(
            "unknown key `{}`: use client, header NAME, path N (a segment of the path, from 1 "
            "to 100), path or field NAME",
            text.substr(at + word.size())));
    return r;
}

std::string to_string(rule const& r) {
    auto text = to_string(r.config);
    return r.per ? fmt::format("{} per {}", text, to_string(*r.per)) : text;
}

void plan::sort() {
    std::vector<rule> sorted;
    for (bool const is_of_key : {true, false})
        for (bool const is_of_seats : {true, false})
            std::ranges::copy_if(rules, std::back_inserter(sorted), [&](rule const& r) {
                return r.per.has_value() == is_of_key && config::has_seats(r.config) == is_of_seats;
            });
    rules = std::move(sorted);
}

void plan::replace(rule const& r) {
    std::erase_if(rules, [&](rule const& other) {
        return other.per == r.per && config::has_seats(other.config) == config::has_seats(r.config);
    });
    rules.push_back(r);
    sort();
}

void plan::change(std::string const& option, std::string_view text) {
    constexpr std::string_view patience_word = "patience ";
    constexpr std::string_view queue_word = "queue ";
    auto changed = file ? std::make_shared<config::configuration>(*file) : nullptr;
    if (text.starts_with(patience_word)) {
        queue.patience = tool::duration(option + ": patience", text.substr(patience_word.size()));
        if (changed)
            for (auto& l : changed->limits)
                l.queue.patience = queue.patience;
    } else if (text.starts_with(queue_word)) {
        try {
            set_queue(queue, text.substr(queue_word.size()));
            if (changed)
                for (auto& l : changed->limits)
                    if (!config::is_penalty(l.rule))
                        set_queue(l.queue, text.substr(queue_word.size()));
        } catch (std::invalid_argument const& wrong) {
            tool::reject(option == "--queue" ? option : option + ": queue",
                         text.substr(queue_word.size()),
                         fmt::format("a number or queue options: {}", wrong.what()));
        }
    } else if (changed) {
        auto const colon = text.find(": ");
        auto const found =
            std::ranges::find(changed->limits, text.substr(0, colon), &config::limit::name);
        if (colon == text.npos || found == changed->limits.end()) {
            auto const names = changed->limits | std::views::transform(&config::limit::name);
            tool::reject(option, text,
                         fmt::format("`NAME: RULE` with the name of a limit ({}), `patience TIME` "
                                     "or `queue N`",
                                     fmt::join(names, ", ")));
        }
        if (found->tree)
            throw tool::usage_error(fmt::format(
                "{} is `{}`, but limit `{}` has a tree: its rates change only in a "
                "file, which --versus compares",
                option, text, found->name));
        bool const has_kind = !found->is_unlimited || !found->overrides.empty();
        found->is_unlimited = text.substr(colon + 2) == config::unlimited;
        if (found->is_unlimited) {
            file = std::move(changed);
            return;
        }
        auto const r = rule_of_file(option, text.substr(colon + 2));
        if (r.per || (has_kind && !config::are_of_one_kind(r.config, found->rule)))
            tool::reject(option, text,
                         fmt::format("a rule of the same kind as `{}`, without a key",
                                     to_string(found->rule)));
        found->rule = r.config;
    } else {
        replace(rule_of(option, text));
    }
    file = std::move(changed);
}

std::vector<planned_limit> plan::limits() const {
    std::vector<planned_limit> all;
    if (!file) {
        for (auto const& r : rules) {
            auto& l = all.emplace_back();
            l.what.rule = r.config;
            l.what.queue = queue;
            l.what.max_keys = static_cast<std::int64_t>(max_keys);
            l.what.v4_prefix = v4_prefix;
            l.what.v6_prefix = v6_prefix;
            l.per = r.per;
            if (l.per) {
                l.per->v4_prefix = v4_prefix;
                l.per->v6_prefix = v6_prefix;
            }
            l.text = to_string(r);
        }
    } else {
        for (auto const& c : file->limits) {
            auto& l = all.emplace_back();
            l.what = c;
            if (!c.key.empty())
                l.per = key_of(c);
            auto const rule = c.tree ? "tree of " + to_string(c.rule) : config::rule_text(c);
            l.text = fmt::format("{}: {}{}{}", c.name, rule, l.per ? " per " : "",
                                 l.per ? to_string(*l.per) : "");
        }
        for (auto const& u : file->upstreams)
            if (auto seats = config::seats_of(u)) {
                auto& l = all.emplace_back();
                l.what = std::move(*seats);
                l.text = fmt::format("{}: {}", l.what.name, to_string(l.what.rule));
            }
    }
    for (auto& l : all) {
        if (l.what.queue.order == weir::queue_order::fair)
            l.fair = key{.v4_prefix = l.what.v4_prefix, .v6_prefix = l.what.v6_prefix};
        if (l.what.priority)
            l.priority =
                key{.parts = {field("header " + *l.what.priority, true)}, .is_priority = true};
    }
    return all;
}

std::vector<plan::route> plan::routes() const {
    std::vector<route> all;
    if (!file) {
        auto& r = all.emplace_back();
        for (std::size_t i = 0; i != rules.size(); ++i)
            r.limits.push_back(i);
        return all;
    }
    auto const known = limits();
    auto const add = [&](route& r, std::string const& wanted, std::size_t from) {
        while (known[from].what.name != wanted)
            ++from;
        r.limits.push_back(from);
    };
    for (auto const& c : file->routes) {
        auto& r = all.emplace_back(route{c, {}, limiting::clients_of(c)});
        for (auto const& each : c.limits)
            add(r, each, 0);
        for (auto const& u : file->upstreams)
            if (u.name == c.upstream)
                if (auto const seats = config::seats_of(u))
                    add(r, seats->name, file->limits.size());
    }
    return all;
}

plan plan_of_file(std::string const& file) {
    plan p;
    p.name = file;
    p.file = std::make_shared<config::configuration const>(config::read_file(file));
    return p;
}

}  // namespace replay
