#pragma once

#include <weir/amount.hpp>
#include <weir/detail/room/watchers.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

namespace weir::inline v0_2::detail {

/// The commands of the keys of a limiter whose permits come from elsewhere. Other limiters have none.
template <class Key, limiting_rule Rule>
class key_feed {
public:
    static constexpr bool exists = false;
    using watchers_type = no_watchers;
    struct name {};
    struct question {};
    struct answer {};
};

template <class Key, fed_rule Rule>
class key_feed<Key, Rule> {
    using state = typename Rule::state_type;

public:
    static constexpr bool exists = true;
    using events_type = std::remove_reference_t<decltype(std::declval<Rule const&>().contact())>;
    using watchers_type = watchers<events_type>;
    using question = typename Rule::question;
    using answer = typename Rule::answer;

    /// A key to look up; no key for the state that all keys share which have no place.
    struct name {
        std::optional<Key> key = {};
        std::uint64_t hash = 0;
    };
    /// Asks other parts of the limiter to look at what all keys share.
    struct notice {};
    struct command_type {
        name of;
        time_point at;
        std::variant<notice, question, typename Rule::give_back> what;
    };
    /// The interface that carries commands out.
    class runner {
    public:
        /// Starts a command. Called from any thread, under no lock. It reports the result of a question once.
        virtual void carry_out(command_type const& command) noexcept = 0;

    protected:
        ~runner() = default;
    };

    [[nodiscard]] bool has_command() const noexcept { return !commands_.empty(); }
    [[nodiscard]] std::optional<command_type> pop_command() noexcept {
        if (commands_.empty())
            return std::nullopt;
        std::optional<command_type> first(std::move(commands_.front()));
        commands_.pop_front();
        return first;
    }

    /// Makes the commands of a state, whose key `name_of()` returns. Returns when to do so again.
    template <class NameOf>
    [[nodiscard]] time_point feed(Rule const& rule, state& s, demand const& d, time_point now,
                                  NameOf name_of) noexcept {
        give_back(rule, rule.take_spare(s, d, now), now, name_of);
        auto const at = rule.next_question(s, d, now);
        if (at > now)
            return at;
        // The memory comes first: a question that was recorded must be asked.
        bool const has_memory = push(now, name_of);
        auto const q = has_memory ? rule.ask(s, d, now) : std::nullopt;
        if (q)
            commands_.back().what = *q;
        else if (has_memory)
            commands_.pop_back();
        return std::max(rule.next_question(s, d, now), later(now, shortest_pause));
    }

    /// Makes the command to give back permits. Without memory for it they count as used.
    template <class NameOf>
    void give_back(Rule const& rule, typename Rule::give_back const& what, time_point now,
                   NameOf name_of) noexcept {
        if (what.count == 0 || !push(now, name_of))
            return;
        commands_.back().what = what;
        rule.contact().returned(what.count);
    }

    /// Applies the changes that time made, and that other parts of the limiter noticed. Returns whether there were any.
    [[nodiscard]] bool elapse(Rule const& rule, time_point now) noexcept {
        auto& contact = rule.contact();
        contact.elapse(now);
        auto const changes = contact.changes();
        if (std::exchange(seen_, changes) == changes)
            return false;
        static_cast<void>(push(now, [] { return name(); }));
        return true;
    }

private:
    // While a question cannot be asked although its time has come.
    static constexpr duration shortest_pause = std::chrono::milliseconds(1);

    template <class NameOf>
    [[nodiscard]] bool push(time_point now, NameOf name_of) noexcept {
        try {
            commands_.push_back({name_of(), now, notice()});
            return true;
        } catch (...) {
            return false;
        }
    }

    std::deque<command_type> commands_;
    std::uint64_t seen_ = 0;  // changes
};

}  // namespace weir::inline v0_2::detail
