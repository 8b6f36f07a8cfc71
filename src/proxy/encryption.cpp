#include "encryption.hpp"

#include "tool/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <variant>  // NOLINT(misc-include-cleaner): std::get

namespace proxy {

server_encryptions encryptions_of(config::upstream const& u) {
    if (std::ranges::none_of(u.servers, &config::server::https))
        return server_encryptions(u.servers.size());
    tls::client_settings s{.authorities = u.tls.authorities, .is_insecure = u.tls.insecure};
    if (auto const& mine = u.tls.certificate)
        s.certificate = {mine->certificate, mine->key};
    std::vector<std::string> names;
    for (auto const& one : u.servers)
        names.push_back(u.tls.server_name.empty() ? std::get<config::tcp_address>(one.address).host
                                                  : u.tls.server_name);
    try {
        return tls::make_clients(s, names);
    } catch (std::runtime_error const& wrong) {
        throw tool::usage_error(fmt::format("upstream `{}`: {}", u.name, wrong.what()));
    }
}

std::vector<std::string> warnings_of_encryptions(config::configuration const& c) {
    std::vector<std::string> lines;
    for (auto const& u : c.upstreams)
        if (u.tls.insecure)
            lines.push_back(fmt::format("upstream `{}`: with `insecure` the proxy accepts any "
                                        "certificate, so an attacker in "
                                        "the network can read and change requests and responses",
                                        u.name));
    return lines;
}

}  // namespace proxy
