#pragma once

#include <weir/policy/policy.hpp>
#include <weir/policy/ticket_table.hpp>
#include <weir/saved_numbers.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir::inline v0_2::policy {

/// Several policies as one: it grants a request when all of them grant it. `Parts` is a tuple or a vector of them.
///
/// Guarantee: the guarantees of all parts. A request is ready when it is ready for every part. The remaining permits
/// are the minimum over the parts. A release or a refund applies to every part.
///
/// Memory: the memory of the parts. If their tickets differ, each permit in use also takes 8 bytes per part and 16
/// more. This is the only policy that may allocate when a request fits. It never throws for that, but after a failed
/// allocation the permit cannot be refunded, and is not watched.
template <class Parts>
class joint {
public:
    void begin(time_point now) noexcept {
        each([&](auto& p) { p.begin(now); });
    }

    [[nodiscard]] amount capacity() const noexcept {
        auto least = max_amount;
        each([&](auto const& p) { least = std::min(least, p.capacity()); });
        return least;
    }
    [[nodiscard]] amount capacity_now() const noexcept {
        auto least = max_amount;
        each([&](auto const& p) { least = std::min(least, capacity_now_of(p)); });
        return least;
    }
    [[nodiscard]] bool timed() const noexcept {
        bool any = false;
        each([&](auto const& p) { any = any || p.timed(); });
        return any;
    }
    [[nodiscard]] bool catches_up() const noexcept {
        bool all = true;
        each([&](auto const& p) { all = all && weir::catches_up(p); });
        return all;
    }
    [[nodiscard]] amount remaining(time_point now) const noexcept {
        auto least = max_amount;
        each([&](auto const& p) { least = std::min(least, p.remaining(now)); });
        return least;
    }
    [[nodiscard]] amount debt(time_point now) const noexcept {
        amount most = 0;
        each([&](auto const& p) { most = std::max(most, debt_of(p, now)); });
        return most;
    }
    [[nodiscard]] time_point ready_at(amount n, amount ahead, time_point now) const noexcept {
        auto last = time_point::min();
        each([&](auto const& p) { last = std::max(last, p.ready_at(n, ahead, now)); });
        return last;
    }
    [[nodiscard]] time_point ready_from(amount n, amount ahead, time_point now,
                                        time_point from) const noexcept {
        auto last = time_point::min();
        each([&](auto const& p) {
            last = std::max(last, weir::ready_from(p, n, ahead, now, from));
        });
        return last;
    }

    /// Returns when every part may be ready.
    [[nodiscard]] time_point ask_again_at(amount n, time_point now) const noexcept {
        auto last = time_point::min();
        each([&](auto const& p) {
            auto const ready = p.ready_at(n, 0, now);
            last = std::max(last, ready == unknown ? weir::ask_again_at(p, n, now) : ready);
        });
        return last;
    }

    /// Returns whether both make the same decisions from now on; false while permits have tickets in a table.
    [[nodiscard]] bool is_alike(joint const& other, time_point now) const noexcept {
        if (!table_.empty() || !other.table_.empty())
            return false;
        if constexpr (requires { parts_.begin(); })
            return std::equal(parts_.begin(), parts_.end(), other.parts_.begin(),
                              [&](auto const& a, auto const& b) { return a.is_alike(b, now); });
        else
            return are_alike(other, now, std::make_index_sequence<std::tuple_size_v<Parts>>());
    }

    [[nodiscard]] std::size_t heap_bytes() const noexcept {
        auto sum = table_.heap_bytes();
        each([&](auto const& p) { sum += heap_bytes_of(p); });
        if constexpr (requires { parts_.capacity(); })
            sum += parts_.capacity() * sizeof(*parts_.data());
        return sum;
    }

    ticket take(amount n, time_point now) {
        auto t = table_.is_needed() ? table_.add(n) : 0;
        std::size_t taken = 0;
        try {
            each_ticket(t, [&](auto& p, ticket& own) {
                own = p.take(n, now);
                if (table_.is_needed() && t == ticket_table::lost)
                    own = p.merge(0, own, n);
                else if (!table_.is_needed() && tickets_of(p) != tickets::none)
                    t = own;
                ++taken;
            });
        } catch (...) {  // the debt of a part needs memory
            each_ticket(t, [&](auto& p, ticket own) {
                if (taken != 0) {
                    --taken;
                    p.refund(n, own, now);
                }
            });
            drop(t, n);
            throw;
        }
        return t;
    }
    [[nodiscard]] bool times_leave() const noexcept {
        bool any = false;
        each([&](auto const& p) { any = any || weir::times_leave(p); });
        return any;
    }
    bool leave(amount n, ticket t, time_point now) noexcept {
        bool room = false;
        each_ticket(t, [&](auto& p, ticket own) { room = weir::leave(p, n, own, now) || room; });
        drop(t, n);
        return room;
    }
    bool refund(amount n, ticket t, time_point now) noexcept {
        if (table_.is_needed() && t == ticket_table::lost)
            return leave(n, t, now);
        bool room = false;
        each_ticket(t, [&](auto& p, ticket own) { room = p.refund(n, own, now) || room; });
        drop(t, n);
        return room;
    }
    /// Records the outcome of the work under `t`. If tickets are in a table, the outcome applies to all parts of a
    /// split permit.
    [[nodiscard]] ticket report(ticket t, outcome o) noexcept {
        auto result = t;
        each_ticket(t, [&]<class Policy>(Policy& p, ticket& own) {
            if constexpr (uses_reports<Policy>) {
                own = p.report(own, o);
                if (!table_.is_needed() && tickets_of(p) != tickets::none)
                    result = own;
            }
        });
        return result;
    }
    ticket merge(ticket a, ticket b, amount n) noexcept {
        if (table_.is_needed() && a == b)
            return a;
        auto result = a;
        std::size_t i = 0;
        each_ticket(a, [&](auto& p, ticket& own) {
            own = p.merge(own, table_.is_needed() ? table_.at(b, i) : b, n);
            if (!table_.is_needed() && tickets_of(p) != tickets::none)
                result = own;
            ++i;
        });
        if (table_.is_needed()) {
            table_.keep(a, n);
            drop(b, n);
        }
        return result;
    }

    /// Saves the parts that can be saved, in their order.
    void save(number_writer& to, time_point now) const {
        each([&]<class Policy>(Policy const& p) {
            if constexpr (savable_policy<Policy>)
                save_part(p, to, now);
        });
    }
    /// A file may have no text for any part with `Policy::was_not_saved`: the state of such a part was not saved by
    /// earlier versions. Then these parts do not change.
    [[nodiscard]] bool load(number_reader& from, time_point then) {
        std::size_t texts = 0;
        for (auto rest = from; !rest.is_done() && !rest.failed(); ++texts)
            static_cast<void>(rest.next_bytes());
        std::size_t parts = 0;
        each([&]<class Policy>(Policy const&) { parts += savable_policy<Policy>; });
        bool are_read = true;
        each([&]<class Policy>(Policy& p) {
            if constexpr (savable_policy<Policy>) {
                bool const is_there = texts >= parts || !requires { Policy::was_not_saved; };
                are_read = are_read && (!is_there || load_part(p, from, then));
            }
        });
        return are_read && from.is_done();
    }
    void resume(joint& before, time_point now, bool same) {
        std::size_t i = 0;
        each([&]<class Policy>(Policy& p) {
            if constexpr (savable_policy<Policy>) {
                std::size_t j = 0;
                before.each([&]<class Other>(Other& other) {
                    if constexpr (std::is_same_v<Policy, Other>) {
                        if (i == j)
                            p.resume(other, now, same);
                    }
                    ++j;
                });
            }
            ++i;
        });
    }

protected:
    explicit joint(Parts parts) : parts_(std::move(parts)) {
        std::size_t count = 0;
        std::size_t own = 0;
        bool time = false;
        each([&](auto const& p) {
            ++count;
            own += tickets_of(p) == tickets::own;
            time = time || tickets_of(p) == tickets::time;
        });
        // One ticket is enough for all parts if only one part has tickets, or all tickets are times.
        if (own > 1 || (own == 1 && time))
            table_ = ticket_table(count);
    }

    [[nodiscard]] time_point first_overdue() const noexcept {
        auto first = never;
        each([&]<class Policy>(Policy const& p) {
            if constexpr (watchful_policy<Policy>)
                first = std::min(first, p.next_overdue());
        });
        return first;
    }
    [[nodiscard]] std::optional<overdue> pop_first_overdue(time_point now) noexcept {
        std::optional<overdue> found;
        std::size_t i = 0;
        each([&]<class Policy>(Policy& p) {
            if constexpr (watchful_policy<Policy>) {
                if (!found && (found = p.pop_overdue(now)) && table_.is_needed())
                    found->id = table_.find(found->id, i);
            }
            ++i;
        });
        return found;
    }

    /// Takes over the tickets of the permits in use.
    void take_tickets(joint& before) noexcept { table_ = std::move(before.table_); }

    template <class F>
    void each(F f) {
        visit(parts_, f);
    }
    template <class F>
    void each(F f) const {
        visit(parts_, f);
    }
    [[nodiscard]] Parts& parts() noexcept { return parts_; }
    [[nodiscard]] Parts const& parts() const noexcept { return parts_; }

private:
    template <class Vector, class F>
    static void visit(Vector& parts, F& f) {
        if constexpr (requires { parts.begin(); })
            for (auto& p : parts)
                f(p);
        else
            std::apply([&](auto&... p) { (f(p), ...); }, parts);
    }

    template <std::size_t... I>
    [[nodiscard]] bool are_alike(joint const& other, time_point now,
                                 std::index_sequence<I...>) const noexcept {
        return (std::get<I>(parts_).is_alike(std::get<I>(other.parts_), now) && ...);
    }

    // The numbers of a part follow their length, since a part reads all that it gets.
    template <class Policy>
    static void save_part(Policy const& p, number_writer& to, time_point now) {
        std::string own;
        number_writer writer(own);
        p.save(writer, now);
        to.add_bytes(own);
    }
    template <class Policy>
    [[nodiscard]] static bool load_part(Policy& p, number_reader& from, time_point then) {
        number_reader own(from.next_bytes());
        return !from.failed() && p.load(own, then) && own.is_done();
    }

    // Passes each part its ticket. With one common ticket, parts without tickets ignore it.
    template <class F>
    void each_ticket(ticket t, F f) {
        std::size_t i = 0;
        each([&](auto& p) {
            ticket own = table_.is_needed() ? table_.at(t, i) : t;
            f(p, own);
            if (table_.is_needed())
                table_.set(t, i, own);
            ++i;
        });
    }
    void drop(ticket t, amount n) noexcept {
        if (table_.is_needed())
            table_.drop(t, n);
    }

    Parts parts_;
    ticket_table table_;
};

/// A policy of several policies that are fixed at compile time.
///
///     weir::basic_limiter<weir::policy::all<weir::policy::sliding_log, weir::policy::sliding_log>>
///         calls{ctx, {{.limit = 10, .window = 1s}, {.limit = 100, .window = 60s}}};
///
/// This limiter grants at most 10 permits in a second and 100 in a minute. `joint` documents behaviour and guarantees.
/// New options apply to each part.
template <limiting_policy... Policies>
    requires(sizeof...(Policies) > 0)
class all : public joint<std::tuple<Policies...>> {
    using base = joint<std::tuple<Policies...>>;

public:
    using options_type = std::tuple<typename Policies::options_type...>;

    explicit all(options_type const& options)
        : base(std::apply([](auto const&... o) { return std::tuple<Policies...>(Policies(o)...); },
                          options)) {}

    void take_over(all& before, time_point now) {
        take_over_each(before, now, std::index_sequence_for<Policies...>());
        this->take_tickets(before);
    }
    [[nodiscard]] options_type options() const {
        return std::apply([](auto const&... p) { return options_type(p.options()...); },
                          this->parts());
    }

    [[nodiscard]] time_point next_overdue() const noexcept
        requires(watchful_policy<Policies> || ...)
    {
        return this->first_overdue();
    }
    [[nodiscard]] std::optional<overdue> pop_overdue(time_point now) noexcept
        requires(watchful_policy<Policies> || ...)
    {
        return this->pop_first_overdue(now);
    }

private:
    template <std::size_t... I>
    void take_over_each(all& before, time_point now, std::index_sequence<I...>) {
        (std::get<I>(this->parts()).take_over(std::get<I>(before.parts()), now), ...);
    }
};

}  // namespace weir::inline v0_2::policy
