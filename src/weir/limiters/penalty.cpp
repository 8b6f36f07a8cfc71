#include <weir/penalty.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::penalty,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
