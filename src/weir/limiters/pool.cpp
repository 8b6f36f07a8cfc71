#include <weir/detail/compiled.hpp>
#include <weir/limiter.hpp>
#include <weir/policy/stock.hpp>

#include <boost/asio/any_io_executor.hpp>

WEIR_INSTANTIATE_LIMITER(, weir::policy::stock,
                         weir::basic_steady_timer<boost::asio::any_io_executor>)
