/* The protocol of include/weir/detail/actor.hpp, by which callers, released permits and the step work together, for spin.
   ./check runs it.

   One limiter whose policy counts seats, N callers that each enter once and leave if they were granted, and two threads
   that run the executor, so that two messages can be handled at once. Each handler runs on the limiter's own context,
   which only the limiter keeps running. All interleavings are searched. Switches add events:
     CANCEL        caller 1's cancellation slot is fired: before its enter, while it waits, or too late
     CANCEL_ALL    all waiting requests are cancelled
     CLOSE         the limiter is closed
     SHUT_DOWN     newcomers are rejected, and the queue is served to its end
     ABANDON       the limiter object is destroyed
     EVICT         one request may wait, and the oldest makes way for a newcomer
     DRAIN         an operation waits for the limiter to be idle
     TIMER         callers 1 and 2 have deadlines, 0 and 1; caller 0 has none, and may keep its seat until all others are done
     RATE          instead of seats: one grant at an instant, the next one an instant later; a caller that leaves may undo its own
     CONFIGURE     two seats, caller 1 requests both at once; the seats are lowered to one and raised again
     CONTEXT_ENDS  its threads have left run(), its contents are destroyed and not run; callers and the owner continue meanwhile
     POST_THROWS   up to two posts throw: of a step, or of a handler
     HOST_THROWS   the work guard or the timer throws, once
     BATCH         one operation is touched under one hold of the lock: step_budget and visit_budget
     ALONE         with POST_THROWS: no later event retries. Then an operation with a deadline must still not wait beyond it,
                   unless the host has thrown, too
     FINE          the search also interleaves inside critical sections: see HOLD

   Asserted: the seats in use never exceed their number at a grant; requests that wait are granted in the order of their arrival, and
   no newcomer is granted while another one waits; each caller is completed once, and without a seat if its cancellation came first or its
   deadline is past; only one thread at a time uses timer and work guard, which exist while they are needed and are released when
   idle; the context is kept running while a handler is posted to it; a destroyed context is never used, and no handler is
   destroyed after it; the conditions of `coherent` hold. And when no process can continue, no request waits, every seat is
   released, no step is missing, and host and core are destroyed if they should be (`check`).

   Not modelled: other orders of the queue than fifo; the wait for an overdue permit, which waits as a drain does; tolerance and
   last_alarm, which only delay the timer; the actions of the executor on a handler after it has received it. Two threads may
   overlap in posting the handlers that they have taken out: the order of these handlers is not checked.

   Here                      in C++
   HOLD .. DROP              the lock of the core, and the conditions that hold whenever it is free
   HOLD .. END_VISIT         a visit; to CARRY_OUT, a step
   free, seats, inuse        the policy: its free seats, negative while seats are removed; its capacity; the permits in use
   next_grant                RATE's next instant
   at                        BEFORE and AFTER are both place::nowhere; whether the canceller is linked distinguishes them
   line, outbox, next_number, x_  the members of this name of room, line, wakeup, lifetime, core
   completions .. goes_on    the deferred work of a thread; hold and timer, with their targets, are its arrangement
   work, pending, expiry     the work guard and the steady_timer themselves; attached: the entry in the registry
   posted, fired, stale      messages in the executor: steps; the timer's callbacks, of this epoch_, and of earlier ones
   done                      the handler was called, posted, or destroyed, outside the lock

   Mutants are plausible mistakes. Each describes its deviation; `check` requires that all are caught. */

#ifndef N
#define N 3
#endif
#define NEVER 255
#define BIT(x) (1 << (x))
#ifdef BATCH
#define BUDGET 1
#else
#define BUDGET (N + 2)
#endif

#ifdef CONFIGURE
#define SEATS 2
#define COST(i) (1 + ((i) == 1))
#else
#define SEATS 1
#define COST(i) 1
#endif

#ifdef TIMER
#define DEADLINE(i) ((i) == 0 -> NEVER : (i) - 1)
#define HORIZON (N - 1)
#else
#define DEADLINE(i) NEVER
#define HORIZON 1
#endif

#ifdef RATE
#define FITS(i) (next_grant <= now)
#define READY(i) next_grant             /* known, and the same for any first request */
#define UNREACHABLE(i) (!is_under_way_ && (FITS(i) -> now : next_grant) + len(line) > DEADLINE(i))
#else
#define FITS(i) (COST(i) <= free)
#define READY(i) (FITS(i) -> now : NEVER)
#define UNREACHABLE(i) false
#endif

#ifdef EVICT
#define LIMIT 1
#else
#define LIMIT N
#endif

/* operation::at */
#define BEFORE 0
#define WAITING 1
#define AFTER 2
#define REJECTED 3                       /* not in the queue yet: in one mutant only */

/* admits_, phase_, nobody_works_ */
#define ADMITS_ALL 0
#define ADMITS_WAITING 1
#define ADMITS_NONE 2
#define IN_USE 0
#define ABANDONED 1
#define DEAD 2
#define NULL 0
#define AWAITED 1
#define SET 2

/* The lock guards everything from here to `granted`. */

/* room: the policy, */
short free = SEATS, seats = SEATS, inuse;
byte next_grant, admits_ = ADMITS_ALL;
/* the queue, */
chan line = [N] of { byte };
byte at[N], number_of[N + 1], next_number = 1;
byte served;                            /* no overtaking: it only grows */
bool drains_;                         /* of N */
byte outbox;                           /* a set */
/* and its sweep */
bool is_under_way_, reprices_, gone_;
byte cancel_before_, seen_by_sweep;     /* a set */

/* wakeup */
bool step_posted_, step_missing_, arranging_, held_, stopped_;
byte timer_at_ = NEVER;

/* lifetime */
byte phase_ = IN_USE, workers_;

/* core */
bool self_ = 1, host_ = 1;
byte nobody_works_ = NULL;

bool marked, cancelled;                 /* of caller 1: operation::cancelled; its cancellation came before its grant */
bool granted[N];

/* of the executor, the timer and the world */
byte posted, fired, stale, running;
bool pending, outdated;                 /* the timer is armed; ... and of an earlier epoch_ */
bool work, attached = 1, touching, left_run, swept;
byte expiry, now;
bool done[N + 1];
byte finished;
#ifdef POST_THROWS
byte throws = 2;
#define THROWN (throws < 2)
#else
#define THROWN false
#endif
#ifdef HOST_THROWS
bool faulty = 1;
#define GIVEN_UP (step_missing_ && !faulty)
#else
#define GIVEN_UP false
#endif

/* Of the thread that has the lock: scratch, `needs`, and the results of `wakeup` and `visit`. */
byte x, k, budget, next;
bool due, waiting, wanted, threw, changes_nothing, again, was_arranging, host_failed, has_failed;
byte y;                                 /* of any thread, within one step */

#define NOBODY_WAITS (len(line) == 0 && !drains_)
#define IS_EMPTY (NOBODY_WAITS && !outbox)
#define IS_IDLE (inuse == 0 && len(line) == 0)
#define AT_REST (!held_ && !step_missing_ && timer_at_ == NEVER)
#define MESSAGES (posted + fired + stale)

/* No message is posted and no step is arranging. Then no work may be due. */
#ifdef arrange_two_at_once    /* unknown in this mutant */
#define QUIET false
#else
#define QUIET (MESSAGES == 0 && !arranging_ && phase_ != DEAD && !step_missing_)
#endif
#define HEAD_FITS (line?[1] && FITS(1) || len(line) > 0 && !line?[1] && FITS(0))
#define AWAKE_BY(t) (pending && expiry <= (t))
#define IN_TIME(i) ((i) >= N || at[i] != WAITING || DEADLINE(i) == NEVER || AWAKE_BY(DEADLINE(i) + 1))
inline coherent() {
	assert(free + inuse == seats);
	assert(posted <= 1);
	if
	:: QUIET ->
		assert(!outbox);
		assert(!drains_ || inuse + len(line) > 0);
		assert(!is_under_way_ || NOBODY_WAITS);
		assert(NOBODY_WAITS || work);                   /* else run() returns while a request waits, */
		assert(workers_ == 0 || work || running > 0);   /* or while a worker is about to post to it; */
		assert(!work || !NOBODY_WAITS || workers_ > 0); /* or never returns */
		assert(!pending || len(line) > 0 || workers_ > 0);
		assert(IN_TIME(1) && IN_TIME(2) && IN_TIME(3));
#ifdef RATE
		assert(len(line) == 0 || AWAKE_BY(next_grant))
#else
		assert(!HEAD_FITS)
#endif
	:: else
	fi
}

/* A critical section; HOLD_ONCE waits for g and does s as it takes the lock. All data written under the lock is also read under
   it, except by posts, and a message that is posted early can only wait for the lock. So a section may be one atomic step,
   which keeps the search small. FINE has a real lock and interleaves at every step. For the same reason, taking a message and
   taking the lock are one step. */
#define FORGET x = 0; k = 0; budget = 0; next = 0; due = 0; waiting = 0; wanted = 0; threw = 0; changes_nothing = 0; again = 0; \
	was_arranging = 0; host_failed = 0; has_failed = 0
#ifdef FINE
bool lock;
#define HOLD_ONCE(g, s) atomic { (g) && !lock -> s; lock = 1 }
#define DROP atomic { coherent(); FORGET; lock = 0 }
#else
#define HOLD_ONCE(g, s) atomic { (g) -> s
#define DROP coherent(); FORGET }
#endif
#define HOLD HOLD_ONCE(true, skip)

/* Posts may throw. */
#ifdef POST_THROWS
#define OR_THROW(s) :: throws > 0 -> throws--; s
#else
#define OR_THROW(s)
#endif

/* The work of a thread outside the lock. */
#define ERRAND \
	byte completions, failed, dropped; \
	bool hold, hold_to, hold_failed, timer, timer_failed, host, goes_on; \
	byte timer_to
#ifdef destroy_when_not_at_work         /* the context may have ended by then */
#define DROPPED_IS_WORK false
#else
#define DROPPED_IS_WORK (dropped != 0)
#endif
#define IS_WORK (completions || DROPPED_IS_WORK || hold || timer || host || goes_on)

/* All below, up to `carry_out`, runs under the lock. First the waiting room. */

inline take(i) {
	assert(admits_ != ADMITS_NONE && phase_ != DEAD && !((i) == 1 && cancelled));
	free = free - COST(i);
	inuse = inuse + COST(i);
#ifdef RATE
	next_grant = now + 1;
#else
	assert(inuse <= seats);                         /* while seats are removed nothing is granted */
#endif
	granted[i] = 1
}

inline take_out(i) {
	assert(at[i] == WAITING);
	at[i] = AFTER;
	number_of[i] = 0;
	seen_by_sweep = seen_by_sweep & ~BIT(i);
	outbox = outbox | BIT(i)
}

inline take_out_drain() {
	drains_ = 0;
	number_of[N] = 0;
	outbox = outbox | BIT(N)
}

inline begin_sweep() {
	is_under_way_ = 1;
	seen_by_sweep = 0
}

inline sweep() {
	if
	:: drains_ && (gone_ || number_of[N] < cancel_before_) -> take_out_drain(); budget--
	:: else
	fi;
	k = len(line);
	do
	:: k > 0 ->
		k--;
		line?x;
		if
		:: budget > 0 && !(seen_by_sweep & BIT(x)) ->
			budget--;
			if
			:: admits_ == ADMITS_NONE || number_of[x] < cancel_before_ || reprices_ && COST(x) > seats -> take_out(x)
			:: else -> seen_by_sweep = seen_by_sweep | BIT(x); line!x
			fi
		:: else -> line!x
		fi
	:: else -> break
	od;
	if
	:: budget > 0 -> is_under_way_ = 0; reprices_ = 0; cancel_before_ = 0; seen_by_sweep = 0
	:: else
	fi
}

inline expire() {
#ifdef TIMER
	k = len(line);
	do
	:: k > 0 ->
		k--;
		line?x;
		if
		:: budget > 0 && DEADLINE(x) < now -> take_out(x); budget--
		:: else -> line!x
		fi
	:: else -> break
	od
#else
	skip
#endif
}

inline serve() {
	do
	:: budget > 0 && len(line) > 0 ->
		line?<x>;
		if
		:: DEADLINE(x) < now -> line?x; take_out(x); budget--
		:: DEADLINE(x) >= now && FITS(x) ->
			line?x;
			assert(number_of[x] > served);
			assert(number_of[x] >= cancel_before_);
			served = number_of[x];
			take_out(x);
			take(x);
			budget--
		:: else -> break
		fi
	:: else -> break
	od
}

inline do_due_work() {
	budget = BUDGET;
#ifdef leave_the_sweep_to_the_step      /* and serves past it */
	if :: is_under_way_ && running > 0 -> sweep() :: else fi;
	expire();
	serve();
#else
	if :: is_under_way_ -> sweep() :: else fi;
	expire();
	if :: !is_under_way_ -> serve() :: else fi;
#endif
	if :: budget > 0 && drains_ && IS_IDLE -> take_out_drain(); budget-- :: else fi
}

/* The first missed deadline is one instant earlier than this: a deadline is still met at its own instant. */
inline next_event() {
	next = NEVER;
	if :: len(line) > 0 -> line?<x>; next = READY(x) :: else fi;
#ifdef TIMER
	k = len(line);
	do
	:: k > 0 ->
		k--;
		line?x;
		line!x;
		if
		:: DEADLINE(x) != NEVER && DEADLINE(x) + 1 < next -> next = DEADLINE(x) + 1
		:: else
		fi
	:: else -> break
	od
#endif
}

inline wants() {
	waiting = !IS_EMPTY;
	due = 0;
	next = NEVER;
	if
	:: waiting ->
		next_event();
#if defined(want_no_sweep)              /* omits one of four, like the next two */
		due = outbox || next <= now || drains_ && IS_IDLE
#elif defined(want_no_post)
		due = is_under_way_ || next <= now || drains_ && IS_IDLE
#elif defined(want_no_grant)
		due = is_under_way_ || outbox || drains_ && IS_IDLE
#else
		due = is_under_way_ || outbox || next <= now || drains_ && IS_IDLE
#endif
	:: else
	fi;
#ifndef release_the_guard_of_a_worker   /* which may be about to post to the context */
	if
	:: !waiting && workers_ > 0 -> waiting = 1; next = timer_at_  /* the timer stays as it is */
	:: else
	fi
#endif
}

/* wakeup */

#define MUST_MOVE_TIMER (next < timer_at_ || next == NEVER && timer_at_ != NEVER)

inline hear() {
#if defined(hear_nothing_due)          /* omits one of four, like the next two; omitting the last one breaks nothing */
	wanted = waiting != held_ || MUST_MOVE_TIMER;
#elif defined(hear_no_guard)
	wanted = due || MUST_MOVE_TIMER;
#elif defined(hear_no_earlier_timer)
	wanted = due || waiting != held_ || next == NEVER && timer_at_ != NEVER;
#else
	wanted = due || waiting != held_ || MUST_MOVE_TIMER;
#endif
	threw = 0;
	if
	:: !wanted || stopped_ || step_posted_ -> step_missing_ = 0
	:: else ->
		assert(!swept);
		if
		:: step_posted_ = 1; step_missing_ = 0; posted++
#ifdef forget_missing_step
		OR_THROW(step_missing_ = 0; threw = 1)
#else
		OR_THROW(step_missing_ = 1; threw = 1)
#endif
		fi
	fi
}

/* The timer's posted callbacks belong to an earlier epoch_ from now on. */
inline next_epoch() {
	outdated = pending;
	stale = stale + fired;
	fired = 0
}

inline stop() {
	stopped_ = 1;
	step_missing_ = 0;
	held_ = 0;
	timer_at_ = NEVER;
	next_epoch()
}

inline arrange() {
	if
	:: waiting != held_ -> hold = 1; hold_to = waiting; held_ = waiting
	:: else
	fi;
	if
#ifdef believe_the_timer_late           /* although it may fire meanwhile */
	:: MUST_MOVE_TIMER -> timer = 1; timer_to = next; next_epoch()
#else
	:: MUST_MOVE_TIMER -> timer = 1; timer_to = next; timer_at_ = next; next_epoch()
#endif
	:: else
	fi;
#ifndef arrange_two_at_once
	if :: hold || timer -> arranging_ = 1 :: else fi
#endif
}

inline arranged() {
	arranging_ = 0;
#ifdef believe_the_timer_late
	if :: timer -> timer_at_ = timer_to :: else fi;
#endif
	if :: hold_failed -> held_ = !hold_to :: else fi;
	if :: timer_failed -> timer_at_ = NEVER :: else fi
}

/* The core. */

inline try_to_send_for_step() {
	wants();
	hear()
}

inline die() {
	phase_ = DEAD
#ifndef post_when_dead                  /* and no later event asks */
	; stop()
#endif
}

inline plan_end() {
	if
#ifdef die_while_at_work                /* of other threads, which post */
	:: workers_ > 0 && phase_ != ABANDONED
#else
	:: workers_ > 0
#endif
	:: else ->
		if
		:: phase_ == ABANDONED && IS_EMPTY -> die(); host_ = 0; host = 1; workers_++
#ifdef leave_the_end_waiting            /* the last worker leaves without a signal */
		:: phase_ == DEAD && nobody_works_ != NULL
#else
		:: phase_ == DEAD && nobody_works_ != NULL -> nobody_works_ = SET
#endif
#ifdef forget_permits_that_are_out      /* which are released to the core later */
		:: phase_ == DEAD && nobody_works_ == NULL && !host_ -> self_ = 0
#else
		:: phase_ == DEAD && nobody_works_ == NULL && inuse == 0 && !host_ -> self_ = 0
#endif
		:: else
		fi
	fi
}

/* Plans the work of a visit, at its end. */
inline plan() {
	if
#ifdef change_nothing_when_abandoned    /* although it was the last permit */
	:: phase_ == IN_USE && IS_EMPTY && AT_REST || changes_nothing && !step_missing_
#else
	:: phase_ == IN_USE && (IS_EMPTY && AT_REST || changes_nothing && !step_missing_)
#endif
	:: else ->
		completions = outbox;
		outbox = 0;
#ifndef count_no_visitor                /* as a worker */
		if :: completions -> workers_++ :: else fi;
#endif
#ifdef post_when_dead
		try_to_send_for_step();
#else
		if :: phase_ != DEAD -> try_to_send_for_step() :: else fi;
#endif
		if :: !completions -> plan_end() :: else fi
	fi
}

inline plan_step() {
	if
	:: phase_ == DEAD || arranging_        /* the step that arranges asks for the needs afterwards */
	:: else ->
		do_due_work();
		completions = outbox;
		outbox = 0;
		wants();
		arrange();
		hear();
		goes_on = budget == 0 && step_missing_;
		if :: IS_WORK -> workers_++ :: else -> plan_end() fi
	fi
}

inline end_deferred_work() {
#ifdef count_no_visitor
	if :: workers_ > 0 -> workers_-- :: else fi;
#else
	workers_--;
#endif
	again = goes_on;
	was_arranging = hold || timer;
	host_failed = hold_failed || timer_failed;
	if :: was_arranging -> arranged() :: else fi;
	hold = 0; hold_to = 0; hold_failed = 0; timer = 0; timer_to = 0; timer_failed = 0;
	has_failed = completions != 0;          /* a later step posts them */
	if
#ifdef leave_late_posts_to_a_step       /* there is no later step */
	:: has_failed && phase_ == DEAD -> outbox = outbox | completions
#else
	:: has_failed && phase_ == DEAD -> dropped = completions
#endif
	:: has_failed && phase_ != DEAD -> outbox = outbox | completions
	:: else
	fi;
	completions = 0
}

/* Determines whether work is due for which no message could be posted. */
inline ask_again() {
#ifdef hear_before_work_ends            /* and still counts this thread */
	workers_++;
#endif
	if
#if defined(put_back_and_send_for_nobody)      /* omits one of three, like the next two */
	:: was_arranging || NOBODY_WAITS && !has_failed -> try_to_send_for_step()
#elif defined(ask_no_more)
	:: has_failed || NOBODY_WAITS -> try_to_send_for_step()
#elif defined(work_and_send_for_nobody)
	:: has_failed || was_arranging -> try_to_send_for_step()
#else
	:: has_failed || was_arranging || NOBODY_WAITS -> try_to_send_for_step()
#endif
	:: else
	fi;
#ifdef hear_before_work_ends
	workers_--;
#endif
#ifndef leave_missing_step_to_others    /* although no other thread may come */
	again = was_arranging && !host_failed && step_missing_
#endif
}

#ifdef stay_when_abandoned              /* the last worker does not destroy the host */
#define PLAN_END_ALIVE skip
#else
#define PLAN_END_ALIVE plan_end()
#endif

/* After deferred work: plans more of it. Only a step can have arranged, or continues. */
#define WORK_IS_DONE(plan_again) \
	end_deferred_work(); \
	if \
	:: phase_ == DEAD && DROPPED_IS_WORK -> workers_++ \
	:: phase_ == DEAD && !DROPPED_IS_WORK -> plan_end() \
	:: else -> \
		goes_on = 0; \
		if :: again :: else -> ask_again() fi; \
		if :: again -> plan_again :: else -> PLAN_END_ALIVE fi \
	fi

/* These run outside the lock. */

inline post_each() {
	do
	:: completions != 0 ->
		atomic {
			do              /* any of them */
			:: completions & BIT(y) -> break
			:: completions >> (y + 1) -> y++
			od;
			assert(!done[y] && !swept);
			assert(work || pending || MESSAGES > 0 || running > 0 || left_run || THROWN);   /* the context is kept running */
			completions = completions & ~BIT(y);
			if
			:: done[y] = 1
			:: left_run -> dropped = dropped | BIT(y)       /* by its executor */
			OR_THROW(failed = failed | BIT(y))
			fi;
			y = 0
		}
	:: else -> break
	od;
	atomic { completions = failed; failed = 0 }
}

#ifdef HOST_THROWS
#define OR_FAIL(g, s) :: (g) && faulty -> faulty = 0; s
#else
#define OR_FAIL(g, s)
#endif

inline arrange_with_host() {
	if
	:: hold || timer ->
		atomic { assert(!touching && !swept); touching = 1 };
		atomic {
			assert(attached && !swept);
			if
			:: hold ->
				if
				:: work = hold_to
				OR_FAIL(hold_to, hold_failed = 1)
				fi
			:: else
			fi;
			if
			:: timer ->
				pending = 0; outdated = 0;      /* expires_at cancels */
				if
				:: timer_to != NEVER -> expiry = timer_to; pending = 1
				:: timer_to == NEVER
				OR_FAIL(timer_to != NEVER, timer_failed = 1)
				fi
			:: else
			fi;
			touching = 0
		}
	:: else
	fi
}

/* The entry in the registry is destroyed last. */
inline destroy_host() {
	if
	:: host ->
		atomic { assert(attached && !touching && !arranging_ && !swept); pending = 0; outdated = 0; expiry = 0; work = 0 };
		atomic { assert(!swept); attached = 0; host = 0 }
	:: else
	fi
}

/* The objects in a handler may need the context. */
inline destroy_one_by_one() {
	do
	:: dropped != 0 ->
		atomic {
			do
			:: dropped & BIT(y) -> break
			:: else -> y++
			od;
			assert(!done[y] && !swept);
			dropped = dropped & ~BIT(y);
			done[y] = 1;
			y = 0
		}
	:: else -> break
	od
}

inline work_outside() {
	post_each();
#ifndef destroy_when_not_at_work
	destroy_one_by_one();
#endif
	arrange_with_host();
	destroy_host()
}

inline when_all_is_done() {
#ifdef destroy_when_not_at_work
	destroy_one_by_one()
#else
	skip
#endif
}

#define CARRY_OUT(plan_again) \
	do \
	:: IS_WORK -> work_outside(); HOLD; WORK_IS_DONE(plan_again); DROP \
	:: else -> break \
	od; \
	when_all_is_done()

#define END_VISIT plan(); DROP; CARRY_OUT(assert(false))

/* Waits, unless the post throws. The decision about a newcomer and its position in the queue are one critical section. */
inline get_in_line(i) {
	at[i] = WAITING;
	line!i;
	try_to_send_for_step();
	if
	:: threw -> line??eval(i); at[i] = AFTER; number_of[i] = 0; done[i] = 1         /* withdraw */
	:: else ->
		if :: len(line) > LIMIT -> line?x; take_out(x) :: else fi;
		do_due_work()
	fi
}

#ifdef two_sections                     /* requests on the way into the queue bar newcomers, too, but may overtake each other */
byte on_the_way;
#define BARRED (len(line) + on_the_way > 0)
#else
#define BARRED (len(line) > 0)
#endif

inline draw_number(i) {
	number_of[i] = next_number;
	next_number++
}

inline enter(i) {
	if :: len(line) > 0 -> do_due_work() :: else fi;     /* help */
	if
	:: admits_ != ADMITS_ALL || i == 1 && marked || COST(i) > seats -> at[i] = AFTER; done[i] = 1
	:: else ->
		if
		:: !BARRED && FITS(i) -> take(i); at[i] = AFTER; done[i] = 1
		:: !(!BARRED && FITS(i)) && UNREACHABLE(i) -> at[i] = AFTER; done[i] = 1
		:: else ->
			draw_number(i);
#ifdef two_sections
			on_the_way++;
			at[i] = REJECTED
#else
			get_in_line(i)
#endif
		fi
	fi
}

inline leave(i) {
	assert(self_);
	free = free + COST(i);
	inuse = inuse - COST(i);
	granted[i] = 0;
	if
#ifdef RATE
	:: changes_nothing = 1                  /* leave: it was used, and frees nothing */
	:: next_grant > 0 -> next_grant--; changes_nothing = len(line) == 0     /* refund */
#else
	:: changes_nothing = len(line) == 0
#endif
	fi;
	changes_nothing = changes_nothing && !(drains_ && IS_IDLE);
	if :: changes_nothing :: else -> do_due_work() fi
}

proctype caller(byte i) {
	ERRAND;

	HOLD;
	enter(i);
	END_VISIT;
#ifdef two_sections
	if
	:: at[i] == REJECTED -> HOLD; on_the_way--; get_in_line(i); END_VISIT
	:: else
	fi;
#endif
#ifdef TIMER
	if                                              /* else only the timer can help waiting requests */
	:: i == 0 -> done[i] && (!granted[i] || finished == N - 1)
	:: true
	fi;
#endif
	if
	:: atomic { done[i] && !granted[i] -> finished++ }
	:: HOLD_ONCE(done[i] && granted[i], finished++);
		leave(i);
		END_VISIT
	fi
}

/* A thread that runs the executor. */
active [2] proctype actor() {
	ERRAND;
end:	HOLD_ONCE(MESSAGES > 0 && !left_run, running++);
	if
#if defined(clear_step_posted_late)     /* not yet */
	:: posted > 0 -> posted--
#elif defined(lose_the_message_while_another_arranges)  /* it checks that first */
	:: posted > 0 -> posted--; step_posted_ = step_posted_ && arranging_
#else
	:: posted > 0 -> posted--; step_posted_ = 0
#endif
#ifdef lose_the_timer_while_another_arranges    /* the same mistake for the timer */
	:: fired > 0 -> fired--; timer_at_ = (arranging_ -> timer_at_ : NEVER)
#else
	:: fired > 0 -> fired--; timer_at_ = NEVER
#endif
#ifdef stale_epoch                      /* assumes that the timer is now idle, but it may be armed again */
	:: stale > 0 -> stale--; timer_at_ = NEVER
#else
	:: stale > 0 -> stale--
#endif
	fi;
	plan_step();
	DROP;
	CARRY_OUT(plan_step());
#ifdef clear_step_posted_late
	HOLD; step_posted_ = 0; DROP;
#endif
	running--;
	goto end
}

#if defined(TIMER) || defined(RATE)
/* Time passes independently of the other processes, and an armed timer fires at its instant or later. */
active proctype clock() {
end:	do
	:: now < HORIZON || pending && now < expiry -> now++
	:: atomic {
		pending && now >= expiry && !left_run -> pending = 0;
		if :: outdated -> outdated = 0; stale++ :: else -> fired++ fi
	}
	od
}
#endif

#ifdef CANCEL
/* The slot's handler. */
active proctype canceller() {
	ERRAND;
	HOLD;
	if
	:: at[1] == WAITING -> cancelled = 1; line??eval(1); take_out(1); do_due_work()
#ifdef cancel_searches_queue_only
	:: at[1] == BEFORE -> cancelled = 1
#else
	:: at[1] == BEFORE -> cancelled = 1; marked = 1; do_due_work()
#endif
	:: at[1] == AFTER -> changes_nothing = 1
	fi;
	END_VISIT
}
#endif

#ifdef CANCEL_ALL
active proctype canceller_of_all() {
	ERRAND;
	HOLD;
	cancel_before_ = next_number;
	begin_sweep();
	do_due_work();
	END_VISIT
}
#endif

#ifdef CLOSE
active proctype closer() {
	ERRAND;
	HOLD;
	admits_ = ADMITS_NONE;
	begin_sweep();
	do_due_work();
	END_VISIT
}
#endif

#ifdef SHUT_DOWN
active proctype shutter() {
	ERRAND;
	HOLD;
	if :: admits_ == ADMITS_ALL -> admits_ = ADMITS_WAITING :: else fi;
	END_VISIT
}
#endif

#ifdef ABANDON
active proctype owner() {
	ERRAND;
	HOLD;
	if :: phase_ == IN_USE -> phase_ = ABANDONED :: else fi;
	gone_ = 1;
	admits_ = ADMITS_NONE;
	begin_sweep();
	do_due_work();
	END_VISIT
}
#endif

#ifdef DRAIN
active proctype drainer() {
	ERRAND;
	HOLD;
	if
	:: gone_ || IS_IDLE -> done[N] = 1
	:: else ->
		drains_ = 1;
		draw_number(N);
		try_to_send_for_step();
		if :: threw -> drains_ = 0; number_of[N] = 0; done[N] = 1 :: else fi
	fi;
	END_VISIT;
	done[N]
}
#endif

#ifdef CONFIGURE
inline configure(n) {
	HOLD;
	free = free + n - seats;
	seats = n;
	if :: len(line) > 0 -> reprices_ = 1; begin_sweep() :: else fi;
	do_due_work();
	END_VISIT
}
active proctype configurer() {
	ERRAND;
	configure(1);
	configure(2)
}
#endif

#if defined(POST_THROWS) && !defined(ALONE)
/* Any other visit, such as a try_enter: the next one posts a missing step. */
active proctype passer_by() {
	ERRAND;
end:	HOLD_ONCE(step_missing_, skip);
	END_VISIT;
	goto end
}
#endif

#ifdef CONTEXT_ENDS
/* A context is destroyed after its threads have left run(), so never while a step runs; callers may be on other threads. It
   destroys its services newest first: ours before the scheduler, which then destroys the posted messages, perhaps some posted
   just now. */
active proctype context() {
	byte doomed;
	bool host;
	atomic { running == 0 -> left_run = 1 };
	if
	:: attached ->
		HOLD;
		gone_ = 1;
		admits_ = ADMITS_NONE;
		do
		:: line?x -> take_out(x)
		:: empty(line) -> break
		od;
		if :: drains_ -> take_out_drain() :: else fi;
		is_under_way_ = 0;
		doomed = outbox;
		outbox = 0;
		die();
		if :: workers_ > 0 -> nobody_works_ = AWAITED :: else fi;
		DROP;
#ifndef leave_context_at_once           /* although a worker may be about to post to it */
		nobody_works_ != AWAITED;
#endif
		HOLD;
		nobody_works_ = NULL;
		host = host_;
		host_ = 0;
		if :: inuse == 0 -> self_ = 0 :: else fi;
		DROP;
		destroy_host();
		atomic {
			do
			:: doomed & BIT(y) -> assert(!done[y]); done[y] = 1; doomed = doomed & ~BIT(y)
			:: !(doomed & BIT(y)) && doomed -> y++
			:: else -> break
			od;
			y = 0
		}
	:: else
	fi;
	atomic { swept = 1; posted = 0; fired = 0; stale = 0 }
}
#endif

/* Runs when no other process can continue. */
active proctype check() {
	timeout;
#ifdef ALONE
	assert(at[0] != WAITING || step_missing_);
	assert(GIVEN_UP || at[1] != WAITING && (N < 3 || at[2] != WAITING))
#else
	assert(finished == N && IS_EMPTY);
	assert(free == seats && seats == SEATS && inuse == 0);
	assert(MESSAGES == 0 && running == 0 && !arranging_ && !step_missing_ && workers_ == 0);
	assert(!pending && !work);                      /* an idle limiter keeps no run() active */
	assert(self_ == (phase_ != DEAD) && host_ == self_ && attached == host_)
#ifdef ABANDON
	; assert(phase_ == DEAD)
#endif
#ifdef CONTEXT_ENDS
	; assert(swept && phase_ == DEAD)
#endif
#endif
}

init {
	byte i;
	atomic {
		do
		:: i < N -> run caller(i); i++
		:: else -> break
		od;
		i = 0
	}
}
