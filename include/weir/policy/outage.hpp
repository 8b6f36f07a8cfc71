#pragma once

#include <weir/policy/backoff.hpp>
#include <weir/time.hpp>

#include <chrono>
#include <cstdint>

namespace weir::inline v0_2 {

/// How a question to a store failed.
enum class failure_kind : std::uint8_t {
    refused,   ///< the server rejected it, or the connection to it, and may accept it later
    no_reply,  ///< the server did not reply
    unsent,  ///< the store did not send it, because it waits for the server, or before the next attempt
    misconfigured,  ///< the server rejects it until an option of the store or of the server changes
};

namespace policy {

/// Decides from the results of questions whether a store is unavailable, and when to ask it again.
///
/// An outage begins with the fifth refused question, or with a second of silence, since the last reply. Silence counts
/// while a question is in progress, and in the pauses between questions, but not while nothing is asked. A question
/// that was not sent is silence, but not a refusal. Every reply ends the outage, a late one, too.
///
/// A question that is misconfigured ends the wait at once, and begins no outage.
///
/// Pauses: after a refusal, and after every failure in an outage, by the options; where a store knows the time of its
/// next attempt, until then instead. So there is one back-off, and not two in series. Otherwise the next question may
/// follow a failure at once, but is at least 10 ms later than the last one.
///
/// Memory: constant.
class outage {
public:
    enum class state : std::uint8_t { none, unavailable, misconfigured };

    explicit outage(backoff_options const& retry) noexcept : backoff_(retry) {}

    /// Applies `retry` to the next pauses.
    void use(backoff_options const& retry) noexcept { backoff_.use(retry); }

    /// Records that a question is asked.
    void asks(time_point now) noexcept;
    /// Records a reply to this or an earlier question.
    void replied() noexcept;
    /// Records that the question failed. `again_in` is the time until the next attempt of the store; 0 if it knows none.
    void failed(failure_kind why, duration again_in, time_point now) noexcept;
    /// Records that the store is misconfigured, by an earlier question.
    void misconfigured(duration again_in, time_point now) noexcept;
    /// Begins an outage if there was a second of silence. Returns whether it began.
    bool elapse(time_point now) noexcept;

    [[nodiscard]] state current() const noexcept { return state_; }
    /// Returns whether a question has failed since the last reply.
    [[nodiscard]] bool is_failing() const noexcept {
        return failures_ != 0 || state_ != state::none;
    }
    /// Returns from when on the next question may be asked.
    [[nodiscard]] time_point retry_at() const noexcept { return retry_at_; }
    /// Returns when an outage will begin if there is no reply; `never` if that needs another question.
    [[nodiscard]] time_point begins_at() const noexcept;

private:
    static constexpr std::uint32_t refusals_of_outage = 5;
    static constexpr duration silence_of_outage = std::chrono::seconds(1);
    static constexpr duration shortest_pause = std::chrono::milliseconds(10);
    static constexpr duration pause_of_misconfigured = std::chrono::seconds(5);

    [[nodiscard]] time_point idle_from() const noexcept;

    backoff backoff_;
    state state_ = state::none;
    std::uint32_t failures_ = 0;
    std::uint32_t refusals_ = 0;
    bool is_asking_ = false;
    time_point asked_{};
    time_point ended_{};
    time_point silent_since_{};  // later by the times without a question or a pause
    time_point retry_at_ = time_point::min();
};

}  // namespace policy
}  // namespace weir::inline v0_2
