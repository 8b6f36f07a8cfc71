#include <weir/token_bucket.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::token_bucket,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
