#include <weir/rate_tree.hpp>

WEIR_INSTANTIATE_TREE(, weir::basic_steady_timer<boost::asio::any_io_executor>)
