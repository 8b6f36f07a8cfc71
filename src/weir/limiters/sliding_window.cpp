#include <weir/sliding_window.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::sliding_window,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
