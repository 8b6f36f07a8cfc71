#include "bandwidth.hpp"
#include "file_reader.hpp"
#include "kinds.hpp"
#include "tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace config {
namespace {

// The keys of a table that name clients.
class different_clients {
public:
    void add(table_reader& of, position at, tool::network const& clients, std::string_view key) {
        auto const [first, is_new] = seen_.try_emplace(tool::to_string(clients), key);
        if (!is_new)
            of.problem(at, fmt::format("`{}` and `{}` are the same clients", first->second, key));
    }

private:
    std::map<std::string, std::string> seen_;  // by network
};

// The names at a store are `NAME:KEY`.
constexpr std::size_t longest_name_by_key = 190;

std::string not_a_client(std::string_view key, limit const& l) {
    return fmt::format("`{}` is not a client: use an address, an IPv4 network of up to {} bits or "
                       "an IPv6 network of up to {} bits",
                       key, l.v4_prefix, l.v6_prefix);
}

// Parses `unlimited`, or a table like `bandwidth`, whose values may also be `unlimited`. A direction that it leaves out
// has its usual rate.
std::optional<bandwidth> override_of(toml::node const& node, bandwidth const& usual) {
    if (auto const* const text = node.as_string())
        return text->get() == unlimited ? std::optional(bandwidth()) : std::nullopt;
    auto const* const rates = node.as_table();
    if (!rates || rates->empty())
        return std::nullopt;
    auto made = usual;
    for (auto const& [name, value] : *rates) {
        auto const* const text = value.as_string();
        bool const is_up = name.str() == "up";
        if (!text || (!is_up && name.str() != "down"))
            return std::nullopt;
        auto& rate = is_up ? made.up : made.down;
        rate = byte_rate_of(text->get());
        if (!rate && text->get() != unlimited)
            return std::nullopt;
    }
    return made;
}

// Reports keys of `overrides` that do not suit the key of the limit.
class keys_of_overrides {
public:
    explicit keys_of_overrides(limit const& l)
        : limit_(l),
          by_client_(l.key.size() == 1 && has_client(l.key.front())),
          by_value_(l.key.size() == 1 && l.key.front() != key_part()) {}

    void add(table_reader& of, position at, std::string_view key, bool is_limited) {
        any_ = true;
        auto const who = clients_named(key, limit_);
        if (by_client_ && !who && !(by_value_ && !tool::network_of(key)))
            of.problem(at, not_a_client(key, limit_));
        if (who)
            different_.add(of, at, who->network, key);
        tracked_ += is_limited && (!who || who->is_one_key) ? 1 : 0;
    }
    void finish(table_reader& t) const {
        if (tracked_ > limit_.max_keys)
            t.problem(t.at("overrides"), fmt::format("{} overrides exceed `max_keys` ({})",
                                                     tracked_, limit_.max_keys));
        if (limit_.key.size() != 1 && any_)
            t.problem(t.at("overrides"), "`overrides` requires a `key` with one part");
    }

private:
    limit const& limit_;
    bool const by_client_;
    bool const by_value_;
    bool any_ = false;
    std::int64_t tracked_ = 0;
    different_clients different_;
};

// Whether the last value of a part names a user: users without a name are not one user.
bool ends_in_a_user(key_part const& part) {
    using kind = key_part::kind;
    auto const last = (part.otherwise.empty() ? part : part.otherwise.back()).what;
    return last == kind::header || last == kind::cookie || last == kind::query ||
           last == kind::claim || last == kind::client_certificate;
}

bool has_max_hold(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_max_hold);
    auto const* const seats = std::get_if<weir::seats_options>(&rule.options);
    return seats && seats->max_hold != weir::forever;
}

}  // namespace

using namespace std::chrono_literals;

void file_reader::read_limit(table_reader& t) {
    limit l;
    l.name = name_of(t, "limit", limits_);
    if (t.claim("bandwidth"))
        return read_limit_of_bytes(t, std::move(l));
    override_rule said;
    bool const has_tree = t.has("tree");
    bool ruled = has_tree ? t.get("rule", said, rule()) : t.require("rule", said, rule());
    l.is_unlimited = ruled && !said;
    l.rule = said.value_or(rule_of("1/1s"));
    read_key(t, l);
    read_overrides(t, l, ruled && !l.is_unlimited);
    if (l.is_unlimited)
        warn_of_no_rule(t, l);
    ruled = read_tree(t, l) || (ruled && !has_tree);

    bool const punishes = is_penalty(l.rule);
    t.get("queue", l.queue, queue());
    if (punishes && t.has("queue"))
        t.problem(t.at("queue"), "`queue` excludes a penalty, which rejects requests at once");
    if (punishes)
        l.queue = queue_of_penalty();
    t.get("priority", l.priority, token("the name of a field, such as Priority"));
    if (l.priority)
        check_field(t.at("priority"), *l.priority);
    bool const is_fair = l.queue.order == weir::queue_order::fair;
    if (l.priority && l.queue.order != weir::queue_order::priority && !is_fair)
        t.problem(t.at("priority"),
                  "`priority` requires `order priority` or `order fair` in `queue`");
    read_weights(t, l);
    if (t.has("weights") && !is_fair)
        t.problem(t.at("weights"), "`weights` requires `order fair` in `queue`");
    t.get("dry_run", l.dry_run, flag());
    read_cost(t, l, ruled);
    read_count(t, l, ruled && !has_tree);

    if (t.get("store", l.store, text("the name of a store")))
        stores_.use(l.store, t.at("store"), fmt::format("limit `{}`", l.name));
    read_sharing(t, l, ruled && !has_tree);
    if (!has_tree)
        warn_of_memory(t, l, "rule");
    made_.limits.push_back(std::move(l));
}

void file_reader::read_limit_of_bytes(table_reader& t, limit l) {
    read_key(t, l);
    read_bandwidth(t, l);
    read_byte_overrides(t, l);
    t.get("dry_run", l.dry_run, flag());
    warn_of_memory(t, l, "bandwidth");
    warn_of_burst(t, fmt::format("limit `{}`", l.name), *l.bandwidth);
    made_.bandwidths.push_back(std::move(l));
}

// Its queue still sets a patience for the other limits of a route.
void file_reader::warn_of_no_rule(table_reader& t, limit const& l) {
    bool const has_rule =
        std::ranges::any_of(l.overrides, [](auto const& o) { return o.second.has_value(); });
    if (!has_rule && !t.has("queue"))
        warnings_.add(t.at("rule"),
                      fmt::format("warning: limit `{}`: `rule` is `unlimited`, and `overrides` has "
                                  "no rule: it limits nothing; write a rule, or remove the limit",
                                  l.name));
}

void file_reader::warn_of_memory(table_reader& t, limit const& l, std::string_view rule) {
    if (!l.key.empty() && most_memory(l) > static_cast<double>(l.max_memory))
        warnings_.add(
            t.at(rule),
            fmt::format("warning: limit `{}`: {} keys can take about {:.0f} MB; `max_memory` "
                        "({:.0f} MB) ends the tracking of new keys before",
                        l.name, l.max_keys, most_memory(l) / 1e6,
                        static_cast<double>(l.max_memory) / 1e6));
}

// A timer is late by up to a millisecond, so the bytes of a shorter time are lost.
void file_reader::warn_of_burst(table_reader& t, std::string_view whose, bandwidth const& b) {
    for (auto const d : directions)
        if (auto const& r = b.*d; r && r->burst < r->per_second / 1'000)
            warnings_.add(
                t.at("bandwidth"),
                fmt::format("warning: {}: the burst of `{}` is less than the bytes of 1 ms: the "
                            "bytes pass more slowly",
                            whose, to_string(*r)));
}

void file_reader::read_key(table_reader& t, limit& l) {
    bool total = false;
    t.list("key", part_of_key(), [&](std::optional<key_part> found, position at) {
        if (found) {
            check_fields(at, *found);
            l.key.push_back(std::move(*found));
        } else
            total = true;
    });
    if (!t.has("tree"))  // which has an entry for a missing value
        for (auto& part : l.key)
            if (ends_in_a_user(part))
                part.otherwise.emplace_back();  // the client
    if (total && !l.key.empty())
        t.problem(t.at("key"), "`key` combines `total` with other parts; use `total` alone");
    if (!l.key.empty() && has_max_hold(l.rule))
        t.problem(t.at("rule"), "`max_hold` requires the key `total`");
    auto const prefix = [&](std::string_view key, int& into, std::int64_t most) {
        std::int64_t bits = 0;
        if (t.get(key, bits, number(0, most)))
            into = static_cast<int>(bits);
    };
    prefix("v4_prefix", l.v4_prefix, 32);
    prefix("v6_prefix", l.v6_prefix, 64);
    t.get("max_keys", l.max_keys, number(1, 1'000'000'000));
    t.get("max_memory", l.max_memory, number(1'000'000, 1'000'000'000'000));
    t.get("evict_within", l.evict_within, time(0s));
    t.get("when_full", l.when_full, what_further_keys_get());
    for (char const* const key : {"max_keys", "max_memory", "evict_within", "when_full"})
        if (l.key.empty() && t.has(key))
            t.problem(t.at(key), fmt::format("`{}` requires a `key` other than `total`", key));
}

// An IPv6 address usually is one of a network that is one client.
void file_reader::warn_of_clients(position at, limit const& l, std::string_view key,
                                  std::optional<named_clients> const& who) {
    if (who && who->network.is_v4() && who->network != tool::network_of(key))
        warnings_.add(at, fmt::format("warning: limit `{0}`: with `v4_prefix = {1}`, `{2}` is all "
                                      "clients of `{3}`; use `{3}`",
                                      l.name, l.v4_prefix, key, tool::to_string(who->network)));
}

void file_reader::read_weights(table_reader& t, limit& l) {
    different_clients different;
    t.table("weights", [&](table_reader& of) {
        of.all([&](std::string_view key, toml::node const& node) {
            auto const weight = of.make(key, node, number(1, weir::max_weight));
            if (!weight)
                return;
            auto const at = node.source().begin;
            auto const who = clients_in(key, l);
            if (who)
                different.add(of, at, who->network, key);
            else
                of.problem(at, not_a_client(key, l));
            warn_of_clients(at, l, key, who);
            l.weights.emplace_back(key, static_cast<int>(*weight));
        });
    });
}

// Without a kind of rule, the first override decides it.
void file_reader::read_overrides(table_reader& t, limit& l, bool has_kind) {
    keys_of_overrides keys(l);
    t.table("overrides", [&](table_reader& of) {
        of.all([&](std::string_view key, toml::node const& node) {
            auto other = of.make(key, node, rule());
            if (!other)
                return;
            auto const at = node.source().begin;
            if (*other && !std::exchange(has_kind, true))
                l.rule = **other;
            if (*other && !are_of_one_kind(**other, l.rule))
                of.problem(at, fmt::format("`{}` is `{}`, but must be a rule of the same kind as "
                                           "`{}`, or `unlimited`",
                                           key, to_string(**other), to_string(l.rule)));
            keys.add(of, at, key, other->has_value());
            warn_of_clients(at, l, key, clients_named(key, l));
            l.overrides.emplace_back(key, std::move(*other));
        });
    });
    keys.finish(t);
}

void file_reader::read_byte_overrides(table_reader& t, limit& l) {
    auto const usual = l.bandwidth.value_or(bandwidth());
    kind<bandwidth> const rates{
        "rates of bytes, such as `{ up = \"1MB/s\", down = \"unlimited\" }`, or `unlimited`",
        [&usual](toml::node const& node) { return override_of(node, usual); }};
    keys_of_overrides keys(l);
    t.table("overrides", [&](table_reader& of) {
        of.all([&](std::string_view key, toml::node const& node) {
            auto const made = of.make(key, node, rates);
            if (!made)
                return;
            keys.add(of, node.source().begin, key, made->up || made->down);
            warn_of_clients(node.source().begin, l, key, clients_named(key, l));
            l.byte_overrides.emplace_back(key, *made);
        });
    });
    keys.finish(t);
}

void file_reader::read_cost(table_reader& t, limit& l, bool ruled) {
    using kind = cost::kind;
    t.get("cost", l.cost, cost_of_request());
    auto& c = l.cost;
    if (c.what == kind::header)
        check_field(t.at("cost"), c.name);
    if (c.what == kind::header && made_.clients.trusted.empty())
        t.problem(t.at("cost"), "`cost` by a header requires `trusted` in [clients]");
    // The number of seats cannot change while they are in use.
    bool const is_early = c.what == kind::number || c.what == kind::header;
    bool const punishes = is_penalty(l.rule);
    if (ruled && !is_early && (has_seats(l.rule) || punishes))
        t.problem(t.at("cost"), fmt::format("`cost` is `{}`, which requires a rate: the cost of "
                                            "{} must be a number or `header NAME`",
                                            to_string(c), punishes ? "a penalty" : "seats"));
    t.get("estimate", c.estimate, number(1, cost::most));
    if (t.has("estimate") && c.what == kind::number)
        t.problem(t.at("estimate"), "`estimate` requires a `cost` other than a number");
    if (auto const wrong = ruled ? fault_of_cost(l) : ""; !wrong.empty())
        t.problem(t.at(t.has("estimate") ? "estimate" : "cost"), wrong);
}

void file_reader::read_count(table_reader& t, limit& l, bool ruled) {
    t.list("count", counted_status(), [&](status_range r, position) { l.count.push_back(r); });
    bool const punishes = is_penalty(l.rule);
    if (!t.has("count") && punishes)
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, which requires `count`: the statuses of the "
                              "responses that are offences, such as `count = 401`",
                              to_string(l.rule)));
    if (!t.has("count"))
        return;
    if (t.is_empty_list("count"))
        t.problem(t.at("count"), "`count` has no status; leave it out to count all requests");
    if (ruled && !punishes && !has_window(l.rule))
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, but `count` requires a rule with a window, such as "
                              "`5/1min`, `5/1min sliding` or `5/1min fixed`: other rules cannot "
                              "give back exactly what a request did not use",
                              to_string(l.rule)));
    if (t.has("store"))
        t.problem(t.at("count"), "`store` and `count` exclude each other");
}

void file_reader::read_sharing(table_reader& t, limit& l, bool ruled) {
    t.get("shared_as", l.shared_as, text("a name"));
    t.get("prefetch", l.prefetch, number(0, 500'000'000));
    t.get("timeout", l.timeout, time(1ms, 1min));  // the bounds of `shared_options::timeout`
    t.get("on_failure", l.on_failure, mode_of_failure());
    if (!t.has("store")) {
        for (char const* const key : {"shared_as", "prefetch", "timeout", "on_failure"})
            if (t.has(key))
                t.problem(t.at(key), fmt::format("`{}` requires `store`", key));
        return;
    }
    if (!l.key.empty()) {
        auto const& name = l.shared_as.empty() ? l.name : l.shared_as;
        auto const at = t.at(l.shared_as.empty() ? "name" : "shared_as");
        if (name.size() > longest_name_by_key || name.find(':') != std::string::npos)
            t.problem(at, fmt::format("`store` with a `key` requires a name of at most {} bytes "
                                      "without a colon",
                                      longest_name_by_key));
        if (!l.overrides.empty())
            t.problem(t.at("overrides"), "`store` and `overrides` exclude each other");
        if (l.prefetch != 0)
            t.problem(t.at("prefetch"), "`prefetch` requires the key `total`");
    }
    if (l.is_unlimited)
        t.problem(t.at("rule"), "`store` and the rule `unlimited` exclude each other");
    if (l.dry_run)
        t.problem(t.at("dry_run"), "`store` and `dry_run` exclude each other");
    if (l.queue.patience.length_or(weir::forever) <= 0ns)
        t.problem(t.at("queue"),
                  "the patience is 0s; with `store` it must exceed a round trip, for example 50ms");
    try {
        if (ruled && !l.is_unlimited)
            static_cast<void>(shared_rule_of(l));
    } catch (std::invalid_argument const& wrong) {
        t.problem(t.at("rule"),
                  fmt::format("`rule` is `{}`, but {}", to_string(l.rule), wrong.what()));
    }
}

}  // namespace config
