#include "simulation.hpp"

#include "limiting/request.hpp"
#include "tool/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace replay {

using namespace std::chrono_literals;

// All plans with one spread.
class simulation::branch {
public:
    branch(simulation& owner, spread const& s, bool is_first)
        : owner_(owner), spread_(s), is_first_(is_first) {}

    // Takes the requests of one second of the log, in the order of their lines.
    void take(std::int64_t second, std::vector<pending> const& requests) {
        auto const whole = static_cast<std::size_t>(
            std::ranges::count_if(requests, [](pending const& p) { return p.is_whole_second; }));
        spread_.offsets(second, whole, offsets_);
        now_.clear();
        std::size_t next = 0;
        for (auto const& p : requests) {
            now_.push_back(p.request);
            now_.back().at = p.at + (p.is_whole_second ? offsets_[next++] : 0ns) - p.before;
        }
        if (!owner_.is_shifted_)
            return send(now_);
        // The lines are in the order in which requests ended. This restores the order of arrival.
        if (!seconds_)
            seconds_.emplace(owner_.settings_.slack);
        for (auto& a : now_) {
            if (seconds_->is_past(a.at))
                send(a);
            else
                seconds_->add(a.at, a, [this](auto, auto& due) { send(due); });
        }
    }

    void finish(bool broken_off) {
        if (seconds_)
            seconds_->flush([this](auto, auto& due) { send(due); });
        if (broken_off)
            return;
        for (auto& l : lanes_)
            l->finish();
    }

    [[nodiscard]] std::vector<std::unique_ptr<lane>> const& lanes() const noexcept {
        return lanes_;
    }

private:
    void send(std::vector<arrival>& requests) {
        if (!std::ranges::is_sorted(requests, {}, &arrival::at))
            std::ranges::sort(requests, {},
                              [](arrival const& a) { return std::pair(a.at, a.line); });
        for (auto& a : requests)
            send(a);
    }
    void send(arrival& a) {
        if (lanes_.empty())
            open(a.at);
        if (a.at < last_) {
            a.at = last_;
            a.is_late = true;
        }
        last_ = a.at;
        if (is_first_) {
            owner_.traffic_.last = last_;
            owner_.traffic_.late += a.is_late ? 1 : 0;
        }
        for (auto& l : lanes_)
            l->come(a);
    }
    void open(nanoseconds begin) {
        auto const& s = owner_.settings_;
        if (is_first_)
            owner_.traffic_.first = begin;
        last_ = begin;
        for (auto const& p : owner_.plans_)
            lanes_.push_back(std::make_unique<lane>(
                p, owner_.keys_, begin,
                lane_options{.details = is_first_,
                             .retries = s.retries,
                             .plan = lanes_.size(),
                             .ways = owner_.routed_by_ ? &owner_.ways_ : nullptr,
                             .watcher = is_first_ && lanes_.empty() ? s.watcher : nullptr}));
    }

    simulation& owner_;
    spread spread_;
    bool is_first_;
    nanoseconds last_ = nanoseconds::min();
    std::vector<nanoseconds> offsets_;
    std::vector<arrival> now_;
    std::optional<by_second<arrival>> seconds_;
    std::vector<std::unique_ptr<lane>> lanes_;
};

simulation::simulation(settings s, std::vector<plan> plans)
    : settings_(std::move(s)), plans_(std::move(plans)), seconds_(settings_.slack) {
    add_key({.v4_prefix = settings_.v4_prefix, .v6_prefix = settings_.v6_prefix});
    for (auto const& p : plans_) {
        for (auto const& l : p.limits())
            for (auto const& k : {l.per, l.fair, l.priority})
                if (k)
                    add_key(*k);
        for (auto const& l : p.bandwidths())
            if (l.per)
                add_key(*l.per);
        routes_.push_back(p.routes());
        if (p.file && !routed_by_) {
            using kind = logs::key_source::kind;
            routed_by_ = {place_of({kind::method, {}, true}, sources_),
                          place_of({kind::target, {}, true}, sources_),
                          place_of({kind::host, {}, true}, sources_),
                          {},
                          {}};
        }
        for (auto const& r : routes_.back()) {
            if (!r.clients.empty())
                routed_by_->client = place_of({}, sources_);
            for (auto const& h : r.what.headers)
                routed_by_->headers.emplace(
                    h.name,
                    place_of({logs::key_source::kind::field, "header " + h.name, true}, sources_));
        }
    }
    if (keys_.size() > most_keys || sources_.size() > logs::most_keys)
        throw tool::usage_error(
            fmt::format("the limits use more than {} kinds of keys", most_keys));
    asked_.resize(keys_.size());
    for (auto const& how : settings_.spreads)
        branches_.push_back(std::make_unique<branch>(*this, how, branches_.empty()));
}

simulation::~simulation() = default;

bool simulation::add(logs::entry const& e) {
    pending p{.at = e.at, .before = e.before, .is_whole_second = e.whole_second, .request = {}};
    if (p.before > settings_.slack) {
        p.before = settings_.slack;
        p.request.is_late = true;
    }
    if (!e.whole_second)
        p.at -= std::exchange(p.before, 0ns);
    if (seconds_.is_past(p.at))
        return false;
    // From now on, a later line may contain a request that arrived before a released one.
    is_shifted_ = is_shifted_ || p.before != 0ns;
    p.request.line = traffic_.requests;
    p.request.status = static_cast<std::uint16_t>(e.status);
    p.request.sent = e.sent.value_or(0);
    p.request.received = e.received.value_or(0);
    traffic_.with_sent += e.sent ? 1 : 0;
    traffic_.with_received += e.received ? 1 : 0;
    p.request.overloaded = e.status >= 502 && e.status <= 504;
    for (std::size_t k = 0; k != keys_.size(); ++k)
        p.request.keys[k] = keys_[k].of(e);
    if (routed_by_)
        p.request.way = way_of(e);
    p.request.held = held(e, p.request.way);
    seconds_.add(p.at, p, [this](auto second, auto& due) { release(second, due); });

    ++traffic_.requests;
    if (e.whole_second)
        ++traffic_.whole_seconds;
    for (std::size_t k = 0; k != keys_.size(); ++k) {
        auto const key = p.request.keys[k];
        if (key >= asked_[k].size())
            asked_[k].resize(std::max<std::size_t>(key + 1, 2 * asked_[k].size()));
        ++asked_[k][key];
    }
    return true;
}

void simulation::add_key(key const& k) {
    if (std::ranges::find(keys_, k, &key_numbers::what) == keys_.end())
        keys_.emplace_back(k, sources_);
}

std::uint32_t simulation::way_of(logs::entry const& e) {
    auto const target = e.keys[routed_by_->target];
    auto host = host_of(target);
    if (host.empty())
        host = e.keys[routed_by_->host];
    if (host.empty() || host == "-")
        host = settings_.host;
    auto const path = path_of(target);
    auto const client =
        routed_by_->client ? tool::network_of(e.keys[*routed_by_->client]) : std::nullopt;
    auto const value_of = [&](std::string const& name) {
        return e.keys[routed_by_->headers.at(name)];
    };
    way_.clear();
    for (auto const& routes : routes_) {
        auto const fit = [&](plan::route const& r) {
            return limiting::fits(r.what, host, path, e.keys[routed_by_->method]) &&
                   (r.clients.empty() || (client && r.clients.find(client->address))) &&
                   limiting::has_headers(r.what, value_of);
        };
        way_.push_back(
            static_cast<std::uint16_t>(std::ranges::find_if(routes, fit) - routes.begin()));
    }
    auto const [found, is_new] =
        numbers_of_ways_.try_emplace(way_, static_cast<std::uint32_t>(ways_.size()));
    if (is_new)
        ways_.push_back(way_);
    return found->second;
}

nanoseconds simulation::held(logs::entry const& e, std::uint32_t way) {
    if (way >= last_held_.size())
        last_held_.resize(way + 1);
    auto& last = last_held_[way];
    if (e.held) {
        ++traffic_.held_by_log;
        last = e.held;
        return *e.held;
    }
    if (settings_.takes)
        return settings_.takes->of(traffic_.requests);
    ++(last ? traffic_.held_like_last : traffic_.held_by_none);
    return last.value_or(0ns);
}

void simulation::release(std::int64_t second, std::vector<pending>& requests) {
    for (auto& b : branches_)
        b->take(second, requests);
}

void simulation::finish(bool broken_off) {
    seconds_.flush([this](auto second, auto& due) { release(second, due); });
    for (auto& b : branches_)
        b->finish(broken_off);
    traffic_.clients = keys_.front().all().size();
}

std::vector<outcome> simulation::results() const {
    std::vector<outcome> all;
    for (auto const& l : branches_.front()->lanes())
        all.push_back(l->result(asked_, settings_.most_keys));
    return all;
}

std::vector<std::vector<double>> simulation::rejected_by_spread() const {
    std::vector<std::vector<double>> all(plans_.size());
    for (auto const& b : branches_)
        for (std::size_t i = 0; i != b->lanes().size(); ++i)
            all[i].push_back(b->lanes()[i]->so_far().rejected_share());
    return all;
}

}  // namespace replay
