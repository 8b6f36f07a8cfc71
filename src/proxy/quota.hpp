#pragma once

#include <weir/amount.hpp>
#include <weir/policy/limiter_config.hpp>

#include <atomic>
#include <cstdint>
#include <list>
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
struct policy_text {
    policy_text(std::string_view name, std::vector<quota> const& quotas);

    std::string name;                // as `quoted`
    std::vector<std::string> items;  // one for each part of the rule, without a partition
    weir::amount most;               // the least of them
    bool has_window = false;         // of some part
};

/// What is told of the rule of a limit. One thread may change it while others read.
class told_rule {
public:
    told_rule(std::string name, weir::limiter_config const& rule);

    void change(weir::limiter_config const& rule);
    /// It stays where it is for as long as this lives.
    [[nodiscard]] policy_text const& text() const noexcept { return *text_.load(); }

private:
    struct version {
        std::vector<quota> quotas;
        policy_text text;
    };

    std::string const name_;
    std::mutex changes_;
    std::list<version> versions_;  // each once: those who read may still be at an older one
    std::atomic<policy_text const*> text_;
};

}  // namespace proxy
