#include "connection.hpp"

#include <boost/asio/write.hpp>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

namespace net {

namespace {

enum class input : std::uint8_t { none, some, ended };

input peek(stream_socket& socket, char& byte) {
    auto const n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0)
        return input::some;
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? input::none : input::ended;
}

input peek(stream_socket& socket) {
    char byte;
    return peek(socket, byte);
}

// The event of poll for an end of input with no bytes before it.
#ifdef POLLRDHUP
// Linux also reports an end of input that follows unread bytes.
constexpr short end_of_input = POLLRDHUP;
bool has_ended(stream_socket&) {
    return true;
}
#else
constexpr short end_of_input = POLLIN;
bool has_ended(stream_socket& socket) {
    return peek(socket) == input::ended;
}
#endif

auto as_buffers(http::gather const& what) {
    boost::container::static_vector<asio::const_buffer, http::gather::static_capacity> buffers;
    for (auto const& piece : what)
        buffers.emplace_back(piece.data(), piece.size());
    return buffers;
}

}  // namespace

stream_socket move_to(asio::io_context& context, stream_socket socket) {
    error_code ec;
    auto const protocol = socket.local_endpoint(ec).protocol();
    return {context, protocol, socket.release(ec)};
}

connection::connection(stream_socket socket, watchdog& dog) : socket_(std::move(socket)) {
    be_non_blocking();
    dog.add(*this);
}

// The other side of an encrypted connection expects an announcement of its end. `end_output` also waits for a socket that
// does not accept it at once.
connection::~connection() {
    if (channel_ && socket_.is_open())
        static_cast<void>(channel_->end_output());
}

// A direct send on a blocking socket would block the thread. Only the first call for a socket makes a system call.
void connection::be_non_blocking() {
    error_code ignored;
    if (socket_.is_open() && !socket_.non_blocking())
        socket_.non_blocking(true, ignored);
}

void connection::move_to(asio::io_context& context) {
    socket_ = net::move_to(context, std::move(socket_));
    be_non_blocking();
}

task<error_code> connection::shake_hands(handshake_turns* turns) {
    auto const go_on = [this] {
        return socket_.is_open() ? channel_->shake_hands()
                                 : channel::result{.ec = asio::error::bad_descriptor};
    };
    for (;;) {
        auto r = go_on();
        if (r.is_costly) {
            if (!co_await turns->begin())
                co_return asio::error::access_denied;
            r = go_on();
            co_await turns->end();
        }
        if (r.ec != asio::error::would_block)
            co_return r.ec;
        auto const [stopped] = co_await socket_.async_wait(r.next, as_values);
        if (stopped)
            co_return stopped;
    }
}

// The channel has the number of the descriptor, which another connection may get once it is closed.
channel::result connection::read_some(std::span<char> into) {
    auto const r = socket_.is_open() ? channel_->read(into)
                                     : channel::result{.ec = asio::error::bad_descriptor};
    is_starved_ = r.ec == asio::error::would_block;
    to_read_ = r.next;
    return r;
}

std::size_t connection::receive_now(std::span<char> into, error_code& ec) {
    if (!channel_)
        return socket_.read_some(asio::buffer(into.data(), into.size()), ec);
    auto const r = read_some(into);
    ec = r.ec;
    return r.bytes;
}

std::size_t connection::encrypt_some(http::gather const& what, error_code& ec) {
    auto const r = socket_.is_open() ? channel_->write(what)
                                     : channel::result{.ec = asio::error::bad_descriptor};
    ec = r.ec;
    to_write_ = r.next;
    return r.bytes;
}

bool connection::send_now(http::gather& what, error_code& ec) {
    // The system call for one piece is cheaper.
    auto sent = channel_ ? encrypt_some(what, ec)
                : what.size() == 1
                    ? socket_.write_some(asio::buffer(what.front().data(), what.front().size()), ec)
                    : socket_.write_some(as_buffers(what), ec);
    if (ec == asio::error::would_block)
        ec = {};
    auto rest = what.begin();
    while (rest != what.end() && sent >= rest->size()) {
        sent -= rest->size();
        ++rest;
    }
    what.erase(what.begin(), rest);
    if (!what.empty())
        what.front().remove_prefix(sent);
    return ec || what.empty();
}

task<error_code> connection::send(http::gather what) {
    error_code ec;
    if (send_now(what, ec))
        co_return ec;
    if (channel_)
        co_return co_await send_encrypted(std::move(what));
    auto const [error, n] = co_await asio::async_write(socket_, as_buffers(what), as_values);
    co_return error;
}

task<error_code> connection::send_encrypted(http::gather what) {
    for (error_code ec;;) {
        auto const [stopped] = co_await wait(stream_socket::wait_write);
        if (stopped)
            co_return stopped;
        if (send_now(what, ec))
            co_return ec;
    }
}

presence connection::other_side() {
    if (!socket_.is_open())
        return presence::gone;
    pollfd what{socket_.native_handle(), end_of_input, 0};
    if (::poll(&what, 1, 0) <= 0)
        return presence::here;
    if (what.revents & (POLLERR | POLLHUP | POLLNVAL))
        return presence::gone;
    return has_ended(socket_) ? presence::ended : presence::here;
}

bool connection::is_reset() {
    pollfd what{socket_.native_handle(), 0, 0};
    return ::poll(&what, 1, 0) > 0 && (what.revents & POLLERR) != 0;
}

bool connection::has_input() {
    return holds_input() || net::peek(socket_) == input::some;
}

std::optional<char> connection::next_byte() {
    char byte;
    bool const is_some = net::peek(socket_, byte) == input::some;
    return is_some ? std::optional(byte) : std::nullopt;
}

bool connection::is_silent() {
    if (!channel_)
        return net::peek(socket_) == input::none;
    constexpr int most_messages = 8;  // of the encryption: a server sends two tickets, or a few
    char byte;
    for (int i = 0; i != most_messages; ++i) {
        auto const before = net::peek(socket_);
        if (before == input::none && !channel_->has_input())
            return true;
        if (before == input::ended || read_some({&byte, 1}).ec != asio::error::would_block)
            return false;
    }
    return false;
}

void connection::no_delay() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
}

void connection::cancel() noexcept {
    error_code ignored;
    socket_.cancel(ignored);
}

void connection::close() noexcept {
    error_code ignored;
    socket_.close(ignored);
}

bool connection::end_output_now(error_code& ec) {
    ec = {};
    if (channel_) {
        auto const r = socket_.is_open() ? channel_->end_output()
                                         : channel::result{.ec = asio::error::bad_descriptor};
        to_write_ = r.next;
        if (r.ec == asio::error::would_block)
            return false;
        ec = r.ec;
    }
    if (!ec)
        socket_.shutdown(stream_socket::shutdown_send, ec);
    output_ended_ = !ec;
    return true;
}

task<error_code> connection::end_output() {
    for (error_code ec;;) {
        if (end_output_now(ec))
            co_return ec;
        auto const [stopped] = co_await wait(stream_socket::wait_write);
        if (stopped)
            co_return stopped;
    }
}

void connection::reset() noexcept {
    error_code ignored;
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
    socket_.close(ignored);
}

clock::time_point connection::look(clock::time_point now) {
    for (auto const d : {direction::reading, direction::writing}) {
        // Repeated on each round, because an operation may start after the first cancellation.
        if (now >= deadline_[index(d)]) {
            expired_[index(d)] = true;
            cancel();
        }
    }
    if (opens_by_) {
        if (opens_by_->is_over())
            cancel();
        return now;
    }
    return std::ranges::min(deadline_);
}

bool server_endpoints::replace(list all) {
    std::lock_guard const lock(mutex_);
    if (std::ranges::is_permutation(all, *all_))
        return false;
    all_ = std::make_shared<list const>(std::move(all));
    ++version_;
    return true;
}

task<std::unique_ptr<connection>> server_endpoints::connect(asio::io_context& context,
                                                            watchdog& dog, clock::duration limit,
                                                            opening const& how, error_code& ec) {
    auto const end = clock::now() + limit;
    auto const here = all();
    auto const& all = *here;
    auto const first = last_.load(std::memory_order_relaxed);
    bool any_connected = false;
    error_code why;
    auto const note_failure = [&](bool connected) {
        if (connected || !any_connected)
            why = ec;
        any_connected = any_connected || connected;
    };
    for (std::size_t tried = 0; tried != all.size(); ++tried) {
        auto const i = (first + tried) % all.size();
        stream_socket socket(context);
        if (socket.open(all[i].protocol(), ec)) {
            note_failure(false);
            continue;
        }
        auto one = std::make_unique<connection>(std::move(socket), dog);
        bool connected = false;
        {
            auto const left = static_cast<clock::rep>(all.size() - tried);
            time_limit const share(*one, direction::writing, (end - clock::now()) / left);
            one->opens_by_ = how.is_over ? &how : nullptr;
            std::tie(ec) = co_await one->connect(all[i]);
            connected = !ec;
            if (!ec && !how.introduction.empty()) {
                http::gather const out{how.introduction};
                ec = co_await one->send(out);
            }
            if (!ec && how.encrypt)
                ec = co_await one->encrypt(how.encrypt);
            one->opens_by_ = nullptr;
        }
        if (one->expired(direction::writing))
            ec = asio::error::timed_out;
        if (!ec) {
            if (i != first)
                last_.store(i, std::memory_order_relaxed);
            co_return one;
        }
        note_failure(connected);
        if (how.is_over && how.is_over())
            break;
    }
    ec = why;
    co_return nullptr;
}

}  // namespace net
