#include "configuration.hpp"

#include <weir/policy/any.hpp>

#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace config {
namespace {

struct address_text {
    std::string operator()(tcp_address const& a) const {
        bool const is_v6 = a.host.find(':') != a.host.npos;
        return is_v6 ? fmt::format("[{}]:{}", a.host, a.port)
                     : fmt::format("{}:{}", a.host, a.port);
    }
    std::string operator()(unix_address const& a) const { return "unix:" + a.path; }
    std::string operator()(inherited_sockets const& a) const { return "systemd:" + a.name; }
};

constexpr std::string_view https = "https://";

template <class Options>
bool has_part(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::any_of(all->parts, has_part<Options>);
    return std::holds_alternative<Options>(rule.options);
}

constexpr std::string_view local = "local ";
constexpr std::string_view scheme_of_agent = "agent:";

// The measured memory of a key: of a rule with its own kind of limiter, and of the state of any other rule.
constexpr double bytes_of_small = 50;
constexpr double bytes_of_penalty = 75;
constexpr double bytes_of_any = 700;
constexpr double bytes_of_entry = 16;  // of a log
constexpr double bytes_of_end = 8;     // of seats that rest

double most_bytes_of_state(weir::limiter_config const& rule) {
    double sum = bytes_of_any;
    if (auto const* const log = std::get_if<weir::sliding_log_options>(&rule.options))
        sum += bytes_of_entry * static_cast<double>(log->limit);
    else if (auto const* const window = std::get_if<weir::sliding_window_options>(&rule.options))
        sum += bytes_of_entry * static_cast<double>(std::min(window->limit, window->slices + 1));
    else if (auto const* const seats = std::get_if<weir::resting_seats_options>(&rule.options))
        sum += bytes_of_end * static_cast<double>(seats->seats);
    else if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        for (auto const& part : all->parts)
            sum += most_bytes_of_state(part);
    return sum;
}

}  // namespace

std::string to_string(listen_address const& a) {
    return std::visit(address_text(), a);
}
std::string to_string(server_address const& a) {
    return std::visit(address_text(), a);
}

std::string to_string(server const& s) {
    return (s.https ? std::string(https) : std::string()) + to_string(s.address);
}
std::optional<server> server_of(std::string_view text) {
    server s;
    if (text.starts_with("unix:")) {
        if (text.size() == 5)
            return std::nullopt;
        s.address = unix_address{std::string(text.substr(5))};
        return s;
    }
    s.https = text.starts_with(https);
    if (s.https)
        text.remove_prefix(https.size());
    auto tcp = tcp_address_of(text);
    if (!tcp && s.https)
        tcp = tcp_address_of(std::string(text) + ":443");
    if (!tcp || tcp->port == 0 || (s.https && tcp->host.find_first_of("/?#@[]") != tcp->host.npos))
        return std::nullopt;
    s.address = std::move(*tcp);
    return s;
}

bool is_private(server_address const& at) {
    auto const* const tcp = std::get_if<tcp_address>(&at);
    if (!tcp || tcp->host == "localhost")
        return true;
    auto const host = tool::network_of(tcp->host);
    return host && tool::is_loopback(host->address);
}

std::string to_string(forwarded_by field) {
    return field == forwarded_by::forwarded ? "forwarded" : "x-forwarded-for";
}
std::optional<tcp_address> tcp_address_of(std::string_view text) {
    auto const found = tool::address_of(text);
    if (!found)
        return std::nullopt;
    return tcp_address{found->host, static_cast<std::uint16_t>(*tool::number_of(found->port))};
}

std::optional<forwarded_by> forwarded_by_of(std::string_view text) {
    for (auto const one : {forwarded_by::x_forwarded_for, forwarded_by::forwarded})
        if (text == to_string(one))
            return one;
    return std::nullopt;
}

std::string to_string(described_by what) {
    return what == described_by::itself       ? "itself"
           : what == described_by::x_original ? "x-original"
                                              : "x-forwarded";
}
std::optional<described_by> described_by_of(std::string_view text) {
    for (auto const one :
         {described_by::x_forwarded, described_by::x_original, described_by::itself})
        if (to_string(one) == text)
            return one;
    return std::nullopt;
}

std::string to_string(unknown_name what) {
    return what == unknown_name::first ? "first" : "refuse";
}
std::optional<unknown_name> unknown_name_of(std::string_view text) {
    for (auto const one : {unknown_name::refuse, unknown_name::first})
        if (text == to_string(one))
            return one;
    return std::nullopt;
}

std::string to_string(seats_of_upgrade until) {
    return until == seats_of_upgrade::handshake ? "handshake" : "connection";
}
std::optional<seats_of_upgrade> seats_of_upgrade_of(std::string_view text) {
    for (auto const one : {seats_of_upgrade::connection, seats_of_upgrade::handshake})
        if (text == to_string(one))
            return one;
    return std::nullopt;
}

bool is_upgrade(std::string_view protocol) {
    constexpr std::string_view others = "!#$%&'*+-.^_`|~/";
    std::string lower;
    for (char const c : protocol) {
        bool const letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && others.find(c) == others.npos)
            return false;
        lower += letter ? static_cast<char>(c | 0x20) : c;
    }
    return !lower.empty() && !lower.starts_with("h2") && !lower.starts_with("h3") &&
           lower != "http" && !lower.starts_with("http/");
}

std::string to_string(full_of_keys how) {
    return how == full_of_keys::share ? "share" : "reject";
}

std::optional<full_of_keys> full_of_keys_of(std::string_view text) {
    for (auto const one : {full_of_keys::share, full_of_keys::reject})
        if (to_string(one) == text)
            return one;
    return std::nullopt;
}

std::string to_string(limit_headers which) {
    switch (which) {
        case limit_headers::ietf:
            break;
        case limit_headers::legacy:
            return "legacy";
        case limit_headers::both:
            return "both";
        case limit_headers::none:
            return "none";
    }
    return "ietf";
}
std::optional<limit_headers> limit_headers_of(std::string_view text) {
    for (auto const one :
         {limit_headers::ietf, limit_headers::legacy, limit_headers::both, limit_headers::none})
        if (text == to_string(one))
            return one;
    return std::nullopt;
}

std::string to_string(log_format f) {
    return f == log_format::json ? "json" : "text";
}
std::optional<log_format> log_format_of(std::string_view text) {
    for (auto const one : {log_format::text, log_format::json})
        if (text == to_string(one))
            return one;
    return std::nullopt;
}

namespace {

std::string source_text(key_part const& part) {
    switch (part.what) {
        case key_part::kind::client:
            break;
        case key_part::kind::header:
            return "header " + part.name;
        case key_part::kind::cookie:
            return "cookie " + part.name;
        case key_part::kind::query:
            return "query " + part.name;
        case key_part::kind::claim:
            return "claim " + part.name;
        case key_part::kind::segment:
            return fmt::format("path {}", part.number);
        case key_part::kind::client_certificate:
            return "client_certificate";
        case key_part::kind::sni:
            return "sni";
        case key_part::kind::shared:
            return "shared";
        case key_part::kind::reject:
            return "reject";
    }
    return "client";
}

}  // namespace

std::string to_string(cost const& c) {
    switch (c.what) {
        case cost::kind::number:
            break;
        case cost::kind::header:
            return "header " + c.name;
        case cost::kind::bytes:
            return "bytes";
        case cost::kind::response_header:
            return "response header " + c.name;
        case cost::kind::response_bytes:
            return "response bytes";
    }
    return std::to_string(c.number);
}

bool is_of_response(cost const& c) noexcept {
    return c.what == cost::kind::response_header || c.what == cost::kind::response_bytes;
}

std::string to_string(status_range const& r) {
    return r.first == r.last ? std::to_string(r.first) : fmt::format("{}xx", r.first / 100);
}

bool has_client(key_part const& part) {
    bool found = false;
    each_source(part,
                [&](key_part const& one) { found = found || one.what == key_part::kind::client; });
    return found;
}

std::string to_string(key_part const& part) {
    auto text = source_text(part);
    for (auto const& other : part.otherwise)
        text += " or " + source_text(other);
    return text;
}

weir::amount capacity_of(limit const& l) {
    auto const of = [](weir::limiter_config const& rule) {
        return weir::policy::any(rule).capacity();
    };
    auto least = l.is_unlimited ? cost::most : of(l.rule);
    for (auto const& [key, rule] : l.overrides)
        if (rule)
            least = std::min(least, of(*rule));
    return least;
}

std::string fault_of_cost(limit const& l) {
    bool const is_number = l.cost.what == cost::kind::number;
    auto const n = is_number ? l.cost.number : l.cost.estimate;
    auto const most = capacity_of(l);
    return n <= most ? ""
                     : fmt::format("`{}` is {}, but the limit grants at most {} at once",
                                   is_number ? "cost" : "estimate", n, most);
}

unsigned status_of_rejection(limit const& l) {
    return l.key.empty() && has_seats(l.rule) ? 503 : 429;
}

std::string rule_text(limit const& l) {
    if (l.tree)
        return to_string(*l.tree);
    return l.is_unlimited ? std::string(unlimited) : to_string(l.rule);
}

std::optional<named_clients> clients_in(std::string_view text, limit const& l) {
    auto const found = tool::network_of(text);
    if (!found)
        return std::nullopt;
    auto const bits = found->is_v4() ? tool::mapped_bits + l.v4_prefix : l.v6_prefix;
    if (found->prefix == 128)
        return named_clients{found->first(bits), true};
    if (found->prefix > bits)
        return std::nullopt;
    return named_clients{*found, found->prefix == bits};
}

std::optional<named_clients> clients_named(std::string_view text, limit const& l) {
    bool const by_client = l.key.size() == 1 && has_client(l.key.front());
    return by_client ? clients_in(text, l) : std::nullopt;
}

std::string to_string(failure_mode const& mode) {
    if (auto const* const alone = std::get_if<weir::fail_local>(&mode))
        return fmt::format("{}{}", local, alone->share);
    return std::holds_alternative<weir::fail_open>(mode) ? "open" : "closed";
}

std::optional<failure_mode> failure_mode_of(std::string_view text) {
    if (text == "closed")
        return weir::fail_closed();
    if (text == "open")
        return weir::fail_open();
    if (!text.starts_with(local))
        return std::nullopt;
    auto const share = tool::decimal_of(text.substr(local.size()));
    if (!share || !(*share >= 1e-6) || !(*share <= 1))
        return std::nullopt;
    return weir::fail_local{*share};
}

bool is_store_url(std::string_view text) noexcept {
    constexpr std::array<std::string_view, 8> schemes{
        "redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://",
        "unix:",    "mysql://",  "postgresql://",     scheme_of_agent};
    return std::ranges::any_of(schemes, [&](auto scheme) { return text.starts_with(scheme); });
}

std::optional<std::string_view> path_of_agent(std::string_view url) noexcept {
    if (!url.starts_with(scheme_of_agent))
        return std::nullopt;
    return url.substr(scheme_of_agent.size());
}

double most_memory(limit const& l) {
    return static_cast<double>(l.max_keys) *
           (is_penalty(l.rule)        ? bytes_of_penalty
            : has_small_state(l.rule) ? bytes_of_small
                                      : most_bytes_of_state(l.rule));
}

namespace {

// The option --seats has the values `adaptive` and `adaptive 4..200`. They are not rules.
weir::limiter_config parse_rule(std::string_view text) {
    try {
        return weir::limiter_config::parse(text);
    } catch (std::invalid_argument const&) {
        if (text.find("adaptive") == text.npos)
            throw;
        auto const meant = seats_named(text);
        throw std::invalid_argument(
            fmt::format("adaptive seats are a rule such as `{}`",
                        to_string(meant ? *meant : *seats_named("adaptive 4..200"))));
    }
}

}  // namespace

weir::limiter_config rule_of(std::string_view text) {
    auto made = parse_rule(text);
    if (has_part<weir::penalty_options>(made) && !is_penalty(made))
        throw std::invalid_argument(
            "a penalty cannot be combined by `&`: use a [[limit]] for each, and both in a route");
    static_cast<void>(weir::policy::any(made));  // checks the values
    return made;
}

weir::queue_options queue_of(std::string_view text, weir::patience unless_said) {
    auto made = weir::queue_options::parse(text);
    // Spaces separate names and values, and no value is called `patience`.
    auto const spaced = fmt::format(" {} ", text);
    if (spaced.find(" patience ") == std::string::npos)
        made.patience = unless_said;
    weir::validate(made);
    // A negative patience is read as 0s.
    auto const check = [&](std::string_view name, weir::patience p) {
        constexpr std::chrono::hours most{24};
        auto const time = p.length_or(weir::forever);
        if (spaced.find(fmt::format(" {} -", name)) != std::string::npos ||
            (time != weir::forever && time > most))
            throw std::invalid_argument(fmt::format("{} must be from 0s to 24h, or forever", name));
    };
    check("patience", made.patience);
    check("max_expected_wait", made.max_expected_wait);
    if (made.order == weir::queue_order::shares)
        throw std::invalid_argument("`order shares` is not supported here");
    if (made.dry_run)
        throw std::invalid_argument("`dry_run` is an option of the limit, not of its queue");
    return made;
}

weir::queue_options queue_of_penalty() {
    return {.max_waiting = 0, .patience = weir::patience()};
}

std::string text_of(weir::queue_options const& queue) {
    auto text = to_string(queue);
    if (queue.patience.length_or({}) == weir::forever)
        text += text.empty() ? "patience forever" : " patience forever";
    return text;
}

std::optional<weir::limiter_config> seats_named(std::string_view text) {
    constexpr std::string_view word = "adaptive";
    constexpr weir::amount most = 1'000'000'000;
    if (!text.starts_with(word)) {
        auto const n = tool::number_of(text);
        return n && *n >= 1 && *n <= most
                   ? std::optional<weir::limiter_config>({weir::seats_options{*n}})
                   : std::nullopt;
    }
    weir::knee_options adaptive{.min = 1, .max = 1'000};
    if (auto const bounds = text.substr(word.size()); !bounds.empty()) {
        auto const dots = bounds.find("..");
        if (dots == bounds.npos || bounds[0] != ' ')
            return std::nullopt;
        auto const least = tool::number_of(bounds.substr(1, dots - 1));
        auto const greatest = tool::number_of(bounds.substr(dots + 2));
        if (!least || !greatest || *least < 1 || *greatest < *least || *greatest > most)
            return std::nullopt;
        adaptive.min = *least;
        adaptive.max = *greatest;
    }
    adaptive.seats = std::clamp(adaptive.seats, adaptive.min, adaptive.max);
    return weir::limiter_config{weir::adaptive_options(adaptive)};
}

weir::amount most_seats(weir::limiter_config const& rule) {
    if (auto const* const fixed = std::get_if<weir::seats_options>(&rule.options))
        return fixed->seats;
    auto const most = [](auto const& o) { return o.max; };
    return std::visit(most, std::get<weir::adaptive_options>(rule.options));
}

bool has_seats(weir::limiter_config const& rule) {
    return has_part<weir::seats_options>(rule) || has_part<weir::resting_seats_options>(rule) ||
           is_adaptive(rule);
}

bool is_adaptive(weir::limiter_config const& rule) {
    return has_part<weir::adaptive_options>(rule);
}

bool is_penalty(weir::limiter_config const& rule) {
    return std::holds_alternative<weir::penalty_options>(rule.options);
}

bool has_window(weir::limiter_config const& rule) {
    if (auto const* const all = std::get_if<weir::all_options>(&rule.options))
        return std::ranges::all_of(all->parts, has_window);
    return std::holds_alternative<weir::sliding_log_options>(rule.options) ||
           std::holds_alternative<weir::sliding_window_options>(rule.options) ||
           std::holds_alternative<weir::fixed_window_options>(rule.options) ||
           std::holds_alternative<weir::calendar_window_options>(rule.options);
}

bool has_small_state(weir::limiter_config const& rule) {
    return std::holds_alternative<weir::token_bucket_options>(rule.options) ||
           std::holds_alternative<weir::calendar_window_options>(rule.options) || is_penalty(rule);
}

bool are_of_one_kind(weir::limiter_config const& a, weir::limiter_config const& b) {
    auto const* const parts = std::get_if<weir::all_options>(&a.options);
    auto const* const others = std::get_if<weir::all_options>(&b.options);
    if (parts && others)
        return std::ranges::equal(parts->parts, others->parts, are_of_one_kind);
    return a.options.index() == b.options.index();
}

std::optional<limit> seats_of(upstream const& u) {
    weir::amount sum = 0;
    for (auto const& s : u.servers) {
        if (!s.seats)
            return std::nullopt;
        sum += s.backup ? 0 : *s.seats;
    }
    limit l;
    l.name = "upstream " + u.name;
    l.rule = weir::seats_options{sum};
    l.queue = {.patience = {}};  // the other limits of the route set it
    return l;
}

shared_rule shared_rule_of(limit const& l) {
    shared_rule made{
        .options = {.timeout = l.timeout, .prefetch = l.prefetch, .on_failure = l.on_failure}};
    auto& shared = made.options;
    auto const* const log = std::get_if<weir::sliding_log_options>(&l.rule.options);
    auto const* const bucket = std::get_if<weir::token_bucket_options>(&l.rule.options);
    if (log) {
        shared.rate = {log->limit, log->window};
        made.log = true;
        static_cast<void>(weir::policy::fed_log(shared));  // checks the values
    } else if (bucket && !bucket->initial && bucket->refill == weir::refill::continuous) {
        shared.rate = bucket->rate;
        shared.burst = bucket->burst;
        static_cast<void>(weir::policy::fed(shared));
    } else {
        throw std::invalid_argument("a store supports rules such as 100/1s and 100/1s burst 20");
    }
    return made;
}

}  // namespace config
