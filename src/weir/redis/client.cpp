#include "client.hpp"

#include <weir/redis/error.hpp>

#include "../check_option.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

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

client::client(asio::any_io_executor ex, options const& o, std::shared_ptr<servers> known)
    : options_(checked(o)),
      servers_(std::move(known)),
      executor_(std::move(ex)),
      to_(servers_->current()),
      backoff_(o.retry) {
    options_.url.clear();
}

void client::begin() {
    alarm_.emplace(*executor_);
    auto& context = asio::query(*executor_, asio::execution::context);
    entry_.emplace(context, std::weak_ptr<context_user>(shared_from_this()));
}

void client::run(script what, std::string const& name, std::vector<std::string> arguments,
                 duration timeout, handler h) {
    auto made = std::make_unique<order>();
    made->what = what;
    made->key = key_of(what, name);
    made->arguments = std::move(arguments);
    made->until = later(clock_time(), timeout);
    made->whom = std::move(h);
    note(std::move(made));
}

void client::check(std::string const& name, handler h) {
    auto made = std::make_unique<order>();
    made->key = key_of(script::take, name);
    made->until = later(clock_time(), options_.connect_timeout);
    made->whom = std::move(h);
    note(std::move(made));
}

void client::note(std::unique_ptr<order> what) {
    commands one;
    one.push_back(std::move(what));
    std::lock_guard lock(mutex_);
    if (!executor_)
        return;
    call();
    waiting_.splice(waiting_.end(), one);
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
    {
        std::lock_guard lock(mutex_);
        if (!executor_)
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
    }
    while (!ended.empty()) {
        complete(ended);
        ended.clear();
        std::lock_guard lock(mutex_);
        if (!executor_)
            return;
        try {
            call();
        } catch (std::bad_alloc const&) {
            ended.swap(due_);
        }
    }
}

void client::complete(commands const& ended) noexcept {
    for (auto const& one : ended) {
        try {
            if (auto& whom = static_cast<order&>(*one).whom)
                std::move(whom)(std::move(one->said));
        } catch (std::bad_alloc const&) {
            // Then there is no handler to call.
        }
    }
}

void client::context_ends() noexcept {
    // They are destroyed after the release of the lock.
    commands dropped;
    std::lock_guard lock(mutex_);
    if (!executor_)
        return;
    executor_.reset();
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
        drop_late(now);
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
        auto& one = static_cast<order&>(**first);
        auto& said = one.said;
        answers_ = answers_ || one.is_answer;
        bool const is_of_replica = one.is_answer && said.error == errc::read_only;
        if (one.is_answer && !is_of_replica) {
            backoff_.succeeded();
            failed_ = 0;
        } else if (is_of_replica && !std::exchange(retired_, true)) {
            pause(now, said.error, said.text);
        }
        if (is_of_replica && is_in_a_round()) {
            waiting_.splice(waiting_.end(), outcomes, first);
            continue;
        }
        if (said.error)
            said.again_in = pause_left(now);
        if (said.error && one.is_answer)
            said.text = with_address(std::move(said.text));
        bool const again = said.text.starts_with("NOSCRIPT") && !std::exchange(one.in_full, true);
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
    complete_waiting([now](order const& one) { return one.until <= now; },
                     {.error = asio::error::timed_out, .kind = failure_kind::unsent});
}

void client::serve_waiting(time_point now) {
    if (waiting_.empty())
        return;
    if (connection_ && connection_->state() == connection::phase::closed)
        return;  // its results come first
    if (connection_ && stage_ == stage::ready && !connection_->is_busy() &&
        (retired_ || connection_->is_stale())) {
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
        return now >= static_cast<order const&>(*one).until;
    });
}

void client::send(commands::iterator which, time_point now) {
    auto& one = static_cast<order&>(**which);
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
    return later(static_cast<order const&>(*sent.front()).since, options_.silent_for);
}

time_point client::next_look() const noexcept {
    auto at = connection_ ? patience_ends() : never;
    for (auto const& one : waiting_)
        at = std::min(at, static_cast<order const&>(*one).until);
    if (!connection_ && !waiting_.empty())
        at = std::min(at, backoff_.retry_at());
    return at;
}

}  // namespace weir::inline v0_2::redis::detail
