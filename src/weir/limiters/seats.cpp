#include <weir/seats.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::seats,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
