#pragma once

#include <weir/any_limiter.hpp>

#include "support/printing.hpp"
#include "support/virtual_limiters.hpp"
#include "support/visit.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

/// Reads and runs the test cases of other libraries.
namespace vectors {

using namespace support;
namespace json = boost::json;
using weir::amount;
using weir::duration;
using weir::errc;
using weir::limiter_config;
using weir::permit;
using any_limiter = weir::testing::limiter<weir::any_limiter>;
using vector = json::object;

// ---- Reading a case.

inline std::string text(json::object const& o, std::string_view key) {
    return std::string(o.at(key).as_string());
}
inline double real(json::object const& o, std::string_view key, double otherwise = 0) {
    auto const* const found = o.if_contains(key);
    return found ? found->to_number<double>() : otherwise;
}
inline std::int64_t whole(json::object const& o, std::string_view key, std::int64_t otherwise = 0) {
    auto const* const found = o.if_contains(key);
    return found ? found->to_number<std::int64_t>() : otherwise;
}
inline bool says(json::object const& o, std::string_view key, std::string_view value) {
    auto const* const found = o.if_contains(key);
    return found && found->is_string() && found->as_string() == value;
}

// Returns the instant `t` units of time after the start.
inline clock::time_point at(clock::time_point start, double t, duration unit) {
    return start + std::chrono::round<duration>(t * std::chrono::duration<double, std::nano>(unit));
}

// ---- The limiter of a case.

// A limiter and its callers.
class bench {
public:
    explicit bench(std::string const& config, std::int64_t queue_limit = 1024)
        : bench(config, weir::queue_options{.max_waiting = queue_limit}) {}
    bench(std::string const& config, weir::queue_options const& queueing)
        : limiter(context, limiter_config::parse(config), queueing) {}

    /// Requests permits without a wait; the granted ones are kept.
    weir::error_code ask(amount n) {
        weir::error_code ec;
        keep(limiter.try_enter(n, ec));
        return ec;
    }

    /// Makes a request that waits.
    visit& wait(std::string const& name, amount n, weir::patience patience = {}) {
        auto& guest = guests_[name];
        guest = std::make_unique<guest_type>();
        limiter.async_enter(
            n, patience,
            asio::bind_cancellation_slot(guest->signal.slot(), guest->request.callback()));
        settle(context);
        return guest->request;
    }
    [[nodiscard]] visit& guest(std::string const& name) { return guests_.at(name)->request; }
    void cancel(std::string const& name) {
        guests_.at(name)->signal.emit(asio::cancellation_type::all);
        settle(context);
    }

    /// Releases `n` of all granted permits.
    void release(amount n) {
        for (auto& [name, guest] : guests_) {
            if (guest->request.granted())
                keep(std::move(guest->request.seat()));
        }
        held_.split(n).leave();
        settle(context);
    }

    asio::io_context context;
    any_limiter limiter;

private:
    struct guest_type {
        visit request;
        asio::cancellation_signal signal;
    };

    void keep(permit granted) { held_.merge(std::move(granted)); }

    permit held_;
    std::map<std::string, std::unique_ptr<guest_type>> guests_;
};

json::array const& ops_of(vector const& v) {
    return v.at("ops").as_array();
}

}  // namespace vectors
