#include "plan.hpp"

#include "config/read.hpp"
#include "limiting/request.hpp"
#include "tool/arguments.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
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

bool is_up(config::direction d) noexcept {
    return d == &config::bandwidth::up;
}

// Removes and returns the key behind ` per `.
std::optional<key> cut_key(std::string_view& text) {
    constexpr std::string_view word = " per ";
    auto const at = text.rfind(word);
    if (at == text.npos)
        return {};
    auto const name = text.substr(at + word.size());
    auto found = key_of(name);
    if (!found)
        throw tool::usage_error(fmt::format(
            "unknown key `{}`: use client, header NAME, path N (a segment of the path, from 1 "
            "to 100), path or field NAME",
            name));
    text = text.substr(0, at);
    return found;
}

std::string with_key(std::string text, std::optional<key> const& per) {
    return per ? fmt::format("{} per {}", text, to_string(*per)) : text;
}

rule rule_of_file(std::string const& option, std::string_view text) {
    try {
        return rule::parse(text);
    } catch (tool::usage_error const& wrong) {
        tool::reject(option, text,
                     fmt::format("a rule such as \"100/1s per client\": {}", wrong.what()));
    }
}

std::optional<byte_rule> bytes_of(std::string const& option, std::string_view text) {
    try {
        return byte_rule::parse(text);
    } catch (tool::usage_error const& wrong) {
        tool::reject(option, text,
                     fmt::format("a rule such as \"10MB/s down per client\": {}", wrong.what()));
    }
}

// Changes a limit of bytes of a file.
void change_bytes(config::limit& l, std::string const& option, std::string_view text) {
    if (text == config::unlimited) {
        l.bandwidth.emplace();
        return;
    }
    auto const r = bytes_of(option, text);
    if (!r || r->per)
        tool::reject(option, text, "a rate of bytes and a direction, such as \"10MB/s down\"");
    (*l.bandwidth).*(r->direction) = r->rate;
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
    rule r;
    r.per = cut_key(text);
    try {
        r.config = config::rule_of(text);
    } catch (std::invalid_argument const& wrong) {
        throw tool::usage_error(wrong.what());
    }
    return r;
}

std::string to_string(rule const& r) {
    return with_key(to_string(r.config), r.per);
}

std::optional<byte_rule> byte_rule::parse(std::string_view text) {
    byte_rule r{{}, &config::bandwidth::down, {}};
    auto rest = text.substr(0, text.rfind(" per "));
    bool has_direction = false;
    for (auto const d : config::directions) {
        std::string_view const word = is_up(d) ? " up" : " down";
        if (!rest.ends_with(word))
            continue;
        has_direction = true;
        r.direction = d;
        rest.remove_suffix(word.size());
    }
    auto const rate = config::byte_rate_of(rest);
    if (!rate && !has_direction)
        return {};
    if (!rate)
        throw tool::usage_error(
            fmt::format("`{}` is not a rate of bytes such as 10MB/s or `10MB/s burst 1MB`", rest));
    if (!has_direction)
        throw tool::usage_error("a rate of bytes needs `down` (to clients) or `up` behind it");
    r.rate = *rate;
    r.per = cut_key(text);
    return r;
}

std::string to_string(byte_rule const& r) {
    return with_key(fmt::format("{} {}", to_string(r.rate), is_up(r.direction) ? "up" : "down"),
                    r.per);
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

void plan::replace(byte_rule const& r) {
    std::erase_if(byte_rules, [&](byte_rule const& other) {
        return other.per == r.per && other.direction == r.direction;
    });
    byte_rules.push_back(r);
}

void plan::add(std::string const& option, std::string_view text) {
    if (auto const bytes = bytes_of(option, text))
        byte_rules.push_back(*bytes);
    else
        rules.push_back(rule_of(option, text));
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
        auto const which = text.substr(0, colon);
        auto const found = std::ranges::find(changed->limits, which, &config::limit::name);
        auto const of_bytes = std::ranges::find(changed->bandwidths, which, &config::limit::name);
        if (colon != text.npos && of_bytes != changed->bandwidths.end()) {
            change_bytes(*of_bytes, option, text.substr(colon + 2));
            file = std::move(changed);
            return;
        }
        if (colon == text.npos || found == changed->limits.end()) {
            std::vector<std::string> names;
            for (auto const* const known : {&changed->limits, &changed->bandwidths})
                std::ranges::transform(*known, std::back_inserter(names), &config::limit::name);
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
    } else if (auto const bytes = bytes_of(option, text)) {
        replace(*bytes);
    } else {
        replace(rule_of(option, text));
    }
    file = std::move(changed);
}

template <class Planned>
void plan::set_prefixes(Planned& l) const {
    l.what.v4_prefix = v4_prefix;
    l.what.v6_prefix = v6_prefix;
    if (l.per) {
        l.per->v4_prefix = v4_prefix;
        l.per->v6_prefix = v6_prefix;
    }
}

std::vector<planned_limit> plan::limits() const {
    std::vector<planned_limit> all;
    if (!file) {
        for (auto const& r : rules) {
            auto& l = all.emplace_back();
            l.what.rule = r.config;
            l.what.queue = queue;
            l.what.max_keys = static_cast<std::int64_t>(max_keys);
            l.per = r.per;
            set_prefixes(l);
            l.text = to_string(r);
        }
    } else {
        for (auto const& c : file->limits) {
            auto& l = all.emplace_back();
            l.what = c;
            if (!c.key.empty())
                l.per = key_of(c);
            auto const rule = c.tree ? "tree of " + to_string(c.rule) : config::rule_text(c);
            l.text = with_key(fmt::format("{}: {}", c.name, rule), l.per);
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

std::vector<planned_bandwidth> plan::bandwidths() const {
    std::vector<planned_bandwidth> all;
    if (!file) {
        for (auto const& r : byte_rules) {
            auto& l = all.emplace_back(planned_bandwidth{{}, r.direction, r.per, to_string(r)});
            l.what.bandwidth.emplace().*r.direction = r.rate;
            l.what.max_keys = static_cast<std::int64_t>(max_keys);
            set_prefixes(l);
        }
        return all;
    }
    for (auto const& c : file->bandwidths)
        for (auto const direction : config::directions) {
            if (!config::has_rate(c, direction))
                continue;
            auto& l = all.emplace_back(planned_bandwidth{c, direction, {}, {}});
            if (!c.key.empty())
                l.per = key_of(c);
            auto const rate = config::rate_of(c, direction);
            l.text = with_key(fmt::format("{} {}: {}", c.name, l.is_up() ? "up" : "down",
                                          rate ? to_string(*rate) : config::unlimited),
                              l.per);
        }
    return all;
}

config::listener const* plan::only_listener() const {
    config::listener const* found = nullptr;
    for (auto const& l : file->listeners) {
        if (l.tcp || l.check || l.https_port)
            continue;
        if (found)
            return nullptr;
        found = &l;
    }
    return found;
}

std::vector<plan::route> plan::routes() const {
    std::vector<route> all;
    if (!file) {
        auto& r = all.emplace_back();
        for (std::size_t i = 0; i != rules.size(); ++i)
            r.limits.push_back(i);
        for (std::size_t i = 0; i != byte_rules.size(); ++i)
            r.bandwidths.push_back(i);
        return all;
    }
    auto const known = limits();
    auto const add = [&](route& r, std::string const& wanted, std::size_t from) {
        while (known[from].what.name != wanted)
            ++from;
        r.limits.push_back(from);
    };
    auto const of_bytes = bandwidths();
    auto const* const listener = only_listener();
    for (auto const& c : file->routes) {
        auto& r = all.emplace_back(route{c, {}, limiting::clients_of(c)});
        auto names = c.bandwidths;
        if (listener && !c.respond)
            names.insert(names.end(), listener->bandwidths.begin(), listener->bandwidths.end());
        for (std::size_t i = 0; i != of_bytes.size(); ++i)
            if (std::ranges::find(names, of_bytes[i].what.name) != names.end())
                r.bandwidths.push_back(i);
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
