#pragma once

#include <weir/amount.hpp>
#include <weir/detail/core.hpp>
#include <weir/detail/function_ref.hpp>
#include <weir/detail/operation.hpp>
#include <weir/detail/wait_limit.hpp>
#include <weir/error.hpp>
#include <weir/observer.hpp>
#include <weir/permit.hpp>
#include <weir/queue_options.hpp>
#include <weir/stats.hpp>
#include <weir/time.hpp>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

// The functions of `core` that are not inline, so that a file need not compile them: see detail/compiled.hpp.
namespace weir::inline v0_2::detail {

template <class Room, class Host>
template <class... HostArgs>
std::shared_ptr<core<Room, Host>> core<Room, Host>::create(
    options_type const& options, queue_options const& queueing, HostArgs&&... host) {
    Room::check(queueing);
    auto self = std::make_shared<core>(options, queueing);
    self->begin(std::forward<HostArgs>(host)...);
    return self;
}

template <class Room, class Host>
template <class... Key>
bool core<Room, Host>::enter(operation& op, wait_limit const& limit, Key const&... key) {
    visit here(*this);
    return enter_here(here, op, limit, key...);
}

template <class Room, class Host>
bool core<Room, Host>::drain(operation& op) {
    return drain_unless(op, [] { return false; });
}

template <class Room, class Host>
template <class... Key>
permit core<Room, Host>::charge(amount n, Key const&... key) {
    if (n > max_amount)
        throw std::invalid_argument("weir: a charge of " + std::to_string(n) +
                                    " permits; the maximum is " + std::to_string(max_amount));
    visit const here(*this);
    return room().charge(n, time_if(room().needs_time_to_ask()), key...);
}

template <class Room, class Host>
template <class... Key>
bool core<Room, Host>::reserve(operation& op, wait_limit const& limit, time_point& grant_time,
                               Key const&... key) {
    visit here(*this);
    bool const waits = enter_here<true>(here, op, limit, key...);
    grant_time = is_over(op) ? time_if(false) : room().grant_time_of_last(op, time_if(false));
    return waits;
}

template <class Room, class Host>
bool core<Room, Host>::hand_over(operation& op, operation& by) noexcept {
    visit const here(*this);
    auto const now = time();
    if (by.cancelled)
        leave_line(op, now);
    room().expedite_line_of(op, now);
    do_due_work(now);
    if (!is_over(op)) {
        room().replace(op, by);
        return true;
    }
    by.granted = outcome_of(op, by.error);
    by.detach();
    return false;
}

template <class Room, class Host>
permit core<Room, Host>::take_up(operation& op, error_code& ec) noexcept {
    visit const here(*this);
    auto const now = time();
    room().expedite_line_of(op, now);
    do_due_work(now);
    ec = errc::no_permit;
    return is_over(op) ? outcome_of(op, ec) : permit();
}

template <class Room, class Host>
permit core<Room, Host>::give_up(operation& op) noexcept {
    visit const here(*this);
    auto const now = time();
    leave_line(op, now);
    do_due_work(now);
    return std::move(op.granted);
}

template <class Room, class Host>
void core<Room, Host>::configure(function_ref<void(options_type&)> change)
    requires(Room::slots_type::is_one)
{
    using policy = typename Room::policy_type;
    changes_.make([this] { return locked(); }, [this] { return room().policy().options(); },
                  [&](options_type wanted) {
                      change(wanted);
                      policy next(wanted);  // allocates, and takes over the old memory
                      this->commands().validate(next);
                      return next;
                  },
                  [this] { return visit(*this); },
                  [this](policy& next) {
                      auto const now = time();
                      next.take_over(room().policy(), now);
                      std::ranges::swap(next, room().policy());
                      room().reprice();
                      do_due_work(now);
                  });
}

template <class Room, class Host>
typename core<Room, Host>::options_type core<Room, Host>::options() const
    requires(Room::slots_type::is_one)
{
    auto const here = locked();
    return room().policy().options();
}

template <class Room, class Host>
void core<Room, Host>::configure_queue(function_ref<void(queue_options&)> change)
    requires(Room::slots_type::is_one)
{
    changes_.make([this] { return locked(); }, [this] { return room().queueing(); },
                  [&](queue_options wanted) {
                      auto const before = wanted;
                      change(wanted);
                      Room::check_change(before, wanted);
                      return wanted;
                  },
                  [this] { return visit(*this); },
                  [this](queue_options const& next) { room().set_queueing(next); });
}

template <class Room, class Host>
queue_options core<Room, Host>::queueing() const {
    auto const here = locked();
    return room().queueing();
}

template <class Room, class Host>
void core<Room, Host>::observe(std::shared_ptr<observer const> who) noexcept {
    auto const here = locked();
    this->swap_observer(who);  // the parameter is destroyed after the lock is released
}

template <class Room, class Host>
void core<Room, Host>::shut_down() noexcept {
    visit const here(*this);
    room().shut_down();
}

template <class Room, class Host>
void core<Room, Host>::pause_until(time_point end) noexcept {
    visit const here(*this);
    room().pause_until(end);
    do_due_work(time());
}

template <class Room, class Host>
void core<Room, Host>::resume() noexcept {
    visit const here(*this);
    room().resume();
    do_due_work(time());
}

template <class Room, class Host>
void core<Room, Host>::close() noexcept {
    visit const here(*this);
    room().close();
    do_due_work(time());
}

template <class Room, class Host>
void core<Room, Host>::cancel() noexcept {
    visit const here(*this);
    room().cancel_all();
    do_due_work(time());
}

template <class Room, class Host>
void core<Room, Host>::cancel(cancel_link& link) noexcept {
    visit here(*this);
    if (!link.target)
        return here.changes_nothing();
    auto const now = time();
    room().cancel(*link.target, now);
    do_due_work(now);
}

template <class Room, class Host>
void core<Room, Host>::connect(cancel_link& link, operation& op) noexcept {
    auto const here = locked();
    link.target = &op;
    op.canceller = &link;
}

template <class Room, class Host>
void core<Room, Host>::disconnect(cancel_link& link) noexcept {
    auto const here = locked();
    if (link.target)
        link.target->canceller = nullptr;
}

template <class Room, class Host>
void core<Room, Host>::disconnect(operation& op) noexcept {
    auto const here = locked();
    op.detach();
}

template <class Room, class Host>
limiter_stats core<Room, Host>::stats() const {
    auto const here = locked();
    return room().stats(time());
}

template <class Room, class Host>
weir::snapshot<limiter_stats> core<Room, Host>::snapshot() const {
    auto const here = locked();
    return {room().stats(time()), room().waits()};
}

template <class Room, class Host>
typename core<Room, Host>::share_list core<Room, Host>::shares() const {
    auto const here = locked();
    share_list all;
    room().each_share([&](share_stats const& one) { all.push_back(one); });
    return all;
}

template <class Room, class Host>
void core<Room, Host>::abandon() noexcept {
    visit const here(*this);
    base::abandon();
    do_due_work(time());
}

template <class Room, class Host>
template <class... Key>
permit core<Room, Host>::try_under_lock(bool counts, request const& r, error_code& ec,
                                        Key const&... key) noexcept {
    visit here(*this);
    expect(key...);
    auto result = room().try_enter(r, time_if(room().needs_time_to_ask()), ec, key...);
    if (result && counts)
        here.lets_count();
    if (!result && !next_after(ec)) [[unlikely]]
        here.rejects(r, ec, result);
    return result;
}

template <class Room, class Host>
template <class... Key>
permit core<Room, Host>::ask_under_lock(request const& r, error_code& ec,
                                        Key const&... key) noexcept {
    visit here(*this);
    if constexpr (is_fed) {
        if (room().is_unlimited())
            return {};  // `enter` grants it
    }
    expect(key...);
    auto result = room().enter_at_once(r, time_if(room().needs_time_to_ask()), ec, key...);
    if (result && is_countable(r))
        here.lets_count();
    if (!result && ec && !next_after(ec)) [[unlikely]]
        here.rejects(r, ec, result);
    return result;
}

}  // namespace weir::inline v0_2::detail
