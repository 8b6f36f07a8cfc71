#include <weir/leaky_bucket.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::leaky_bucket,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
