#include <weir/adaptive_seats.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::adaptive,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
