#pragma once

#include <weir/amount.hpp>
#include <weir/policy/limiter_config.hpp>

#include <boost/container/small_vector.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace proxy {

/// What a client is told of one rule: how much it may ask for, and in what time.
struct quota {
    weir::amount most = 0;
    std::int64_t seconds = 0;  // 0: there is no window
    bool at_a_time = false;    // it is about requests at a time

    friend bool operator==(quota const&, quota const&) = default;
};

/// Of each part of a rule. The window is in whole seconds, rounded up. Of a rule that saves up for bursts it is at least
/// the time in which all comes back that it can save, so that a client which keeps to it is not refused.
[[nodiscard]] std::vector<quota> quotas_of(weir::limiter_config const& rule);

/// A string of structured fields (RFC 9651), which is one of JSON, too. What may not stand there, and `%`, is written as
/// `%c3`.
[[nodiscard]] std::string quoted(std::string_view name);

/// A limit in the words of RateLimit-Policy.
struct policy {
    std::string_view name;                                 // as `quoted`
    boost::container::small_vector<quota, 4> quotas = {};  // one for each part of the rule

    [[nodiscard]] weir::amount most() const noexcept;  // the least of them
    [[nodiscard]] bool has_window() const noexcept;    // of some part
};

/// Appends an item of RateLimit-Policy, without a partition.
void append_item(std::string& out, std::string_view name, quota const& q);

/// The quotas of a limit's rule, which may change. Any thread may do anything.
class told_rule {
public:
    told_rule(std::string_view name, weir::limiter_config const& rule);

    /// Precondition: a rule of the same kind.
    void change(weir::limiter_config const& rule);
    /// That of one rule, without a lock. The name is good for as long as this lives.
    [[nodiscard]] policy now() const;

private:
    // Of a part of the rule: rules of one kind have the same parts.
    struct part {
        std::atomic<weir::amount> most = 0;
        std::atomic<std::int64_t> seconds = 0;
        std::atomic<bool> at_a_time = false;
    };

    std::string const name_;
    std::vector<part> parts_;
    std::atomic<std::uint64_t> version_ = 0;  // odd while parts are written
    std::mutex changes_;
};

}  // namespace proxy
