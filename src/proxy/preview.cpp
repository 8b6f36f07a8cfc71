#include "preview.hpp"

#include "replay/lane.hpp"
#include "scaled_rule.hpp"
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

// Leaves out the oldest requests if there are more than `most`.
void bound(selection& all, std::uint64_t most) {
    auto const before = sum(all.samples);
    auto n = before;
    auto first = all.samples.begin();
    for (; n > most; ++first)
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

// The requests of a record, to be replayed through several limiters.
class replayed {
public:
    replayed(arrivals::copy const& record, std::uint64_t most, std::atomic<bool> const& stop)
        : chosen_(select(record)), until_(record.until), stop_(stop) {
        bound(chosen_, most);
        if (auto const simulated = sum(chosen_.samples); simulated != 0)
            factor_ = chosen_.requests / static_cast<double>(simulated);
    }

    [[nodiscard]] preview without_effects() const {
        preview made{.over = until_ - chosen_.since, .now = {}, .then = {}};
        made.requests = static_cast<std::uint64_t>(std::llround(chosen_.requests));
        if (made.requests > chosen_.samples.size())
            made.kept = static_cast<double>(chosen_.samples.size()) / chosen_.requests;
        return made;
    }
    [[nodiscard]] rule_effect effect_on(config::limit const& l) const {
        auto const plan = plan_of(l);
        auto keys = keys_of(plan);
        replay::lane_options only_totals;
        only_totals.details = false;
        only_totals.epoch = std::chrono::system_clock::now().time_since_epoch() -
                            net::clock::now().time_since_epoch();
        replay::lane lane(plan, keys, chosen_.since.time_since_epoch(), only_totals);
        each_request(chosen_.samples, until_, stop_,
                     [&lane](replay::arrival const& a) { lane.come(a); });
        if (!stop_)
            lane.finish();
        return effect_of(lane.so_far(), l, factor_);
    }

private:
    selection chosen_;
    net::clock::time_point until_;
    std::atomic<bool> const& stop_;
    double factor_ = 1;
};

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
    replayed const requests(record, most_previewed, stop);
    auto made = requests.without_effects();
    made.now = requests.effect_on(now);
    made.then = requests.effect_on(then);
    return made;
}

preview find_larger_rule(config::limit const& now, arrivals::copy const& record,
                         std::atomic<bool> const& stop) {
    constexpr int steps = 25;  // 1.1^24 is 9.85
    auto const percent_at = [](int step) {
        return step == steps ? 1000 : static_cast<int>(std::lround(100 * std::pow(1.1, step)));
    };
    replayed const requests(record, most_previewed / 4, stop);
    auto made = requests.without_effects();
    made.now = requests.effect_on(now);
    auto const at = [&](int step) {
        auto larger = now;
        larger.rule = scaled(now.rule, percent_at(step));
        return requests.effect_on(larger);
    };
    if (made.now.rejected == 0) {
        made.then = made.now;
        return made;
    }
    made.then = at(steps);
    auto const is_enough = [&](rule_effect const& e) {
        return e.rejected <= std::min(made.requests / 100, made.now.rejected / 10);
    };
    // The least step that is enough, where a larger rule does not reject more.
    int few = 0;
    for (int enough = is_enough(made.then) ? steps : few; enough - few > 1;) {
        auto const middle = (few + enough) / 2;
        auto const effect = at(middle);
        if (!is_enough(effect)) {
            few = middle;
            continue;
        }
        enough = middle;
        made.then = effect;
    }
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
