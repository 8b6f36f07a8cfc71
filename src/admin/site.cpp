#include "site.hpp"

#include "http/buffer.hpp"
#include "net/connection.hpp"
#include "net/resolve.hpp"
#include "stats.hpp"
#include "tool/text.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/http/status.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <list>
#include <optional>
#include <utility>

namespace admin {
namespace {

// The time limits for a client to send the header of a request, and to send its body or receive the response.
constexpr std::chrono::seconds patience_for_header{2};
constexpr std::chrono::seconds patience{10};
constexpr std::size_t longest_rule = 4096;

constexpr std::string_view limits_path = "/limits/";
constexpr std::string_view preview_path = "/preview";
constexpr std::string_view undo_path = "/undo";

// No other site may show the page in a frame. The page itself has the rest of its policy.
constexpr std::string_view page_fields = "Content-Security-Policy: frame-ancestors 'none'\r\n";

struct reply {
    unsigned status = 200;
    std::string_view type = "text/plain; charset=utf-8";
    std::string body;
    std::string_view fields;
};

std::string head_of(reply const& r, bool has_length) {
    namespace beast = boost::beast::http;
    auto head = fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nCache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
        "Connection: close\r\n{}",
        r.status, std::string_view(beast::obsolete_reason(static_cast<beast::status>(r.status))),
        r.type, r.fields);
    if (has_length)
        head += fmt::format("Content-Length: {}\r\n", r.body.size());
    return head + "\r\n";
}

reply text(unsigned status, std::string_view what, std::string_view fields = {}) {
    return {status, "text/plain; charset=utf-8", fmt::format("{}\n", what), fields};
}

reply reply_of(answer const& done) {
    return text(done.status, done.text);
}

// The path of a request, without its query.
std::string_view path_of(http::request_head const& request) {
    return request.target.substr(0, request.target.find('?'));
}

// The name of the limit in a `POST /limits/NAME` with `suffix` behind it, with its percent-encoding.
std::optional<std::string_view> limit_of(http::request_head const& request,
                                         std::string_view suffix) {
    auto path = path_of(request);
    if (request.method != http::verb::post || !path.starts_with(limits_path) ||
        !path.ends_with(suffix))
        return std::nullopt;
    path.remove_suffix(suffix.size());
    return path.size() < limits_path.size() ? std::string_view() : path.substr(limits_path.size());
}

std::string event(std::string_view name, std::string_view data) {
    return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

// A number of requests that are served at the same time.
struct places {
    std::size_t most;
    std::size_t taken = 0;
};

// One of the places, for the life of this object; empty if none was free.
class place_of {
public:
    explicit place_of(places& all) : all_(all), taken_(all.taken < all.most) {
        all_.taken += taken_;
    }
    place_of(place_of const&) = delete;
    ~place_of() { all_.taken -= taken_; }
    explicit operator bool() const noexcept { return taken_; }

private:
    places& all_;
    bool taken_;
};

}  // namespace

struct site::core : std::enable_shared_from_this<core> {
    struct visitor;

    core(net::asio::io_context& c, net::watchdog& d, std::int64_t connections, handlers h)
        : context(c),
          dog(d),
          on(std::move(h)),
          listener(c, connections),
          most(static_cast<std::size_t>(connections)),
          watched{most * 4 / 5},
          measured{std::max<std::size_t>(1, most / 20)},
          shown{std::max<std::size_t>(1, most / 10)} {}

    [[nodiscard]] state look();
    void tell_all();
    void take_in(net::arrival a);
    void close_a_silent_one(boost::asio::ip::address const& peer);
    net::task<> serve(std::unique_ptr<visitor> v);
    net::task<http::fault> receive(visitor& v);
    net::task<> send(visitor& v, reply r);
    [[nodiscard]] places& places_for(std::string_view path) noexcept;
    net::task<> watch(visitor& v);
    reply answer_to(visitor& v);
    static std::string rule_of(visitor const& v);
    static std::string client_of(visitor const& v);
    struct target {
        std::string limit;
        std::optional<reply> wrong;
    };
    [[nodiscard]] target target_of(visitor const& v, std::string_view name) const;
    reply change(visitor& v, std::string_view name);
    reply undo(visitor& v, std::string_view name);
    net::task<reply> preview(visitor& v, std::string_view name);

    net::asio::io_context& context;
    net::watchdog& dog;
    handlers on;
    net::listener listener;
    std::size_t const most;  // connections
    std::size_t open = 0;
    std::list<visitor*> silent;  // without a complete request, the oldest first
    places watched;
    places measured;  // `/metrics`
    places shown;     // other paths, except `/healthz` and `/readyz`
    places probed{std::numeric_limits<std::size_t>::max()};
    history past;
    state last;  // at the last step
    std::list<visitor*> watchers;
    bool over = false;
};

// A connection. The objects it refers to outlive it.
struct site::core::visitor {
    visitor(std::shared_ptr<core> s, net::listener::admission a, net::stream_socket socket,
            boost::asio::ip::address from)
        : self(std::move(s)),
          admission(std::move(a)),
          connection(std::move(socket), self->dog),
          peer(std::move(from)),
          news(self->context) {
        ++self->open;
    }
    visitor(visitor const&) = delete;
    ~visitor() { --self->open; }

    std::shared_ptr<core> self;
    net::listener::admission admission;
    net::connection connection;
    boost::asio::ip::address peer;
    http::local_buffer in;
    http::request_head request;
    std::string body;
    std::optional<place_of> place;  // until the response is sent

    // For a client that watches `/events`: the next event. A slow client misses events.
    net::timer news;
    std::shared_ptr<std::string const> next;
};

site::site(net::asio::io_context& context, net::watchdog& dog, std::int64_t connections, handlers h)
    : core_(std::make_shared<core>(context, dog, connections, std::move(h))) {}

site::~site() {
    core_->over = true;
    core_->listener.close();
}

void site::open(net::endpoint const& at, std::string name) {
    core_->listener.open(at, std::move(name));
}

net::listener::acceptor const* site::acceptor() const {
    auto const& all = core_->listener.acceptors();
    return all.empty() ? nullptr : all.front().get();
}

void site::count(rejected_by const& who, std::uint64_t times, std::uint64_t error) {
    core_->past.count(who, times, error);
}

void site::start() {
    auto& c = *core_;
    c.last = c.on.look();
    c.past.add(c.last);
    c.last.bottleneck = bottleneck(c.last, c.last);
    c.listener.start({.accepts = c.context,
                      .next_context = [&c]() -> net::asio::io_context& { return c.context; },
                      .accepted = [&c](net::arrival a) { c.take_in(std::move(a)); },
                      .trouble = c.on.trouble});
}

// The current state with the recent history.
state site::core::look() {
    auto now = on.look();
    past.complete(now);
    now.bottleneck = now.draining ? bottleneck(last, now) : last.bottleneck;
    return now;
}

void site::go_on() {
    auto& c = *core_;
    auto now = c.on.look();
    c.past.add(now);
    now.bottleneck = bottleneck(c.last, now);
    c.last = std::move(now);
    c.tell_all();
}

void site::core::tell_all() {
    if (watchers.empty())
        return;
    auto const data =
        fmt::format("{{\"stats\":{},\"last\":{}}}", admin::to_json(last), past.last_to_json());
    auto const news = std::make_shared<std::string const>(event("state", data));
    for (auto* const w : watchers) {
        w->next = news;
        w->news.cancel();
    }
}

void site::core::take_in(net::arrival a) {
    // Bounds the kernel memory for events that a client does not read.
    net::error_code ignored;
    a.socket.set_option(net::asio::socket_base::send_buffer_size(64 * 1024), ignored);
    auto const tcp = net::tcp_endpoint(a.from);
    auto const peer = tcp ? tcp->address() : boost::asio::ip::address();
    auto v = std::make_unique<visitor>(
        shared_from_this(), std::move(a.admitted), std::move(a.socket), peer);
    if (open >= most)
        close_a_silent_one(peer);
    net::asio::co_spawn(context, serve(std::move(v)), net::asio::detached);
}

// The last connection is for a client that sends a request. The oldest connection of the newest peer closes, or the
// oldest of all if this peer has no other. So one peer with many connections cannot close the connections of others.
void site::core::close_a_silent_one(boost::asio::ip::address const& peer) {
    // A request that has arrived is about to be served.
    auto const is_silent = [](visitor* v) { return !v->connection.has_input(); };
    auto chosen =
        std::ranges::find_if(silent, [&](visitor* v) { return v->peer == peer && is_silent(v); });
    if (chosen == silent.end())
        chosen = std::ranges::find_if(silent, is_silent);
    if (chosen != silent.end()) {
        (*chosen)->connection.close();
        silent.erase(chosen);
    }
}

net::task<> site::core::serve(std::unique_ptr<visitor> v) {
    // Checked before reading: clients without permission that send slowly would occupy all connections.
    if (!on.guard().lets_in(v->peer)) {
        co_await send(*v, text(403, "your address is not in `allow` of [admin]"));
        co_return;
    }
    auto const wrong = co_await receive(*v);
    if (wrong && wrong.status == 0)
        co_return;
    if (wrong) {
        co_await send(*v, text(wrong.status, wrong.why));
        co_return;
    }
    auto const path = path_of(v->request);
    auto const previewed = limit_of(v->request, preview_path);
    bool const watches =
        v->request.method == http::verb::get && path == "/events" && on.guard().is_here(v->request);
    v->place.emplace(watches ? watched : places_for(path));
    if (!*v->place)
        co_await send(*v, text(503, watches ? "too many event streams" : "too many requests",
                               "Retry-After: 10\r\n"));
    else if (watches)
        co_await watch(*v);
    else if (previewed) {
        auto made = co_await preview(*v, *previewed);
        co_await send(*v, std::move(made));
    } else
        co_await send(*v, answer_to(*v));
}

places& site::core::places_for(std::string_view path) noexcept {
    if (path == "/healthz" || path == "/readyz")
        return probed;
    return path == "/metrics" ? measured : shown;
}

// Reads the header of a request, and its body if it has one.
net::task<http::fault> site::core::receive(visitor& v) {
    struct silence {
        silence(std::list<visitor*>& l, visitor& w) : all(l), who(w) { all.push_back(&who); }
        silence(silence const&) = delete;
        ~silence() { all.remove(&who); }
        std::list<visitor*>& all;
        visitor& who;
    };
    std::optional<silence> until_the_end;
    until_the_end.emplace(silent, v);
    std::optional<net::time_limit> limit;
    limit.emplace(v.connection, net::direction::reading, patience_for_header);
    http::head_scanner scanner;
    auto wrong = http::fault();
    while (scanner.size() == 0) {
        if (v.in.full())
            co_return http::fault{431, "the header is too long"};
        auto const [ec, n] = co_await v.connection.receive(v.in.room());
        if (ec)
            co_return http::fault{0, "the connection ended"};
        v.in.commit(n);
        wrong = scanner.look(v.in.text());
        if (wrong)
            co_return wrong;
    }
    wrong = http::parse(v.in.text().substr(0, scanner.size()), v.request);
    if (wrong)
        co_return wrong;
    limit.reset();
    limit.emplace(v.connection, net::direction::reading, patience);
    if (v.request.body == http::framing::none)
        co_return http::fault();
    if (v.request.body != http::framing::length)
        co_return http::fault{411, "missing Content-Length"};
    if (v.request.length > longest_rule)
        co_return http::fault{413, "the body is too long"};
    auto const whole = v.request.size + v.request.length;
    if (whole > http::buffer::capacity)
        co_return http::fault{413, "the request is too long"};
    if (v.request.expects_continue && v.in.size() == v.request.size) {
        http::gather const go_on{"HTTP/1.1 100 Continue\r\n\r\n"};
        co_await v.connection.send(go_on);
    }
    // The buffer has room after the header, because nothing before the header was consumed.
    while (v.in.size() < whole) {
        auto const [ec, n] = co_await v.connection.receive(v.in.room());
        if (ec)
            co_return http::fault{0, "the connection ended"};
        v.in.commit(n);
    }
    v.body = v.in.text().substr(v.request.size, v.request.length);
    co_return http::fault();
}

net::task<> site::core::send(visitor& v, reply r) {
    auto const head = head_of(r, true);
    http::gather out{head};
    if (v.request.method != http::verb::head)
        out.emplace_back(r.body);
    net::time_limit const limit(v.connection, net::direction::writing, patience);
    if (co_await v.connection.send(out))
        co_return;
    v.place.reset();
    // A client that is still sending would lose the response if the connection closed immediately. While many connections
    // are open, it may.
    if (open > most / 2)
        co_return;
    if (co_await v.connection.end_output())
        co_return;
    net::time_limit const silence(v.connection, net::direction::reading, std::chrono::seconds(1));
    for (int n = 0; n != 64; ++n) {
        v.in.clear();
        auto const [ec, got] = co_await v.connection.receive(v.in.room());
        if (ec)
            co_return;
    }
}

// Sends the history first, then the state once a second.
net::task<> site::core::watch(visitor& v) {
    struct place {
        place(std::list<visitor*>& l, visitor& w) : all(l), at(l.insert(l.end(), &w)) {}
        place(place const&) = delete;
        ~place() { all.erase(at); }
        std::list<visitor*>& all;
        std::list<visitor*>::iterator at;
    };
    place const mine(watchers, v);
    v.next = std::make_shared<std::string const>(fmt::format(
        "{}retry: 1000\n\n{}{}",
        head_of({.type = "text/event-stream", .body = {}, .fields = {}}, false),
        event("history", past.to_json()),
        event("state", fmt::format("{{\"stats\":{},\"last\":{}}}", admin::to_json(look()),
                                   past.last_to_json()))));
    while (!over) {
        while (auto const news = std::exchange(v.next, nullptr)) {
            http::gather const out{*news};
            net::time_limit const limit(v.connection, net::direction::writing, patience);
            auto const failed = co_await v.connection.send(out);
            if (failed)
                co_return;
        }
        v.news.expires_at(net::clock::time_point::max());
        co_await v.news.async_wait(net::as_values);
    }
}

reply site::core::answer_to(visitor& v) {
    auto const guard = on.guard();
    auto const& request = v.request;
    auto const path = path_of(request);
    if (auto const name = limit_of(request, undo_path))
        return undo(v, *name);
    if (path.starts_with(limits_path)) {
        if (request.method != http::verb::put)
            return text(405, "method not allowed; change a limit with PUT", "Allow: PUT, POST\r\n");
        return change(v, path.substr(limits_path.size()));
    }
    bool const reads = request.method == http::verb::get || request.method == http::verb::head;
    bool const is_known = path == "/" || path == "/stats.json" || path == "/metrics" ||
                          path == "/healthz" || path == "/readyz" || path == "/events";
    if (!is_known)
        return text(404, "not found; try /, /stats.json, /metrics, /healthz or /readyz");
    if (!reads)
        return text(405, "method not allowed", "Allow: GET, HEAD\r\n");
    if (path == "/healthz")
        return text(200, "ok");
    auto const now = look();
    if (path == "/readyz")
        return now.ready ? text(200, "ready")
                         : text(503, now.draining ? "draining" : "not ready yet");
    if (path == "/metrics")
        return {200, "text/plain; version=0.0.4; charset=utf-8", to_metrics(now), {}};
    if (!guard.is_here(request))
        return text(403, "Host does not name this machine; only /metrics, /healthz and /readyz "
                         "accept any Host");
    if (path == "/events")
        return text(405, "method not allowed", "Allow: GET\r\n");
    if (path == "/stats.json")
        return {200, "application/json", admin::to_json(now), {}};
    return {200, "text/html; charset=utf-8", std::string(page()), page_fields};
}

// The body without the end of its line.
std::string site::core::rule_of(visitor const& v) {
    auto rule = std::string_view(v.body);
    while (!rule.empty() && (rule.back() == '\n' || rule.back() == '\r' || rule.back() == ' '))
        rule.remove_suffix(1);
    return std::string(rule);
}

std::string site::core::client_of(visitor const& v) {
    return v.peer.is_unspecified() ? "a unix socket" : v.peer.to_string();
}

// Decodes the name of a limit in the path of a request that may change the limit; otherwise returns the response.
site::core::target site::core::target_of(visitor const& v, std::string_view name) const {
    if (auto const wrong = on.guard().forbids_change(v.request))
        return {{}, text(wrong.status, wrong.why)};
    auto const limit = tool::unescaped(name);
    if (!limit)
        return {{}, text(400, "invalid percent-encoding in the name of the limit")};
    return {*limit, {}};
}

reply site::core::change(visitor& v, std::string_view name) {
    auto const to = target_of(v, name);
    return to.wrong ? *to.wrong : reply_of(on.change(to.limit, rule_of(v), client_of(v)));
}

reply site::core::undo(visitor& v, std::string_view name) {
    auto const to = target_of(v, name);
    return to.wrong ? *to.wrong : reply_of(on.undo(to.limit, client_of(v)));
}

// Needs the permission for changes, because it takes processor time.
net::task<reply> site::core::preview(visitor& v, std::string_view name) {
    auto const to = target_of(v, name);
    if (to.wrong)
        co_return *to.wrong;
    auto made = on.preview(to.limit, rule_of(v));
    auto const done = co_await std::move(made);
    if (done.status != 200)
        co_return reply_of(done);
    co_return reply{200, "application/json", done.text, {}};
}

}  // namespace admin
