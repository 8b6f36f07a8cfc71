#include "connection.hpp"

#include <weir/redis/error.hpp>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <new>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

namespace asio = boost::asio;

/// Blocks SIGPIPE in this thread, because hiredis writes to sockets that the server may have closed.
class without_sigpipe {
public:
    without_sigpipe() {
        ::sigemptyset(&pipe_);
        ::sigaddset(&pipe_, SIGPIPE);
        ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    without_sigpipe(without_sigpipe const&) = delete;
    without_sigpipe& operator=(without_sigpipe const&) = delete;
    ~without_sigpipe() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

    /// Discards a signal that was sent meanwhile, unless the program had blocked it.
    void forget() const {
        if (::sigismember(&before_, SIGPIPE) == 1)
            return;
        timespec const at_once{};
        while (::sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {}
    }

private:
    sigset_t pipe_;
    sigset_t before_;
};

reply reply_of(redisReply const& r) {
    reply said;
    switch (r.type) {
        case REDIS_REPLY_ERROR:
            said.text.assign(r.str, r.len);
            said.error = error_of(said.text);
            said.kind = kind_of(said.error, said.text);
            said.text += advice_on(said.text);
            break;
        case REDIS_REPLY_STRING:
        case REDIS_REPLY_STATUS:
            said.text.assign(r.str, r.len);
            break;
        case REDIS_REPLY_INTEGER:
            said.numbers.push_back(r.integer);
            break;
        case REDIS_REPLY_ARRAY:
            said.numbers.reserve(r.elements);
            for (std::size_t i = 0; i != r.elements; ++i) {
                if (r.element[i]->type == REDIS_REPLY_INTEGER)
                    said.numbers.push_back(r.element[i]->integer);
            }
            break;
        default:
            break;
    }
    return said;
}

}  // namespace

connection::connection(asio::any_io_executor ex, std::weak_ptr<connection_owner> owner)
    : executor_(std::move(ex)), owner_(std::move(owner)) {}

connection::~connection() {
    abandon();
}

// A waiting operation keeps the connection and its owner alive.
template <class F>
auto connection::bound(F f) {
    return [self = shared_from_this(), owner = owner_.lock(),
            f = std::move(f)](error_code const& ec, auto const&... more) {
        auto event = [&] {
            if (self->phase_ != phase::closed)
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
    if (!to.path.empty()) {
        redisAsyncContext* made = nullptr;
        call_hiredis([&] { made = redisAsyncConnectUnix(to.path.c_str()); });
        if (!attach(made))
            end(error_);
        return;
    }
    error_code not_numeric;
    auto const numeric = asio::ip::make_address(to.host, not_numeric);
    if (!not_numeric) {
        endpoints_.emplace_back(numeric, to.port);
        connect_next();
        return;
    }
    resolver_.emplace(executor_);
    resolver_->async_resolve(
        to.host, std::to_string(to.port),
        bound([](connection& c, error_code const& ec, asio::ip::tcp::resolver::results_type found) {
            c.attempt([&] {
                for (auto const& entry : found)
                    c.endpoints_.push_back(entry.endpoint());
                c.error_ = ec;
                c.connect_next();
            });
        }));
}

void connection::connect_next() {
    while (!endpoints_.empty()) {
        auto const to = endpoints_.front();
        auto const now = clock_time();
        attempt_ends_ = now + (until_ - now) / static_cast<std::int64_t>(endpoints_.size());
        endpoints_.pop_front();
        redisAsyncContext* made = nullptr;
        call_hiredis([&] {
            made = redisAsyncConnect(to.address().to_string().c_str(), to.port());
        });
        if (attach(made))
            return;
    }
    end(error_);
}

void connection::try_next() {
    if (endpoints_.empty())
        return close(asio::error::timed_out);
    if (hiredis_)
        call_hiredis([this] { redisAsyncFree(hiredis_); });
    error_ = asio::error::timed_out;
    attempt([this] { connect_next(); });
}

// Takes over the connection that hiredis started, unless it has failed already.
bool connection::attach(redisAsyncContext* made) {
    if (!made) {
        error_ = asio::error::no_memory;
        return false;
    }
    if (made->err != 0) {
        note_failure(*made);
        redisAsyncFree(made);
        return false;
    }
    try {
        socket_.emplace(executor_, made->c.fd);
    } catch (...) {
        redisAsyncFree(made);
        throw;
    }
    made->data = this;
    made->ev.data = this;
    made->ev.addRead = [](void*) {};
    made->ev.delRead = [](void*) {};
    made->ev.addWrite = [](void* me) { of(me).wants_to_write_ = true; };
    made->ev.delWrite = [](void* me) { of(me).wants_to_write_ = false; };
    made->ev.cleanup = [](void* me) { of(me).note_end(); };
    hiredis_ = made;
    redisAsyncSetConnectCallback(made, [](redisAsyncContext const* ac, int status) {
        auto& c = of(ac->data);
        if (status == REDIS_OK)
            c.phase_ = phase::open;
        else if (c.errno_ == 0)
            c.errno_ = errno;
    });
    wait();
    return true;
}

template <class F>
void connection::call_hiredis(F f) {
    without_sigpipe const guard;
    bool const was_there = hiredis_ != nullptr;
    errno = 0;
    errno_ = 0;
    f();
    if (errno_ == 0)
        errno_ = errno;
    if (was_there && !hiredis_)
        guard.forget();
}

// Records why hiredis has given up.
void connection::note_failure(redisAsyncContext const& ac) noexcept {
    if (errno_ == 0)
        errno_ = errno;
    switch (ac.c.err) {
        case 0:
            return;  // it was closed here
        case REDIS_ERR_IO:
            error_ = errno_ != 0 ? error_code(errno_, boost::system::system_category())
                                 : error_code(asio::error::connection_reset);
            break;
        case REDIS_ERR_EOF:
            error_ = asio::error::eof;
            break;
        case REDIS_ERR_OOM:
            error_ = asio::error::no_memory;
            break;
        case REDIS_ERR_PROTOCOL:
            error_ = errc::protocol;
            break;
        default:  // the message of the server before it closed the connection
            error_ = error_of(ac.c.errstr);
            break;
    }
    try {
        text_ = ac.c.errstr;
    } catch (std::bad_alloc const&) {
        text_.clear();
    }
}

// hiredis is about to close the socket and to free its context.
void connection::note_end() noexcept {
    note_failure(*hiredis_);
    socket_->release();
    socket_.reset();
    hiredis_ = nullptr;
    wants_to_write_ = false;
    waits_to_write_ = false;
    waits_to_read_ = false;
    wants_messages_ = false;
    if (phase_ == phase::open)
        phase_ = phase::closed;
}

void connection::end(error_code ec) noexcept {
    error_ = ec ? ec : error_code(asio::error::connection_aborted);
    phase_ = phase::closed;
}

// A reply; or none, because the connection has ended.
void connection::receive_reply(redisAsyncContext* ac, void* answer, void* data) noexcept {
    auto& c = of(data);
    if (c.sent_.empty())
        return;
    auto& one = *c.sent_.front();
    c.outcomes_.splice(c.outcomes_.end(), c.sent_, c.sent_.begin());
    one.said = {.error = asio::error::no_memory, .lost = true, .kind = failure_kind::no_reply};
    one.is_answer = false;
    try {
        if (answer) {
            one.said = reply_of(*static_cast<redisReply const*>(answer));
            one.is_answer = true;
        } else {
            c.note_failure(*ac);
            auto const written = c.appended_ - sdslen(ac->c.obuf);
            one.said.error = c.error_;
            one.said.lost = one.end <= written;
            one.said.kind = one.said.lost ? failure_kind::no_reply : failure_kind::unsent;
            one.said.text = c.text_;
        }
    } catch (std::bad_alloc const&) {
        // The text, or the reply, is left out.
    }
    // hiredis ends the program on a reply without a command.
    bool const comes_more = ac->c.reader->pos < ac->c.reader->len;
    if (answer && c.sent_.empty() && comes_more) {
        c.error_ = errc::protocol;
        redisAsyncFree(ac);  // takes effect when this function has returned
    }
}

void connection::append(std::vector<std::string_view> const& words, commands& from,
                        commands::iterator which) {
    starts_.clear();
    sizes_.clear();
    for (auto const& w : words) {
        starts_.push_back(w.data());
        sizes_.push_back(w.size());
    }
    auto const before = sdslen(hiredis_->c.obuf);
    auto const failed =
        redisAsyncCommandArgv(hiredis_, &connection::receive_reply, this,
                              static_cast<int>(words.size()), starts_.data(), sizes_.data()) !=
        REDIS_OK;
    auto& to = failed ? outcomes_ : sent_;
    if (failed)
        (*which)->said = {.error = asio::error::no_memory, .kind = failure_kind::unsent};
    else
        appended_ += sdslen(hiredis_->c.obuf) - before;
    (*which)->end = appended_;
    to.splice(to.end(), from, which);
}

void connection::flush() {
    if (phase_ == phase::open && wants_to_write_ && !waits_to_write_)
        writable();
}

void connection::writable() {
    call_hiredis([this] { redisAsyncHandleWrite(hiredis_); });
    if (!hiredis_ && phase_ == phase::opening)
        attempt([this] { connect_next(); });
    else
        wait();
}

void connection::readable() {
    errno = errno_ = 0;
    redisAsyncHandleRead(hiredis_);
    wait();
}

void connection::wait() {
    if (!hiredis_)
        return;
    using asio::posix::stream_descriptor;
    if (wants_to_write_ && !waits_to_write_) {
        waits_to_write_ = true;
        socket_->async_wait(
            stream_descriptor::wait_write, bound([](connection& c, error_code const& ec) {
                if (ec || !c.waits_to_write_)
                    return;
                c.waits_to_write_ = false;
                c.writable();
            }));
    }
    if ((is_busy() || wants_messages_) && !waits_to_read_) {
        waits_to_read_ = true;
        socket_->async_wait(
            stream_descriptor::wait_read, bound([](connection& c, error_code const& ec) {
                if (ec || !c.waits_to_read_)
                    return;
                c.waits_to_read_ = false;
                c.readable();
            }));
    }
}

void connection::subscribe(std::string const& channel) {
    auto const failed = redisAsyncCommand(hiredis_, &connection::receive_message, this,
                                          "SUBSCRIBE %s", channel.c_str()) != REDIS_OK;
    if (failed)
        throw std::bad_alloc();
    wants_messages_ = true;
    flush();
    wait();
}

// A confirmation is `subscribe channel count`, and a message is `message channel text`.
void connection::receive_message(redisAsyncContext*, void* answer, void* data) noexcept {
    auto const* const r = static_cast<redisReply const*>(answer);
    if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 3)
        return;
    try {
        auto const& text = *r->element[2];
        auto& to = of(data).messages_;
        if (text.type == REDIS_REPLY_STRING)
            to.emplace_back(text.str, text.len);
        else
            to.emplace_back();
    } catch (std::bad_alloc const&) {
        // Then the message is lost.
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
    if (wants_messages_ || is_busy() || !waits_to_read_ || !hiredis_)
        return;
    waits_to_read_ = false;
    socket_->cancel();
    if (waits_to_write_) {
        waits_to_write_ = false;
        wait();
    }
}

bool connection::is_stale() const noexcept {
    char byte = 0;
    auto const n = ::recv(hiredis_->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n != -1 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

void connection::close(error_code ec, std::string text) {
    end(ec);
    text_ = std::move(text);
    endpoints_.clear();
    if (resolver_)
        resolver_->cancel();
    if (hiredis_)
        call_hiredis([this] { redisAsyncFree(hiredis_); });
}

void connection::abandon() noexcept {
    close(asio::error::operation_aborted);
    resolver_.reset();
    executor_ = {};
}

}  // namespace weir::inline v0_2::redis::detail
