#pragma once

#include <weir/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::inline v0_2::policy {

/// Combines the tickets of several parts into one: a row for each permit in use holds the ticket of each part.
class ticket_table {
public:
    /// The ticket of a permit without a row, because memory was exhausted: all of its tickets are 0.
    static constexpr ticket lost = ~ticket{0};

    /// Makes a table of no parts, which is not needed.
    ticket_table() = default;
    explicit ticket_table(std::size_t parts) noexcept : parts_(parts) {}
    [[nodiscard]] bool is_needed() const noexcept { return parts_ != 0; }

    /// Returns whether no permit has a row.
    [[nodiscard]] bool empty() const noexcept { return used_ == 0; }

    /// The size of the heap memory.
    [[nodiscard]] std::size_t heap_bytes() const noexcept {
        return rows_.capacity() * sizeof(entry) + tickets_.capacity() * sizeof(ticket);
    }

    /// Adds a row for `n` permits, with tickets of 0. Returns its ticket, never 0; `lost` if memory is exhausted.
    [[nodiscard]] ticket add(amount n) noexcept;
    [[nodiscard]] ticket at(ticket t, std::size_t part) const noexcept {
        return is_row(t) ? tickets_[row(t) * parts_ + part] : 0;
    }
    void set(ticket t, std::size_t part, ticket own) noexcept {
        if (is_row(t))
            tickets_[row(t) * parts_ + part] = own;
    }
    /// Adds `n` permits to a row; `drop` removes them. A row ends with the last of its permits.
    void keep(ticket t, amount n) noexcept {
        if (is_row(t))
            rows_[row(t)].count += n;
    }
    void drop(ticket t, amount n) noexcept;
    /// Returns the row in which the ticket of this part is `own`, 0 if there is none. Takes time in proportion to the
    /// number of permits in use.
    [[nodiscard]] ticket find(ticket own, std::size_t part) const noexcept;

private:
    struct entry {
        amount count = 0;
        std::uint32_t turn = 0;  // distinguishes the permits that have used this row
        std::uint32_t next = 0;  // the next free row plus 1; 0 if there is none
    };

    [[nodiscard]] static bool is_row(ticket t) noexcept { return t != 0 && t != lost; }
    [[nodiscard]] static std::size_t row(ticket t) noexcept {
        return static_cast<std::uint32_t>(t) - 1U;
    }
    [[nodiscard]] ticket named(std::size_t r) const noexcept {
        return ticket{rows_[r].turn} << 32 | (r + 1);
    }

    std::size_t parts_ = 0;
    std::vector<entry> rows_;
    std::vector<ticket> tickets_;
    std::uint32_t free_ = 0;
    std::size_t used_ = 0;
};

}  // namespace weir::inline v0_2::policy
