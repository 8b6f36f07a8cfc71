#include "limit.hpp"

#include "limiting/tree.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace proxy {
namespace {

limit_text text_of(config::limit const& c) {
    bool const seats = config::has_seats(c.rule);
    auto const status = config::status_of_rejection(c);
    if (c.key.empty() && seats)
        return {status, "all seats are in use", "no seat became free in time",
                "all seats are in use and the queue is full"};
    char const* const why =
        config::is_penalty(c.rule) ? "locked out after too many offences"
        : c.key.empty()            ? "too many requests"
        : seats                    ? "too many concurrent requests"
                                   : "too many requests from this client";
    return {status, why, why, why};
}

std::uint64_t next_id() noexcept {
    static std::atomic<std::uint64_t> last = 0;
    return ++last;
}

}  // namespace

limit::limit(config::limit const& c)
    : limiting::limit<world>(c),
      text_(text_of(c)),
      quotas_(c.name, c.rule),
      is_keyed_(!c.key.empty()),
      is_of_store_(!c.store.empty()),
      name_(c.name),
      id_(next_id()) {}

void limit::change_rule(weir::limiter_config const& rule) {
    apply_rule(rule);
    quotas_.change(rule);
}

void limit::keep_record(bool wanted) {
    if (!wanted)
        record_.reset();
    else if (!record_)
        record_ = std::make_shared<arrivals>(is_keyed_, net::clock::now());
}

limit::override_quotas limit::overrides_quotas() const {
    override_quotas quotas;
    if (configuration().tree)
        for (auto const& q : quotas_of(*configuration().tree))
            quotas.push_back({q});
    for (auto const& [key, rule] : configuration().overrides)
        quotas.push_back(rule ? quotas_of(*rule) : std::vector<quota>());
    return quotas;
}

net::task<verdict<weir::permit>> limit::enter(request_info const& who, limiting::selected const& at,
                                              net::connection& client, weir::duration patience) {
    return wait_turn<weir::permit>(client, [this, who, at, patience](on_turn<weir::permit> h) {
        async_enter(who, at, patience, std::move(h));
    });
}

std::shared_ptr<limit> make_limit(net::executor const& ex, config::limit const& c) {
    if (c.tree)
        return std::make_shared<limiting::tree_limit<world>>(
            ex, c, keys_of_requests(c), place_in_queue(c));
    auto keys = c.key.empty() ? std::nullopt : std::optional(keys_of_requests(c));
    return limiting::make_limit<world>(ex, c, std::move(keys), place_in_queue(c));
}

}  // namespace proxy
