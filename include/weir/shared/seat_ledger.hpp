#pragma once

#include <weir/amount.hpp>
#include <weir/policy/fed_seats.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::inline v0_2::detail {

/// The seats of one name, as a store keeps them: the implementation of `store::async_hold`, at times in microseconds on
/// the clock of the store.
class seat_ledger {
public:
    using question = policy::fed_seats::question;
    using answer = policy::fed_seats::answer;

    answer hold(question const& q, std::int64_t now);

    /// Returns how many seats are held.
    [[nodiscard]] amount held(std::int64_t now) const noexcept;
    /// Returns when the last lease ends, 0 if no seats are held.
    [[nodiscard]] std::int64_t last_end() const noexcept;

    /// Returns the ledger as text: the last fencing token, and a line per holding with the holder, the number of its
    /// seats, its fencing token, its end, and the number of its last question.
    [[nodiscard]] std::string text() const;
    /// Returns the name of a holder in that text.
    [[nodiscard]] static std::string name_of(policy::fed_seats::holder_id const& who);
    /// Parses the result of `text`; `nullopt` if it is not a ledger.
    [[nodiscard]] static std::optional<seat_ledger> parse(std::string_view text);

    bool operator==(seat_ledger const&) const = default;

private:
    struct holding {
        policy::fed_seats::holder_id holder{};
        amount count = 0;
        std::int64_t fence = 0;
        std::int64_t until = 0;
        std::uint64_t number = 0;

        bool operator==(holding const&) const = default;
    };

    void tidy(std::int64_t lease, std::int64_t now);

    std::vector<holding> holdings_;
    std::int64_t fence_ = 0;
};

}  // namespace weir::inline v0_2::detail
