#include <weir/detail/chain/protocol.hpp>
#include <weir/detail/wait_limit.hpp>

#include "joint_section.hpp"
#include "sent_on.hpp"
#include "survey.hpp"

#include <boost/asio/error.hpp>

#include <algorithm>
#include <memory>
#include <utility>

namespace weir::inline v0_2::detail {

thread_local constinit call_list* owed_by_this_thread = nullptr;

namespace {

// Call all functions below under the locks of all limiters of the chain.

// Returns the replies after the limiters have served the requests before the chain that are due.
survey survey_now(std::span<chain_entry> entries, section_time& t) noexcept {
    survey s(entries, t);
    if (s.all_let || s.error)
        return s;
    bool served = false;
    for (auto const& e : entries)
        served = e.core->serve(t) || served;
    if (served)
        s = survey(entries, t);
    return s;
}

// Grants at all limiters. If there is no longer space for a key, grants at none and returns the entry of that key.
chain_entry* admit(std::span<chain_entry> entries, section_time& t) noexcept {
    for (auto& e : entries) {
        if (e.member->admit(e))
            continue;
        for (auto& before : entries.first(static_cast<std::size_t>(&e - entries.data()))) {
            auto const n = before.granted.count();
            auto& issuer = static_cast<chain_core&>(*permit_issuer::of(before.granted));
            static_cast<void>(
                issuer.take_back(n, permit_issuer::give_up(before.granted), false, t));
        }
        return &e;
    }
    return nullptr;
}

// Returns whether a later request may succeed after this one failed.
bool may_return(error_code ec) noexcept {
    return ec == errc::no_permit || ec == errc::timed_out || ec == errc::deadline_unreachable ||
           ec == errc::queue_full;
}

// `by` is null if no limiter has rejected: then the home counts the rejection.
chain_rejected reject(chain_entry const* by, chain_entry const& home, error_code ec,
                      survey const& s) noexcept {
    auto const& at = by ? *by : home;
    auto const what = at.member->reject(at, ec, may_return(ec) ? s.longest : forever);
    return by ? chain_rejected{by->index, what}
              : chain_rejected{std::nullopt, {.retry_after = what.retry_after}};
}

chain_line& chains(chain_entry const& e) noexcept {
    return e.member->chains(e);
}

void enter_queue(chain_entry& e) noexcept {
    e.ready = false;
    e.member->enter_queue(e);
}

// Ends its overdue state and its reservation: other chains may have their turn now.
void give_up_its_say(chain_operation& c) noexcept {
    bool const had_one = c.is_overdue || c.reserves;
    for (auto& e : c.entries) {
        auto& there = chains(e);
        if (c.is_overdue)
            there.remove_overdue(e);
        if (there.reserver == &e)
            there.reserver = nullptr;
    }
    c.is_overdue = c.reserves = false;
    if (!had_one)
        return;
    for (auto& e : c.entries) {
        if (auto const* const first = chains(e).first_overdue())
            chains(e).call(*first->op);
    }
}

void finish(chain_operation& c, error_code ec, chain_entry const* by, survey const& s) noexcept {
    c.error = ec;
    if (ec)
        c.rejected = reject(by, *c.at_home, ec, s);
    give_up_its_say(c);
    c.at_home->member->complete(c);
    for (auto& e : c.entries)
        e.member->unregister_entry(e);
}

void become_overdue(chain_operation& c) noexcept {
    c.is_overdue = true;
    for (auto& e : c.entries)
        chains(e).add_overdue(e);
}

bool may_reserve(chain_operation const& c) noexcept {
    return c.is_overdue && std::ranges::all_of(c.entries, [](chain_entry const& e) {
               return !chains(e).reserver && chains(e).first_overdue() == &e;
           });
}

void note_who_lets(chain_operation& c, survey const& s) noexcept {
    for (std::size_t i = 0; i != c.entries.size(); ++i)
        c.entries[i].ready = s.lets[i];
}

void begin_to_reserve(chain_operation& c, survey const& s, time_point now) noexcept {
    for (auto& e : c.entries) {
        chains(e).remove_overdue(e);
        chains(e).reserver = &e;
        if (!e.in_queue && e.count != 0)
            enter_queue(e);
    }
    note_who_lets(c, s);
    c.is_overdue = false;
    c.reserves = true;
    c.reserves_until = later(now, c.options.reserve_for);
}

void leave_off_reserving(chain_operation& c, survey const& s) noexcept {
    give_up_its_say(c);
    for (auto& e : c.entries) {
        if (e.in_queue)
            e.member->leave_queue(e);
    }
    c.passed = 0;
    enter_queue(*s.last);
}

// Handles a claim in which some limiter blocks the chain.
void wait_on(chain_operation& c, survey const& s, time_point now) noexcept {
    if (c.reserves) {
        if (c.reserves_until < now)
            leave_off_reserving(c, s);
        else
            note_who_lets(c, s);
    } else {
        auto const at = std::ranges::find(c.entries, true, &chain_entry::in_queue);
        if (s.lets[static_cast<std::size_t>(at - c.entries.begin())]) {  // a turn is lost
            at->member->leave_queue(*at);
            enter_queue(*s.last);
            if (++c.passed >= c.options.passes && !c.is_overdue)
                become_overdue(c);
        }
    }
    if (may_reserve(c))
        begin_to_reserve(c, s, now);
    c.at_home->member->set_alarm(
        c, c.reserves ? std::min(c.gives_up, c.reserves_until) : c.gives_up);
    for (auto const& e : c.entries)
        e.member->reschedule(e);
}

// Decides on all events that concern the chain.
void decide(chain_operation& c, section_time& t) noexcept {
    c.called.store(false, std::memory_order_relaxed);
    survey const s(c.entries, t);
    auto const now = c.at_home->member->now(*c.at_home, t);
    if (c.cancelled)
        return finish(c, boost::asio::error::operation_aborted, nullptr, s);
    if (s.error)
        return finish(c, s.error, s.rejects, s);
    if (c.gives_up < now)
        return finish(c, errc::timed_out, s.named, s);
    if (s.all_let) {
        static_cast<void>(admit(c.entries, t));  // succeeds: a waiting chain has space for its keys
        c.waited = now - c.at_home->since;
        return finish(c, {}, nullptr, s);
    }
    if (s.says_when() && later(now, s.longest) > c.gives_up)
        return finish(c, errc::deadline_unreachable, s.named, s);
    wait_on(c, s, now);
}

// Call it outside all locks. The call may destroy the chain, and its limiters with it.
void claim(chain_operation& first, call_list& owed, int& made) noexcept {
    for_each_limiter<std::shared_ptr<chain_core>> kept;
    for (auto const& e : first.entries)
        kept.push_back(e.member->share(*e.core));
    joint_section const here(first.entries);
    call_list called;
    called.push_back(first);
    for (int claimed = 0; !called.empty(); ++claimed) {
        chain_operation& c = called.pop_front();
        if (claimed >= most_claimed_together || !here.covers(c)) {
            owed.push_back(c);
            continue;
        }
        decide(c, here.time());
        ++made;
        for (auto* const core : here.cores()) {
            if (made < most_claims_in_a_turn)
                core->serve(here.time());
            core->take_calls(called);
        }
    }
}

// Makes `c` wait, after all memory that it needs was reserved.
void begin_to_wait(chain_operation& c, chain_entry& at) {
    for (auto& e : c.entries)
        e.member->register_entry(e);
    enter_queue(at);
    c.at = operation::place::chained;
    c.at_home->member->set_alarm(c, c.gives_up);
    for (auto& e : c.entries)
        e.member->summon(e);
    at.member->evict(at);
}

void withdraw(chain_operation& c) noexcept {
    if (std::exchange(c.at, operation::place::nowhere) == operation::place::chained)
        c.at_home->member->set_alarm(c, never);
    for (auto& e : c.entries)
        e.member->unregister_entry(e);
}

// Ends the holds of some limiters, in which each of them counts.
void end_holds(for_each_limiter<chain_core*> const& held, counting what) noexcept {
    for (auto* const core : held)
        core->end_hold(what);
}

// Puts all permits back by counting, and empties them. Otherwise returns false without a change.
bool put_back_by_counting(std::span<permit> parts) noexcept {
    for_each_limiter<chain_core*> held;
    for (auto const& part : parts) {
        if (!part)
            continue;
        auto& core = static_cast<chain_core&>(*permit_issuer::of(part));
        if (!core.hold_to_put_back(part.count(), permit_issuer::origin_of(part))) {
            end_holds(held, counting::nothing);
            return false;
        }
        held.push_back(&core);
    }
    for (auto& part : parts)
        static_cast<void>(permit_issuer::give_up(part));
    end_holds(held, counting::put_back);
    return true;
}

// Sets `next` instead of an answer if an entry has to ask another core.
chain_answer answer_here(std::span<chain_entry> entries, bool is_final, sent_on& next) noexcept {
    joint_section here(entries);
    auto const s = survey_now(entries, here.time());
    if (s.error) {
        if ((next = find_sent_on(s.rejects, s.error)))
            return chain_answer(false);
        return {s.error, reject(s.rejects, *s.rejects, s.error, s)};
    }
    if (s.all_let) {
        auto* const lacks_place = admit(entries, here.time());
        if (!lacks_place) {
            if (std::ranges::all_of(entries, [](auto& e) { return e.asked_for() == request(); }))
                here.lets_count();
            return chain_answer(true);
        }
        error_code const ec = errc::too_many_keys;
        if ((next = find_sent_on(lacks_place, ec)))
            return chain_answer(false);
        return {ec, reject(lacks_place, *lacks_place, ec, s)};
    }
    if (!is_final)
        return chain_answer(false);
    return {errc::no_permit, reject(s.named, *s.named, errc::no_permit, s)};
}

chain_answer answer(std::span<chain_entry> entries, bool is_final) noexcept {
    for (;;) {
        sent_on next;
        auto const result = answer_here(entries, is_final, next);
        if (!next) [[likely]]
            return result;
        send_on(entries, next);
    }
}

// Does the work of `enter_chain`, but sets `next` if an entry has to ask another core.
bool enter_here(chain_operation& c, wait_limit const& limit, sent_on& next) {
    joint_section const here(c.entries);
    auto const s = survey_now(c.entries, here.time());
    auto const over = [&](error_code ec, chain_entry* by) {
        if ((next = find_sent_on(by, ec)))
            return false;
        c.error = ec;
        if (ec)
            c.rejected = reject(by, *c.at_home, ec, s);
        c.detach();
        return false;
    };
    if (c.cancelled)
        return over(boost::asio::error::operation_aborted, nullptr);
    if (s.error)
        return over(s.error, s.rejects);
    if (s.all_let) {
        auto* const lacks_place = admit(c.entries, here.time());
        return over(lacks_place ? make_error_code(errc::too_many_keys) : error_code(), lacks_place);
    }
    auto const now = c.at_home->member->now(*c.at_home, here.time());
    auto const length = limit.length.length_or(c.at_home->member->patience(*c.at_home));
    c.gives_up = std::min(length == forever ? never : later(now, length), limit.until);
    if (s.says_when() && later(now, s.longest) > c.gives_up)
        return over(errc::deadline_unreachable, s.named);
    if (c.gives_up <= now)
        return over(errc::timed_out, s.named);
    try {
        for (auto& e : c.entries) {
            if (!e.member->prepare(e, here.time())) {
                withdraw(c);
                return over(errc::too_many_keys, &e);
            }
        }
        if (!s.last->member->fits_in_queue(*s.last)) {
            withdraw(c);
            return over(errc::queue_full, s.last);
        }
        begin_to_wait(c, *s.last);
    } catch (...) {
        withdraw(c);
        throw;
    }
    return true;
}

}  // namespace

std::span<chain_entry> fill(std::span<chain_entry> entries,
                            std::span<chain_member* const> members) noexcept {
    for_each_limiter<std::pair<chain_core*, std::size_t>> in_order;
    for (std::size_t i = 0; i != members.size(); ++i)
        insert_in_order(in_order, std::pair(&members[i]->core(), i));
    std::size_t size = 0;
    for (auto const& [core, index] : in_order) {
        auto& member = *members[index];
        auto const asks = member.asks_for();
        auto at = size;
        while (at != 0 && entries[at - 1].core == core && !entries[at - 1].member->is(member))
            --at;
        if (at != 0 && entries[at - 1].core == core) {
            auto& before = entries[at - 1];
            before.count = std::min(before.count + asks.count(), max_amount + 1);
            continue;
        }
        auto& e = entries[size++];
        e.core = core;
        e.member = &member;
        e.index = index;
        e.ask_for(asks);
    }
    return entries.first(size);
}

bool take_by_counting(std::span<chain_member* const> members, std::span<permit> parts) noexcept {
    for_each_limiter<chain_core*> held;
    for (auto* const member : members) {
        auto* const core = member->hold_to_take();
        if (!core) {
            end_holds(held, counting::nothing);
            return false;
        }
        held.push_back(core);
    }
    end_holds(held, counting::take);
    for (std::size_t i = 0; i != held.size(); ++i)
        parts[i] = permit_issuer::grant(*held[i], 1, {}, duration::zero());
    return true;
}

chain_answer try_chain(std::span<chain_entry> entries) noexcept {
    return answer(entries, true);
}
chain_answer enter_chain_at_once(std::span<chain_entry> entries) noexcept {
    return answer(entries, false);
}

bool enter_chain(chain_operation& c, wait_limit const& limit) {
    for (;;) {
        sent_on next;
        bool const waits = enter_here(c, limit, next);
        if (!next) [[likely]]
            return waits;
        send_on(c.entries, next);
        c.find_home();
        c.move_to(c.at_home->member->share(*c.at_home->core));
    }
}

void make_claims(call_list& calls) noexcept {
    if (owed_by_this_thread) {
        owed_by_this_thread->append(calls);
        return;
    }
    owed_by_this_thread = &calls;
    for (int made = 0; !calls.empty();)
        claim(calls.pop_front(), calls, made);
    owed_by_this_thread = nullptr;
}

void make_all_claims(call_list& calls) noexcept {
    auto* const others = std::exchange(owed_by_this_thread, nullptr);
    if (others)
        calls.append(*others);
    make_claims(calls);
    owed_by_this_thread = others;
}

void leave_together(std::span<permit> parts, bool used) noexcept {
    if (put_back_by_counting(parts))
        return;
    struct part_of {
        chain_core* core;
        permit* part;
        auto operator<=>(part_of const&) const = default;
    };
    for_each_limiter<part_of> out;
    for (auto& part : parts) {
        if (part)
            insert_in_order(out, {static_cast<chain_core*>(permit_issuer::of(part)), &part});
    }
    joint_section const here(out);
    for_each_limiter<chain_core*> made_room;
    for (auto const& [core, part] : out) {
        auto const n = part->count();
        if (core->take_back(n, permit_issuer::give_up(*part), used, here.time()))
            made_room.push_back(core);
    }
    for (auto* const core : made_room)
        core->serve(here.time());
}

}  // namespace weir::inline v0_2::detail
