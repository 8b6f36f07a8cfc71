#include <weir/calendar_window.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::calendar_window,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
