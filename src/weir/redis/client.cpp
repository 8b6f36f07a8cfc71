#include "client.hpp"

#include <weir/redis/error.hpp>

#include "../check_option.hpp"
#include "cluster.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <new>
#include <string_view>
#include <utility>

namespace weir::inline v0_2::redis::detail {
namespace {

namespace asio = boost::asio;

options const& checked(options const& o) {
    constexpr std::string_view where = "weir::redis";
    auto const check = [&](std::string_view option, duration value, duration least) {
        weir::detail::check_duration(where, option, value, least);
    };
    constexpr duration shortest(1);
    check("connect_timeout", o.connect_timeout, shortest);
    check("silent_for", o.silent_for, shortest);
    policy::validate(where, o.retry);
    return o;
}

}  // namespace

client::client(asio::any_io_executor ex, options const& o, std::shared_ptr<servers> known,
               std::weak_ptr<cluster> nodes)
    : options_(checked(o)),
      servers_(std::move(known)),
      nodes_(std::move(nodes)),
      executor_(std::move(ex)),
      to_(servers_->current()),
      backoff_(o.retry) {
    options_.url.clear();
}

void client::begin() {
    alarm_.emplace(*executor_);
    executor_.attach(shared_from_this());
}

void client::add(commands& one) {
    std::lock_guard lock(mutex_);
    if (executor_.has_ended())
        return;
    call();
    waiting_.splice(waiting_.end(), one);
}

std::shared_ptr<client> client::make_client(address const& to, std::weak_ptr<cluster> nodes) {
    auto known = std::make_shared<servers>(to, servers_->shared_tls());
    std::unique_lock lock(mutex_);
    if (executor_.has_ended())
        return nullptr;
    auto made = std::make_shared<client>(*executor_, options_, std::move(known), std::move(nodes));
    lock.unlock();
    made->begin();
    return made;
}

// Posts a message, unless one is posted already.
void client::call() {
    if (called_)
        return;
    asio::post(*executor_, [self = shared_from_this()] {
        auto arrived = [&] { self->called_ = false; };
        self->serve(std::ref(arrived));
    });
    called_ = true;
}

void client::serve(std::function<void()> const& event) noexcept {
    commands ended;
    bool has_ended = false;
    {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return;
        try {
            event();
            advance(clock_time());
        } catch (std::bad_alloc const&) {
            run_out_of_memory();
        }
        auto const end =
            std::next(due_.begin(), static_cast<std::ptrdiff_t>(std::min(due_.size(), portion)));
        ended.splice(ended.end(), due_, due_.begin(), end);
        has_ended = std::exchange(has_ended_, false);
    }
    if (has_ended)
        if (auto const nodes = nodes_.lock())
            nodes->forget(*this);
    while (!ended.empty()) {
        complete(ended);
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return;
        try {
            call();
        } catch (std::bad_alloc const&) {
            ended.swap(due_);
        }
    }
}

void client::complete(commands& ended) const noexcept {
    while (!ended.empty()) {
        auto& one = static_cast<script_command&>(*ended.front());
        if (one.said.error && one.nodes->redirect(ended, *this))
            continue;
        try {
            if (auto& whom = one.whom)
                std::move(whom)(std::move(one.said));
        } catch (std::bad_alloc const&) {
            // Then there is no handler to call.
        }
        ended.pop_front();
    }
}

void client::context_ends() noexcept {
    // They are destroyed after the release of the lock.
    commands dropped;
    std::lock_guard lock(mutex_);
    if (executor_.has_ended())
        return;
    executor_.end();
    alarm_.reset();
    dropped.swap(waiting_);
    dropped.splice(dropped.end(), due_);
    if (connection_) {
        connection_->abandon();
        dropped.splice(dropped.end(), connection_->outcomes());
        connection_.reset();
    }
}

// ---- Under the lock.

void client::advance(time_point now) {
    do {
        receive(now);
        look_at_connection(now);
        if (!connection_ || connection_->state() != connection::phase::closed)
            drop_late(now);  // otherwise its commands first learn why it was closed
        serve_waiting(now);
    } while (connection_ && (!connection_->outcomes().empty() ||
                             connection_->state() == connection::phase::closed));
    auto const next = next_look();
    if (next != never || due_.empty())
        alarm_->set(next, shared_from_this());
}

void client::receive(time_point now) {
    if (!connection_)
        return;
    auto& outcomes = connection_->outcomes();
    while (!outcomes.empty()) {
        auto const first = outcomes.begin();
        if (auto* const said_first = dynamic_cast<greeting*>(first->get())) {
            receive_greeting(*said_first);
            outcomes.erase(first);
            continue;
        }
        auto& one = static_cast<script_command&>(**first);
        auto& said = one.said;
        answers_ = answers_ || one.is_answer;
        // Another server may serve it.
        bool const is_unfit =
            one.is_answer && (said.error == errc::read_only ||
                              (says_cluster_is_down(said.text) && servers_->size() > 1));
        if (one.is_answer && !is_unfit) {
            backoff_.succeeded();
            failed_ = 0;
        } else if (is_unfit && !std::exchange(retired_, true)) {
            pause(now, said.error, said.text);
        }
        if (is_unfit && is_in_a_round()) {
            one.is_answer = false;
            waiting_.splice(waiting_.end(), outcomes, first);
            continue;
        }
        if (said.error)
            said.again_in = pause_left(now);
        if (said.error == errc::moved) {
            one.elsewhere = redirected(said.text, *to_);
            one.asks = said.text.starts_with("ASK ");
        }
        if (!one.what && said.text.starts_with("TRYAGAIN"))
            said = {};  // while a slot moves, a check cannot look at several keys
        if (said.error && one.is_answer)
            said.text = with_address(std::move(said.text));
        if (!said.error && one.what == script::seats_hold)
            said.from = to_;
        bool const again = said.text.starts_with("NOSCRIPT") && !std::exchange(one.in_full, true);
        one.is_answer = one.is_answer && !again;
        auto& to = again ? waiting_ : due_;
        to.splice(to.end(), outcomes, first);
    }
}

// It is unknown whether the sent commands were carried out.
void client::run_out_of_memory() noexcept {
    if (connection_) {
        connection_->close(asio::error::no_memory);
        auto& outcomes = connection_->outcomes();
        outcomes.remove_if([](auto const& one) { return dynamic_cast<greeting*>(one.get()); });
        due_.splice(due_.end(), outcomes);
        if (!answers_)
            pause(clock_time(), asio::error::no_memory, {});
        connection_.reset();
    }
    for (auto const& one : waiting_)
        one->said = {.error = asio::error::no_memory, .kind = failure_kind::unsent};
    due_.splice(due_.end(), waiting_);
    alarm_->set(never, shared_from_this());
}

void client::drop_late(time_point now) {
    // A check waits until each server was tried.
    bool const may_wait = is_in_a_round();
    complete_waiting(
        [&](script_command const& one) { return one.until <= now && (one.what || !may_wait); },
        {.error = asio::error::timed_out, .kind = failure_kind::unsent});
}

void client::serve_waiting(time_point now) {
    if (waiting_.empty())
        return;
    if (connection_ && connection_->state() == connection::phase::closed)
        return;  // its results come first
    if (connection_ && stage_ == stage::ready && !connection_->is_busy() &&
        (retired_ || connection_->is_stale())) {
        has_ended_ = true;
        if (!answers_)
            pause(now, asio::error::eof, {});
        connection_.reset();
    }
    if (!connection_) {
        connect(now);
        return;
    }
    if (stage_ != stage::ready || retired_ || owes_late(now) ||
        connection_->state() != connection::phase::open)
        return;
    while (!waiting_.empty())
        send(waiting_.begin(), now);
    connection_->flush();
}

// Any reply counts: a question with a short timeout may have been sent after one with a long timeout.
bool client::owes_late(time_point now) const noexcept {
    return std::ranges::any_of(connection_->sent(), [now](auto const& one) {
        return now >= static_cast<script_command const&>(*one).until;
    });
}

void client::send(commands::iterator which, time_point now) {
    auto& one = static_cast<script_command&>(**which);
    one.since = now;
    if (!one.what) {
        words_ = {"EVAL", check_text()};
    } else {
        auto const& digest = loaded_[static_cast<std::size_t>(*one.what)];
        if (one.in_full || digest.empty())
            words_ = {"EVAL", text_of(*one.what)};
        else
            words_ = {"EVALSHA", digest};
    }
    std::string log_key;
    std::string seats_key;
    if (one.what) {
        words_.insert(words_.end(), {"1", one.key});
    } else {
        log_key = one.key + ":log";
        seats_key = one.key + ":seats";
        words_.insert(words_.end(), {"3", one.key, log_key, seats_key});
    }
    words_.insert(words_.end(), one.arguments.begin(), one.arguments.end());
    connection_->append(words_, waiting_, which);
}

// Returns when the store gives up the connection.
time_point client::patience_ends() const noexcept {
    if (stage_ == stage::connecting && connection_->state() == connection::phase::opening)
        return connection_->attempt_ends();
    if (stage_ != stage::ready)
        return connect_until_;
    auto const& sent = connection_->sent();
    if (sent.empty())
        return never;
    return later(static_cast<script_command const&>(*sent.front()).since, options_.silent_for);
}

time_point client::next_look() const noexcept {
    auto at = connection_ ? patience_ends() : never;
    for (auto const& one : waiting_)
        at = std::min(at, static_cast<script_command const&>(*one).until);
    if (!connection_ && !waiting_.empty())
        at = std::min(at, backoff_.retry_at());
    return at;
}

}  // namespace weir::inline v0_2::redis::detail
