#pragma once

#include <weir/amount.hpp>
#include <weir/policy/keys_contact.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/policy/shared_bucket.hpp>
#include <weir/policy/shared_options.hpp>
#include <weir/policy/token_bucket.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace weir::inline v0_2::policy {

/// The options of `fed_keys`.
struct fed_keys_options {
    shared_options limit = {};                        ///< of each key; without a prefetch
    bool is_log = false;                              ///< a sliding log instead of a bucket
    std::shared_ptr<keys_contact> contact = nullptr;  ///< of all keys
};

/// The rule of a limiter by key that many processes share: a store keeps the state of each key. It has the same
/// guarantee as `fed` without a prefetch, for each key.
///
/// Questions: each key has at most one question in progress, with the same content as a question of `fed`. Questions of
/// different keys do not wait for each other, except while the store is failing; see `keys_contact`.
///
/// Rejections: a key remembers that the store rejected a question until the time that the store named. Until then a
/// request that cannot be granted in time is rejected without a question. A permit that was given back by this process
/// ends that.
///
/// State of a key in this process: permits that the store granted and that no request has taken yet, the question in
/// progress, the last rejection, and debt. A key without any of these has the state of an unused key. With `fail_local`
/// the state includes the local share, as in `token_bucket`: 112 bytes in all.
///
/// Unlike `fed`, it does not report the losses of a store, and asks for one request at a time while permits are booked,
/// so that distant processes may get less than their share of one key.
class fed_keys_rule {
public:
    using options_type = fed_keys_options;
    using question = store_question;
    using give_back = store_give_back;
    using answer = store_answer;

    /// The state of a key.
    struct state_type {
        token_bucket_rule::state_type local;            // with `fail_local`: all grants
        time_point from{};                              // of the permits that the store granted
        time_point until{};                             // when they lapse
        std::int64_t since = 0;                         // their time at the store
        time_point rejected_until = time_point::min();  // requests for `rejected_min` or more
        time_point asked_until = time_point::min();     // the time limit of the question
        std::uint64_t asked = 0;                        // the number of the question; 0 without one
        amount owed = 0;
        std::uint32_t left = 0;
        std::uint32_t rejected_min = 0;
        bool pays_debt = false;  // the question
    };

    explicit fed_keys_rule(options_type const& options);

    // The members of a rule.

    [[nodiscard]] state_type begin(time_point now) const noexcept;
    void take_over(state_type& s, fed_keys_rule const& old, state_type const& before,
                   time_point now) const noexcept;
    [[nodiscard]] bool are_alike(state_type const& a, state_type const& b,
                                 time_point now) const noexcept;
    [[nodiscard]] options_type const& options() const noexcept { return options_; }
    [[nodiscard]] amount capacity() const noexcept { return bucket_.burst; }
    [[nodiscard]] bool timed() const noexcept { return true; }
    [[nodiscard]] amount remaining(state_type const& s, time_point now) const noexcept;
    [[nodiscard]] amount debt(state_type const& s, time_point) const noexcept { return s.owed; }
    [[nodiscard]] time_point ready_at(state_type const& s, amount n, amount ahead,
                                      time_point now) const noexcept;
    ticket take(state_type& s, amount n, time_point now) const noexcept;
    static constexpr bool ignores_leave = true;
    bool leave(state_type&, amount, ticket) const noexcept { return false; }
    /// Takes back permits. The permits of a store must also be given back to it: see `comes_from_store`.
    bool refund(state_type& s, amount n, ticket t, time_point now) const noexcept;
    ticket merge(state_type&, ticket a, ticket b, amount) const noexcept;

    // The members of a rule whose permits come from elsewhere.

    /// Returns the next time at which `ask` may return a question; `never` if only another event can cause one.
    [[nodiscard]] time_point next_question(state_type const& s, demand const& d,
                                           time_point now) const noexcept;
    /// Returns the question that is due, if there is one.
    [[nodiscard]] std::optional<question> ask(state_type& s, demand const& d,
                                              time_point now) const noexcept;
    /// Returns the permits that no request will use; 0 permits if there are none.
    [[nodiscard]] give_back take_spare(state_type& s, demand const& d,
                                       time_point now) const noexcept;
    /// Returns whether permits of the ticket were granted by the store.
    [[nodiscard]] static bool comes_from_store(ticket t) noexcept;
    /// Returns the command to give back `n` permits of the ticket.
    [[nodiscard]] give_back returned(amount n, ticket t) const noexcept;
    /// Records the reply to a question of the key, which was sent at `sent`. Returns false if the key no longer awaits
    /// it; then its permits must be given back.
    [[nodiscard]] bool answered(state_type& s, question const& q, answer const& a, time_point sent,
                                time_point now) const noexcept;
    /// Records that a question of the key failed.
    void failed(state_type& s, question const& q) const noexcept {
        if (s.asked == q.number)
            s.asked = 0;
    }
    [[nodiscard]] std::optional<time_point> unavailable_until(time_point now) const noexcept {
        return contact().unavailable_until(now);
    }
    [[nodiscard]] bool is_misconfigured() const noexcept { return contact().is_misconfigured(); }
    [[nodiscard]] bool is_unlimited() const noexcept {
        return contact().decides_itself() && !local_;
    }
    [[nodiscard]] keys_contact& contact() const noexcept { return *options_.contact; }
    [[nodiscard]] shared_bucket const& bucket() const noexcept { return bucket_; }

private:
    [[nodiscard]] static bool is_asking(state_type const& s, time_point now) noexcept {
        return s.asked != 0 && now < s.asked_until;
    }
    [[nodiscard]] static amount held(state_type const& s, time_point now) noexcept {
        return now <= s.until ? s.left : 0;
    }
    [[nodiscard]] static bool is_used(state_type const& s, time_point now) noexcept {
        return held(s, now) != 0 || is_asking(s, now) || now < s.rejected_until || s.owed != 0;
    }

    options_type options_;
    shared_bucket bucket_;
    std::optional<token_bucket_rule> local_;  // with `fail_local`
};

/// The policy of `weir::shared_keyed`.
using fed_keys = ruled<fed_keys_rule>;

}  // namespace weir::inline v0_2::policy
