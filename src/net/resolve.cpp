#include "resolve.hpp"

namespace net {

std::vector<tcp::endpoint> resolve(std::string const& host, std::string const& port,
                                   error_code& ec) {
    asio::io_context context;
    tcp::resolver resolver(context);
    auto const found = resolver.resolve(host, port, ec);
    if (!ec && found.empty())
        ec = asio::error::host_not_found;
    return {found.begin(), found.end()};
}

bool leads_back(tcp::endpoint const& to, tcp::endpoint const& at) {
    if (to.port() != at.port())
        return false;
    bool const anywhere = at.address().is_unspecified();
    return to.address() == at.address() || to.address().is_unspecified() ||
           (anywhere && to.address().is_loopback());
}

}  // namespace net
