#include <weir/redis/error.hpp>

#include "client.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

// The connection of a client: when it is opened and given up, and the commands that start it. All functions are called
// under the lock.

namespace weir::inline v0_2::redis::detail {

namespace asio = boost::asio;

namespace {

// Returns the port; 0 if the text is not one.
std::uint16_t port_of(std::string_view text) noexcept {
    std::uint16_t port = 0;
    auto const* const end = text.data() + text.size();
    auto const [stop, failed] = std::from_chars(text.data(), end, port);
    return failed == std::errc() && stop == end ? port : std::uint16_t{0};
}

}  // namespace

// Connects. During a pause it completes the commands that cannot wait for the next attempt, with the error of the last
// one.
void client::connect(time_point now) {
    if (now < backoff_.retry_at()) {
        auto said = failed_attempt(now);
        if (said.kind != failure_kind::misconfigured)
            said.kind = failure_kind::unsent;
        complete_waiting(
            [this](script_command const& one) { return one.until <= backoff_.retry_at(); }, said);
        return;
    }
    connect_until_ = later(now, options_.connect_timeout);
    // So a check reports the error of this attempt, and not that its own time is over.
    for (auto const& one : waiting_) {
        auto& check = static_cast<script_command&>(*one);
        if (!check.what)
            check.until = std::max(check.until, connect_until_);
    }
    answers_ = false;
    retired_ = false;
    loaded_ = {};
    asks_sentinel_ = !servers_->primary_name().empty();
    connect_to(servers_->current());
}

void client::connect_to(std::shared_ptr<address const> to) {
    to_ = std::move(to);
    stage_ = stage::connecting;
    greetings_ = 0;
    connection_ = std::make_shared<connection>(*executor_, weak_from_this(), servers_->tls());
    connection_->open(*to_, connect_until_);
}

void client::look_at_connection(time_point now) {
    if (!connection_)
        return;
    if (now >= patience_ends()) {
        if (connection_->state() == connection::phase::opening)
            connection_->try_next();
        else
            connection_->close(asio::error::timed_out);
    }
    auto const state = connection_->state();
    if (state == connection::phase::closed) {
        if (!connection_->outcomes().empty())
            return;  // their handlers come first
        has_ended_ = true;
        if (!answers_)
            pause(now, connection_->error(), connection_->text());
        else if (connection_->error() == asio::error::timed_out)
            servers_->move_on();
        if (stage_ != stage::ready && !is_in_a_round())
            complete_waiting([](script_command const&) { return true; }, failed_attempt(now));
        connection_.reset();
    } else if (state == connection::phase::open && stage_ == stage::connecting) {
        greet();
    } else if (stage_ == stage::greeting && greetings_ == 0) {
        if (std::exchange(asks_sentinel_, false))
            connect_to(servers_->primary());
        else
            stage_ = stage::ready;
    }
}

void client::greet() {
    using step = greeting::step;
    stage_ = stage::greeting;
    log_in();
    auto const& name = servers_->primary_name();
    if (asks_sentinel_) {
        say(step::find_primary, {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name});
        connection_->flush();
        return;
    }
    if (to_->database != 0)
        say(step::select, {"SELECT", std::to_string(to_->database)});
    if (!name.empty())
        say(step::check_role, {"ROLE"});
    for (std::size_t i = 0; i != script_count; ++i) {
        auto const which = static_cast<script>(i);
        say(step::load, {"SCRIPT", "LOAD", text_of(which)}, which);
    }
    connection_->flush();
}

void client::log_in() {
    if (!to_->user.empty())
        say(greeting::step::log_in, {"AUTH", to_->user, to_->password});
    else if (!to_->password.empty())
        say(greeting::step::log_in, {"AUTH", to_->password});
}

void client::say(greeting::step what, std::vector<std::string_view> const& words, script loads) {
    auto made = std::make_unique<greeting>();
    made->what = what;
    made->loads = loads;
    commands one;
    one.push_back(std::move(made));
    connection_->append(words, one, one.begin());
    ++greetings_;
}

void client::receive_greeting(greeting& what) {
    using step = greeting::step;
    --greetings_;
    if (connection_->state() == connection::phase::closed)
        return;
    auto& said = what.said;
    bool const may_fail = what.what == step::load || what.what == step::check_role;
    if (said.error) {
        if (!may_fail || said.error != errc::forbidden)
            // The reply of the server to a login may repeat the password.
            connection_->close(said.error,
                               what.what == step::log_in ? "AUTH failed" : std::move(said.text));
        return;
    }
    switch (what.what) {
        case step::log_in:
        case step::select:
            break;
        case step::find_primary: {
            auto const port = said.texts.size() == 2 ? port_of(said.texts[1]) : std::uint16_t{0};
            if (port != 0)
                servers_->found_primary(std::move(said.texts[0]), port);
            else
                connection_->close(errc::unknown_primary, servers_->primary_name());
            break;
        }
        case step::check_role:
            if (said.texts.empty() || said.texts[0] != "master")
                connection_->close(errc::read_only, "ROLE is not master");
            break;
        case step::load:
            loaded_[static_cast<std::size_t>(what.loads)] = std::move(said.text);
            break;
    }
}

void client::pause(time_point now, error_code why, std::string text) noexcept {
    servers_->move_on();
    ++failed_;
    if (!is_in_a_round())
        backoff_.failed(backoff_.failures(), now);
    failure_ = {.error = why, .kind = kind_of(why, text), .text = std::move(text)};
    if (why == asio::error::timed_out)
        failure_.kind = failure_kind::no_reply;
}

duration client::pause_left(time_point now) const noexcept {
    return std::max(backoff_.retry_at(), now) - now;
}

// Returns the error of the last attempt, for commands that waited for it.
reply client::failed_attempt(time_point now) const {
    auto said = failure_;
    said.again_in = pause_left(now);
    said.text = with_address(std::move(said.text));
    return said;
}

// Appends the address of the server to a message.
std::string client::with_address(std::string text) const {
    auto const where = (asks_sentinel_ ? "Sentinel " : "") + to_->to_string();
    return text.empty() ? where : std::move(text) + " (" + where + ")";
}

}  // namespace weir::inline v0_2::redis::detail
