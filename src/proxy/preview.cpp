#include "preview.hpp"

#include "replay/lane.hpp"
#include "tool/json.hpp"
#include "tool/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

namespace proxy {
namespace {

/// A kept request and the requests for which it stands.
struct sample {
    arrival what;
    std::uint32_t times = 1;
};

/// The samples in the order of their arrival, and the number of requests, sampled or not.
struct selection {
    std::vector<sample> samples;
    net::clock::time_point since;
    double requests = 0;
};

std::uint64_t sum(std::vector<sample> const& samples) {
    return std::accumulate(samples.begin(), samples.end(), std::uint64_t(0),
                           [](auto n, auto const& s) { return n + s.times; });
}

// The requests of a record, of which no part is thinned more than another.
selection select(arrivals::copy const& record) {
    selection all{.samples = {}, .since = record.since};
    auto const is_in = [&](arrival const& a) {
        return a.at >= record.since && a.at <= record.until;
    };
    unsigned level = 0;
    for (auto const& b : record.blocks)
        if (std::ranges::any_of(b->kept, is_in))
            level = std::max(level, b->level);
    for (auto const& b : record.blocks) {
        std::size_t in = 0;
        for (auto const& a : b->kept) {
            if (!is_in(a))
                continue;
            ++in;
            if (!record.is_keyed)
                all.samples.push_back({a, std::uint32_t{1} << b->level});
            else if (arrivals::keeps_key(a.key, level))
                all.samples.push_back({a});
        }
        if (in != 0)
            all.requests += static_cast<double>(b->seen) * static_cast<double>(in) /
                            static_cast<double>(b->kept.size());
    }
    std::ranges::sort(all.samples, {}, [](sample const& s) { return s.what.at; });
    return all;
}

// Leaves out the oldest requests if there are too many.
void bound(selection& all) {
    auto const before = sum(all.samples);
    auto n = before;
    auto first = all.samples.begin();
    for (; n > most_previewed; ++first)
        n -= first->times;
    if (first == all.samples.begin())
        return;
    all.samples.erase(all.samples.begin(), first);
    all.since = all.samples.front().what.at;
    all.requests *= static_cast<double>(n) / static_cast<double>(before);
}

// The limit alone in a plan of weir-replay, with the requests of a record instead of a log.
replay::plan plan_of(config::limit l) {
    // A key is a number in the record. Requests with an override are not in it.
    if (!l.key.empty())
        l.key = {config::key_part()};
    l.overrides.clear();
    // The record has the cost of each request.
    l.cost = {.what = config::cost::kind::header, .estimate = 1};
    replay::plan p;
    config::route r;
    r.limits = {l.name};
    config::configuration file;
    file.limits = {std::move(l)};
    file.routes = {std::move(r)};
    p.file = std::make_shared<config::configuration const>(std::move(file));
    return p;
}

std::vector<replay::key_numbers> keys_of(replay::plan const& p) {
    std::vector<replay::key_numbers> keys;
    std::vector<logs::key_source> sources;
    for (auto const& l : p.limits())
        if (l.per)
            keys.emplace_back(*l.per, sources);
    return keys;
}

// Assigns numbers to keys, and to a rejected request the service time and the status of the last granted request with
// its key, or of the last one with any key.
class completed {
public:
    replay::arrival of(arrival const& a) {
        auto const [found, is_new] =
            numbers_.try_emplace(a.key, static_cast<std::uint32_t>(numbers_.size()));
        auto const number = found->second;
        if (is_new)
            last_of_key_.push_back(last_);
        if (a.granted)
            last_ = last_of_key_[number] = {a.held, a.status};
        replay::arrival made;
        made.keys[0] = number;
        made.permits = a.permits;
        made.held = std::chrono::microseconds(last_of_key_[number].held);
        made.status = last_of_key_[number].status;
        return made;
    }

private:
    struct service {
        std::uint32_t held = 0;
        std::uint16_t status = 0;
    };
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
    std::vector<service> last_of_key_;
    service last_;
};

// Calls `f` with each request. The requests for which a sample stands arrive evenly until the next sample.
template <class F>
void each_request(std::vector<sample> const& samples, net::clock::time_point until,
                  std::atomic<bool> const& stop, F f) {
    completed keys;
    for (std::size_t i = 0; i != samples.size() && !stop; ++i) {
        auto const& s = samples[i];
        auto const next = i + 1 == samples.size() ? until : samples[i + 1].what.at;
        auto request = keys.of(s.what);
        for (std::uint32_t n = 0; n != s.times; ++n) {
            request.at = (s.what.at + (next - s.what.at) * n / s.times).time_since_epoch();
            f(request);
        }
    }
}

rule_effect effect_of(replay::outcome const& o, config::limit const& l, double factor) {
    auto const& reasons = o.rules.front().rejected;
    auto const rejected = std::accumulate(reasons.begin(), reasons.end(), std::uint64_t(0));
    auto const scaled = [factor](std::uint64_t n) {
        return static_cast<std::uint64_t>(std::llround(static_cast<double>(n) * factor));
    };
    return {.rule = to_string(l.rule),
            .granted = scaled(o.asked()) - scaled(rejected),
            .rejected = scaled(rejected),
            .waited = scaled(o.waited),
            .p99_wait = wait_of_granted(o, 0.99)};
}

void add(tool::json& out, std::string_view name, rule_effect const& e) {
    out.name(name)
        .begin()
        .member("rule", e.rule)
        .member("granted", e.granted)
        .member("rejected", e.rejected)
        .member("waited", e.waited)
        .member("p99_wait", tool::seconds(e.p99_wait))
        .end();
}

}  // namespace

std::string why_no_preview(config::limit const& l) {
    using enum weir::queue_order;
    if (l.is_unlimited)
        return "it is `unlimited`";
    if (l.tree)
        return "it has a tree";
    if (!l.store.empty())
        return fmt::format("the store `{}` counts requests of other proxies too", l.store);
    if (config::is_adaptive(l.rule))
        return "adaptive seats depend on how the upstream responds to their number";
    if (l.queue.order == fair || l.queue.order == priority)
        return fmt::format("the order `{}` of its queue depends on more than the record has",
                           l.queue.order == fair ? "fair" : "priority");
    return {};
}

preview make_preview(config::limit const& now, config::limit const& then,
                     arrivals::copy const& record, std::atomic<bool> const& stop) {
    auto chosen = select(record);
    bound(chosen);
    preview made{.over = record.until - chosen.since, .now = {}, .then = {}};
    auto const simulated = sum(chosen.samples);
    made.requests = static_cast<std::uint64_t>(std::llround(chosen.requests));
    if (made.requests > chosen.samples.size())
        made.kept = static_cast<double>(chosen.samples.size()) / chosen.requests;
    auto const factor = simulated == 0 ? 1 : chosen.requests / static_cast<double>(simulated);
    auto const replay = [&](config::limit const& l) {
        auto const plan = plan_of(l);
        auto keys = keys_of(plan);
        replay::lane_options only_totals;
        only_totals.details = false;
        only_totals.epoch = std::chrono::system_clock::now().time_since_epoch() -
                            net::clock::now().time_since_epoch();
        replay::lane lane(plan, keys, chosen.since.time_since_epoch(), only_totals);
        each_request(chosen.samples, record.until, stop,
                     [&lane](replay::arrival const& a) { lane.come(a); });
        if (!stop)
            lane.finish();
        return effect_of(lane.so_far(), l, factor);
    };
    made.now = replay(now);
    made.then = replay(then);
    return made;
}

std::string to_json(preview const& p) {
    tool::json out;
    out.begin()
        .member("seconds", tool::seconds(p.over))
        .member("requests", p.requests)
        .member("kept", p.kept);
    add(out, "now", p.now);
    add(out, "then", p.then);
    out.end();
    return std::move(out).text();
}

}  // namespace proxy
