#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <dlfcn.h>
#include <netdb.h>

#include <cstdint>
#include <string_view>

// A host with two addresses, of which the first never responds: for one source file of a program, since it replaces
// the resolver of the system.

namespace support {

inline constexpr auto host_of_two = "two.addresses.invalid";
inline constexpr auto first_of_two = "127.0.0.2";
inline constexpr auto second_of_two = "127.0.0.1";

/// A reserved port of an address on which a socket listens whose queue is full: the network gives no response.
class black_hole {
public:
    black_hole(boost::asio::io_context& ctx, char const* address, std::uint16_t port)
        : hole_(ctx), full_(ctx) {
        hole_.open(boost::asio::ip::tcp::v4());
        hole_.set_option(boost::asio::ip::tcp::acceptor::reuse_address(true));
        hole_.bind({boost::asio::ip::make_address_v4(address), port});
        hole_.listen(0);
        full_.connect(hole_.local_endpoint());
    }

private:
    boost::asio::ip::tcp::acceptor hole_;
    boost::asio::ip::tcp::socket full_;
};

}  // namespace support

extern "C" int getaddrinfo(char const* host, char const* service, addrinfo const* hints,
                           addrinfo** found) {
    using function = int(char const*, char const*, addrinfo const*, addrinfo**);
    auto* const of_system = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (!host || host != std::string_view(support::host_of_two))
        return of_system(host, service, hints, found);
    if (int const failed = of_system(support::first_of_two, service, hints, found))
        return failed;
    addrinfo* last = *found;
    while (last->ai_next)
        last = last->ai_next;
    return of_system(support::second_of_two, service, hints, &last->ai_next);
}
