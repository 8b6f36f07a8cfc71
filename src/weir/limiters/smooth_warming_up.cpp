#include <weir/smooth_warming_up.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::smooth_warming_up,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
