#include "client.hpp"

#include <weir/redis/error.hpp>

#include "../check_option.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

namespace weir::redis::detail {
namespace {

namespace asio = boost::asio;

time_point clock_time() noexcept {
    auto const t = std::chrono::steady_clock::now().time_since_epoch();
    return time_point(std::chrono::duration_cast<duration>(t));
}

options const& checked(options const& o) {
    constexpr std::string_view where = "weir::redis";
    auto const check = [&](std::string_view option, duration value, duration least) {
        weir::detail::check_option(where, option, value.count(), least.count(), forever.count());
    };
    constexpr duration shortest(1);
    check("connect_within in nanoseconds", o.connect_within, shortest);
    check("silent_for in nanoseconds", o.silent_for, shortest);
    check("retry_first in nanoseconds", o.retry_first, shortest);
    check("retry_most in nanoseconds", o.retry_most, o.retry_first);
    weir::detail::check_option(where, "retry_jitter", o.retry_jitter, 0, 1);
    return o;
}

}  // namespace

client::client(asio::any_io_executor ex, options const& o)
    : options_(checked(o)),
      address_(address::parse(o.url)),
      executor_(std::move(ex)),
      backoff_(o.retry_first, o.retry_most, o.retry_jitter) {
    options_.url.clear();
}

void client::begin() {
    timer_.emplace(*executor_);
    auto& context = asio::query(*executor_, asio::execution::context);
    entry_.emplace(context, std::weak_ptr<context_user>(shared_from_this()));
}

void client::run(script what, std::string const& name, std::vector<std::string> arguments,
                 duration deadline, handler h) {
    auto made = std::make_unique<order>();
    made->what = what;
    made->key = key_of(what, name);
    made->arguments = std::move(arguments);
    made->until = later(clock_time(), deadline);
    made->whom = std::move(h);
    note(std::move(made));
}

void client::check(std::string const& name, handler h) {
    auto made = std::make_unique<order>();
    made->key = key_of(script::take, name);
    made->until = later(clock_time(), options_.connect_within);
    made->whom = std::move(h);
    note(std::move(made));
}

void client::note(std::unique_ptr<order> what) {
    std::lock_guard lock(mutex_);
    if (!executor_)
        return;
    if (!called_) {
        asio::post(*executor_, [self = shared_from_this()] {
            auto arrived = [&] { self->called_ = false; };
            self->serve(std::ref(arrived));
        });
        called_ = true;
    }
    waiting_.push_back(std::move(what));
}

void client::serve(std::function<void()> const& event) noexcept {
    std::vector<due> told;
    {
        std::lock_guard lock(mutex_);
        if (!executor_)
            return;
        event();
        advance(clock_time());
        told.swap(due_);
    }
    for (auto& [what, said] : told) {
        if (what->whom)
            std::move(what->whom)(std::move(said));
    }
}

void client::context_ends() noexcept {
    // They are destroyed after the lock has been released.
    std::deque<std::unique_ptr<order>> waiting;
    std::vector<connection::outcome> outcomes;
    std::lock_guard lock(mutex_);
    if (!executor_)
        return;
    executor_.reset();
    timer_.reset();
    waiting.swap(waiting_);
    if (connection_) {
        connection_->abandon();
        outcomes = connection_->take_outcomes();
        connection_.reset();
    }
}

// ---- Under the lock

void client::advance(time_point now) {
    do {
        hear(now);
        look_at_connection(now);
        drop_late(now);
        serve_waiting(now);
    } while (connection_ &&
             (connection_->has_outcomes() || connection_->state() == connection::phase::closed));
    arm(next_look());
}

void client::hear(time_point now) {
    if (!connection_)
        return;
    for (auto& [what, said, is_answer] : connection_->take_outcomes()) {
        if (auto const* const first = dynamic_cast<greeting*>(what.get())) {
            hear_greeting(*first, said);
            continue;
        }
        debts_.pop_front();
        std::unique_ptr<order> one(static_cast<order*>(what.release()));
        answers_ = answers_ || is_answer;
        if (is_answer && said.error != errc::read_only)
            backoff_.succeeded();
        else if (is_answer && !std::exchange(retired_, true))
            pause(now, said.error, said.text);
        if (said.text.starts_with("NOSCRIPT") && !std::exchange(one->in_full, true))
            waiting_.push_back(std::move(one));
        else
            tell(std::move(one), std::move(said));
    }
}

void client::hear_greeting(greeting const& what, reply const& said) {
    --greetings_;
    if (connection_->state() == connection::phase::closed)
        return;
    if (said.error && !(what.loads && said.error == errc::forbidden))
        // What the server says to a login may repeat the password.
        connection_->close(said.error, what.logs_in ? "AUTH has failed" : said.text);
    else if (what.loads && !said.error)
        loaded_[static_cast<std::size_t>(*what.loads)] = said.text;
}

void client::look_at_connection(time_point now) {
    if (!connection_)
        return;
    if (now >= patience_ends())
        connection_->close(asio::error::timed_out);
    auto const state = connection_->state();
    if (state == connection::phase::closed) {
        if (connection_->has_outcomes())
            return;  // first they are told
        if (!answers_)
            pause(now, connection_->error(), connection_->text());
        if (stage_ != stage::ready)
            tell_waiting([](order const&) { return true; }, failure_);
        connection_.reset();
    } else if (state == connection::phase::open && stage_ == stage::connecting) {
        greet();
    } else if (stage_ == stage::greeting && greetings_ == 0) {
        stage_ = stage::ready;
    }
}

void client::greet() {
    stage_ = stage::greeting;
    auto const say =
        [this](std::vector<std::string_view> const& words, std::optional<script> loads = {}) {
            auto what = std::make_unique<greeting>();
            what->loads = loads;
            what->logs_in = words.front() == "AUTH";
            ++greetings_;
            connection_->append(words, std::move(what));
        };
    auto const& [path, host, port, user, password, database] = address_;
    if (!user.empty())
        say({"AUTH", user, password});
    else if (!password.empty())
        say({"AUTH", password});
    if (database != 0)
        say({"SELECT", std::to_string(database)});
    for (std::size_t i = 0; i != script_count; ++i)
        say({"SCRIPT", "LOAD", text_of(static_cast<script>(i))}, static_cast<script>(i));
    connection_->flush();
}

template <class Predicate>
void client::tell_waiting(Predicate which, reply const& said) {
    for (auto& one : std::exchange(waiting_, {})) {
        if (which(*one))
            tell(std::move(one), said);
        else
            waiting_.push_back(std::move(one));
    }
}

void client::pause(time_point now, error_code why, std::string text) {
    backoff_.failed(backoff_.failures(), now);
    failure_ = {.error = why, .text = std::move(text)};
}

void client::drop_late(time_point now) {
    tell_waiting([now](order const& one) { return one.until <= now; },
                 {.error = asio::error::timed_out});
}

void client::serve_waiting(time_point now) {
    if (waiting_.empty())
        return;
    if (connection_ && connection_->state() == connection::phase::closed)
        return;  // first what has come of it is heard
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
    // Any of them: a question with a short deadline may have been sent behind one with a long one.
    bool const owes_late =
        std::ranges::any_of(debts_, [now](debt const& d) { return now >= d.until; });
    if (stage_ != stage::ready || retired_ || owes_late ||
        connection_->state() != connection::phase::open)
        return;
    for (auto& one : std::exchange(waiting_, {}))
        send(std::move(one), now);
    connection_->flush();
}

// Or says at once to whom it would be too late what the last attempt has failed with.
void client::connect(time_point now) {
    if (now < backoff_.retry_at()) {
        tell_waiting([this](order const& one) { return one.until <= backoff_.retry_at(); },
                     failure_);
        return;
    }
    connection_ = std::make_shared<connection>(*executor_, weak_from_this());
    stage_ = stage::connecting;
    connect_until_ = later(now, options_.connect_within);
    greetings_ = 0;
    answers_ = false;
    retired_ = false;
    debts_.clear();
    loaded_ = {};
    connection_->open(address_);
}

void client::send(std::unique_ptr<order> what, time_point now) {
    std::vector<std::string_view> words;
    if (!what->what) {
        words = {"EVAL", "#!lua\nreturn 1"};
    } else {
        auto const& digest = loaded_[static_cast<std::size_t>(*what->what)];
        if (what->in_full || digest.empty())
            words = {"EVAL", text_of(*what->what)};
        else
            words = {"EVALSHA", digest};
    }
    words.insert(words.end(), {"1", what->key});
    words.insert(words.end(), what->arguments.begin(), what->arguments.end());
    debts_.push_back({now, what->until});
    connection_->append(words, std::move(what));
}

void client::tell(std::unique_ptr<order> what, reply said) {
    due_.push_back({std::move(what), std::move(said)});
}

// When the connection is given up.
time_point client::patience_ends() const noexcept {
    if (stage_ != stage::ready)
        return connect_until_;
    return debts_.empty() ? never : later(debts_.front().since, options_.silent_for);
}

time_point client::next_look() const noexcept {
    auto at = connection_ ? patience_ends() : never;
    for (auto const& one : waiting_)
        at = std::min(at, one->until);
    if (!connection_ && !waiting_.empty())
        at = std::min(at, backoff_.retry_at());
    return at;
}

// A timer that comes early does no harm; one that is not needed would keep `run()` from returning.
void client::arm(time_point at) {
    if (at == never && armed_ != never) {
        timer_->cancel();
        armed_ = never;
    }
    if (at >= armed_)
        return;
    armed_ = at;
    timer_->expires_at(std::chrono::steady_clock::time_point(at.time_since_epoch()));
    timer_->async_wait([self = shared_from_this()](error_code const& ec) {
        auto rung = [&] { self->armed_ = never; };
        if (!ec)
            self->serve(std::ref(rung));
    });
}

}  // namespace weir::redis::detail
