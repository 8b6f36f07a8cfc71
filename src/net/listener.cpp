#include "listener.hpp"

#include "resolve.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace net {
namespace {

// A program that crashed leaves the file of its socket, which prevents a bind.
void remove_if_nobody_listens(asio::io_context& context, endpoint const& at,
                              std::string const& path) {
    struct stat found{};
    if (::stat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode))
        return;
    stream_socket probe(context);
    error_code ec;
    probe.connect(at, ec);
    if (ec == asio::error::connection_refused)
        ::unlink(path.c_str());
}

// The most connections that a round accepts.
constexpr int longest_round = 64;
// The number of full rounds after which the next one is longer.
constexpr int many_full_rounds = 8;

}  // namespace

void listener::acceptor::move_to(asio::io_context& context) {
    auto const protocol = acceptor_.local_endpoint().protocol();
    acceptor_ = stream_acceptor(context, protocol, acceptor_.release());
    pause_ = timer(context);
}

// Accepted sockets inherit the option, which saves a system call for each.
void listener::acceptor::send_without_delay() {
    error_code not_tcp;
    acceptor_.set_option(tcp::no_delay(true), not_tcp);
}

// A call that finds no connection costs as much as one that finds one. So a round accepts a single connection, unless
// the rounds before show that more of them wait.
void listener::acceptor::note_end_of_backlog() noexcept {
    round_ = 1;
    full_rounds_ = 0;
}

void listener::acceptor::note_full_round() noexcept {
    if (++full_rounds_ >= many_full_rounds)
        round_ = std::min(2 * round_, longest_round);
}

error_code listener::acceptor::set_mode(unsigned mode) {
    bool const is_set = path_.empty() || ::chmod(path_.c_str(), mode) == 0;
    return is_set ? error_code() : error_code(errno, boost::system::system_category());
}

listener::listener(asio::io_context& context, std::int64_t most)
    : context_(&context), most_(most) {}

listener::~listener() {
    close();
}

listener::acceptor& listener::open(endpoint const& at, std::string name,
                                   std::optional<unsigned> mode, std::size_t number) {
    auto path = path_of(at);
    if (!path.empty())
        remove_if_nobody_listens(*context_, at, path);
    auto& made = add(std::move(name), number);
    try {
        made.acceptor_.open(at.protocol());
        made.acceptor_.set_option(stream_acceptor::reuse_address(true));
        made.acceptor_.bind(at);
        made.path_ = std::move(path);
        if (auto const ec = mode ? made.set_mode(*mode) : error_code())
            throw boost::system::system_error(ec);
        made.acceptor_.listen(4096);
        made.send_without_delay();
    } catch (...) {
        close(made);
        throw;
    }
    return made;
}

listener::acceptor& listener::adopt(int socket, std::string name, std::size_t number) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    int const family = ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0
                           ? address.ss_family
                           : AF_UNSPEC;
    auto& made = add(std::move(name), number);
    try {
        made.acceptor_.assign(stream(family, 0), socket);
        made.send_without_delay();
    } catch (...) {
        close(made);
        throw;
    }
    return made;
}

listener::acceptor& listener::add(std::string name, std::size_t number) {
    std::lock_guard const lock(mutex_);
    acceptors_.push_back(owned(new acceptor(*context_, std::move(name), number)));
    return *acceptors_.back();
}

// Precondition: `mutex_` is locked.
void listener::begin(owned const& one) {
    one->acceptor_.non_blocking(true);
    // Otherwise Asio would block the thread until the next connection.
    one->acceptor_.set_option(stream_acceptor::enable_connection_aborted(true));
    accept(one);
}

void listener::start(handlers h) {
    std::lock_guard const lock(mutex_);
    for (auto const& one : acceptors_)
        one->move_to(h.accepts);
    context_ = &h.accepts;
    handlers_.emplace(std::move(h));
    for (auto const& one : acceptors_)
        begin(one);
}

// The wait begins behind all functions that were posted to the accepting thread before. Otherwise an older event in its
// queue could complete the wait, and the thread would accept before it ran these functions.
void listener::start(acceptor& one) {
    std::lock_guard const lock(mutex_);
    if (handlers_)
        asio::post(*context_, [this, at = *std::ranges::find(acceptors_, &one, &owned::get)] {
            std::lock_guard const here(mutex_);
            if (!at->closed_)
                begin(at);
        });
}

void listener::close() {
    while (!acceptors_.empty())
        close(*acceptors_.front());
}

// A pending operation still refers to the socket, until its handler ran or was destroyed.
void listener::close(acceptor& one) {
    std::lock_guard const lock(mutex_);
    error_code ignored;
    one.acceptor_.close(ignored);
    one.pause_.cancel();
    if (!one.path_.empty())
        ::unlink(one.path_.c_str());
    one.closed_ = true;
    acceptors_.erase(std::ranges::find(acceptors_, &one, &owned::get));
}

// Precondition: `mutex_` is locked.
void listener::accept(owned const& at) {
    at->waits_ = is_full();
    if (at->waits_) {
        complain("all " + std::to_string(most_) + " connections are in use; new clients wait");
        return;
    }
    at->acceptor_.async_wait(stream_acceptor::wait_read, [this, at](error_code ec) {
        if (!ec)
            ec = let_in(*at);
        std::lock_guard const lock(mutex_);
        if (at->closed_)
            return;
        if (ec && ec != asio::error::operation_aborted) {
            // Files or memory may be available again later.
            complain("cannot accept connections: " + ec.message());
            return pause(at);
        }
        accept(at);
    });
}

// Accepts the connections of a round, and at most up to the maximum.
error_code listener::let_in(acceptor& at) {
    for (int n = 0; n != longest_round; ++n) {
        error_code ec;
        auto came = next(at, ec);
        if (ec == asio::error::connection_aborted)
            continue;
        if (!came)
            return ec == asio::error::would_block ? error_code() : ec;
        handlers_->accepted(std::move(*came));
        if (n + 1 == at.round_) {
            at.note_full_round();
            return {};
        }
    }
    return {};
}

// Accepts a connection. Returns nothing without `ec` if there is no room for it, or the socket was closed.
std::optional<arrival> listener::next(acceptor& at, error_code& ec) {
    std::lock_guard const lock(mutex_);
    if (at.closed_ || is_full())
        return {};
    endpoint from;
    auto socket = at.acceptor_.accept(handlers_->next_context(), from, ec);
    if (ec == asio::error::would_block)
        at.note_end_of_backlog();
    if (ec)
        return {};
    ++open_;
    if (is_full())
        for (auto const& other : acceptors_) {
            error_code ignored;
            other->acceptor_.cancel(ignored);  // each then waits until a connection closes
        }
    return arrival{admission(*this), std::move(socket), from, at.number_};
}

// Precondition: `mutex_` is locked.
void listener::pause(owned const& at) {
    at->pause_.expires_after(std::chrono::milliseconds(100));
    at->pause_.async_wait([this, at](error_code) {
        std::lock_guard const lock(mutex_);
        if (!at->closed_)
            accept(at);
    });
}

void listener::leave() noexcept {
    if (open_.fetch_sub(1) != most_)
        return;
    asio::post(*context_, [this] {
        std::lock_guard const lock(mutex_);
        for (auto const& one : acceptors_)
            if (one->waits_)
                accept(one);
    });
}

void listener::complain(std::string what) {
    auto const now = clock::now();
    if (complained_ != clock::time_point::min() && now < complained_ + std::chrono::minutes(1))
        return;
    complained_ = now;
    handlers_->trouble(std::move(what));
}

}  // namespace net
