#pragma once

#include <weir/detail/tree/slots.hpp>
#include <weir/policy/rate_tree.hpp>
#include <weir/rate_tree.hpp>
#include <weir/saved_file.hpp>
#include <weir/saved_numbers.hpp>
#include <weir/saved_state.hpp>
#include <weir/time.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weir::inline v0_2 {

namespace detail {

/// Saves and restores the states of the nodes of a tree.
struct tree_state_access {
    template <class Executor, class Timer>
    static void save(basic_rate_tree<Executor, Timer> const& from, state_writer& to,
                     std::string_view name) {
        while (!try_to_save(from, to, name)) {}
    }

    template <class Executor, class Timer>
    [[nodiscard]] static restored_state restore(basic_rate_tree<Executor, Timer>& to,
                                                saved_state const& from, std::string_view name) {
        auto const* const saved = from.find(name);
        if (!saved)
            return {.reason = not_found(name)};
        auto const now = to.clock_now();
        tree_of_file before(*saved, earlier(now, from.away(*saved)));
        if (!before.nodes())
            return before.result();
        try {
            to.core().modify_at(now, [&](tree_room& room, time_point t) {
                before.add(room.restore(*before.nodes(), saved->rule, t));
            });
        } catch (std::invalid_argument const& e) {
            before.refuse(e.what());
        }
        return before.result();
    }

private:
    using kind = saved_state::kind;

    // The nodes of a tree, and their states, in the form of the file.
    struct states {
        std::string named;  // of nodes that are not keys
        std::string keys;   // records
        std::uint64_t count = 0;

        template <class F>
        void add(tree_path const& path, bool is_a_key, F const& state) {
            std::string names;
            for (auto const name : path)
                number_writer(names).add_bytes(name);
            std::string content(1, static_cast<char>(kind::key));
            number_writer key(content);
            number_writer of_options(named);
            auto& to = is_a_key ? key : of_options;
            to.add_bytes(names);
            state(to);
            if (!is_a_key)
                return;
            number_writer(keys).add_bytes(content);
            ++count;
        }
    };

    // A tree with the saved options and states.
    class tree_of_file {
    public:
        tree_of_file(saved_state::saved_limiter const& saved, time_point then);

        /// Returns null if the file has no such tree.
        [[nodiscard]] tree_slots* nodes() const noexcept { return nodes_.get(); }
        void add(tree_slots::resumed const& r);
        void refuse(std::string reason);
        [[nodiscard]] restored_state const& result() const noexcept { return result_; }

    private:
        [[nodiscard]] std::string read(time_point then);
        [[nodiscard]] bool read_named(time_point then);
        [[nodiscard]] bool read_keys(time_point then);
        [[nodiscard]] bool read_node(std::string_view path, bool is_a_key, number_reader& from,
                                     time_point then);

        saved_state::saved_limiter const& saved_;
        std::unique_ptr<tree_slots> nodes_;
        restored_state result_;
    };

    // Returns false, and writes nothing, if the options were changed meanwhile.
    template <class Limiter>
    [[nodiscard]] static bool try_to_save(Limiter const& from, state_writer& to,
                                          std::string_view name) {
        auto const wall = to.wall();
        states all;
        rate_tree_options rule;
        time_point first;
        std::uint64_t changes = 0;
        tree_slots::progress at;
        from.core().ask([&](tree_room const& room, time_point now) {
            rule = room.options();
            first = now;
            room.see_slots([&](tree_slots const& slots) {
                changes = slots.changes();
                at = slots.begin_visit();
            });
        });
        bool is_same = true;
        while (is_same && !at.is_done())
            from.core().ask([&](tree_room const& room, time_point now) {
                room.see_slots([&](tree_slots const& slots) {
                    is_same = slots.changes() == changes;
                    if (is_same)
                        slots.save_some(at, first, now,
                                        [&](auto const&... node) { all.add(node...); });
                });
            });
        if (is_same) {
            to.limiter(wall, true, name, to_string(rule), all.named);
            to.add_records(all.keys, all.count);
        }
        return is_same;
    }
};

}  // namespace detail

/// Saves what the nodes of a tree of rates have used, under a name, so that a later process can continue from it: see
/// `restore`.
///
/// Nodes that are as if they were never used are not saved, nor are permits in use, waiting requests and their turns,
/// statistics and pauses. The lock of the tree is held for at most 256 nodes at a time, and not while the sink is called.
/// A node is saved before the node above it: of a request that is granted meanwhile, the permits count at the root, but
/// perhaps not at its leaf. If the options are changed meanwhile, it begins again.
///
/// Memory: the saved states, until they are written.
///
/// @throws std::bad_alloc and all that the sink of `to` throws
template <class Executor, class Timer>
void save(basic_rate_tree<Executor, Timer> const& from, state_writer& to, std::string_view name) {
    detail::tree_state_access::save(from, to, name);
}

/// Continues from the states that were saved under a name, as if no request had come in the meantime.
///
/// If the tree has other options, it continues as after `configure`: a node with the same path keeps what it had saved,
/// and a new one has saved nothing. If they cannot be changed so, or if the saved states are wrong, nothing changes, and
/// the result has the reason. Keys are restored until the tree has no place for another one; the result counts the
/// others. Call it before the first request: grants that were made before are forgotten, but permits in use stay valid.
/// Takes the lock of the tree once.
///
/// @throws std::bad_alloc; then nothing has changed
template <class Executor, class Timer>
[[nodiscard]] restored_state restore(basic_rate_tree<Executor, Timer>& to, saved_state const& from,
                                     std::string_view name) {
    return detail::tree_state_access::restore(to, from, name);
}

}  // namespace weir::inline v0_2
