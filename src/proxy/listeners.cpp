#include "listeners.hpp"

#include "net/resolve.hpp"
#include "tool/trouble.hpp"

#include <boost/system/system_error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

namespace proxy {

std::string why_not(net::error_code ec) {
    return ec == asio::error::address_in_use ? "address already in use" : ec.message();
}

net::endpoint endpoint_of(config::listen_address const& at) {
    auto const complain = [&](std::string_view why) {
        throw std::runtime_error(fmt::format("cannot listen on {}: {}", to_string(at), why));
    };
    if (auto const* const local = std::get_if<config::unix_address>(&at)) {
        auto const found = net::unix_endpoint(local->path);
        if (!found)
            complain("the path is too long");
        return *found;
    }
    auto const& tcp = std::get<config::tcp_address>(at);
    net::error_code ec;
    auto const found = net::resolve(tcp.host, std::to_string(tcp.port), ec);
    if (ec)
        complain(fmt::format("cannot resolve the host: {}", ec.message()));
    return found.front();
}

listeners::opening::~opening() {
    for (auto* const acceptor : opened_)
        listener_.close(*acceptor);
}

void listeners::opening::keep() {
    for (auto* const acceptor : std::exchange(opened_, {}))
        listener_.start(*acceptor);
}

bool listeners::is_open(std::string const& name) const {
    return std::ranges::any_of(all(), [&](auto const& acceptor) {
        return acceptor->name() == name;
    });
}

listeners::opening listeners::open(plan_maker const& maker) {
    opening made(listener_);
    for (auto const& l : maker.configuration().listeners)
        if (!is_open(to_string(l.address)))
            open(l, maker.number_of(l), made);
    return made;
}

void listeners::open(config::listener const& l, std::size_t number, opening& o) {
    auto const name = to_string(l.address);
    auto const* const named = std::get_if<config::inherited_sockets>(&l.address);
    try {
        if (!named) {
            o.opened_.push_back(&listener_.open(endpoint_of(l.address), name, l.mode, number));
            return;
        }
        auto const taken = std::erase_if(inherited_, [&](auto const& one) {
            bool const mine = one.first == named->name;
            if (mine)
                o.opened_.push_back(&listener_.adopt(one.second, name, number));
            return mine;
        });
        if (taken == 0)
            throw std::runtime_error(
                fmt::format("cannot listen on {}: systemd passed no socket of that name", name));
    } catch (boost::system::system_error const& e) {
        throw std::runtime_error(fmt::format("cannot listen on {}: {}", name, why_not(e.code())));
    }
}

void listeners::follow(config::configuration const& c) {
    std::vector<net::listener::acceptor*> unnamed;
    for (auto const& acceptor : all()) {
        auto const l = std::ranges::find_if(c.listeners, [&](auto const& one) {
            return to_string(one.address) == acceptor->name();
        });
        if (l == c.listeners.end())
            unnamed.push_back(acceptor.get());
        if (l == c.listeners.end() || !l->mode)
            continue;
        if (auto const ec = acceptor->set_mode(*l->mode))
            tool::say(tool::level::warning,
                      fmt::format("weir-proxy: listen {}: cannot set the mode: {}\n",
                                  acceptor->name(), ec.message()));
    }
    for (auto* const acceptor : unnamed)
        listener_.close(*acceptor);
}

void listeners::check_for_loops(plan_maker const& maker) const {
    for (auto const& to : maker.endpoints())
        for (auto const& acceptor : all())
            if (net::leads_back(to, acceptor->listens_at()))
                throw std::runtime_error(
                    fmt::format("server {} is an address of this proxy ({}): requests would loop",
                                net::to_string(to), acceptor->name()));
}

}  // namespace proxy
