#include "client.hpp"

#include "clock.hpp"

#include <boost/asio/append.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/system/system_error.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

namespace weir::inline v0_2::agent::detail {
namespace {

namespace asio = boost::asio;

/// A connection without a reply for so long is given up: another agent may listen at its path.
constexpr duration silent_for = std::chrono::seconds(5);

error_code error_of(answer::result what) noexcept {
    using result = answer::result;
    return what == result::decided         ? error_code()
           : what == result::misconfigured ? make_error_code(errc::misconfigured)
                                           : make_error_code(errc::unavailable);
}

store::answer answer_of(answer& a) {
    if (a.what == answer::result::decided)
        return {.granted = a.granted, .wait = a.wait, .since = a.since, .is_new = a.is_new};
    auto const kind = static_cast<failure_kind>(static_cast<std::uint8_t>(a.what) - 1);
    return {.wait = a.wait,
            .lost = kind == failure_kind::no_reply,
            .kind = kind,
            .text = std::move(a.text)};
}

}  // namespace

client::client(asio::any_io_executor ex, std::string path)
    : path_(std::move(path)), executor_(std::move(ex)) {}

void client::begin() {
    executor_.attach(shared_from_this());
}

void client::context_ends() noexcept {
    connection_ptr last;  // destroyed after the release of the lock
    std::lock_guard lock(mutex_);
    executor_.end();
    last.swap(connection_);
}

void client::check() {
    std::lock_guard lock(mutex_);
    if (executor_.has_ended() || connection_)
        return;
    if (auto const ec = connect())
        throw boost::system::system_error(ec, path_);
}

// ---- Questions

void client::ask(take q, handler whom) {
    results lost;
    {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended())
            return;
        auto const now = clock_time();
        if (connection_ && !connection_->asked.empty()) {
            auto const& oldest = connection_->asked.begin()->second;
            if (now >= later(oldest.sent, silent_for))
                end(asio::error::timed_out, lost);
            else if (now >= oldest.until)
                return complete_later(std::move(whom), asio::error::timed_out,
                                      {.kind = failure_kind::unsent});
        }
        q.id = ++last_id_;
        // A connection whose agent has ended does not accept the question.
        for (bool is_kept = connection_ != nullptr;; is_kept = false) {
            auto ec = connection_ ? error_code() : connect();
            if (!ec) {
                encode(connection_->out, q);
                ec = flush(*connection_);
            }
            if (!ec)
                break;
            if (connection_)
                end(ec, lost);
            if (is_kept)
                continue;
            bool const may_not = ec == asio::error::access_denied;
            complete_later(std::move(whom), ec,
                           {.kind = may_not ? failure_kind::misconfigured : failure_kind::refused,
                            .text = path_ + ": " + ec.message()});
            q.id = 0;
            break;
        }
        if (q.id != 0) {
            auto const until = later(now, std::chrono::duration_cast<duration>(q.timeout));
            // NOLINTNEXTLINE(bugprone-use-after-move): where it was moved, `q.id` is 0.
            connection_->asked.try_emplace(q.id, waiting{now, until, std::move(whom)});
            wait(connection_);
        }
    }
    complete(lost);
}

void client::send(give_back const& what) {
    results lost;
    {
        std::lock_guard lock(mutex_);
        if (executor_.has_ended() || !connection_)
            return;
        encode(connection_->out, what);
        if (auto const ec = flush(*connection_))
            end(ec, lost);
        else
            wait(connection_);
    }
    complete(lost);
}

void client::complete(results& all) const noexcept {
    for (auto& one : all)
        std::move(one.whom)(one.ec, std::move(one.what));
}

// ---- Under the lock

void client::complete_later(handler whom, error_code ec, store::answer what) {
    asio::post(*executor_, asio::append(std::move(whom), ec, std::move(what)));
}

error_code client::connect() {
    auto made = std::make_shared<connection>(*executor_);
    error_code ec;
    made->socket.open({}, ec);
    if (!ec)
        made->socket.non_blocking(true, ec);
    if (!ec)
        made->socket.connect(path_, ec);
    if (ec)
        return ec;
    encode(made->out, hello());
    connection_ = std::move(made);
    return {};
}

error_code client::flush(connection& c) noexcept {
    error_code ec;
    std::size_t n = 0;
    while (!ec && n != c.out.size())
        n += c.socket.write_some(asio::buffer(c.out) + n, ec);
    c.out.erase(0, n);
    return ec == asio::error::would_block ? error_code() : ec;
}

void client::wait(connection_ptr const& c) {
    auto const start = [&](bool& waits, bool to_read) {
        if (std::exchange(waits, true))
            return;
        auto const what = to_read ? asio::socket_base::wait_read : asio::socket_base::wait_write;
        c->socket.async_wait(what, [self = shared_from_this(), c, to_read](error_code ec) {
            if (!ec)
                self->on_event(c, to_read);
        });
    };
    if (!c->asked.empty())
        start(c->waits_to_read, true);
    if (!c->out.empty())
        start(c->waits_to_write, false);
}

// Called without the lock.
void client::on_event(connection_ptr const& c, bool to_read) {
    results ready;
    {
        std::lock_guard lock(mutex_);
        if (connection_ != c)
            return;
        (to_read ? c->waits_to_read : c->waits_to_write) = false;
        auto const ec = to_read ? receive(*c) : flush(*c);
        take_replies(*c, ready);
        if (ec || c->in.is_invalid() || c->ended_by)
            end(ec ? ec : make_error_code(asio::error::connection_aborted), ready);
        else
            wait(c);
    }
    complete(ready);
}

// Reads what the socket has now, up to a limit.
error_code client::receive(connection& c) {
    std::array<char, 16384> part;
    error_code ec;
    auto const n = c.socket.read_some(asio::buffer(part), ec);
    c.in.add({part.data(), n});
    return ec == asio::error::would_block ? error_code() : ec;
}

void client::take_replies(connection& c, results& to) const {
    while (auto said = c.in.next()) {
        if (auto* const a = std::get_if<answer>(&*said)) {
            if (auto found = c.asked.extract(a->id))
                to.push_back({std::move(found.mapped().whom), error_of(a->what), answer_of(*a)});
        } else if (auto* const last = std::get_if<goodbye>(&*said)) {
            c.ended_by = std::move(*last);
        }
    }
}

// Ends the connection. It is unknown whether the agent granted anything, unless it said why it serves nothing.
void client::end(error_code ec, results& to) {
    auto const last = std::move(connection_);
    store::answer failed{.lost = !last->ended_by, .kind = failure_kind::no_reply};
    failed.text = path_ + ": ";
    if (last->ended_by) {
        ec = errc::misconfigured;
        failed.kind = failure_kind::misconfigured;
        failed.text += last->ended_by->text;
    } else {
        failed.text += ec == asio::error::eof ? "the agent closed the connection" : ec.message();
    }
    for (auto& [id, one] : last->asked)
        to.push_back({std::move(one.whom), ec, failed});
}

}  // namespace weir::inline v0_2::agent::detail
