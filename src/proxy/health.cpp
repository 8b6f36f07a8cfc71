#include "health.hpp"

#include "net/connection.hpp"
#include "net/proxy_protocol.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <array>
#include <string>
#include <utility>

namespace proxy {

struct health_checks::one {
    one(asio::io_context& c, net::watchdog& d, std::shared_ptr<upstream> u,
        std::shared_ptr<upstream_server> s)
        : context(c), dog(d), of(std::move(u)), server(std::move(s)), pause(c) {}

    net::task<bool> is_good();
    net::task<bool> answers_well(net::connection& connection, net::clock::duration timeout);

    asio::io_context& context;
    net::watchdog& dog;
    std::shared_ptr<upstream> of;
    std::shared_ptr<upstream_server> server;
    net::timer pause;
    bool over = false;
};

health_checks::health_checks(asio::io_context& context, net::watchdog& dog, plan const& p) {
    for (auto const& u : p.upstreams) {
        if (!u->configuration().health)
            continue;
        for (auto const& s : u->servers()) {
            all_.push_back(std::make_shared<one>(context, dog, u, s));
            asio::co_spawn(context, look_after(all_.back()), asio::detached);
        }
    }
}

health_checks::~health_checks() {
    for (auto const& check : all_) {
        check->over = true;
        check->pause.cancel();
    }
}

net::task<> health_checks::look_after(std::shared_ptr<one> check) {
    while (!check->over) {
        bool const good = co_await check->is_good();
        if (check->over)
            co_return;
        check->of->note_check(*check->server, good);
        check->pause.expires_after(check->of->configuration().health->every);
        co_await check->pause.async_wait(net::as_values);
    }
}

net::task<bool> health_checks::one::is_good() {
    auto const timeout = of->configuration().health->timeout;
    auto const began = net::clock::now();
    auto const version = of->configuration().proxy_protocol;
    auto const header = version != 0 ? net::make_own_introduction(version) : std::string();
    auto const inner =
        of->configuration().health->path ? tls::inner_protocol::http : tls::inner_protocol::other;
    connection_use const use{.inner = inner, .introduction = header};
    auto const how = server->opening_for(use);
    net::error_code ec;
    auto const connection = co_await server->endpoints().connect(context, dog, timeout, how, ec);
    if (!connection)
        of->report(*server, ec);
    if (!connection || !of->configuration().health->path)
        co_return connection != nullptr;
    co_return co_await answers_well(*connection, timeout - (net::clock::now() - began));
}

// Whether the server responds to the request of the check with 2xx or 3xx.
net::task<bool> health_checks::one::answers_well(net::connection& connection,
                                                 net::clock::duration timeout) {
    net::time_limit const sending(connection, net::direction::writing, timeout);
    net::time_limit const reading(connection, net::direction::reading, timeout);
    auto const& health = *of->configuration().health;
    auto const request = "GET " + *health.path + " HTTP/1.1\r\nHost: " + server->name() +
                         "\r\nUser-Agent: weir-proxy\r\nConnection: close\r\n\r\n";
    http::gather const out{request};
    if (co_await connection.send(out))
        co_return false;
    std::string answer;
    std::array<char, 256> room;
    constexpr std::size_t enough = sizeof "HTTP/1.1 200" - 1;
    while (answer.size() < enough) {
        auto const [ec, n] = co_await connection.receive(room);
        of->report(*server, ec);  // such as: the server demands a certificate
        if (ec)
            co_return false;
        answer.append(room.data(), n);
    }
    co_return answer.starts_with("HTTP/1.") && (answer[9] == '2' || answer[9] == '3');
}

}  // namespace proxy
