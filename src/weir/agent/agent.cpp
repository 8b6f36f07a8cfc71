#include "agent.hpp"

#include "../check_option.hpp"
#include "neighbour.hpp"
#include "path.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/system/system_error.hpp>

#include <chrono>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

namespace weir::inline v0_2::agent {

namespace asio = boost::asio;

namespace detail {
namespace {

server_options const& checked(server_options const& o) {
    using namespace std::chrono_literals;
    using weir::detail::check_option;
    constexpr std::string_view where = "weir::agent::server";
    check_path(where, o.path);
    check_option(where, "mode", o.mode, 0U, 0777U);
    weir::detail::check_duration(where, "lease", o.lease, 1ms, 60s);
    check_option(where, "max_connections", o.max_connections, 1, 100'000);
    check_option(where, "max_limits", o.max_limits, 1, 10'000'000);
    return o;
}

// An agent that was killed left its socket file behind.
void remove_if_nobody_listens(asio::any_io_executor const& ex, std::string const& path) {
    std::error_code missing;
    if (!std::filesystem::is_socket(path, missing))
        return;
    asio::local::stream_protocol::socket probe(ex);
    error_code ec;
    probe.connect(path, ec);
    if (ec == asio::error::connection_refused)
        std::filesystem::remove(path, missing);
}

}  // namespace

agent::agent(asio::any_io_executor const& ex, std::shared_ptr<weir::store> at,
             server_options const& o)
    : options_(checked(o)), store_(std::move(at)), strand_(asio::make_strand(ex)) {
    weir::detail::check_shared("agent::server", store_.get(), "agent");
    remove_if_nobody_listens(ex, options_.path);
    protocol::acceptor made(*strand_);
    made.open();
    made.bind(options_.path);
    std::filesystem::permissions(options_.path, static_cast<std::filesystem::perms>(options_.mode));
    made.listen();
    acceptor_ = std::move(made);
    pause_.emplace(*strand_);
}

agent::~agent() = default;

void agent::begin() {
    strand_.attach(shared_from_this());
    post([self = shared_from_this()] { self->accept(); });
}

void agent::close() noexcept {
    try {
        post([self = shared_from_this()] { self->end(); });
    } catch (std::bad_alloc const&) {
        // Then it ends with its context.
    }
}

void agent::context_ends() noexcept {
    {
        std::lock_guard lock(mutex_);
        strand_.end();
    }
    end();
}

void agent::end() {
    if (!acceptor_)
        return;
    acceptor_.reset();
    pause_.reset();
    std::error_code ignored;
    std::filesystem::remove(options_.path, ignored);
    for (auto const& one : std::exchange(neighbours_, {}))
        one->end();
    limits_.clear();
    used_.clear();
    limit_count_ = 0;
}

server_stats agent::stats() const noexcept {
    return {connections_, limit_count_, questions_, grants_};
}

// ---- Connections

void agent::accept() {
    accepts_ = acceptor_ && neighbours_.size() < static_cast<std::size_t>(options_.max_connections);
    if (!accepts_)
        return;
    acceptor_->async_accept([self = shared_from_this()](error_code ec, neighbour::socket s) {
        if (!self->acceptor_)
            return;
        if (ec)
            return self->pause();
        auto const one = std::make_shared<neighbour>(self, std::move(s));
        self->neighbours_.insert(one);
        ++self->connections_;
        one->start();
        self->accept();
    });
}

// The process has no file descriptor for another connection.
void agent::pause() {
    pause_->expires_after(std::chrono::milliseconds(100));
    pause_->async_wait([self = shared_from_this()](error_code ec) {
        if (!ec)
            self->accept();
    });
}

void agent::forget(std::shared_ptr<neighbour> const& one) {
    --connections_;
    neighbours_.erase(one);
    if (!accepts_)
        accept();
}

// ---- Limits

std::shared_ptr<limit> agent::find(std::string const& name, policy::shared_bucket const& bucket) {
    limit_id const id(bucket.window != 0, name);
    auto const known = limits_.find(id);
    bool const is_same = known != limits_.end() && known->second.here->is_for(bucket);
    bool const is_worth = is_same || detail::is_worth(bucket, options_.lease);
    if (known != limits_.end() && is_worth) {
        used_.splice(used_.begin(), used_, known->second.place);
        if (!is_same)
            known->second.here->use(bucket);
        return known->second.here;
    }
    if (!is_worth || !has_room()) {
        store_->validate(bucket);
        return nullptr;
    }
    auto made =
        std::make_shared<limit>(acceptor_->get_executor(), store_, name, bucket, options_.lease);
    used_.push_front(id);
    limits_.emplace(id, known_limit{made, used_.begin()});
    limit_count_ = static_cast<amount>(limits_.size());
    return made;
}

void agent::take_back(give_back const& what) {
    auto const known = limits_.find(limit_id(what.bucket.window != 0, what.name));
    if (known != limits_.end() && known->second.here->take_back(what.count, what.since))
        return;
    if (detail::is_worth(what.bucket, options_.lease))
        return;  // the permits are refilled by now, or an agent before this one granted them
    store_->async_give_back(what.name, {.bucket = what.bucket,
                                        .count = what.count,
                                        .since = what.since,
                                        .timeout = std::chrono::seconds(1)});
}

// Forgets the limit that was not asked for the longest time, if there are too many.
bool agent::has_room() {
    if (limits_.size() < static_cast<std::size_t>(options_.max_limits))
        return true;
    auto const oldest = limits_.find(used_.back());
    if (!oldest->second.here->is_idle())
        return false;
    limits_.erase(oldest);
    used_.pop_back();
    return true;
}

}  // namespace detail

server::server(asio::any_io_executor ex, std::shared_ptr<weir::store> at,
               server_options const& options)
    : agent_(std::make_shared<detail::agent>(ex, std::move(at), options)) {
    agent_->begin();
}

server::~server() {
    close();
}

void server::close() noexcept {
    agent_->close();
}

server_stats server::stats() const noexcept {
    return agent_->stats();
}

}  // namespace weir::inline v0_2::agent
