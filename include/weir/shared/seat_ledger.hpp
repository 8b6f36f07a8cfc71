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
/// the clock of the store. It is a line of holders, in the order of their arrival, with the holders of seats.
class seat_ledger {
public:
    using question = policy::fed_seats::question;
    using answer = policy::fed_seats::answer;
    using notice = policy::fed_seats::notice;

    /// Applies a question. Appends the messages for other holders to `notices`.
    answer hold(question const& q, std::int64_t now, std::vector<notice>& notices);
    /// Applies a question for holders without messages.
    answer hold(question const& q, std::int64_t now) {
        std::vector<notice> none;
        return hold(q, now, none);
    }

    /// Returns how many seats are held.
    [[nodiscard]] amount held(std::int64_t now) const noexcept;
    /// Returns how many holders wait in the line.
    [[nodiscard]] amount waiting(std::int64_t now) const noexcept;
    /// Returns when the last lease ends, 0 if no seats are held.
    [[nodiscard]] std::int64_t last_end() const noexcept;

    /// Returns the ledger as text: the last fencing token, and a line per holder with its id, the number of its seats,
    /// its fencing token, its end, the number of its last question, the number of seats that it waits for, and its
    /// channel.
    [[nodiscard]] std::string text() const;
    /// Returns the name of a holder in that text.
    [[nodiscard]] static std::string name_of(policy::fed_seats::holder_id const& who);
    /// Returns a channel as that text has it.
    [[nodiscard]] static std::string name_of_channel(std::uint64_t channel);
    /// Parses the result of `text`; `nullopt` if it is not a ledger.
    [[nodiscard]] static std::optional<seat_ledger> parse(std::string_view text);

    bool operator==(seat_ledger const&) const = default;

private:
    struct place {
        policy::fed_seats::holder_id holder{};
        amount held = 0;
        std::int64_t fence = 0;
        std::int64_t until = 0;
        std::uint64_t number = 0;
        amount wants = 0;  // in all; 0: it does not wait
        std::uint64_t channel = 0;

        bool operator==(place const&) const = default;
    };
    using places = std::vector<place>;

    void tidy(std::int64_t lease, std::int64_t now);
    places::iterator find(policy::fed_seats::holder_id const& who) noexcept;
    bool apply(question const& q, std::int64_t now);
    void renew_fence(place& p, std::int64_t now) noexcept;

    places line_;
    std::int64_t fence_ = 0;
};

}  // namespace weir::inline v0_2::detail
