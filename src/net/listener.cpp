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

}  // namespace

listener::listener(asio::io_context& context, std::int64_t most) : context_(context), most_(most) {}

listener::~listener() {
    close();
}

error_code listener::acceptor::set_mode(unsigned mode) {
    bool const is_set = path_.empty() || ::chmod(path_.c_str(), mode) == 0;
    return is_set ? error_code() : error_code(errno, boost::system::system_category());
}

listener::acceptor& listener::open(endpoint const& at, std::string name,
                                   std::optional<unsigned> mode) {
    auto path = path_of(at);
    if (!path.empty())
        remove_if_nobody_listens(context_, at, path);
    auto& made = add(std::move(name));
    try {
        made.acceptor_.open(at.protocol());
        made.acceptor_.set_option(stream_acceptor::reuse_address(true));
        made.acceptor_.bind(at);
        made.path_ = std::move(path);
        if (auto const ec = mode ? made.set_mode(*mode) : error_code())
            throw boost::system::system_error(ec);
        made.acceptor_.listen(4096);
    } catch (...) {
        close(made);
        throw;
    }
    return ready(made);
}

listener::acceptor& listener::adopt(int socket, std::string name) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    int const family = ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0
                           ? address.ss_family
                           : AF_UNSPEC;
    auto& made = add(std::move(name));
    try {
        made.acceptor_.assign(stream(family, 0), socket);
    } catch (...) {
        close(made);
        throw;
    }
    return ready(made);
}

listener::acceptor& listener::ready(acceptor& one) {
    one.acceptor_.non_blocking(true);
    if (started_)
        accept(one);
    return one;
}

listener::acceptor& listener::add(std::string name) {
    return acceptors_.emplace_back(acceptor(context_, std::move(name)));
}

void listener::start(handlers h) {
    handlers_ = std::move(h);
    started_ = true;
    for (auto& one : acceptors_)
        accept(one);
}

void listener::close() {
    while (!acceptors_.empty())
        close(acceptors_.front());
}

void listener::close(acceptor& one) {
    error_code ignored;
    one.acceptor_.close(ignored);
    one.pause_.cancel();
    if (!one.path_.empty())
        ::unlink(one.path_.c_str());
    one.closed_ = true;
    auto const at = std::ranges::find(acceptors_, &one, [](acceptor& d) { return &d; });
    if (one.pending_ == 0)
        acceptors_.erase(at);
    else
        closed_.splice(closed_.end(), acceptors_, at);
}

// Ends one operation that refers to the socket.
void listener::forget(acceptor& one) {
    if (--one.pending_ == 0 && one.closed_)
        closed_.erase(std::ranges::find(closed_, &one, [](acceptor& d) { return &d; }));
}

void listener::accept(acceptor& at) {
    at.waits_ = is_full();
    if (at.waits_) {
        complain("all " + std::to_string(most_) + " connections are in use; new clients wait");
        return;
    }
    ++at.pending_;
    at.acceptor_.async_wait(stream_acceptor::wait_read, [this, &at](error_code ec) {
        if (at.closed_)
            return forget(at);
        --at.pending_;
        if (!ec)
            ec = let_in(at);
        if (ec && ec != asio::error::operation_aborted) {
            // Files or memory may be available again later.
            complain("cannot accept connections: " + ec.message());
            return pause(at);
        }
        accept(at);
    });
}

// Accepts pending connections, at most 64 at a time and at most up to the maximum.
error_code listener::let_in(acceptor& at) {
    error_code ec;
    for (int n = 0; n != 64 && !is_full(); ++n) {
        auto socket = at.acceptor_.accept(handlers_.next_context(), ec);
        if (ec == asio::error::would_block)
            return {};
        if (ec == asio::error::connection_aborted)
            continue;
        if (ec)
            return ec;
        take_in(std::move(socket), at);
    }
    if (is_full())
        for (auto& other : acceptors_)
            other.acceptor_.cancel(ec);  // each then waits until a connection closes
    return {};
}

void listener::take_in(stream_socket socket, acceptor const& by) {
    error_code gone;
    auto const from = socket.remote_endpoint(gone);
    if (gone)
        return;
    ++open_;
    handlers_.accepted(std::move(socket), from, admission(*this), by);
}

void listener::pause(acceptor& at) {
    ++at.pending_;
    at.pause_.expires_after(std::chrono::milliseconds(100));
    at.pause_.async_wait([this, &at](error_code) {
        if (at.closed_)
            return forget(at);
        --at.pending_;
        accept(at);
    });
}

void listener::leave() noexcept {
    if (open_.fetch_sub(1) != most_)
        return;
    asio::post(context_, [this] {
        for (auto& one : acceptors_)
            if (one.waits_)
                accept(one);
    });
}

void listener::complain(std::string what) {
    auto const now = clock::now();
    if (complained_ != clock::time_point::min() && now < complained_ + std::chrono::minutes(1))
        return;
    complained_ = now;
    handlers_.trouble(std::move(what));
}

}  // namespace net
