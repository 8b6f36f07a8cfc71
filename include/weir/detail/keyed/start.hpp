#pragma once

#include <weir/detail/asio_operation.hpp>
#include <weir/detail/key_handle.hpp>
#include <weir/detail/keyed/line.hpp>
#include <weir/detail/keyed/states.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/key_hash.hpp>
#include <weir/permit.hpp>
#include <weir/policy/rule.hpp>
#include <weir/time.hpp>

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace weir::inline v0_2::detail {

/// Whether a `Like` is converted to a small key before it is looked up: numbers are.
template <class Key, class Like>
inline constexpr bool is_converted =
    small_key<Key> && scalar<Key> && scalar<std::remove_cvref_t<Like>>;

/// Whether a `Like` becomes a key before it is looked up. A type that is not like a key does too: `check_key_like` has
/// reported it, and this prevents further errors of the compiler.
template <class Key, class Like>
inline constexpr bool becomes_key =
    is_converted<Key, Like> || !comparable_with<std::remove_cvref_t<Like>, Key>;

// Variables, because errors about them are shorter than errors about concepts.
template <class Like, class Key, class Hash>
inline constexpr bool is_key_like = key_like<Like, Key, Hash>;
template <class Key, class Hash>
inline constexpr bool is_hashed = hashed_by<Key, Hash>;
template <class Key>
inline constexpr bool is_compared = comparable_with<Key, Key>;
template <class Like, class Key>
inline constexpr bool is_distinct = distinct_as<Like, Key>;
template <class Policy>
inline constexpr bool can_be_forgotten =
    requires { typename Policy::rule_type; } || requires(Policy const& p, time_point now) {
        { p.is_alike(p, now) } noexcept -> std::same_as<bool>;
    };

/// Reports a type that is not like a key.
template <class Like, class Key, class Hash>
constexpr void check_key_like() noexcept {
    if constexpr (!is_distinct<Like, Key>)
        static_assert(is_distinct<Like, Key>,
                      "weir::keyed: different values of this type could become the same key. "
                      "Convert the value to the type of the keys");
    else
        static_assert(is_key_like<Like, Key, Hash>,
                      "weir::keyed: the first argument must be a key. Its type must be the type "
                      "of the keys, or compare and hash like it");
}

// Stands for the key after an error.
template <class Key>
Key key_after_error() noexcept;

/// Returns `like` as it is looked up: as a key, if it becomes one; otherwise itself.
template <class Key, class Like>
[[nodiscard]] constexpr decltype(auto) as_key(Like&& like) noexcept {
    if constexpr (!becomes_key<Key, Like>)
        return std::forward<Like>(like);
    else if constexpr (is_converted<Key, Like>)
        return static_cast<Key>(like);
    else
        return key_after_error<Key>();
}

/// Replace a type of keys that cannot be used, and its hash, after that error was reported. They prevent further errors
/// of the compiler.
struct unusable_key {
    template <class Like>
    unusable_key(Like const&) noexcept;
    bool operator==(unusable_key const&) const noexcept;
    template <class Like>
    bool operator==(Like const&) const noexcept;
};
struct unusable_hash {
    template <class Like>
    std::uint64_t operator()(hash_seed const&, Like const&) const noexcept;
};

/// Replaces the rule of a policy without `is_alike`, after that error was reported.
template <class Policy>
struct unforgettable_rule : policy::rule_of_t<Policy> {
    using policy::rule_of_t<Policy>::rule_of_t;
    [[nodiscard]] bool are_alike(Policy const&, Policy const&, time_point) const noexcept;
};

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

/// Calls `ask(core)`, which makes a request of one key and sets `ec`, for the core of the key. If there is no place for
/// the key, and such keys share a state, calls it again for the core that has that state.
template <class Core, class Ask>
[[nodiscard]] auto decide_by_key(Core& own, error_code const& ec, Ask ask) {
    auto result = ask(own);
    if (auto* const next = own.next_after(ec)) [[unlikely]]
        result = ask(*next);
    return result;
}

/// The signature of an operation that waits for permits of one key.
struct keyed_enter_signature : enter_signature {
    using operation_type = keyed_operation;
};

/// Begins to wait for permits of a key. `Like` is the key, a reference to it, or a type by which it can be looked up.
template <class Like>
class starts_to_enter_key {
public:
    using signature = keyed_enter_signature;

    starts_to_enter_key(Like&& key, std::uint64_t hash, request const& n, wait_limit const& limit)
        : key_(std::forward<Like>(key)), hash_(hash), r_(n), limit_(limit) {}

    template <class Core>
    bool operator()(std::shared_ptr<Core> const& core, operation& op) const {
        op.ask_for(r_);
        if (core->enter(op, limit_, who()))
            return true;
        auto* const next = core->next_after(op.error);
        if (!next) [[likely]]
            return false;
        op.move_to(next->share());
        return next->enter(op, limit_, who());
    }
    template <class Core>
    [[nodiscard]] permit at_once(std::shared_ptr<Core> const& core, error_code& ec) const {
        return decide_by_key(*core, ec, [&](Core& at) { return at.enter_at_once(r_, ec, who()); });
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

}  // namespace weir::inline v0_2::detail
