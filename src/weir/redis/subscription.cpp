#include "subscription.hpp"

#include <weir/detail/random.hpp>
#include <weir/redis/error.hpp>

#include "scripts.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <new>
#include <string_view>

namespace weir::inline v0_2::redis::detail {

namespace asio = boost::asio;

namespace {

// Until an administrator may have given the user the permission.
constexpr duration pause_of_forbidden = std::chrono::seconds(10);

}  // namespace

subscription::subscription(asio::any_io_executor ex, options const& o,
                           std::shared_ptr<servers const> known)
    : options_(o),
      servers_(std::move(known)),
      channel_(weir::detail::random_bits() | 1),
      channel_name_(detail::channel_name(channel_)),
      executor_(std::move(ex)),
      backoff_(o.retry) {
    options_.url.clear();
}

void subscription::begin() {
    alarm_.emplace(*executor_);
    executor_.attach(shared_from_this());
}

void subscription::listen(seats::holder_id const& holder, std::weak_ptr<seats::listener> to) {
    std::lock_guard lock(mutex_);
    std::erase_if(receivers_, [](auto const& one) { return one.second.to.expired(); });
    receivers_[holder].to = std::move(to);
}

std::uint64_t subscription::channel() const {
    std::lock_guard lock(mutex_);
    return connection_ && stage_ == stage::ready ? channel_ : 0;
}

void subscription::expect(seats::holder_id const& holder, time_point until,
                          std::shared_ptr<address const> from) noexcept {
    auto event = [&] {
        replied_ = std::move(from);
        if (is_at_replied())
            proved_ = clock_time();
        if (auto const found = receivers_.find(holder); found != receivers_.end())
            found->second.expects_until = until;
    };
    serve(std::ref(event));
}

void subscription::serve(std::function<void()> const& event) noexcept {
    decltype(due_) due;
    std::vector<std::weak_ptr<seats::listener>> missed;
    {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return;
        try {
            event();
            advance(clock_time());
            if (has_missed_) {
                for (auto const& [_, one] : receivers_)
                    missed.push_back(one.to);
                has_missed_ = false;
            }
        } catch (std::bad_alloc const&) {
            // Then holders ask after a while: messages are only a help.
            end_connection(clock_time());
        }
        due.swap(due_);
    }
    for (auto const& [to, what] : due) {
        if (auto const l = to.lock())
            l->receive(what);
    }
    for (auto const& to : missed) {
        if (auto const l = to.lock())
            l->missed_messages();
    }
}

void subscription::context_ends() noexcept {
    std::lock_guard lock(mutex_);
    if (executor_.has_ended())
        return;
    executor_.end();
    alarm_.reset();
    if (connection_)
        connection_->abandon();
    connection_.reset();
}

// ---- Under the lock.

void subscription::advance(time_point now) {
    receive(now);
    look_at_connection(now);
    auto const until = needed_until();
    bool const is_needed = now < until;
    if (connection_ && is_needed && !is_at_replied() && now >= later(proved_, options_.silent_for))
        end_connection(now);
    if (!connection_ && is_needed && now >= retry_at_)
        connect(now);
    if (connection_ && stage_ == stage::ready) {
        connection_->wait_for_messages(is_needed);
        is_asked_ = is_asked_ && is_needed;
        bool const is_silent = now >= later(since_, options_.silent_for);
        if (is_needed && is_silent && !is_asked_)
            subscribe(now);
    }
    auto const next = connection_ ? patience_ends() : retry_at_;
    bool const connects = connection_ && stage_ != stage::ready;
    alarm_->set(is_needed ? std::min(until, next) : connects ? next : never, shared_from_this());
}

void subscription::receive(time_point now) {
    if (!connection_)
        return;
    for (auto const& text : connection_->messages()) {
        since_ = now;
        is_asked_ = false;
        if (text.empty()) {
            stage_ = stage::ready;
            backoff_.succeeded();
        } else if (auto const what = notice_of(text)) {
            proved_ = now;
            if (auto const found = receivers_.find(what->holder); found != receivers_.end())
                due_.emplace_back(found->second.to, *what);
        }
    }
    connection_->messages().clear();
    for (auto const& one : connection_->outcomes()) {  // of the login
        if (one->said.error)
            connection_->close(one->said.error);
        else
            subscribe(now);
    }
    connection_->outcomes().clear();
}

void subscription::look_at_connection(time_point now) {
    if (!connection_)
        return;
    if (now >= patience_ends()) {
        if (connection_->state() == connection::phase::opening)
            connection_->try_next();
        else if (is_asked_)
            connection_->close(asio::error::timed_out);
    }
    if (connection_->state() == connection::phase::closed)
        end_connection(now);
    else if (connection_->state() == connection::phase::open && stage_ == stage::connecting)
        greet(now);
}

void subscription::end_connection(time_point now) noexcept {
    if (!connection_)
        return;
    has_missed_ = has_missed_ || stage_ == stage::ready;
    bool const is_forbidden = connection_->error() == errc::forbidden;
    connection_->close(asio::error::connection_aborted);
    connection_.reset();
    backoff_.failed(backoff_.failures(), now);
    retry_at_ = is_forbidden ? later(now, pause_of_forbidden) : backoff_.retry_at();
}

void subscription::greet(time_point now) {
    stage_ = stage::greeting;
    if (to_->password.empty()) {
        subscribe(now);
        return;
    }
    std::vector<std::string_view> words{"AUTH"};
    if (!to_->user.empty())
        words.push_back(to_->user);
    words.push_back(to_->password);
    commands one;
    one.push_back(std::make_unique<command>());
    connection_->append(words, one, one.begin());
    connection_->flush();
    asked_ = now;
    is_asked_ = true;
}

void subscription::subscribe(time_point now) {
    asked_ = now;
    is_asked_ = true;
    connection_->subscribe(channel_name_);
}

void subscription::connect(time_point now) {
    connection_ = std::make_shared<connection>(*executor_, weak_from_this(), servers_->tls());
    stage_ = stage::connecting;
    is_asked_ = false;
    since_ = now;
    to_ = replied_;
    proved_ = now;
    connection_->open(*to_, later(now, options_.connect_timeout));
    if (connection_->state() == connection::phase::closed)
        end_connection(now);
}

// Returns whether the connection is to the server of the last reply.
bool subscription::is_at_replied() const noexcept {
    return replied_ == to_ || (replied_ && to_ && replied_->path == to_->path &&
                               replied_->host == to_->host && replied_->port == to_->port);
}

// Returns until when the server keeps something for a holder.
time_point subscription::needed_until() const noexcept {
    auto until = time_point::min();
    for (auto const& [_, one] : receivers_) {
        if (!one.to.expired())
            until = std::max(until, one.expects_until);
    }
    return until;
}

// Returns when this connection is given up, or the subscription is repeated.
time_point subscription::patience_ends() const noexcept {
    if (connection_->state() == connection::phase::opening)
        return connection_->attempt_ends();
    return later(is_asked_ ? asked_ : since_, options_.silent_for);
}

}  // namespace weir::inline v0_2::redis::detail
