#pragma once

#include <weir/detail/asio_host.hpp>
#include <weir/keyed.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/any.hpp>
#include <weir/policy/limiter_config.hpp>
#include <weir/policy/policy.hpp>
#include <weir/policy/rule.hpp>
#include <weir/saved_file.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace weir::inline v0_2 {

namespace detail {

/// A type of keys that can be saved: integers of at most 64 bits, and `std::string`.
template <class Key>
concept savable_key =
    std::same_as<Key, std::string> || (std::integral<Key> && sizeof(Key) <= sizeof(std::uint64_t));

/// The text of a rule, by which another process recognises the same options; empty for a policy without a text.
template <class Options>
[[nodiscard]] std::string rule_text(Options const& options) {
    if constexpr (std::constructible_from<limiter_config, Options const&>)
        return to_string(limiter_config(options));
    else
        return {};
}
template <class... Options>
[[nodiscard]] std::string rule_text(std::tuple<Options...> const& options) {
    std::string text;
    std::apply(
        [&](auto const&... o) { ((text += (text.empty() ? "" : " & ") + rule_text(o)), ...); },
        options);
    return text;
}

/// Parses the text of a rule of the same kind as `current`. Returns nothing if it is another one.
[[nodiscard]] std::optional<limiter_config> parse_like(std::string_view text,
                                                       limiter_config const& current);

template <class Options>
[[nodiscard]] std::optional<Options> options_of(std::string_view text, Options const& current) {
    if constexpr (std::constructible_from<limiter_config, Options const&>) {
        auto parsed = parse_like(text, limiter_config(current));
        if (!parsed)
            return std::nullopt;
        if constexpr (std::same_as<Options, limiter_config>)
            return parsed;
        else
            return std::get<Options>(parsed->options);
    } else {
        return std::nullopt;
    }
}
template <class... Options>
[[nodiscard]] std::optional<std::tuple<Options...>> options_of(
    std::string_view text, std::tuple<Options...> const& current) {
    if constexpr ((std::constructible_from<limiter_config, Options const&> && ...)) {
        std::vector<limiter_config> parts;
        std::apply([&](auto const&... o) { (parts.emplace_back(o), ...); }, current);
        auto const parsed = parse_like(text, all_options(std::move(parts)));
        if (!parsed)
            return std::nullopt;
        auto part = std::get<all_options>(parsed->options).parts.begin();
        return std::tuple<Options...>{std::get<Options>((part++)->options)...};
    } else {
        return std::nullopt;
    }
}

[[nodiscard]] std::string not_found(std::string_view name);
[[nodiscard]] std::string not_of_keys(bool is_keyed);
[[nodiscard]] std::string other_kind(std::string_view saved, std::string_view current);
[[nodiscard]] std::string wrong_numbers(std::string_view rule);
[[nodiscard]] std::string no_place();

/// Returns `t - d`, or the first instant if that is earlier.
[[nodiscard]] inline time_point earlier(time_point t, duration d) noexcept {
    return t < time_point::min() + d ? time_point::min() : t - d;
}

/// Appends the bytes of a key: of an integer the lowest first, without the highest zeros.
template <std::integral Key>
void add_key(number_writer& to, Key key) {
    std::array<char, sizeof(std::uint64_t)> bytes{};
    std::size_t size = 0;
    for (auto rest = static_cast<std::uint64_t>(key); rest != 0; rest >>= 8)
        bytes[size++] = static_cast<char>(static_cast<unsigned char>(rest));
    to.add_bytes({bytes.data(), size});
}
inline void add_key(number_writer& to, std::string_view key) {
    to.add_bytes(key);
}

/// Returns the key of these bytes, in a form in which a limiter looks it up; none if it is too large.
template <savable_key Key>
[[nodiscard]] auto key_of(std::string_view bytes) noexcept {
    if constexpr (std::same_as<Key, std::string>) {
        return std::optional(bytes);
    } else {
        std::uint64_t key = 0;
        for (std::size_t i = std::min(bytes.size(), sizeof key); i-- != 0;)
            key = key << 8 | static_cast<unsigned char>(bytes[i]);
        auto const narrow = static_cast<Key>(key);
        bool const fits = bytes.size() <= sizeof key && static_cast<std::uint64_t>(narrow) == key;
        return fits ? std::optional(narrow) : std::nullopt;
    }
}

/// Saves and restores the states inside limiters.
struct state_access {
    using kind = saved_state::kind;

    template <class Limiter>
    static void save_one(Limiter const& from, state_writer& to, std::string_view name) {
        std::string numbers;
        auto const rule = from.core().ask([&](auto const& room, time_point now) {
            number_writer writer(numbers);
            room.policy().save(writer, now);
            return room.policy().options();
        });
        to.limiter(to.wall(), false, name, rule_text(rule), numbers);
    }

    template <class Limiter>
    [[nodiscard]] static restored_state restore_one(Limiter& to, saved_state const& from,
                                                    std::string_view name) {
        using policy = typename Limiter::policy_type;
        auto const* const saved = from.find(name);
        if (!saved)
            return {.reason = not_found(name)};
        if (saved->is_keyed)
            return {.reason = not_of_keys(true)};
        auto const current = to.options();
        auto const text = rule_text(current);
        auto const options = text == saved->rule ? current : options_of(saved->rule, current);
        if (!options)
            return {.reason = other_kind(saved->rule, text)};
        policy before(*options);
        auto const now = clock_of<Limiter>::now();
        auto const then = earlier(now, from.away(*saved));
        before.begin(then);
        number_reader numbers(saved->numbers);
        if (!before.load(numbers, then) || !numbers.is_done())
            return {.reason = wrong_numbers(saved->rule)};
        to.core().modify_at(now, [&](auto& room, time_point t) {
            // Another thread may have changed the options meanwhile.
            bool const same = rule_text(room.policy().options()) == saved->rule;
            room.policy().resume(before, t, same);
            room.reprice();
        });
        return {.is_restored = true};
    }

    template <class Limiter>
    static void save_keyed(Limiter const& from, state_writer& to, std::string_view name) {
        std::string numbers;
        std::shared_ptr<typename Limiter::rule_type const> rule;
        time_point first;
        auto const wall = to.wall();
        from.all().shards.first().core->ask([&](auto const& room, time_point now) {
            first = now;
            room.see_unused([&](auto const& its_rule, auto const& state) {
                rule = its_rule;
                number_writer writer(numbers);
                rule->save(state, writer, now);
            });
        });
        to.limiter(wall, true, name, rule_text(rule->options()), numbers);
        from.each([&](auto& core) { save_shard(core, to, first, rule); });
    }

    template <class Limiter>
    [[nodiscard]] static restored_state restore_keyed(Limiter& to, saved_state const& from,
                                                      std::string_view name) {
        auto const* const saved = from.find(name);
        if (!saved)
            return {.reason = not_found(name)};
        if (!saved->is_keyed)
            return {.dropped = saved->keys, .reason = not_of_keys(false)};
        keys_of_file<Limiter> work(to, *saved, from.away(*saved));
        if (!work.use_rule(saved->rule))
            return {.dropped = saved->keys, .reason = other_kind(saved->rule, work.current_text())};
        if (!work.restore_unused())
            return {.dropped = saved->keys, .reason = wrong_numbers(saved->rule)};
        auto rest = saved->records;
        while (auto const next = saved_state::next_record(rest))
            work.add(*next);
        return work.result();
    }

private:
    static constexpr std::size_t keys_at_a_time = 256;
    static constexpr std::size_t bytes_at_a_time = 64 * 1024;

    // The host of a limiter, for its clock.
    template <class Limiter>
    using clock_of = asio_host<typename Limiter::executor_type, typename Limiter::timer_type>;

    // Writes the keys of one shard, some pages at a time: each time under the lock, and then outside it.
    template <class Core, class Rule>
    static void save_shard(Core& core, state_writer& to, time_point first,
                           std::shared_ptr<Rule const> const& rule) {
        std::string batch;
        std::string content;
        std::uint64_t page = 0;
        bool is_first = true;
        do {
            batch.clear();
            batch.reserve(bytes_at_a_time);
            std::uint64_t records = 0;
            auto const add = [&](kind what, auto fill) {
                content.assign(1, static_cast<char>(what));
                number_writer writer(content);
                fill(writer);
                number_writer(batch).add_bytes(content);
                ++records;
            };
            core.ask([&](auto const& room, time_point now) {
                add(kind::time, [&](number_writer& w) { w.add_age(first, now); });
                auto const add_key_of = [&](auto const& key, auto const& its_rule, auto const& s) {
                    bool const is_common = its_rule == rule;
                    add(is_common ? kind::key : kind::key_of_rule, [&](number_writer& w) {
                        if (!is_common)
                            w.add_bytes(rule_text(its_rule->options()));
                        add_key(w, key);
                        its_rule->save(s, w, now);
                    });
                };
                if (std::exchange(is_first, false))
                    room.see_shared([&](auto const& its_rule, auto const& s) {
                        if (its_rule == rule)
                            add(kind::shared, [&](number_writer& w) { its_rule->save(s, w, now); });
                    });
                do
                    page = room.each_used(page, now, add_key_of);
                while (page != 0 && records < keys_at_a_time - 32 &&
                       batch.size() < bytes_at_a_time);
            });
            if (records > 1)
                to.add_records(batch, records);
        } while (page != 0);
    }

    // Restores the keys of one limiter.
    template <class Limiter>
    class keys_of_file {
        using rule_type = typename Limiter::rule_type;
        using shared_rule = std::shared_ptr<rule_type const>;
        using state = typename rule_type::state_type;
        using key_type = typename Limiter::key_type;

    public:
        keys_of_file(Limiter& to, saved_state::saved_limiter const& saved, duration away)
            : to_(to),
              saved_(saved),
              away_(away),
              now_(clock_of<Limiter>::now()),
              then_(at(duration::zero())) {}

        [[nodiscard]] std::string const& current_text() { return text_of(to_.all().rule.value()); }
        // Makes the rule of the following keys. Returns false if it is of another kind.
        [[nodiscard]] bool use_rule(std::string_view text) {
            if (saved_rule_ && text == saved_text_)
                return true;
            saved_text_ = text;
            saved_rule_ = nullptr;
            auto const current = to_.options();
            auto const options =
                rule_text(current) == text ? std::optional(current) : options_of(text, current);
            if (options)
                saved_rule_ = std::make_shared<rule_type const>(*options);
            return saved_rule_ != nullptr;
        }

        // Returns false, and changes nothing, if the numbers are wrong.
        [[nodiscard]] bool restore_unused() {
            if (!loaded(saved_.numbers))
                return false;
            to_.each([&](auto& core) {
                auto before = loaded(saved_.numbers);
                core.modify_at(now_, [&](auto& room, time_point t) {
                    room.change_unused([&](rule_type const& rule, state& s) {
                        bool const same = rule_text(rule.options()) == saved_text_;
                        resume(rule, s, *saved_rule_, *before, t, same);
                    });
                });
            });
            result_.is_restored = true;
            return true;
        }

        void add(saved_state::record const& r) {
            number_reader from(r.content);
            if (r.what == kind::time) {
                then_ = at(std::min(duration(from.next_as<std::int64_t>()), saved_.took));
                return;
            }
            if (r.what == kind::shared)
                return restore_shared(from.rest());
            auto const rule = r.what == kind::key_of_rule ? from.next_bytes() : saved_.rule;
            auto const key = key_of<key_type>(from.next_bytes());
            if (from.failed() || !key)
                return drop(wrong_numbers(rule));
            if (!use_rule(rule))
                return drop(other_kind(rule, current_text()));
            auto before = loaded(from.rest());
            if (!before)
                return drop(wrong_numbers(rule));
            auto const who = to_.look_up(*key);
            bool has_place = false;
            to_.all().shards.own_core_for(who.hash).modify_at(now_, [&](auto& room, time_point t) {
                has_place = room.change_state(who, t, [&](shared_rule const& its, state& s) {
                    resume(*its, s, *saved_rule_, *before, t, text_of(its) == saved_text_);
                });
            });
            if (has_place)
                ++result_.keys;
            else
                drop(no_place());
        }

        [[nodiscard]] restored_state result() && { return std::move(result_); }
        [[nodiscard]] restored_state& result() & { return result_; }

    private:
        // The instant at which a state was saved, `since_first` after the first one.
        [[nodiscard]] time_point at(duration since_first) const noexcept {
            return earlier(now_, away_ + (saved_.took - since_first));
        }
        [[nodiscard]] std::optional<state> loaded(std::string_view numbers) const {
            auto s = saved_rule_->begin(then_);
            number_reader from(numbers);
            if (!saved_rule_->load(s, from, then_) || !from.is_done())
                return std::nullopt;
            return s;
        }
        void restore_shared(std::string_view numbers) {
            auto before = use_rule(saved_.rule) ? loaded(numbers) : std::nullopt;
            if (!before || !to_.all().shards.has_shared())
                return;
            to_.all().shards.all().back().core->modify_at(now_, [&](auto& room, time_point t) {
                room.change_shared(t, [&](shared_rule const& its, state& s) {
                    resume(*its, s, *saved_rule_, *before, t, text_of(its) == saved_text_);
                });
            });
        }
        // The text of a rule is made once, while the rule is the same as before.
        [[nodiscard]] std::string const& text_of(shared_rule const& rule) {
            if (rule != known_rule_) {
                known_rule_ = rule;
                known_text_ = rule_text(rule->options());
            }
            return known_text_;
        }
        void drop(std::string reason) {
            ++result_.dropped;
            if (result_.reason.empty())
                result_.reason = std::move(reason);
        }

        Limiter& to_;
        saved_state::saved_limiter const& saved_;
        duration const away_;
        time_point const now_;
        time_point then_;
        std::string_view saved_text_;
        shared_rule saved_rule_;
        shared_rule known_rule_;
        std::string known_text_;
        restored_state result_;
    };
};

}  // namespace detail

/// Saves the state of a limiter under a name, so that a later process can continue from it: see `restore`.
///
/// `save` writes what the rule still counts. Permits in use are not saved, because they end with their holders: of seats,
/// only adaptive ones have a state. Waiting requests, statistics and pauses are not saved. Takes the lock once.
///
/// The names in a file must differ.
///
/// @throws std::bad_alloc and all that the sink of `to` throws
template <savable_policy Policy, class Executor, class Timer, class Queue>
void save(basic_limiter<Policy, Executor, Timer, Queue> const& from, state_writer& to,
          std::string_view name) {
    detail::state_access::save_one(from, to, name);
}

/// Saves the states of all keys that differ from the state of an unused key, as the other `save`.
///
/// A lock is held for at most 256 keys at a time, and not while the sink is called. Each key is saved as it was at an
/// instant during the call. With the keys of other types than integers and `std::string` it does not exist.
///
/// @throws std::bad_alloc and all that the sink of `to` throws
template <detail::savable_key Key, class Policy, class Executor, class Timer, class Hash,
          class Queue>
    requires savable_rule<policy::rule_of_t<Policy>>
void save(basic_keyed<Key, Policy, Executor, Timer, Hash, Queue> const& from, state_writer& to,
          std::string_view name) {
    detail::state_access::save_keyed(from, to, name);
}

/// Continues from the state that was saved under a name, as if no request had come in the meantime.
///
/// If the limiter has other options of the same kind, it continues as after `configure`. If the kind is another one,
/// nothing changes, and the result has the reason. Call it before the first request: grants that were made before are
/// forgotten, but permits in use stay valid.
///
/// @throws std::bad_alloc
template <savable_policy Policy, class Executor, class Timer, class Queue>
[[nodiscard]] restored_state restore(basic_limiter<Policy, Executor, Timer, Queue>& to,
                                     saved_state const& from, std::string_view name) {
    return detail::state_access::restore_one(to, from, name);
}

/// Continues from the states that were saved under a name, as the other `restore`.
///
/// Keys are restored in the order of the file, until the limiter has no place for another one; the result counts the
/// others. A key with its own options continues as after `configure` of that key.
///
/// @throws std::bad_alloc; then some keys are restored
template <detail::savable_key Key, class Policy, class Executor, class Timer, class Hash,
          class Queue>
    requires savable_rule<policy::rule_of_t<Policy>>
[[nodiscard]] restored_state restore(basic_keyed<Key, Policy, Executor, Timer, Hash, Queue>& to,
                                     saved_state const& from, std::string_view name) {
    return detail::state_access::restore_keyed(to, from, name);
}

}  // namespace weir::inline v0_2
