#include "connection.hpp"

#include <weir/redis/error.hpp>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/system/system_error.hpp>

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace weir::inline v0_2::redis::detail {

namespace asio = boost::asio;

connection::connection(asio::any_io_executor ex, std::weak_ptr<connection_owner> owner,
                       tls_context const* tls)
    : executor_(std::move(ex)), owner_(std::move(owner)), tls_(tls) {}

connection::~connection() {
    abandon();
}

// A waiting operation keeps the connection and its owner alive. It has no effect after the end of its socket.
template <class F>
auto connection::bound(F f) {
    return [self = shared_from_this(), owner = owner_.lock(), number = sockets_,
            f = std::move(f)](error_code const& ec, auto const&... more) {
        auto event = [&] {
            if (self->phase_ != phase::closed && self->sockets_ == number)
                f(*self, ec, more...);
        };
        if (owner)
            owner->serve(std::ref(event));
    };
}

// Asio may fail to start a thread for a name look-up, to watch a socket, or to allocate memory.
template <class F>
void connection::attempt(F f) {
    try {
        f();
    } catch (boost::system::system_error const& e) {
        close(e.code(), e.what());
    } catch (std::bad_alloc const&) {
        close(asio::error::no_memory);
    }
}

void connection::open(address const& to, time_point until) {
    until_ = attempt_ends_ = until;
    attempt([&] { begin(to); });
}

void connection::begin(address const& to) {
    host_ = to.host;
    if (!to.path.empty()) {
        endpoints_.emplace_back(asio::local::stream_protocol::endpoint(to.path));
        connect_next();
        return;
    }
    error_code not_numeric;
    auto const numeric = asio::ip::make_address(to.host, not_numeric);
    if (!not_numeric) {
        endpoints_.emplace_back(asio::ip::tcp::endpoint(numeric, to.port));
        connect_next();
        return;
    }
    resolver_.emplace(executor_);
    resolver_->async_resolve(
        to.host, std::to_string(to.port),
        bound([](connection& c, error_code const& ec, asio::ip::tcp::resolver::results_type found) {
            c.attempt([&] {
                for (auto const& entry : found)
                    c.endpoints_.emplace_back(entry.endpoint());
                c.error_ = ec;
                c.connect_next();
            });
        }));
}

void connection::connect_next() {
    if (endpoints_.empty())
        return end(error_);
    auto const to = endpoints_.front();
    auto const now = clock_time();
    attempt_ends_ = now + (until_ - now) / static_cast<std::int64_t>(endpoints_.size());
    endpoints_.pop_front();
    socket_.emplace(executor_);
    socket_->async_connect(to, bound([](connection& c, error_code const& ec) {
                               if (ec)
                                   c.fail(ec);
                               else
                                   c.attempt([&c] { c.begin_session(); });
                           }));
}

void connection::try_next() {
    std::string text;
    if (session_)
        text = "the TLS handshake did not end in time";
    if (endpoints_.empty())
        close(asio::error::timed_out, std::move(text));
    else
        fail(asio::error::timed_out, std::move(text));
}

// The socket is connected.
void connection::begin_session() {
    socket_->non_blocking(true);
    error_code is_local;
    socket_->set_option(asio::ip::tcp::no_delay(true), is_local);
    if (!tls_) {
        phase_ = phase::open;
        return;
    }
    session_.emplace(*tls_, host_);
    shake_hands();
}

void connection::shake_hands() {
    session_->shake_hands();
    session_->take_due(due_);
    auto const failed = send();
    if (session_->error())  // and so it would at the next address of the host
        return close(session_->error(), session_->text());
    if (failed)
        return fail(failed);
    if (session_->is_open())
        phase_ = phase::open;
    wait();
}

// The current socket has failed.
void connection::fail(error_code ec, std::string text) noexcept {
    try {
        if (text.empty())
            text = ec == asio::error::eof ? "the server closed the connection" : ec.message();
    } catch (std::bad_alloc const&) {
        // Then there is no text.
    }
    if (phase_ != phase::opening)
        return close(ec, std::move(text));
    error_ = ec;
    text_ = std::move(text);
    drop_socket();
    attempt([this] { connect_next(); });
}

void connection::drop_socket() noexcept {
    ++sockets_;
    socket_.reset();
    session_.reset();
    replies_ = {};
    due_.clear();
    waits_to_write_ = false;
    waits_to_read_ = false;
    asked_.reset();
    has_subscribed_ = false;
    wants_messages_ = false;
}

void connection::end(error_code ec) noexcept {
    error_ = ec ? ec : error_code(asio::error::connection_aborted);
    phase_ = phase::closed;
}

void connection::close(error_code ec, std::string text) {
    end(ec);
    text_ = std::move(text);
    endpoints_.clear();
    if (resolver_)
        resolver_->cancel();
    drop_socket();
    for (auto const& one : sent_) {
        bool const is_lost = one->end <= written_;
        one->said = {.error = error_,
                     .lost = is_lost,
                     .kind = is_lost ? failure_kind::no_reply : failure_kind::unsent};
        try {
            one->said.text = text_;
        } catch (std::bad_alloc const&) {
            // Then there is no text.
        }
    }
    outcomes_.splice(outcomes_.end(), sent_);
}

void connection::abandon() noexcept {
    close(asio::error::operation_aborted);
    resolver_.reset();
    executor_ = {};
}

// ---- Bytes to the server

void connection::add(std::vector<std::string_view> const& words, bool asks) {
    if (!session_ && !asks)
        return append_command(due_, words);
    std::string text;
    if (asks)
        append_command(text, {"ASKING"});
    append_command(text, words);
    if (!session_) {
        due_ += text;
        return;
    }
    session_->write(text);
    session_->take_due(due_);
}

void connection::append(std::vector<std::string_view> const& words, commands& from,
                        commands::iterator which) {
    add(words, (*which)->asks);
    (*which)->end = written_ + due_.size();
    sent_.splice(sent_.end(), from, which);
}

void connection::subscribe(std::string const& channel) {
    add({"SUBSCRIBE", channel});
    has_subscribed_ = true;
    wants_messages_ = true;
    flush();
    wait();
}

void connection::flush() {
    if (phase_ == phase::open && !due_.empty() && !waits_to_write_)
        write();
}

void connection::write() {
    auto const failed = send();
    if (!failed)
        return wait();
    if (session_) {  // an alert of the server, with the reason why it closed the connection, may be unread
        static_cast<void>(receive());
        if (session_->is_open())
            decrypt();
        if (session_->error())
            return fail(session_->error(), session_->text());
    }
    fail(failed);
}

// Writes what the socket takes now.
error_code connection::send() noexcept {
    error_code ec;
    std::size_t n = 0;
    while (!ec && n != due_.size())
        n += socket_->write_some(asio::buffer(due_) + n, ec);
    due_.erase(0, n);
    written_ += n;
    return ec == asio::error::would_block ? error_code() : ec;
}

// ---- Bytes of the server

void connection::read() {
    if (auto const failed = receive())
        return fail(failed);
    if (session_ && !session_->is_open()) {
        shake_hands();
        if (phase_ != phase::open)
            return;
    }
    if (session_)
        decrypt();
    parse();
    if (socket_ && session_ && session_->error())
        fail(session_->error(), session_->text());
    wait();
}

// Reads what the socket has now, up to a limit.
error_code connection::receive() {
    std::array<char, 16384> part;
    error_code ec;
    auto const n = socket_->read_some(asio::buffer(part), ec);
    std::string_view const bytes(part.data(), n);
    if (session_)
        session_->receive(bytes);
    else
        replies_.add(bytes);
    return ec == asio::error::would_block ? error_code() : ec;
}

void connection::decrypt() {
    std::array<char, 16384> part;
    while (auto const n = session_->read(part.data(), part.size()))
        replies_.add({part.data(), n});
    session_->take_due(due_);  // such as the confirmation of a new key
}

void connection::parse() {
    while (auto said = replies_.next()) {
        if (!sent_.empty()) {
            auto& one = *sent_.front();
            if (one.asks && !asked_) {
                asked_ = std::move(said);
                continue;
            }
            // Without permission for `ASKING`, the next reply is a redirection.
            bool const is_refused = asked_ && asked_->error && said->error;
            one.said = std::move(is_refused ? *asked_ : *said);
            asked_.reset();
            one.is_answer = true;
            outcomes_.splice(outcomes_.end(), sent_, sent_.begin());
        } else if (said->error || !has_subscribed_) {
            return fail(said->error ? said->error : errc::protocol, std::move(said->text));
        } else {
            note_message(*said);
        }
    }
    bool const is_unexpected = sent_.empty() && !has_subscribed_ && !replies_.is_empty();
    if (replies_.is_invalid() || is_unexpected)
        fail(errc::protocol);
}

// A confirmation is `subscribe channel count`, and a message is `message channel text`.
void connection::note_message(reply& said) {
    if (said.texts.size() == 3)
        messages_.push_back(std::move(said.texts[2]));
    else if (said.texts.size() == 2 && said.numbers.size() == 1)
        messages_.emplace_back();
}

bool connection::is_stale() {
    if (receive())
        return true;
    if (session_)
        decrypt();
    return !replies_.is_empty() || (session_ && session_->error());
}

// ---- Waiting

void connection::wait() {
    if (!socket_)
        return;
    if (!due_.empty() && !waits_to_write_) {
        waits_to_write_ = true;
        socket_->async_wait(
            asio::socket_base::wait_write, bound([](connection& c, error_code const& ec) {
                if (ec || !c.waits_to_write_)
                    return;
                c.waits_to_write_ = false;
                c.write();
            }));
    }
    bool const wants_to_read = phase_ == phase::opening || is_busy() || wants_messages_;
    if (wants_to_read && !waits_to_read_) {
        waits_to_read_ = true;
        socket_->async_wait(
            asio::socket_base::wait_read, bound([](connection& c, error_code const& ec) {
                if (ec || !c.waits_to_read_)
                    return;
                c.waits_to_read_ = false;
                c.read();
            }));
    }
}

void connection::wait_for_messages(bool on) {
    if (wants_messages_ == on)
        return;
    wants_messages_ = on;
    if (on)
        wait();
    else
        asio::post(executor_, [stop = bound([](connection& c, error_code const&) { c.rest(); })] {
            stop(error_code());
        });
}

void connection::rest() {
    if (wants_messages_ || is_busy() || !waits_to_read_ || !socket_)
        return;
    waits_to_read_ = false;
    error_code ignored;
    socket_->cancel(ignored);
    if (waits_to_write_) {
        waits_to_write_ = false;
        wait();
    }
}

}  // namespace weir::inline v0_2::redis::detail
