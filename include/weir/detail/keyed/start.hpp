#pragma once

#include <weir/detail/enter_operation.hpp>
#include <weir/detail/keyed/rooms.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/permit.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace weir::detail {

/// Whether a `Like` becomes a key before it is looked up: integers of another type do.
template <class Key, class Like>
inline constexpr bool becomes_key = std::integral<Key> && std::integral<std::remove_cvref_t<Like>>;

/// The type of a copy of a key.
template <class Key, class Like>
using kept_key = std::conditional_t<becomes_key<Key, Like>, Key, std::decay_t<Like>>;

/// The key of a request to a keyed limiter.
template <class Key>
struct one_key {
    template <class F>
    auto with(F f) const {
        return f(keyed_lookup<Key>{key, hash});
    }
    friend bool operator==(one_key const& a, one_key const& b) { return a.key == b.key; }

    Key key;
    std::uint64_t hash;
};

/// The signature of an operation that waits for permits of one key.
struct keyed_enter_signature : enter_signature {
    using operation_type = keyed_operation;
};

/// Begins to wait for permits of a key. `Like` is the key, a reference to it, or a type by which it can be looked up.
template <class Like>
class starts_to_enter_key {
public:
    using signature = keyed_enter_signature;

    starts_to_enter_key(Like&& key, std::uint64_t hash, request n, wait_limit const& limit)
        : key_(std::forward<Like>(key)), hash_(hash), r_(n), limit_(limit) {}

    template <class Core>
    bool operator()(Core& core, operation& op) const {
        op.ask_for(r_);
        return core.enter(op, limit_, who());
    }
    template <class Core>
    [[nodiscard]] permit at_once(Core& core, error_code& ec) const {
        return core.enter_at_once(r_, ec, who());
    }

private:
    [[nodiscard]] auto who() const noexcept {
        return keyed_lookup<std::remove_cvref_t<Like>>{key_, hash_};
    }

    Like key_;
    std::uint64_t hash_;
    request r_;
    wait_limit limit_;
};

}  // namespace weir::detail
