#include <weir/any_limiter.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::any,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
