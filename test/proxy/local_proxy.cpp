#include "local_proxy.hpp"

#include "config/read.hpp"
#include "net/resolve.hpp"
#include "proxy/session.hpp"
#include "proxy/tcp_session.hpp"

#include <boost/test/unit_test.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

// ---- The clock of the program

namespace {

// Some time after the epoch, so that there is a time before.
net::clock::time_point now{std::chrono::hours(1)};
net::clock::time_point due = net::clock::time_point::max();

}  // namespace

net::clock::time_point net::clock::now() noexcept {
    return ::now;
}

// Returns 0, so that Asio checks its timers each time that it checks for events.
net::clock::duration net::clock::sleep_for(duration d) noexcept {
    if (d < time_point::max() - ::now)
        due = std::min(due, ::now + d);
    return duration::zero();
}

namespace support {

void virtual_time::advance_to(net::clock::time_point t) noexcept {
    ::now = std::max(::now, t);
}
net::clock::time_point virtual_time::next_due() noexcept {
    return due;
}
void virtual_time::forget_due() noexcept {
    due = net::clock::time_point::max();
}

// ---- One end of a connection

namespace {

[[noreturn]] void fail(char const* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

int make_socket() {
    int const made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return made >= 0 ? made : (fail("socket"), -1);
}

sockaddr_un address_of(std::string const& path) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    BOOST_REQUIRE(path.size() < sizeof at.sun_path);
    std::memcpy(at.sun_path, path.data(), path.size());
    return at;
}

}  // namespace

wire connect_to(std::string const& path) {
    wire made(make_socket());
    auto const at = address_of(path);
    if (::connect(made.socket_, reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0)
        fail("connect");
    return made;
}

void pass(net::clock::duration d, std::function<void()> const& settle) {
    auto const end = net::clock::now() + d;
    for (settle(); virtual_time::next_due() <= end; settle())
        virtual_time::advance_to(virtual_time::next_due());
    virtual_time::advance_to(end);
    settle();
}

wire::wire(wire&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      unread_(std::move(other.unread_)),
      ended_(other.ended_) {}

void wire::send(std::string_view text) {
    while (!text.empty()) {
        auto const n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
        if (n < 0)
            fail("send");
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

std::string& wire::look() {
    std::array<char, 16 * 1024> piece;
    while (socket_ >= 0 && !ended_) {
        auto const n = ::recv(socket_, piece.data(), piece.size(), 0);
        if (n > 0)
            unread_.append(piece.data(), static_cast<std::size_t>(n));
        else if (n == 0 || errno == ECONNRESET)
            ended_ = true;
        else
            break;
    }
    return unread_;
}

std::string wire::take() {
    return std::exchange(look(), {});
}

bool wire::ended() {
    look();
    return ended_ || socket_ < 0;
}

void wire::end() noexcept {
    ::shutdown(socket_, SHUT_WR);
}

void wire::close() noexcept {
    if (socket_ >= 0)
        ::close(std::exchange(socket_, -1));
}

// ---- The upstream

reply ok(std::string_view body, std::string_view fields) {
    return {"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
            std::string(fields) + "\r\n" + std::string(body)};
}

local_upstream::local_upstream(std::string path)
    : path_(std::move(path)), listener_(make_socket()) {
    auto const at = address_of(path_);
    if (::bind(listener_, reinterpret_cast<sockaddr const*>(&at), sizeof at) != 0 ||
        ::listen(listener_, 1024) != 0)
        fail("listen");
}

local_upstream::~local_upstream() {
    stop();
}

void local_upstream::stop() noexcept {
    if (listener_ >= 0)
        ::close(std::exchange(listener_, -1));
}

std::size_t local_upstream::open() {
    return static_cast<std::size_t>(
        std::ranges::count_if(connections, [](wire& w) { return !w.ended(); }));
}

namespace {

// Removes the first request from `text` and returns it; empty if it is not complete.
std::string take_request(std::string& text) {
    constexpr std::string_view blank = "\r\n\r\n";
    auto const head = text.find(blank);
    if (head == text.npos)
        return {};
    auto size = head + blank.size();
    auto const request = std::string_view(text).substr(0, size);
    if (auto const length = field_of(request, "Content-Length"); !length.empty()) {
        size += std::stoul(length);
    } else if (!field_of(request, "Transfer-Encoding").empty()) {
        constexpr std::string_view last = "0\r\n\r\n";
        auto const end = text.find(last, size);
        size = end == text.npos ? end : end + last.size();
    }
    if (size > text.size())
        return {};
    auto whole = text.substr(0, size);
    text.erase(0, size);
    return whole;
}

}  // namespace

bool local_upstream::serve() {
    bool any = false;
    for (;;) {
        int const came = listener_ < 0 ? -1 : ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK);
        if (came < 0)
            break;
        connections.emplace_back(came);
        any = true;
    }
    if (!answer)
        return any;
    for (auto& one : connections) {
        for (auto request = take_request(one.look()); !request.empty();
             request = take_request(one.look())) {
            requests.push_back(request);
            any = true;
            auto const what = answer(request);
            if (!what)
                continue;
            one.send(what->text);
            if (what->closes)
                one.close();
        }
        if (one.ended())
            one.close();
    }
    return any;
}

// ---- The proxy

local_proxy::local_proxy(std::string const& configuration, tool::log_file* log)
    : plan_(make(configuration, nullptr)), worker_(plan_, pools_, log) {
    listener_.open(*net::unix_endpoint(folder_ / "proxy"), "proxy");
    listener_.start(
        {.accepts = context_,
         .next_context = [this]() -> boost::asio::io_context& { return worker_.context(); },
         .accepted =
             [this](net::arrival a) {
                 using proxy::session;
                 using proxy::tcp_session;
                 if (!plan_->services.empty()) {
                     tcp_session::service to{plan_, &plan_->services.front()};
                     tcp_session::start(std::make_unique<tcp_session>(
                         worker_.for_sessions(), std::move(to), std::move(a.socket),
                         net::connection_ends{{client_, 4711}, {client_, 80}},
                         std::move(a.admitted), is_introduced));
                     return;
                 }
                 auto const& by = plan_->configuration.listeners.at(listener);
                 session::role const role{
                     .awaits_balancer = is_introduced,
                     .listener = plan_->listener_numbers.at(to_string(by.address))};
                 session::start(std::make_unique<session>(
                     worker_.for_sessions(), std::move(a.socket), client_, std::move(a.admitted),
                     role));
             },
         .trouble = [](std::string const& what) { BOOST_ERROR(what); }});
}

// As at the end of the program, no connection and no permit remains.
local_proxy::~local_proxy() {
    health_.reset();
    listener_.close();
    worker_.drain();
    worker_.abort();
    for (auto const& l : plan_->limits)
        l->close();
    for (auto const& b : plan_->bandwidths)
        for (auto const& one : {b.up, b.down})
            if (one)
                one->free();
    BOOST_CHECK(comes_to_rest());
}

std::shared_ptr<proxy::plan const> local_proxy::make(
    std::string configuration, std::shared_ptr<proxy::plan const> before) const {
    auto const put = [&](std::string_view name, std::string const& address) {
        for (auto at = configuration.find(name); at != configuration.npos;
             at = configuration.find(name))
            configuration.replace(at, name.size(), address);
    };
    put("UPSTREAM", upstream.address());
    put("OTHER", other.address());
    return proxy::plan_maker(executor_, config::read(configuration, "test"),
                             {.clients = 1000, .admin = 1000, .upstream = 1000}, std::move(before))
        .make();
}

wire local_proxy::connect(std::string const& address) {
    client_ = boost::asio::ip::make_address(address);
    auto client = connect_to(folder_ / "proxy");
    settle();  // before another client gets the address
    return client;
}

void local_proxy::settle() {
    BOOST_REQUIRE(comes_to_rest());
}

bool local_proxy::comes_to_rest() {
    int handlers = 0;
    for (bool any = true; any;) {
        any = false;
        virtual_time::forget_due();
        for (auto* const one : {&context_, &worker_.context()}) {
            one->restart();
            for (; one->poll_one() > 0; any = true)
                if (++handlers == 50'000)
                    return false;
        }
        for (auto* const one : {&upstream, &other})
            any = one->serve() || any;
    }
    return true;
}

void local_proxy::pass(net::clock::duration d) {
    support::pass(d, [this] { settle(); });
}

unsigned local_proxy::ask(wire& client, std::string_view request) {
    client.send(request);
    settle();
    return status_of(client.take());
}

unsigned local_proxy::ask(std::string const& client) {
    auto one = connect(client);
    return ask(one, get);
}

void local_proxy::reload(std::string const& configuration) {
    plan_ = make(configuration, plan_);
    worker_.use(plan_);
    if (health_)
        check_health();
}

void local_proxy::check_health() {
    health_.emplace(context_, dog_, *plan_);
}

// ---- Texts

unsigned status_of(std::string_view answer) {
    unsigned status = 0;
    constexpr std::size_t before = sizeof "HTTP/1.1 " - 1;
    if (answer.size() > before)
        std::from_chars(answer.data() + before, answer.data() + answer.size(), status);
    return status;
}

std::string field_of(std::string_view head, std::string_view name) {
    auto const at = head.find("\r\n" + std::string(name) + ": ");
    if (at == head.npos)
        return {};
    auto const value = head.substr(at + name.size() + 4);
    return std::string(value.substr(0, value.find("\r\n")));
}

}  // namespace support
