#include "operator_view.hpp"

#include "listeners.hpp"
#include "observe.hpp"
#include "preview.hpp"
#include "tool/text.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

namespace proxy {
namespace {

tool::troubles::clock::time_point steady_now() noexcept {
    return tool::troubles::clock::time_point(net::clock::now().time_since_epoch());
}

std::string text_of(upstream_trouble const& t) {
    auto const server = t.server ? fmt::format("server {}: ", t.server->name()) : "";
    return fmt::format("weir-proxy: upstream {}: {}{}", t.of->configuration().name, server, t.why);
}

struct failed_introduction {
    introduction_failure why;
    std::string_view name;
    std::string_view text;
};
constexpr std::array<failed_introduction, 4> failed_introductions{
    {{introduction_failure::untrusted, "untrusted", "the peer is not in trusted of [clients]"},
     {introduction_failure::invalid, "invalid", "it begins with something else"},
     {introduction_failure::timeout, "timeout", "the peer was too slow"},
     {introduction_failure::disconnected, "disconnected", "it ended within the header"}}};

void report_one(std::string& out, limit const& l) {
    auto const s = l.stats();
    auto const& c = l.configuration();
    std::string rare;
    for (auto const& [n, why] :
         {std::pair(s.no_permit, "no permit"),
          {s.shed, "dropped from the queue"},
          {s.exceeds_capacity, "over capacity"},
          {s.too_many_keys, "too many keys"},
          {s.unavailable, "store unavailable"},
          {s.closed, "closed"}})
        if (n != 0)
            rare += fmt::format(", {} {}", n, why);
    fmt::format_to(
        std::back_inserter(out),
        "weir-proxy: {}: {} granted ({} immediately), {}: {} queue full, {} timed out, "
        "{} wait too long{}, {} disconnected; now {} in use, {} waiting",
        c.name, s.granted, s.granted_immediately, c.dry_run ? "would be rejected" : "rejected",
        s.queue_full, s.timed_out, s.deadline_unreachable, rare, s.cancelled, s.in_use, s.waiting);
    if (l.is_adaptive())
        fmt::format_to(std::back_inserter(out), ", {} seats", s.capacity);
    if (auto const keys = l.keys())
        fmt::format_to(std::back_inserter(out), ", {} clients", keys->count);
    out += l.more();
    out += '\n';
}

void report_one(std::string& out, admin::tcp_state const& s) {
    fmt::format_to(std::back_inserter(out), "weir-proxy: {}: {} active, {} waiting",
                   service_name(s.name, s.sni), s.active, s.waiting);
    for (std::size_t i = 0; i != s.results.size(); ++i)
        fmt::format_to(std::back_inserter(out), ", {} {}", s.ended[i], s.results[i]);
    fmt::format_to(std::back_inserter(out), "; {} bytes up, {} bytes down\n", s.bytes_up,
                   s.bytes_down);
}

void report_one(std::string& out, admin::bandwidth_state const& s) {
    fmt::format_to(std::back_inserter(out), "weir-proxy: {} {}: {} bytes", s.name, s.direction,
                   s.bytes);
    if (s.dry_run)
        fmt::format_to(std::back_inserter(out), " ({} would have waited)", s.late);
    else
        fmt::format_to(std::back_inserter(out), ", which waited {:.3f} s; now {} waiting",
                       tool::seconds(s.waited), s.waiting);
    if (s.keys)
        fmt::format_to(std::back_inserter(out), ", {} clients", *s.keys);
    out += '\n';
}

}  // namespace

operator_view::operator_view(asio::io_context& context, net::watchdog& dog, sources s)
    : context_(context), dog_(dog), of_(std::move(s)), second_(context), previews_(context) {}

void operator_view::open(config::admin_options const& a, std::int64_t most_connections) {
    if (!a.address)
        return;
    auto const at =
        std::visit([](auto const& one) { return config::listen_address(one); }, *a.address);
    site_.emplace(
        context_, dog_, most_connections,
        admin::site::handlers{
            .look = [this] { return look(); },
            .guard = [this] { return guard_of(of_.plan->configuration.admin); },
            .change =
                [this](auto name, auto rule, auto const& by) {
                    return with_limit(name, [&](limit& l) { return set_rule(l, rule, by); });
                },
            .undo =
                [this](auto name, auto const& by) {
                    return with_limit(name, [&](limit& l) { return undo_rule(l, by); });
                },
            .preview = [this](auto name,
                              auto rule) { return preview(std::move(name), std::move(rule)); },
            .trouble = [this](auto const& what) { warn("weir-proxy: admin: " + what); }});
    try {
        site_->open(endpoint_of(at), to_string(at));
    } catch (boost::system::system_error const& e) {
        // The default address may be in use by another proxy on this machine. Then take a free port.
        if (a.is_named || e.code() != asio::error::address_in_use)
            throw std::runtime_error(
                fmt::format("admin: cannot listen on {}: {}", to_string(at), why_not(e.code())));
        auto const host = std::get<config::tcp_address>(at).host;
        site_->open(endpoint_of(config::tcp_address{host, 0}), host + ":0");
    }
}

void operator_view::warn(std::string_view text, std::uint64_t times) {
    tool::say(tool::level::warning, troubles_.tell(text, times, steady_now()));
}

void operator_view::start() {
    if (site_)
        site_->start();
    go_on();
}

// Schedules the work of each second.
void operator_view::go_on() {
    second_.expires_after(std::chrono::seconds(1));
    second_.async_wait([this](net::error_code ec) {
        if (ec)
            return;
        collect();
        watch_introductions();
        watch_keys();
        tool::say(tool::level::warning, troubles_.look(steady_now()));
        if (site_)
            site_->go_on();
        go_on();
    });
}

// Reports the connections since the last call that lack the header of the PROXY protocol.
void operator_view::watch_introductions() {
    for (auto const& f : failed_introductions) {
        auto const all = of_.threads.sum(f.why);
        auto& told = told_introductions_[static_cast<std::size_t>(f.why)];
        if (auto const fresh = all - std::exchange(told, all))
            warn(fmt::format("weir-proxy: a connection lacks the header of the PROXY protocol: {}",
                             f.text),
                 fresh);
    }
}

// Reports a limit that tracks almost all the keys that it may track, or whose keys take almost all of its memory: each
// of its shards is full at another time.
void operator_view::watch_keys() {
    auto all = of_.plan->limits;
    for (auto const& b : of_.plan->bandwidths)
        for (auto const& one : {b.up, b.down})
            if (one)
                all.push_back(one->limiter());
    for (auto const& l : all) {
        auto const now = l->keys().value_or(limiting::tracked_keys());
        auto const& c = l->configuration();
        auto const keys = static_cast<double>(now.count) / static_cast<double>(c.max_keys);
        auto const memory = static_cast<double>(now.bytes) / static_cast<double>(c.max_memory);
        auto const full = std::max(keys, memory);
        if (full < 0.9)
            full_of_keys_.erase(l->id());
        else if (full >= 0.95 && full_of_keys_.insert(l->id()).second)
            tool::say(
                tool::level::warning,
                fmt::format(
                    "weir-proxy: limit {}: {}; requests with further keys {}{}\n", l->name(),
                    keys > memory
                        ? fmt::format("{} of {} keys are in use", now.count, c.max_keys)
                        : fmt::format("its keys take {} of {} bytes", now.bytes, c.max_memory),
                    c.evict_within == weir::duration::zero() ? "" : "evict little used keys, or ",
                    config::when_full_of(c) == config::full_of_keys::share ? "share one limiter"
                                                                           : "are rejected"));
    }
}

// Collects the rejections and failures of the threads that had any.
void operator_view::collect() {
    of_.threads.on_each_with_trouble([this](worker& w) {
        asio::post(context_, [this, lists = w.accounting().take_troubles()] {
            for (auto const& one : lists.rejected)
                if (site_)
                    site_->count({one.key.limit, name_of_client(one.key.client)}, one.count,
                                 one.error);
            for (auto const& one : lists.upstreams)
                warn(text_of(one.key), one.count - one.error);
        });
    });
}

admin::state operator_view::look() const {
    auto const& all = of_.threads;
    auto s = state_of(*of_.plan);
    s.started = started_;
    s.ready = of_.now == phase::serving;
    s.draining = of_.now == phase::draining;
    s.connections = all.sum(&counters::connections);
    s.open_connections = all.sum(&counters::open);
    s.open_tunnels = all.sum(&counters::tunnels);
    s.requests = {
        {"answered", all.sum(ending::answered)}, {"answered_by_route", all.sum(ending::routed)},
        {"rejected", all.sum(ending::rejected)}, {"disconnected", all.sum(ending::disconnected)},
        {"failed", all.sum(ending::failed)},     {"malformed", all.sum(ending::malformed)}};
    auto const shaken = [&](handshake how) { return all.sum(how); };
    s.handshakes = {{"full", shaken(handshake::full)}, {"resumed", shaken(handshake::resumed)}};
    s.failed_handshakes = {
        {"limited", shaken(handshake::limited)},
        {"timeout", shaken(handshake::timeout)},
        {"disconnected", shaken(handshake::disconnected)},
        {"unknown_name", shaken(handshake::unknown_name)},
        {"no_common_version", shaken(handshake::no_common_version)},
        {"no_common_cipher", shaken(handshake::no_common_cipher)},
        {"not_tls", shaken(handshake::not_tls)},
        {"rejected", shaken(handshake::rejected)},
        {"no_certificate", shaken(handshake::no_certificate)},
        {"bad_certificate", shaken(handshake::bad_certificate)},
        {"other", shaken(handshake::other)}};
    auto const begins_with_header = [](auto const& l) { return l && l->options.proxy_protocol; };
    if (std::ranges::any_of(of_.plan->listeners, begins_with_header))
        for (auto const& f : failed_introductions)
            s.failed_introductions.emplace_back(f.name, all.sum(f.why));
    for (auto const& [listener, context] : of_.plan->certificates.all())
        for (auto const& one : context->certificates())
            s.certificates.push_back({listener, one.file, one.valid_until});
    s.responses = all.responses();
    s.response_times = all.response_times();
    // Each thread counts for itself, so that a request that moves on meanwhile may be counted twice or not at all.
    s.active = all.sum(&counters::active);
    s.active -= std::min(s.active, s.open_tunnels);
    s.waiting = all.sum(&counters::waiting);
    s.log_lines_dropped = of_.log ? of_.log->dropped() : 0;
    s.agent = agent();
    return s;
}

std::optional<admin::agent_state> operator_view::agent() const {
    if (!of_.agent)
        return std::nullopt;
    auto const now = of_.agent->stats();
    return admin::agent_state{
        .path = of_.plan->configuration.agent->options.path,
        .connections = static_cast<std::uint64_t>(now.connections),
        .limits = static_cast<std::uint64_t>(now.limits),
        .questions = now.questions,
        .grants = now.grants};
}

template <class F>
admin::answer operator_view::with_limit(std::string_view name, F f) const {
    if (of_.is_changing())
        return {503, "a reload is in progress; try again"};
    auto const& limits = of_.plan->limits;
    auto const found = std::ranges::find(limits, name, [](auto const& l) {
        return std::string_view(l->configuration().name);
    });
    if (found == limits.end())
        return {404, fmt::format("unknown limit `{}`", name)};
    return f(**found);
}

net::task<admin::answer> operator_view::preview(std::string name, std::string rule) {
    changed_rule wanted;
    std::optional<config::limit> now;
    std::optional<arrivals::copy> record;
    auto const look_at = [&](limit& l) -> admin::answer {
        now = l.configuration();
        if (!rule.empty()) {
            wanted = with_rule(*now, rule);
            if (!wanted.configuration)
                return wanted.why_not;
        }
        if (auto const why = why_no_preview(*now); !why.empty())
            return {409, fmt::format("the limit has no preview: {}", why)};
        record = l.record()->at(net::clock::now());
        return {};
    };
    auto const wrong = with_limit(name, look_at);
    if (!record)
        co_return wrong;
    auto made = previews_.run(std::move(*now), std::move(wanted.configuration), std::move(*record));
    co_return co_await std::move(made);
}

std::string operator_view::report() const {
    auto const& all = of_.threads;
    auto out = fmt::format(
        "weir-proxy: {} connections ({} open), {} requests: {} answered, {} answered by a route, "
        "{} rejected, {} disconnected, {} failed; {} malformed; {} log lines dropped\n",
        all.sum(&counters::connections), all.sum(&counters::open), all.sum(&counters::requests),
        all.sum(ending::answered), all.sum(ending::routed), all.sum(ending::rejected),
        all.sum(ending::disconnected), all.sum(ending::failed), all.sum(ending::malformed),
        of_.log ? of_.log->dropped() : 0);
    for (auto const& service : of_.plan->services)
        for (auto const& r : service.routes)
            report_one(out, service.state_of(r));
    for (auto const& l : of_.plan->limits)
        report_one(out, *l);
    for (auto const& b : bandwidths_of(*of_.plan))
        report_one(out, b);
    for (auto const& u : of_.plan->upstreams)
        if (auto const seats = u->seats())
            report_one(out, *seats);
    if (auto const a = agent())
        fmt::format_to(
            std::back_inserter(out),
            "weir-proxy: agent: {} processes, {} limits ahead; {} questions, {} grants\n",
            a->connections, a->limits, a->questions, a->grants);
    return out;
}

}  // namespace proxy
