#include <weir/adaptive_rate.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::adaptive_rate,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
