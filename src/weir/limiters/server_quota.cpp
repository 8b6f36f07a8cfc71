#include <weir/server_quota.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::server_quota,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
