/* The protocol of include/weir/detail/core.hpp, by which callers, permits that come home and the step work together, for spin.
   ./check runs it.

   One limiter whose policy counts seats, N callers who each enter once and leave if they were let in, and two threads
   that run the executor, so that two messages can be under way at once. Whether the handler of one who waits lives on
   the limiter's executor or elsewhere is left open. All interleavings are searched. Switches add to that:
     CANCEL        caller 1's cancellation slot is fired: before its enter, while it waits, or too late
     CANCEL_ALL    all who wait are cancelled
     CLOSE         the limiter is closed
     ABANDON       the limiter object goes
     EVICT         one may wait, and whoever waits makes place for a newcomer
     DRAIN         somebody waits for the limiter to be idle
     TIMER         callers 1 and 2 have deadlines, 0 and 1; caller 0 has none, and may keep its seat until all others are done
     RATE          instead of seats: one grant at an instant, and the next one an instant later; who leaves may undo its own
     CONFIGURE     two seats, caller 1 wants both at once; the seats are lowered to one and raised again
     SHUTDOWN      the context goes: its threads have left run(), what it holds is destroyed and not run; callers go on
     POST_THROWS   up to two posts throw: of a step, or of a handler
     HOST_THROWS   the work guard or the timer throws, once
     RUN_THROWS    a handler throws out of the step that calls it
     BATCH         one at a time is removed, handed a seat, completed: the bounds on how long L is held
     ALONE         with POST_THROWS: no later gate call pays the debt. Then who has a deadline must still not oversleep it
     FINE          the search goes into critical sections too: see HOLD

   Asserted: seats in use never exceed their number at a grant; grants in the order of refusals, and none at the gate while
   somebody waits; each caller completed once, and with no seat if its cancellation came first, or its deadline is past; timer
   and work guard touched by one at a time, there while they are needed and gone when idle; what `coherent` says; nothing
   posted to a context that is gone. And when nothing more can happen nobody waits, every seat is back and no step is
   missing (`check`, at the end).

   It has not: other orders of the queue than fifo, watchful policies, what an executor does with a handler once it has it.
   Two steps, or a step and one who leaves, may overlap in completing whom they removed: of that order nothing is said.

   Here                      in C++
   HOLD .. DROP              the lock L of the core, and what must be true whenever it is free
   free, seats, inuse, next  the policy: its room, which is negative while it drains; its capacity; live; RATE's next instant
   at                        operation::at; BEFORE and AFTER are both nowhere there, told apart by whether it is linked
   woken, posted             a step message is on its way; how many the executor has
   busy, again               a step is seeing to the host, with L released; another one is needed after it
   armed, held               what the core goes by: as it will be once the one who is busy is through
   pending, expiry, work     the steady_timer and the work guard themselves
   fired, stale              the timer's callbacks that the executor has: of this epoch_, and of earlier ones
   debt                      a post threw, and nobody is left to throw it at
   done                      the handler was called, posted, or destroyed, with L released

   Mutants are plausible shortcuts that are not sound. Each says what it does where it departs; `check` wants all caught. */

#ifndef N
#define N 3
#endif
#define NEVER 255
#define NOBODY 255
#ifdef BATCH
#define BOUND 1
#else
#define BOUND (N + 1)
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
#define FITS(i) (next <= now)
#define READY (next)                    /* known, and that of any who is first */
#define UNREACHABLE(i) ((next > now -> next : now) + waiting > DEADLINE(i))
#else
#define FITS(i) (COST(i) <= free)
#define READY NEVER
#define UNREACHABLE(i) false
#endif

#ifdef EVICT
#define FULL (waiting > 0)
#else
#define FULL false
#endif

#define BEFORE 0
#define REFUSED 1                       /* on the way into line: in two mutants only */
#define WAITING 2
#define AFTER 3

/* guarded by L */
short free = SEATS, seats = SEATS, inuse;
byte next;
byte waiting, under_way;
chan queue = [N] of { byte };
chan leaving = [N + 1] of { byte };
bool woken, busy, again, closed, abandoned, dead, debt, held, reprice, draining;
byte armed = NEVER;
byte at[N];
bool elsewhere[N + 1];                  /* not operation::runs_in_step(); N is the one who drains */
byte number = 1, number_of[N + 1], served;      /* no overtaking: served only grows */
byte cancel_before;
bool marked, cancelled;                 /* of caller 1: operation::cancelled; its cancellation came before it was out */
bool granted[N];

/* of the executor, the timer and the world */
byte posted, fired, stale, running;
bool pending, outdated;                 /* the timer is armed; ... and of an earlier epoch_ */
bool work, attached = 1, touching, letting_go, stopped, swept;
byte expiry, now;
bool done[N + 1];
byte finished;
#ifdef SHUTDOWN
byte handing_over;
#endif
#ifdef POST_THROWS
byte throws = 2;
#endif
#ifdef HOST_THROWS
bool faulty = 1;
#endif

/* The gate is shut iff somebody waits. */
#if defined(post_after_unlock_open_on_empty_queue) || defined(count_in_flight)
#define TWO_SECTIONS                    /* for refusal and place in line */
#endif
#if defined(post_after_unlock_open_on_empty_queue) || defined(reopen_gate_late)
bool shut;                              /* until a step finds the queue empty */
#define SHUT shut
#elif defined(count_in_flight)
#define SHUT (waiting + under_way > 0)
#else
#define SHUT (waiting > 0)
#endif

/* Nothing is on its way. Then all must be seen to. */
#ifdef no_busy    /* nobody knows */
#define QUIET false
#else
#define QUIET (posted + fired + stale == 0 && !busy && !dead && !debt)
#endif
#define HEAD_FITS (queue?[1] && FITS(1) || len(queue) > 0 && !queue?[1] && FITS(0))
#define AWAKE_BY(t) (pending && expiry <= (t))
#define IN_TIME(i) ((i) >= N || at[i] != WAITING || DEADLINE(i) == NEVER || AWAKE_BY(DEADLINE(i) + 1))
inline coherent() {
	assert(free + inuse == seats);
	assert(waiting == len(queue));
	if
	:: QUIET ->
		assert(len(leaving) == 0);
		assert(!draining || inuse + waiting > 0);
		assert(work == (waiting > 0 || draining));      /* else run() returns while somebody waits, or never */
		assert(waiting > 0 || !pending);
		assert(IN_TIME(1) && IN_TIME(2) && IN_TIME(3));
#ifdef RATE
		assert(waiting == 0 || AWAKE_BY(next))
#else
		assert(!HEAD_FITS)
#endif
	:: else
	fi
}

/* A critical section; HOLD_ONCE waits for g and does s as it gets L. All that is written under L is read under L, save for
   posts, and a message that is posted early can do nothing but wait for L: so a section may be one atomic step, which keeps
   the search small. FINE spares nothing and has a real lock. For the same reason taking a message and L are one step. */
#ifdef FINE
bool lock;
#define HOLD_ONCE(g, s) atomic { (g) && !lock -> s; lock = 1 }
#define DROP atomic { coherent(); lock = 0 }
#else
#define HOLD_ONCE(g, s) atomic { (g) -> s
#define DROP coherent() }
#endif
#define HOLD HOLD_ONCE(true, skip)

/* What posts may throw. */
#ifdef POST_THROWS
#define OR_THROW(s) :: throws > 0 -> throws--; s
#else
#define OR_THROW(s)
#endif

/* All below, up to the processes: under L. */

/* Leaves woken clear only if it is dead or the post throws. */
inline signal() {
	if
#ifdef post_when_dead    /* does not ask whether the context is there */
	:: woken
#else
	:: woken || dead
#endif
	:: else ->
		if
		:: assert(!swept); woken = 1; posted++
		OR_THROW(skip)
		fi
	fi
}

inline wake() {
	signal();
#ifndef forget_debt
	debt = !woken && !dead
#endif
}

inline pay_debt() {
	if :: debt -> wake() :: else fi
}

inline take(i) {
	assert(!closed && !dead && !((i) == 1 && cancelled));
	free = free - COST(i);
	inuse = inuse + COST(i);
#ifdef RATE
	next = now + 1;
#else
	assert(inuse <= seats);                         /* while it drains nothing is granted */
#endif
	granted[i] = 1
}

/* Who is no longer in the queue is out of the line. */
inline take_out(i) {
	assert(at[i] == WAITING);
	at[i] = AFTER;
	number_of[i] = 0;
	waiting--
}

inline remove(i) {
	take_out(i);
	leaving!i
}

inline grant(i) {
	assert(number_of[i] > served);
	assert(number_of[i] >= cancel_before);
	served = number_of[i];
	take(i);
	take_out(i)
}

/* Serves those whose turn it is, and keeps them by `keep`. */
#define SERVE(keep) \
	do \
	:: left > 0 && len(queue) > 0 -> \
		queue?<x>; \
		if \
		:: DEADLINE(x) < now -> queue?x; remove(x); left-- \
		:: DEADLINE(x) >= now && FITS(x) -> queue?x; grant(x); keep; left-- \
		:: else -> break \
		fi \
	:: else -> break \
	od

/* When there will be something to do: at the first deadline to be missed, since an instant equal to it still meets it. */
inline next_event() {
	want = (len(queue) > 0 -> READY : NEVER);
	k = len(queue);
	do
	:: k > 0 ->
		k--;
		queue?x;
		queue!x;
		if
		:: DEADLINE(x) != NEVER && DEADLINE(x) + 1 < want -> want = DEADLINE(x) + 1
		:: else
		fi
	:: else -> break
	od
}

/* Of one who leaves; whom it serves it keeps in a set, but for those whose handlers a step calls. */
inline hand_over() {
	if
#if defined(serve_after_close)    /* leaves out one of three */
	:: cancel_before || reprice || len(queue) == 0 -> wake()
#elif defined(serve_past_cancel)  /* the same */
	:: closed || reprice || len(queue) == 0 -> wake()
#else
	:: closed || cancel_before || reprice || len(queue) == 0 -> wake()
#endif
	:: else ->
		queue?<x>;
		if
		:: !elsewhere[x] -> wake()
		:: else ->
			left = BOUND;
			SERVE(if :: elsewhere[x] -> out = out | (1 << x) :: else -> leaving!x fi);
			next_event();
			if :: left == 0 || want < armed -> wake() :: else fi
		fi
	fi;
	x = 0; left = 0; want = 0
}

/* Whether there is something to do that the step may not know of. */
#ifdef hand_over_keeps_leaving    /* leaves out one of four, as do the next two */
#define NEEDS_STEP (inuse == 0 && draining || waiting == 0 && (draining -> armed != NEVER : held))
#elif defined(hand_over_keeps_guard)
#define NEEDS_STEP (len(leaving) > 0 || inuse == 0 && draining || waiting == 0 && draining && armed != NEVER)
#elif defined(hand_over_keeps_timer)
#define NEEDS_STEP (len(leaving) > 0 || inuse == 0 && draining || waiting == 0 && !draining && held)
#else
#define NEEDS_STEP (len(leaving) > 0 || inuse == 0 && draining || waiting == 0 && (draining -> armed != NEVER : held))
#endif

/* Of one who was refused, and has no choice but to wait. */
#if defined(unsaid_eviction)      /* leaves out one of four, as do the next three */
#define UNKNOWN_TO_STEP(i) (!held || DEADLINE(i) < armed || waiting == 0 && READY < armed)
#elif defined(unsaid_wait)
#define UNKNOWN_TO_STEP(i) (FULL || DEADLINE(i) < armed || waiting == 0 && READY < armed)
#elif defined(unsaid_deadline)
#define UNKNOWN_TO_STEP(i) (FULL || !held || waiting == 0 && READY < armed)
#elif defined(unsaid_turn)
#define UNKNOWN_TO_STEP(i) (FULL || !held || DEADLINE(i) < armed)
#elif defined(TWO_SECTIONS)
#define UNKNOWN_TO_STEP(i) true
#else
#define UNKNOWN_TO_STEP(i) (FULL || !held || DEADLINE(i) < armed || waiting == 0 && READY < armed)
#endif
inline get_in_line(i) {
	needed = UNKNOWN_TO_STEP(i);
	if :: needed -> signal() :: else fi;
	if
	:: needed && !woken -> done[i] = 1              /* it threw */
	:: else ->
		if :: FULL -> queue?x; remove(x); x = 0 :: else fi;
		if :: elsewhere[i] = 1 :: skip fi;
		at[i] = WAITING;
		waiting++;
		queue!i
	fi;
	needed = 0
}

inline draw_number(i) {
	number_of[i] = number;
	number++
}

inline destroy(i) {                     /* outside L; a permit it has goes home */
	assert(!done[i]);
	done[i] = 1;
	elsewhere[i] = 0
}

proctype caller(byte i) {
	byte x, k, left, want, out;
	bool needed, threw;

	HOLD;
	pay_debt();
	if
	:: closed || i == 1 && marked || COST(i) > seats -> done[i] = 1
	:: else ->
		if
		:: !SHUT && FITS(i) ->
			assert(waiting + under_way == 0);
			take(i);
			done[i] = 1
		:: !(!SHUT && FITS(i)) && UNREACHABLE(i) -> done[i] = 1
		:: else ->
			draw_number(i);
#ifdef TWO_SECTIONS
			under_way++;
			at[i] = REFUSED
#else
			get_in_line(i)
#endif
#if defined(post_after_unlock_open_on_empty_queue) || defined(reopen_gate_late)
			; shut = 1
#endif
		fi
	fi;
	if :: done[i] -> at[i] = AFTER :: else fi;
	DROP;
#ifdef TWO_SECTIONS
	if
	:: at[i] == REFUSED ->
		HOLD;
		under_way--;
		get_in_line(i);
		DROP
	:: else
	fi;
#endif

#ifdef TIMER
	if                                              /* else nothing but the timer can help those who wait */
	:: i == 0 -> done[i] && (!granted[i] || finished == N - 1)
	:: true
	fi;
#endif
	if
	:: atomic { done[i] && !granted[i] -> finished++ }
	:: HOLD_ONCE(done[i] && granted[i], finished++);
		free = free + COST(i);
		inuse = inuse - COST(i);
		granted[i] = 0;
		if
#ifdef RATE
		:: true                                 /* leave: it has been used */
		:: next > 0 -> next--;                  /* refund */
#else
		:: true ->
#endif
			if :: SHUT -> hand_over() :: else fi
		fi;
		if :: debt || NEEDS_STEP -> wake() :: else fi;
#ifdef SHUTDOWN
		needed = out != 0;
		handing_over = handing_over + needed;
#endif
		DROP;
		do
		:: out != 0 ->
			atomic {
				do              /* any of them */
				:: out & (1 << x) -> break
				:: out >> (x + 1) -> x++
				od;
				if
				:: assert(!done[x] && elsewhere[x]);
					assert(!swept);         /* its executor may be of our context */
					out = out & ~(1 << x);
					done[x] = 1;
					elsewhere[x] = 0
				OR_THROW(threw = 1)
				fi
			};
			if
			:: threw ->
				HOLD;
				if
#ifndef late_post_left_by_leaver    /* to a step */
				:: dead         /* then there will be none */
#endif
				:: else ->
					threw = 0;
					x = 0;
					do
					:: x < N ->
						if :: out & (1 << x) -> leaving!x :: else fi;
						x++
					:: else -> break
					od;
					out = 0;
					wake()
				fi;
				DROP;
				if
				:: threw -> atomic { destroy(x); out = out & ~(1 << x); threw = 0 }
				:: else
				fi
			:: else
			fi;
			x = 0
		:: else -> break
		od;
#ifdef SHUTDOWN
		if :: atomic { needed -> handing_over--; needed = 0 } :: else fi
#endif
	fi
}

#define NOBODY_IS_HERE (waiting == 0 && !draining && len(leaving) == 0)

/* Outside L, once it is dead: nobody else can be at the host. */
inline let_go() {
	assert(!touching && !busy);
	pending = 0;
	outdated = 0;
	work = 0;
	attached = 0
}

#if defined(SHUTDOWN) && !defined(die_while_posting)
#define LET_GO atomic { handing_over == 0 -> let_go() }         /* or the context would not wait for those who post */
#else
#define LET_GO atomic { let_go() }
#endif

inline do_work() {
	left = BOUND;
	k = len(queue);
	do
	:: k > 0 ->
		k--;
		queue?x;
		if                                      /* where several apply, any will do */
		:: left > 0 && (closed || number_of[x] < cancel_before || COST(x) > seats || DEADLINE(x) < now) -> remove(x); left--
		:: else -> queue!x
		fi
	:: else -> break
	od;
	if
	:: left > 0 ->
		if :: draining && number_of[N] < cancel_before -> draining = 0; leaving!N :: else fi;
		cancel_before = 0;
		reprice = 0
	:: else
	fi;
	SERVE(leaving!x);
	if :: draining && inuse == 0 && waiting == 0 -> draining = 0; leaving!N :: else fi;
	unfinished = left == 0;
	if :: unfinished -> wake() :: else fi
}

/* Sets rehold and rearm, if there is something to see to. */
inline see_to_host() {
	next_event();
	hold = waiting > 0 || draining;
	rehold = hold != held;
	rearm = want < armed || want == NEVER && armed != NEVER;
	arm = want;
	busy = rehold || rearm;
#ifndef believe_the_guard_late    /* others who come meanwhile go by what was */
	held = hold;
#endif
#ifndef believe_the_timer_late    /* the same */
	if :: rearm -> armed = want :: else fi;
#endif
	if :: rearm -> outdated = pending; stale = stale + fired; fired = 0 :: else fi
#ifdef no_busy    /* so two may be at the timer */
	; busy = 0
#endif
}

inline pop() {
	if
	:: leaving?x ->
		last = len(leaving) == 0;
#ifndef no_further_step    /* leaves the others to the handler of this one */
		if :: !last || abandoned -> wake() :: else fi
#endif
	:: empty(leaving) -> x = NOBODY
	fi
}

/* What a step does under L, by one who is not kept out by `busy`, until it lets go of L. */
inline section() {
	do
	:: do_work();
		see_to_host();
		if
		:: !rehold && !rearm && unfinished && debt
		:: else -> break
		fi
	od;
#ifdef post_after_unlock_open_on_empty_queue
	if :: len(queue) == 0 -> shut = 0 :: else fi;
#endif
#ifdef reopen_gate_late
	reopen = len(queue) == 0;
#endif
	x = NOBODY; want = 0; left = 0;
	if
	:: rehold || rearm
	:: else -> hold = 0; arm = 0; finish()
	fi
}

inline finish() {
	unfinished = 0;
	if
	:: abandoned && !dead && NOBODY_IS_HERE -> dead = 1; gone = 1
	:: else -> pop()
	fi
}

#ifdef HOST_THROWS
#define OR_FAIL(g, s) :: (g) && faulty -> faulty = 0; s
#else
#define OR_FAIL(g, s)
#endif

/* Outside L. */
inline housekeeping() {
	atomic { assert(!touching); touching = 1 };
	atomic {
		if
		:: rehold ->
			if
			:: work = hold
			OR_FAIL(hold, failed = 1)
			fi
		:: else
		fi;
		if
		:: rearm ->
			pending = 0; outdated = 0;      /* expires_at cancels */
			if
			:: arm != NEVER -> expiry = arm; pending = 1
			:: arm == NEVER
			OR_FAIL(arm != NEVER, not_armed = 1)
			fi
		:: else
		fi;
		touching = 0
	};
	HOLD;
	busy = 0;
#ifdef believe_the_guard_late
	held = hold;
#endif
#ifdef believe_the_timer_late
	if :: rearm -> armed = arm :: else fi;
#endif
	if
	:: failed || not_armed ->
		if :: failed -> held = !hold :: else fi;
		if :: not_armed -> armed = NEVER :: else fi;
		failed = 0; not_armed = 0;
		wake()
	:: else
	fi;
	rehold = 0; rearm = 0; hold = 0; arm = 0;
	if
#ifdef rerun_by_message    /* which may throw */
	:: again -> again = 0; wake(); finish()
	:: !again && unfinished && debt -> section()
#else
	:: again || unfinished && debt -> again = 0; section()
#endif
	:: else -> finish()
	fi;
	DROP
}

/* Who runs is of interest to the end of the context only. */
#ifdef SHUTDOWN
#define START running++
#define STOP running--
#else
#define START skip
#define STOP skip
#endif

/* A thread that runs the executor. */
active [2] proctype actor() {
	byte x = NOBODY, k, left, want, arm;
	bool hold, rehold, rearm, unfinished, last, gone, failed, not_armed;
#ifdef reopen_gate_late
	bool reopen;
#endif
end:	HOLD_ONCE((posted + fired + stale > 0) && !stopped, START);
	if
	:: posted > 0 ->
		posted--;
#ifndef clear_wake_late    /* not yet */
		woken = 0
#endif
	:: fired > 0 -> fired--; armed = NEVER
	:: stale > 0 -> stale--;
#ifdef stale_epoch    /* takes it that the timer is now idle, but it may be armed anew */
		armed = NEVER
#endif
	fi;
	if
	:: dead
#ifdef no_rerun    /* trusts the one who is busy to have seen everything */
	:: !dead && busy
#else
	:: !dead && busy -> again = 1
#endif
	:: else -> debt = 0; section()
	fi;
	DROP;
#ifdef clear_wake_late
	HOLD; woken = 0; DROP;
#endif
#ifdef reopen_gate_late
	HOLD; if :: reopen -> shut = 0; reopen = 0 :: else fi; DROP;
#endif
	do :: rehold || rearm -> housekeeping() :: else -> break od;
#ifdef ABANDON
	if :: gone -> LET_GO; gone = 0 :: else fi;
#endif
	do
	:: x != NOBODY ->
		atomic {
			assert(!done[x]);
			if
			:: !elsewhere[x] -> done[x] = 1;
				if
				:: last -> x = NOBODY   /* no need for L any more */
				:: !last
#ifdef RUN_THROWS
				:: !last -> x = NOBODY
#endif
				fi
			:: else ->
				if
				:: done[x] = 1; elsewhere[x] = 0
				OR_THROW(failed = 1)
				fi
			fi;
			last = 0
		};
		if
		:: x == NOBODY -> break
		:: x != NOBODY && failed ->
			HOLD;
			if
#ifndef late_post_left_by_step    /* to a further one */
			:: dead                 /* then there will be none */
#endif
			:: else -> failed = 0; leaving!x; wake()
			fi;
			DROP;
			if
			:: failed -> atomic { destroy(x); failed = 0 }
			:: else
			fi;
			x = NOBODY
#ifdef BATCH
		:: x != NOBODY && !failed -> x = NOBODY
#else
		:: x != NOBODY && !failed -> HOLD; pop(); DROP
#endif
		fi
	:: else -> break
	od;
	STOP;
	goto end
}

#if defined(TIMER) || defined(RATE)
/* Time goes on whatever the others do, and an armed timer fires at its instant or later. */
active proctype clock() {
end:	do
	:: now < HORIZON || pending && now < expiry -> now++
	:: atomic {
		pending && now >= expiry && !stopped -> pending = 0;
		if :: outdated -> outdated = 0; stale++ :: else -> fired++ fi
	}
	od
}
#endif

#ifdef CANCEL
/* The slot's handler. */
active proctype canceller() {
	HOLD;
	if
	:: at[1] == WAITING -> cancelled = 1; queue??eval(1); remove(1); wake()
#ifdef cancel_searches_queue_only
	:: at[1] < WAITING -> cancelled = 1
#else
	:: at[1] < WAITING -> cancelled = 1; marked = 1
#endif
	:: at[1] == AFTER
	fi;
	DROP
}
#endif

#ifdef CANCEL_ALL
active proctype canceller_of_all() {
	HOLD;
	cancel_before = number;
	wake();
	DROP
}
#endif

#ifdef CLOSE
active proctype closer() {
	HOLD;
	closed = 1;
	wake();
	DROP
}
#endif

#ifdef ABANDON
/* Not while its context is being destroyed. */
active proctype owner() {
	bool gone;
	HOLD_ONCE(!stopped || swept, letting_go = 1);
	closed = 1;
	abandoned = 1;
	if
	:: dead
	:: else ->
		cancel_before = number;
		if
		:: !busy && NOBODY_IS_HERE -> dead = 1; gone = 1
		:: else -> wake()
		fi
	fi;
	DROP;
	if :: gone -> LET_GO :: else fi;
	letting_go = 0
}
#endif

#ifdef DRAIN
active proctype drainer() {
	HOLD;
	pay_debt();
	if
	:: dead || inuse == 0 && waiting == 0 -> done[N] = 1
	:: else ->
		signal();
		if
		:: woken ->
			draining = 1;
			draw_number(N);
			if :: elsewhere[N] = 1 :: skip fi
		:: else -> done[N] = 1
		fi
	fi;
	DROP;
	done[N]
}
#endif

#ifdef CONFIGURE
inline configure(n) {
	HOLD;
	free = free + n - seats;
	seats = n;
	reprice = waiting > 0;
	pay_debt();
	wake();
	DROP
}
active proctype configurer() {
	configure(1);
	configure(2)
}
#endif

#if defined(POST_THROWS) && !defined(ALONE)
/* Any other gate call, such as a try_enter: what is owed is paid by the next one. */
active proctype passer_by() {
end:	do
	:: HOLD_ONCE(debt, skip); wake(); DROP
	od
}
#endif

#ifdef SHUTDOWN
/* A context goes once its threads have left run(), so never while a step is under way; callers may be on other threads. Its
   services go newest first: ours before the scheduler, which then destroys what was posted, some of it perhaps just now. */
active proctype context() {
	byte x;
	chan gone = [N + 1] of { byte };
	atomic { running == 0 && !letting_go -> stopped = 1 };
	if
	:: attached ->
		HOLD;
		closed = 1;
		do
		:: queue?x -> take_out(x); gone!x
		:: leaving?x -> gone!x
		:: draining -> draining = 0; gone!N
		:: empty(queue) && empty(leaving) && !draining -> break
		od;
		x = 0;
		debt = 0;
		dead = 1;
		DROP;
#ifndef leave_context_while_posting    /* it may be to this one */
		handing_over == 0;
#endif
		atomic { let_go() };
		do
		:: atomic { gone?x -> destroy(x); x = 0 }
		:: empty(gone) -> break
		od
	:: else
	fi;
	atomic { swept = 1; posted = 0; fired = 0; stale = 0 }
}
#endif

/* Once nothing more can happen. */
active proctype check() {
	timeout;
#ifdef ALONE
	assert(at[1] != WAITING && (N < 3 || at[2] != WAITING) && (at[0] != WAITING || debt))
#else
	assert(finished == N && waiting == 0 && len(queue) + len(leaving) == 0 && !draining);
	assert(free == seats && seats == SEATS && inuse == 0);
	assert(posted + fired + stale == 0 && running == 0 && !busy && !again && !debt);
	assert(!pending && !work)                       /* an idle limiter keeps no run() alive */
#ifdef ABANDON
	; assert(dead)
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
