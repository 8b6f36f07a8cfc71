#include <weir/smooth_bursty.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::smooth_bursty,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
