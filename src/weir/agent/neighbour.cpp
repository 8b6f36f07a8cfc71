#include "neighbour.hpp"

#include "agent.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string_view>

namespace weir::inline v0_2::agent::detail {
namespace {

namespace asio = boost::asio;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Before the client's time limit, and before a second of silence, which would begin an outage there.
duration hold_of(take const& q) {
    return std::min<duration>(q.timeout / 2, milliseconds(400));
}

answer answer_to(take const& q, error_code ec, weir::store::answer& a) {
    answer made{.id = q.id, .wait = std::max(a.wait, a.wait.zero())};
    if (ec) {
        auto const kind = a.lost ? failure_kind::no_reply : a.kind;
        made.what = static_cast<answer::result>(static_cast<std::uint8_t>(kind) + 1);
        made.text = std::move(a.text);
    } else {
        made.granted = a.granted;
        made.since = a.since;
        made.is_new = a.is_new;
    }
    return made;
}

}  // namespace

neighbour::neighbour(std::shared_ptr<agent> at, socket s)
    : agent_(std::move(at)), socket_(std::move(s)) {
    error_code ignored;
    socket_.non_blocking(true, ignored);
}

void neighbour::start() {
    read();
}

void neighbour::end() noexcept {
    if (std::exchange(has_ended_, true))
        return;
    error_code ignored;
    socket_.close(ignored);
    for (auto const& one : std::exchange(forwarded_, {}))
        one->alarm.cancel();
    left_.clear();
    for (auto const& p : std::exchange(places_, {}))
        leave(*p);
    agent_->forget(shared_from_this());
}

// Without memory for a reply, the connection ends.
template <class F>
void neighbour::serve(F const& f) noexcept {
    if (has_ended_)
        return;
    try {
        f();
        flush();
    } catch (std::exception const&) {
        end();
    }
}

// ---- Messages of the client

void neighbour::read() {
    socket_.async_read_some(
        asio::buffer(part_), [self = shared_from_this()](error_code ec, std::size_t n) {
            if (ec)
                return self->end();
            self->serve([&] {
                self->in_.add({self->part_.data(), n});
                for (auto m = self->in_.next(); m && !self->has_ended_; m = self->in_.next())
                    self->receive(*m);
                if (self->in_.is_invalid())
                    self->end();
                if (!self->has_ended_)
                    self->read();
            });
        });
}

void neighbour::receive(message const& m) {
    if (is_last_)
        return;
    if (!is_known_) {
        auto const* const first = std::get_if<hello>(&m);
        is_known_ = first && first->version == hello::current_version;
        if (!first)
            return end();
        if (!is_known_) {
            is_last_ = true;
            encode(out_,
                   goodbye{"the agent speaks version " + std::to_string(hello::current_version) +
                           ", this program version " + std::to_string(first->version)});
        }
    } else if (auto const* const q = std::get_if<take>(&m)) {
        receive(*q);
    } else if (auto const* const back = std::get_if<give_back>(&m)) {
        agent_->take_back(*back);
    } else {
        end();
    }
}

void neighbour::receive(take const& q) {
    agent_->note_question();
    if (places_.size() + forwarded_.size() >= most_questions)
        return reply({.id = q.id,
                      .what = answer::result::refused,
                      .text = "too many questions of one process wait"});
    std::shared_ptr<limit> at;
    try {
        at = agent_->find(q.name, q.bucket);
    } catch (std::invalid_argument const& wrong) {
        return reply({.id = q.id, .what = answer::result::misconfigured, .text = wrong.what()});
    }
    if (!at)
        return forward(q);
    if (resume(q, at))
        return;
    if (auto granted = at->take_now(q))
        grant(q, *at, std::move(granted));
    else
        wait(q, at);
}

// Asks the store. Without a reply in time, the client learns that: it sends nothing more while a reply is overdue.
void neighbour::forward(take const& q) {
    auto const one = std::make_shared<forwarded>(q.id, socket_.get_executor());
    forwarded_.insert(one);
    one->alarm.expires_after(q.timeout * 3 / 4);
    one->alarm.async_wait([self = shared_from_this(), one](error_code ec) {
        if (!ec && self->forwarded_.erase(one) != 0)
            self->serve([&] { self->reply({.id = one->id, .what = answer::result::no_reply}); });
    });
    // The store calls it on any thread, and may keep it until after the end of the context.
    auto then = [me = weak_from_this(), what = std::weak_ptr(one), at = agent_,
                 q](error_code ec, weir::store::answer a) {
        at->post([me, what, at, q, ec, a = std::move(a)]() mutable {
            auto const self = me.lock();
            auto const waiting = what.lock();
            if (self && waiting && self->forwarded_.erase(waiting) != 0) {
                waiting->alarm.cancel();
                self->serve([&] { self->reply(answer_to(q, ec, a)); });
            } else if (!ec && a.granted != 0) {
                at->take_back(
                    {.name = q.name, .bucket = q.bucket, .count = a.granted, .since = a.since});
            }
        });
    };
    weir::store::question const asked{
        .bucket = q.bucket, .min = q.min, .max = q.max, .ahead = q.ahead, .timeout = q.timeout};
    agent_->upstream().async_take(q.name, asked, std::move(then));
}

// ---- Places in the lines

// Continues a place that an earlier question left in the line.
bool neighbour::resume(take const& q, std::shared_ptr<limit> const& at) {
    for (;;) {
        auto const found = left_.lower_bound({at.get(), nullptr});
        if (found == left_.end() || found->first != at.get())
            return false;
        auto const p = found->second;
        bool const fits = q.min <= p->count && p->count <= q.max;
        if (fits && !p->has_ended) {
            left_.erase(found);
            p->question = q;
            p->is_asked = true;
            hold(p);
            return true;
        }
        auto granted = fits ? std::move(p->granted) : permit();
        remove(p);
        if (granted) {
            grant(q, *at, std::move(granted));
            return true;
        }
    }
}

void neighbour::wait(take const& q, std::shared_ptr<limit> const& at) {
    auto const p = std::make_shared<place>(at, q, socket_.get_executor());
    places_.insert(p);
    hold(p);
    auto then = [self = shared_from_this(), p](error_code ec, permit granted) {
        if (std::exchange(p->has_ended, true))
            granted.refund();
        else
            self->serve([&] { self->decide(p, ec, std::move(granted)); });
    };
    auto const patience = std::max<duration>(q.ahead, hold_of(q));
    at->wait(q, patience, asio::bind_cancellation_slot(p->cancel.slot(), std::move(then)));
}

// Replies with the result, or keeps the permits for the next question.
void neighbour::decide(place_ptr const& p, error_code ec, permit granted) {
    if (!ec && !p->is_asked) {
        p->granted = std::move(granted);
        return;
    }
    auto const q = p->question;
    auto const at = p->of;
    bool const is_asked = p->is_asked;
    remove(p);
    if (!is_asked)
        return;
    if (!ec)
        return grant(q, *at, std::move(granted));
    answer a{.id = q.id};
    if (ec == errc::unavailable || ec == errc::misconfigured) {
        a.what = ec == errc::unavailable ? answer::result::refused : answer::result::misconfigured;
        a.text = at->failure();
    } else {
        a.wait = std::chrono::ceil<microseconds>(granted.retry_after().value_or(duration::zero()));
    }
    reply(a);
}

// Replies when the question has waited long enough.
void neighbour::hold(place_ptr const& p) {
    set_alarm(p, hold_of(p->question), [this, p] {
        p->is_asked = false;
        left_.emplace(p->of.get(), p);
        reply({.id = p->question.id});
        keep(p);
    });
}

// Keeps the place for the next question of a client that asks again at once.
void neighbour::keep(place_ptr const& p) {
    auto const longest = std::max<duration>(2 * p->question.timeout, milliseconds(200));
    set_alarm(p, longest, [this, p] { remove(p); });
}

template <class F>
void neighbour::set_alarm(place_ptr const& p, duration d, F const& f) {
    p->alarm.expires_after(d);
    p->alarm.async_wait([self = shared_from_this(), p, f, turn = ++p->turn](error_code ec) {
        if (!ec && p->turn == turn)
            self->serve(f);
    });
}

void neighbour::leave(place& p) noexcept {
    ++p.turn;
    p.alarm.cancel();
    p.granted.refund();
    if (!std::exchange(p.has_ended, true))
        p.cancel.emit(asio::cancellation_type::terminal);
}

void neighbour::remove(place_ptr const& p) {
    places_.erase(p);
    left_.erase({p->of.get(), p});
    leave(*p);
}

// ---- Replies

void neighbour::grant(take const& q, limit& at, permit granted) {
    reply(at.grant(q, std::move(granted)));
}

void neighbour::reply(answer const& a) {
    if (a.granted != 0)
        agent_->note_grant();
    encode(out_, a);
}

void neighbour::flush() {
    if (has_ended_)
        return;
    error_code ec;
    std::size_t n = 0;
    while (!ec && n != out_.size())
        n += socket_.write_some(asio::buffer(out_) + n, ec);
    out_.erase(0, n);
    bool const is_full = ec == asio::error::would_block;
    if ((ec && !is_full) || out_.size() > longest_output || (is_last_ && out_.empty()))
        return end();
    if (!is_full || std::exchange(waits_to_write_, true))
        return;
    socket_.async_wait(
        asio::socket_base::wait_write, [self = shared_from_this()](error_code failed) {
            self->waits_to_write_ = false;
            if (!failed)
                self->serve([] {});
        });
}

}  // namespace weir::inline v0_2::agent::detail
