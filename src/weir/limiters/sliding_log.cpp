#include <weir/sliding_log.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::sliding_log,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
