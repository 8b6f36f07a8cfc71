#include <weir/resting_seats.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::resting_seats,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
