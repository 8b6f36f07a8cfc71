#include "upstream.hpp"

#include "tool/trouble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace proxy {

upstream::upstream(net::executor const& ex, config::upstream c,
                   std::vector<std::shared_ptr<upstream_server>> servers, upstream const* before)
    : configuration_(std::move(c)),
      servers_(std::move(servers)),
      executor_(ex),
      roles_(roles_of(configuration_)),
      keys_(configuration_.hash.empty() ? std::nullopt
                                        : std::optional<keys_of_requests>(configuration_.hash)),
      has_seats_(std::ranges::all_of(
          configuration_.servers, [](auto const& s) { return s.seats.has_value(); })),
      counts_(servers_.size() > 1 || has_seats_) {
    for (auto const& s : servers_) {
        s->pause_ = 0;
        if (!configuration_.health)
            s->down_ = false;
    }
    auto const seats = config::seats_of(configuration_);
    if (!seats)
        return;
    seats_ = before ? before->seats_ : nullptr;
    if (!seats_) {
        seats_ = std::make_shared<common_seats>();
        seats_->limiter = make_limit(ex, *seats);
    }
    count_seats();
}

std::vector<upstream::role> upstream::roles_of(config::upstream const& c) {
    constexpr weir::key_hash hash;
    std::vector<role> all;
    for (auto const& s : c.servers) {
        auto const name = to_string(s.address);
        weir::hash_seed const seed{hash({1, 0}, name), hash({2, 0}, name)};
        all.push_back({s.weight, s.backup, seed});
    }
    return all;
}

// The rank is a random number for each pair of a key and a server. Its distribution gives each server the keys of its
// part of the weights. Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998).
double upstream::rank_of(role const& r, std::uint64_t key) noexcept {
    auto const hash = weir::key_hash()(r.seed, key);
    auto const uniform = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
    return -static_cast<double>(r.weight) / std::log(uniform);
}

upstream::tier upstream::tier_of(std::size_t server) const noexcept {
    bool const out = is_out(*servers_[server]);
    if (roles_[server].is_backup)
        return out ? tier::backup_down : tier::backup_up;
    return out ? tier::down : tier::up;
}

std::optional<std::uint64_t> upstream::key_of(request_info const& who) const {
    if (!keys_ || !has_values(configuration_.hash, who))
        return std::nullopt;
    return keys_->of(who);
}

upstream::visit upstream::choose(std::span<upstream_server const* const> tried,
                                 std::optional<std::uint64_t> key) {
    if (!counts_)
        return tried.empty() ? visit(*servers_.front(), false) : visit();
    struct candidate {
        upstream_server* server = nullptr;
        weir::amount busy = 0;
        std::int64_t weight = 0;
        double rank = 0;
    };
    struct candidates {
        candidate best;
        std::int64_t weights = 0;  // the sum
        bool all_idle = true;
    };
    auto const turn = next_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
        std::array<candidates, tiers> all;
        auto first = tier::backup_down;  // that has a server
        for (std::size_t i = 0; i != servers_.size(); ++i) {
            auto const n = (turn + i) % servers_.size();
            auto& s = *servers_[n];
            auto const in = tier_of(n);
            first = std::min(first, in);
            auto const busy = s.busy_.load();
            if (busy >= s.seats_.load() || std::ranges::find(tried, &s) != tried.end())
                continue;
            auto const weight = roles_[n].weight;
            auto& [best, weights, all_idle] = all[static_cast<std::size_t>(in)];
            weights += weight;
            all_idle = all_idle && busy == 0;
            auto const rank = key ? rank_of(roles_[n], *key) : 0;
            bool const better =
                key ? rank > best.rank : (busy + 1) * best.weight < (best.busy + 1) * weight;
            if (!best.server || better)
                best = {&s, busy, weight, rank};
        }
        if (first == tier::down && !all[static_cast<std::size_t>(first)].best.server)
            first = tier::backup_down;
        auto const& [best, weights, all_idle] = all[static_cast<std::size_t>(first)];
        if (!best.server)
            return {};
        auto* const idle = all_idle && !key ? idle_in_turn(first, tried, turn, weights) : nullptr;
        auto& server = idle ? *idle : *best.server;
        if (server.try_take())
            return {server, true};
    }
}

// Each server of the tier has as many turns as its weight. Null if another thread changed the state of a server.
upstream_server* upstream::idle_in_turn(tier from, std::span<upstream_server const* const> tried,
                                        std::size_t turn, std::int64_t weights) const {
    auto left = static_cast<std::int64_t>(turn % static_cast<std::size_t>(weights));
    for (std::size_t i = 0; i != servers_.size(); ++i) {
        auto& s = *servers_[i];
        if (tier_of(i) != from || s.busy_ != 0 || std::ranges::find(tried, &s) != tried.end())
            continue;
        left -= roles_[i].weight;
        if (left < 0)
            return &s;
    }
    return nullptr;
}

bool upstream::may_have_seats_later(std::span<upstream_server const* const> tried) const noexcept {
    if (!has_seats_)
        return false;
    auto first = tier::down;
    bool is_left = false;  // a server of the first tier
    for (std::size_t i = 0; i != servers_.size(); ++i) {
        auto const in = tier_of(i);
        bool const untried = std::ranges::find(tried, servers_[i].get()) == tried.end();
        if (in < first)
            is_left = untried;
        else if (in == first)
            is_left = is_left || untried;
        first = std::min(first, in);
    }
    return is_left && first < tier::down;
}

admin::upstream_state upstream::state() const {
    admin::upstream_state u{
        .name = configuration_.name, .checked = configuration_.health.has_value(), .servers = {}};
    for (auto const& s : servers_) {
        auto& one = u.servers.emplace_back(s->state());
        if (counts_)
            one.active = static_cast<std::uint64_t>(std::max<weir::amount>(s->busy_, 0));
    }
    return u;
}

void upstream::note(upstream_server& server, bool reached) {
    if (!reached)
        server.connect_failures_.fetch_add(1, std::memory_order_relaxed);
    if (!reached)
        begin_pause(server);
    else if (auto const number = server.pause_.load(std::memory_order_relaxed))
        end_pause(server, number);
    if (!configuration_.health)
        return;
    if (!reached)
        fail(server);
    else if (server.failures_.load(std::memory_order_relaxed) != 0)
        server.failures_ = 0;
}

void upstream::begin_pause(upstream_server& server) {
    static std::atomic<std::uint64_t> last = 0;
    std::uint64_t none = 0;
    auto const number = ++last;
    if (!has_choice() || !server.pause_.compare_exchange_strong(none, number))
        return;
    if (has_seats_)
        count_seats();
    auto const timer = std::make_shared<net::timer>(executor_);
    timer->expires_after(pause);
    timer->async_wait(
        [timer, self = weak_from_this(), s = server.shared_from_this(), number](net::error_code) {
            if (auto const here = self.lock())
                here->end_pause(*s, number);
        });
}

void upstream::end_pause(upstream_server& server, std::uint64_t number) {
    if (server.pause_.compare_exchange_strong(number, 0) && has_seats_)
        count_seats();
}

void upstream::note_check(upstream_server& server, bool good) {
    if (!good) {
        server.successes_ = 0;
        return fail(server);
    }
    server.failures_ = 0;
    if (server.down_ && ++server.successes_ >= configuration_.health->rise &&
        server.down_.exchange(false))
        note_change(server, false);
}

void upstream::report(upstream_server& server, net::error_code const& ec) const {
    if (!tls::is_of_tls(ec))
        return;
    auto& count = tls::is_of_certificate(ec) ? server.refused_certificates_ : server.tls_failures_;
    count.fetch_add(1, std::memory_order_relaxed);
    {
        auto const now = net::clock::now();
        std::lock_guard const lock(server.trouble_mutex_);
        auto const quiet_time =
            ec == server.trouble_ ? std::chrono::seconds(60) : std::chrono::seconds(1);
        if (server.trouble_ && now - server.trouble_said_ < quiet_time)
            return;
        server.trouble_ = ec;
        server.trouble_said_ = now;
    }
    tool::say(tool::level::warning, fmt::format("weir-proxy: upstream {}: server {}: TLS: {}\n",
                                                configuration_.name, server.name(), ec.message()));
}

void upstream::fail(upstream_server& server) {
    if (++server.failures_ >= configuration_.health->fall && !server.down_.exchange(true))
        note_change(server, true);
}

void upstream::note_change(upstream_server& server, bool down) {
    server.successes_ = 0;
    tool::say(down ? tool::level::warning : tool::level::info,
              fmt::format("weir-proxy: upstream {}: server {} is {}\n", configuration_.name,
                          server.name(), down ? "down" : "up"));
    if (has_seats_)
        count_seats();
}

// Sets the number of seats to the sum over the first tier that has a server.
void upstream::count_seats() {
    std::lock_guard const lock(seats_->changes);
    std::array<weir::amount, tiers> seats{};
    auto first = tier::backup_down;
    for (std::size_t i = 0; i != servers_.size(); ++i) {
        auto const in = tier_of(i);
        first = std::min(first, in);
        seats[static_cast<std::size_t>(in)] += servers_[i]->seats_.load();
    }
    seats_->limiter->change_rule(weir::seats_options{seats[static_cast<std::size_t>(first)]});
}

// ---- Connections

place::place(upstream_server& s) noexcept {
    if (!s.is_awaited() && s.try_open())
        of_ = s.shared_from_this();
}

place::~place() {
    if (of_)
        of_->close_one();
}

turn_for_a_place::turn_for_a_place(upstream_server& s, asio::io_context& context)
    : server_(s), mine_(std::make_shared<upstream_server::waiter>(context)) {
    {
        std::lock_guard const lock(server_.line_mutex_);
        server_.line_.push_back(mine_);
        ++server_.waiting_;
    }
    server_.serve_line();
}

net::task<> turn_for_a_place::wait_until(net::clock::time_point end,
                                         std::function<bool()> const& is_over) {
    constexpr std::chrono::milliseconds round{100};
    for (auto now = net::clock::now(); now < end && !has_come() && !(is_over && is_over());
         now = net::clock::now()) {
        mine_->turn.expires_at(is_over ? std::min(end, now + round) : end);
        co_await mine_->turn.async_wait(net::as_values);
    }
}

bool turn_for_a_place::has_come() const {
    std::lock_guard const lock(server_.line_mutex_);
    return mine_->has_come;
}

place turn_for_a_place::take() noexcept {
    std::lock_guard const lock(server_.line_mutex_);
    place taken;
    if (std::exchange(mine_->has_come, false))
        taken.of_ = server_.shared_from_this();
    else
        server_.waiting_ -= server_.line_.remove(mine_);
    return taken;
}

upstream_pool::upstream_pool(asio::io_context& context, net::watchdog& dog, all& pools)
    : context_(context), dog_(dog), pools_(pools) {
    pools_.push_back(this);
}

upstream_connection upstream_pool::reuse(upstream_server& server) {
    auto one = take_for(*this, server);
    if (!one && server.open_.load() >= server.most_.load(std::memory_order_relaxed))
        one = take_from_another(server);
    return one;
}

upstream_connection upstream_pool::take_for(upstream_pool& user, upstream_server& server) {
    for (;;) {
        std::unique_lock lock(mutex_);
        auto found = kept_.end();
        while (found != kept_.begin() && std::prev(found)->one.place_.of() != &server)
            --found;
        if (found == kept_.begin())
            return {};
        --found;
        auto one = std::move(found->one);
        bool const awaits_end = found->awaits_end;
        kept_.erase(found);
        lock.unlock();
        if (one.is_outdated() || !one->is_silent())
            continue;
        if (&user != this)
            one->move_to(user.context_);
        else if (awaits_end)
            one->cancel();
        user.dog_.add(*one);
        return one;
    }
}

upstream_connection upstream_pool::take_from_another(upstream_server& server) {
    for (auto* const other : pools_)
        if (other != this)
            if (auto one = other->take_for(*this, server))
                return one;
    return {};
}

net::task<upstream_connection> upstream_pool::open(
    upstream_server& server, connection_use const& use, net::clock::duration limit,
    net::error_code& ec) {
    auto const end = net::clock::now() + limit;
    place mine(server);
    if (!mine) {
        turn_for_a_place turn(server, context_);
        auto spare = take_for(*this, server);
        if (!spare)
            spare = take_from_another(server);
        spare.close();
        co_await turn.wait_until(end, use.is_over);
        mine = turn.take();
    }
    auto const left = end - net::clock::now();
    if (!mine || left <= net::clock::duration::zero()) {
        ec = asio::error::timed_out;
        co_return upstream_connection();
    }
    auto const version = server.version();
    auto const how = server.opening_for(use);
    auto one = co_await server.endpoints_.connect(context_, dog_, left, how, ec);
    if (!one)
        co_return upstream_connection();
    one->no_delay();
    co_return upstream_connection(std::move(mine), std::move(one), version);
}

void upstream_pool::keep(upstream_connection one, net::clock::duration how_long) {
    std::lock_guard const lock(mutex_);
    if (closed_ || kept_.size() == most || one.is_outdated())
        return;
    if (!is_watched())
        dog_.add(*this);
    // Another thread may take it; then that thread's watchdog watches it.
    one->rest();
    kept_.push_back({std::move(one), after(how_long), ++last_});
    // A request that already waits in the queue could not find this connection: close it, so that the request gets its
    // place.
    if (kept_.back().one.place_.of()->is_awaited())
        kept_.pop_back();
}

void upstream_pool::close() noexcept {
    std::lock_guard const lock(mutex_);
    closed_ = true;
    kept_.clear();
    leave();  // otherwise the thread would run until the time limit of a kept connection
}

net::clock::time_point upstream_pool::look(net::clock::time_point now) {
    std::lock_guard const lock(mutex_);
    std::erase_if(kept_, [now](kept const& k) { return now >= k.until || k.one.is_outdated(); });
    auto next = net::clock::time_point::max();
    for (auto& k : kept_) {
        next = std::min(next, k.until);
        // Most connections are reused before the next round, so they need no system calls for this.
        if (!std::exchange(k.seen, true))
            next = now;
        else if (!k.awaits_end)
            await_end(k);
    }
    return next;
}

void upstream_pool::await_end(kept& k) {
    k.awaits_end = true;
    k.one->wait(net::stream_socket::wait_read, [this, number = k.number](net::error_code ec) {
        if (!ec)
            note_input(number);
    });
}

// The connection ended, sent bytes without a request, or got messages of its encryption, such as tickets.
void upstream_pool::note_input(std::uint64_t number) {
    std::lock_guard const lock(mutex_);
    auto const found = std::ranges::find(kept_, number, &kept::number);
    if (found == kept_.end())
        return;
    if (found->one->is_silent())
        await_end(*found);
    else
        kept_.erase(found);
}

}  // namespace proxy
