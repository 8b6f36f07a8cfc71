#include <weir/fixed_window.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::fixed_window,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
