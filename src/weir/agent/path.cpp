#include "path.hpp"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/system_error.hpp>

#include <stdexcept>
#include <string>

namespace weir::inline v0_2::agent::detail {

void check_path(std::string_view where, std::string_view path) {
    auto const reject = [&](char const* why) {
        throw std::invalid_argument(std::string(where) + ": the path of the socket " + why);
    };
    if (path.empty())
        reject("is empty");
    if (path.find('\0') != path.npos)
        reject("contains a NUL");
    try {
        boost::asio::local::stream_protocol::endpoint const fits(path);
    } catch (boost::system::system_error const&) {
        reject("is longer than the system allows");
    }
}

}  // namespace weir::inline v0_2::agent::detail
