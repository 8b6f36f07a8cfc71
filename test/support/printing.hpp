#pragma once

#include <weir/error.hpp>
#include <weir/time.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <ostream>

// Makes Boost.Test print types without operator<<.
namespace boost::test_tools::tt_detail {

template <class Rep, class Period>
struct print_log_value<std::chrono::duration<Rep, Period>> {
    void operator()(std::ostream& out, std::chrono::duration<Rep, Period> d) const {
        out << std::chrono::nanoseconds(d).count() << " ns";
    }
};

template <class Clock, class Duration>
struct print_log_value<std::chrono::time_point<Clock, Duration>> {
    void operator()(std::ostream& out, std::chrono::time_point<Clock, Duration> t) const {
        out << "at " << std::chrono::nanoseconds(t.time_since_epoch()).count() << " ns";
    }
};

template <class T>
struct print_log_value<std::optional<T>> {
    void operator()(std::ostream& out, std::optional<T> const& value) const {
        if (value)
            print_log_value<T>()(out, *value);
        else
            out << "nothing";
    }
};

template <>
struct print_log_value<std::nullopt_t> {
    void operator()(std::ostream& out, std::nullopt_t) const { out << "nothing"; }
};

template <>
struct print_log_value<weir::errc> {
    void operator()(std::ostream& out, weir::errc e) const {
        out << weir::make_error_code(e).message();
    }
};

}  // namespace boost::test_tools::tt_detail
