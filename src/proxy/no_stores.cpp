// Replaces store.cpp in `weir-proxy-without-stores`.
#include "store.hpp"

#include <fmt/format.h>

namespace proxy {

store make_store(net::executor const&, std::string const& what, std::string const&) {
    throw tool::usage_error(
        fmt::format("{} cannot be used: this weir-proxy was built without stores", what));
}

}  // namespace proxy
