#pragma once

#include <weir/policy/calendar_cursor.hpp>
#include <weir/time.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::inline v0_2 {
namespace detail {

struct state_access;       // saved_state.hpp
struct tree_state_access;  // saved_tree.hpp

}  // namespace detail

/// Writes the states of limiters in a form that `saved_state` reads, for instance in a file: see `save`.
///
/// Use it on one thread at a time. The format is stable: docs/reference/saved-state.md.
class state_writer {
public:
    /// Receives the bytes in order, in parts of at most 64 KiB and some bytes.
    using sink = std::function<void(std::string_view)>;

    /// Begins a file. `clock` is the wall clock; null for `std::chrono::system_clock`.
    ///
    /// @throws all that `to` throws
    explicit state_writer(sink to, wall_clock clock = nullptr);
    state_writer(state_writer const&) = delete;
    state_writer& operator=(state_writer const&) = delete;

    /// Adds a text of the program under a name.
    ///
    /// @throws std::bad_alloc and all that the sink throws
    void note(std::string_view name, std::string_view text);

    /// Ends the file. Without this call, `saved_state` rejects the file as incomplete.
    ///
    /// @throws all that the sink throws
    void finish();

private:
    friend detail::state_access;
    friend detail::tree_state_access;

    [[nodiscard]] std::uint64_t wall() const noexcept;
    void limiter(std::uint64_t wall, bool keyed, std::string_view name, std::string_view rule,
                 std::string_view numbers);
    void add_record(std::string_view content);
    void add_records(std::string_view records, std::uint64_t count);
    void put(std::string_view payload);
    void put_block();

    sink to_;
    wall_clock clock_;
    std::string block_;
    std::uint64_t records_ = 0;
};

/// The error of a file that is not a whole and valid saved state.
class bad_saved_state : public std::runtime_error {
public:
    /// An error at a position in the file. `what()` has both.
    bad_saved_state(std::uint64_t byte, std::string const& reason);

    /// Returns the position in the file.
    [[nodiscard]] std::uint64_t byte() const noexcept { return byte_; }

private:
    std::uint64_t byte_;
};

/// States of limiters that `state_writer` wrote.
///
/// The time away is the difference of the wall clock between the saving and `restore`: 0 if it is negative, and at most
/// 366 days. `restore` credits it, as if no request had come in the meantime.
///
/// Memory: the file. Const members are thread-safe.
class saved_state {
public:
    /// Checks a whole file. `clock` is the wall clock; null for `std::chrono::system_clock`.
    ///
    /// @throws bad_saved_state if the version is unknown, if the file is incomplete or damaged, or if it was saved more
    ///   than a day later than the wall clock shows
    explicit saved_state(std::string file, wall_clock clock = nullptr);
    saved_state(saved_state const&) = delete;
    saved_state& operator=(saved_state const&) = delete;

    /// Returns the names of the limiters, in the order of the file.
    [[nodiscard]] std::vector<std::string_view> names() const;
    /// Returns the text under a name, if there is one.
    [[nodiscard]] std::optional<std::string_view> note(std::string_view name) const;

private:
    friend detail::state_access;
    friend detail::tree_state_access;
    friend state_writer;

    enum class kind : std::uint8_t { end, note, limiter, time, key, key_of_rule, shared };
    struct record {
        kind what;
        std::string_view content;
    };
    struct saved_limiter {
        std::string_view name;
        std::string_view rule;
        std::string_view numbers;
        bool is_keyed = false;
        std::uint64_t wall = 0;      // time of the first state
        duration took{};             // from the first state to the last one
        std::string_view records{};  // of its keys
        std::uint64_t keys = 0;
    };

    void take_apart();
    void index();
    [[nodiscard]] std::uint64_t byte_of(std::string_view rest) const noexcept;
    [[nodiscard]] saved_limiter const* find(std::string_view name) const noexcept;
    // The time since the last state of a limiter was saved.
    [[nodiscard]] duration away(saved_limiter const& l) const noexcept;
    [[nodiscard]] static std::optional<record> next_record(std::string_view& rest) noexcept;

    std::string file_;  // only the contents of the blocks, once they are checked
    std::vector<std::pair<std::size_t, std::uint64_t>>
        blocks_;  // position here, bytes that were removed
    wall_clock clock_;
    std::vector<saved_limiter> limiters_;
    std::vector<std::pair<std::string_view, std::string_view>> notes_;
};

/// The result of `restore`.
struct restored_state {
    /// Whether the state of the limiter, or of its keys, was restored. Otherwise nothing has changed.
    bool is_restored = false;
    /// The number of restored keys; 0 for a limiter without keys.
    std::uint64_t keys = 0;
    /// The number of keys that were not restored.
    std::uint64_t dropped = 0;
    /// Why something was not restored: the first reason in a sentence without a full stop, or empty.
    std::string reason = {};
};

}  // namespace weir::inline v0_2
