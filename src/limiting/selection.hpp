#pragma once

#include <weir/amount.hpp>

#include "config/configuration.hpp"
#include "tool/network_map.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace limiting {

/// The limiters of the keys with one rule; a base class.
struct rule_limiters {
    rule_limiters() = default;
    rule_limiters(rule_limiters const&) = delete;
    virtual ~rule_limiters() = default;
};

/// The limiter of a request within a limit.
struct selected {
    std::uint64_t key = 0;                 // the number of its key; 0 for a limit without keys
    std::optional<std::uint32_t> by = {};  // the index of its override, or the number of its leaf
    bool is_unlimited = false;             // the request passes without a permit
    rule_limiters* among = nullptr;  // the limiters of its rule; null for a limit without keys
    weir::amount cost = 1;           // the permits that the request takes
};

/// Selects the limiters of requests within a limit, by a configuration of the limit. The cost does not depend on the
/// number of overrides. Any thread may use it.
template <class World>
class selection {
public:
    /// The selection of a limit without keys.
    explicit selection(bool is_unlimited) : common_{.is_unlimited = is_unlimited} {}

    /// The selection of a limit with keys. `common` has the limiters of keys without an override, and `wide` the limiters
    /// of each override for more than one key; the others are null.
    selection(config::limit const& c, typename World::keys keys,
              std::shared_ptr<rule_limiters> common,
              std::vector<std::shared_ptr<rule_limiters>> wide)
        : keys_(std::move(keys)),
          common_{.is_unlimited = c.is_unlimited, .among = common.get()},
          common_limiters_(std::move(common)),
          wide_(std::move(wide)) {
        for (std::uint32_t i = 0; i != c.overrides.size(); ++i) {
            auto const& [text, rule] = c.overrides[i];
            overrides_.push_back({.by = i, .is_unlimited = !rule, .among = common_.among});
            if (wide_[i])
                overrides_.back().among = wide_[i].get();
            if (auto const clients = config::clients_named(text, c))
                by_network_.add(clients->network, i);
            else
                by_value_.insert_or_assign(keys_->of(text), i);
        }
    }

    [[nodiscard]] selected of(typename World::request_info const& who) const {
        if (!keys_)
            return common_;
        auto const key = keys_->of(who);
        auto const number = find(who, key);
        auto found = number ? overrides_[*number] : common_;
        found.key = key;
        return found;
    }

private:
    [[nodiscard]] std::optional<std::uint32_t> find(typename World::request_info const& who,
                                                    std::uint64_t key) const {
        if (!by_network_.empty())
            if (std::optional<std::array<std::uint8_t, 16>> const client = keys_->client_of(who)) {
                auto const* const number = by_network_.find(*client);
                return number ? std::optional(*number) : std::nullopt;
            }
        if (by_value_.empty())
            return std::nullopt;
        auto const found = by_value_.find(key);
        return found == by_value_.end() ? std::nullopt : std::optional(found->second);
    }

    std::optional<typename World::keys> keys_;
    selected common_;
    std::vector<selected> overrides_;
    tool::network_map<std::uint32_t> by_network_;                // indices of overrides
    std::unordered_map<std::uint64_t, std::uint32_t> by_value_;  // the same, by the number of a key
    std::shared_ptr<rule_limiters> common_limiters_;
    std::vector<std::shared_ptr<rule_limiters>> wide_;
};

}  // namespace limiting
