#include <weir/detail/keyed/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/seats.hpp>
#include <weir/policy/token_bucket.hpp>

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <string>
#include <string_view>  // NOLINT(misc-include-cleaner): arguments of macros

using timer = weir::basic_steady_timer<boost::asio::any_io_executor>;

WEIR_INSTANTIATE_KEYED(, std::uint64_t, weir::policy::seats_rule, timer)
WEIR_INSTANTIATE_KEYED(, std::uint64_t, weir::policy::token_bucket_rule, timer)
WEIR_INSTANTIATE_KEYED(, std::string, weir::policy::seats_rule, timer)
WEIR_INSTANTIATE_KEYED_LOOKUP(, std::string, weir::policy::seats_rule, timer, std::string_view)
WEIR_INSTANTIATE_KEYED(, std::string, weir::policy::token_bucket_rule, timer)
WEIR_INSTANTIATE_KEYED_LOOKUP(, std::string, weir::policy::token_bucket_rule, timer,
                              std::string_view)
