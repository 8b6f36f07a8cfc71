/* The protocol by which callers, gate and waiting room work together, for spin. ./check runs it.

   One limiter whose policy counts seats, N callers who each enter once and leave if they were let in, and two threads
   that run the executor, so that two messages can be under way at once. All interleavings are searched. Switches add to that:
     CANCEL       caller 1's cancellation slot is fired while it waits: before or after its enter was seen by a step
     CLOSE        the limiter is closed
     TIMER        callers 1 and 2 have deadlines, 0 and 1; caller 0 has none, and may keep its seat until all others are done
     CONFIGURE    two seats, caller 1 wants both at once; the seats are lowered to one and raised again
     SHUTDOWN     the context goes: its threads have left run(), what it holds is destroyed and not run; callers go on
     POST_THROWS  up to two posts throw
     BATCH        a section removes one waiter, then signals again: the bound on how long L is held
     RERUN_HERE   whoever was stepping runs a section that was wanted meanwhile itself, instead of posting a message for it
     ALONE        with POST_THROWS: no later gate call pays what is owed. Then who has a deadline must still not oversleep it,
                  for the timer pays; true only with RERUN_HERE, as a newcomer's step can be lost before the timer knows it
     FINE         the search goes into critical sections too: see HOLD

   Asserted: seats in use never exceed their number at a grant; grants in the order of tickets; each caller completed once, and
   with no seat if its cancellation came while it waited, or a section finds its deadline past; timer and work guard touched by
   one at a time, there while they are needed and gone when idle; what `coherent` says; nothing posted to a context that is
   gone. And when nothing more can happen nobody waits, every seat is back and no step is missing (`check`, at the end).

   It has not: policies with a clock of their own, the bound and the order of the queue, draining, a timer whose async_wait
   throws, what the executor does with a handler once it has it. Two steps may overlap in completing whom they removed: of
   that order nothing is said.

   Here                      in C++
   HOLD .. DROP              the lock L of the core, and what must be true whenever it is free
   free, seats, inuse        the policy's room, which is negative while it drains; its capacity; live
   waiting, inbox, queue     those who wait, as the gate counts them; not yet seen by a step; seen
   woken, posted             a step is posted and has not begun; how many such messages the executor has
   stepping, rerun           a step is in its housekeeping, with L released; somebody wanted a section meanwhile
   armed, guarded            what the core believes of timer and work guard: written under L, while nobody is stepping
   pending, expiry, fired    the steady_timer itself, and its callbacks that the executor has; cancelled ones do nothing
   owed                      a post threw, and nobody is left to throw it at
   verdict, done             how a wait ended, decided under L; its handler was posted, or destroyed, with L released

   MUTANT_A .. MUTANT_E are five plausible shortcuts on gate and waiting room that are not sound, MUTANT_F .. MUTANT_J five on
   the mailbox, the timer, posts that throw and shutdown. Each says what it does where it departs; `check` wants all caught. */

#ifndef N
#define N 3
#endif
#define NEVER 255
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
#endif

mtype = { GRANTED, CLOSED, CANCELLED, EXCEEDS, TIMED_OUT, THROWN, DESTROYED };

/* guarded by L */
short free = SEATS, seats = SEATS, inuse;
byte waiting;
chan inbox = [N] of { byte };
chan queue = [N] of { byte };
bool woken, stepping, rerun, closed, dead, owed, guarded;
byte armed = NEVER;
bool waits[N], mark[N];                 /* has a place in line; the slot's handler was here */
byte ticket, served, ticket_of[N];      /* no barging, no overtaking: served only grows */
bool cancelled[N];                      /* its cancellation came while it waited, whatever became of the mark */
mtype verdict[N];

/* of the executor, the timer and the world */
byte posted, fired, running;
bool pending, work, touching, stopped, swept;
byte expiry, now;
bool done[N];
byte finished;
#ifdef POST_THROWS
byte throws = 2;
#endif

/* In mutants A and D the gate is shut by a flag; in the protocol it is shut iff somebody waits. */
#if defined(MUTANT_A) || defined(MUTANT_D)
bool shut;
#define SHUT shut
#else
#define SHUT (waiting > 0)
#endif

inline coherent() {
	assert(free + inuse == seats);
#if !defined(MUTANT_A) && !defined(MUTANT_B)    /* theirs are on the way between the two */
	assert(waiting == len(inbox) + len(queue));
#endif
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

/* Under L. Leaves woken clear only if it is dead or the post throws. */
inline signal() {
	if
#ifdef MUTANT_J    /* does not ask whether the context is there */
	:: woken
#else
	:: woken || dead
#endif
	:: else ->
		if
		:: assert(!swept); woken = 1; posted++
#ifdef POST_THROWS
		:: throws > 0 -> throws--
#endif
		fi
	fi
}

/* Under L, for those who cannot throw: leave, configure, close, a slot's handler, a step. */
inline wake() {
	signal();
#ifndef MUTANT_I    /* forgets */
	owed = !woken && !dead
#endif
}

inline grant(i) {
	assert(!closed && !dead && !cancelled[i]);
	free = free - COST(i);
	inuse = inuse + COST(i);
	assert(inuse <= seats)                          /* while it drains nothing is granted */
}

inline leave(i) {
	HOLD;
	free = free + COST(i);
	inuse = inuse - COST(i);
	if :: SHUT -> wake() :: else fi;
	DROP
}

proctype caller(byte i) {
	HOLD;
	if
	:: dead -> verdict[i] = DESTROYED; done[i] = 1  /* there is no executor to complete it on */
	:: !dead && closed -> verdict[i] = CLOSED; done[i] = 1
	:: !dead && !closed && COST(i) > seats -> verdict[i] = EXCEEDS; done[i] = 1
	:: !dead && !closed && COST(i) <= seats && !SHUT && COST(i) <= free ->
		grant(i); verdict[i] = GRANTED; done[i] = 1
	:: else ->
		ticket++;
		ticket_of[i] = ticket;
		waits[i] = 1;
		waiting++;
#if defined(MUTANT_A) || defined(MUTANT_D)
		shut = 1;
#endif
#if !defined(MUTANT_A) && !defined(MUTANT_B)
		inbox!i;
		signal();
		if
		:: woken -> owed = 0
		:: else -> inbox??eval(i); waits[i] = 0; waiting--; verdict[i] = THROWN; done[i] = 1
		fi
#endif
	fi;
	DROP;
#if defined(MUTANT_A) || defined(MUTANT_B)          /* every waiter is a message of its own, posted after unlocking */
	if
	:: atomic { waits[i] -> inbox!i; posted++ }     /* mutant B counts it from the refusal on: that is `waiting` */
	:: else
	fi;
#endif
	done[i];
	if
	:: verdict[i] == GRANTED ->
#ifdef TIMER
		if                                      /* then nothing but the timer can help those who wait */
		:: i == 0 -> finished == N - 1
		:: true
		fi;
#endif
		leave(i)
	:: else
	fi;
	atomic { assert(done[i]); finished++ }
}

/* Of a waiter taken from the queue by a section; its handler is completed later, with L released. */
inline removed(i, why) {
	assert(verdict[i] == 0 && waits[i]);
	verdict[i] = why;
	waits[i] = 0;
	waiting--;
	left--;
	out!i
}

/* The section of a step: under L, by the one who is not kept out by `stepping`. Sets `touch` if there is housekeeping. */
inline section() {
	owed = 0;
	left = BOUND;
	do
	:: inbox?x -> queue!x
	:: empty(inbox) -> break
	od;
	t = now;
	k = len(queue);
	do
	:: k > 0 ->
		k--;
		queue?x;
		if                                      /* where two apply, either will do */
		:: left > 0 && closed -> removed(x, CLOSED)
		:: left > 0 && mark[x] -> removed(x, CANCELLED)
		:: left > 0 && COST(x) > seats -> removed(x, EXCEEDS)
		:: left > 0 && DEADLINE(x) < t -> removed(x, TIMED_OUT)
		:: else -> queue!x
		fi
	:: else -> break
	od;
	do
	:: left > 0 && len(queue) > 0 ->                /* if none is left, some in the queue may be marked or expired */
		queue?<x>;
		if
		:: COST(x) <= free ->
			queue?x;
			assert(ticket_of[x] > served && DEADLINE(x) >= t);
			served = ticket_of[x];
			grant(x);
			removed(x, GRANTED)
		:: else -> break
		fi
	:: else -> break
	od;
	if :: left == 0 -> wake() :: else fi;

	/* When to wake up next: one past the first deadline, since an instant equal to it still meets it. So it lies ahead of
	   t, and cannot be what a timer was armed for that has fired: `armed` need not be told that it did. */
	want = NEVER;
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
	od;
	assert(want > t || left == 0);
	rearm = want != armed;
	touch = rearm || guarded != (len(queue) > 0);
	armed = want;
	guarded = len(queue) > 0;
#ifndef MUTANT_G    /* knows of no housekeeping, so two may be at the timer */
	stepping = touch;
#endif
#ifdef MUTANT_A
	if :: len(queue) == 0 -> shut = 0 :: else fi;
#endif
#ifdef MUTANT_D
	reopen = len(queue) == 0;
#endif
	x = 0; t = 0; want = 0; left = 0
}

/* Outside L; `armed` and `guarded` are safe to read, for none but who is stepping writes them. */
inline housekeeping() {
	atomic { assert(!touching); touching = 1 };
	if
	:: rearm ->
		pending = 0;                            /* expires_at cancels */
		atomic { rearm = 0; if :: armed != NEVER -> expiry = armed; pending = 1 :: else fi }
	:: else
	fi;
	atomic { work = guarded; touching = 0 };
	HOLD;
	touch = 0;
	stepping = 0;
	if
#ifdef RERUN_HERE
	:: rerun -> rerun = 0; section()
#else
	:: rerun -> rerun = 0; wake()
#endif
	:: else
	fi;
	DROP
}

/* A thread that runs the executor. */
active [2] proctype actor() {
	chan out = [N] of { byte };
	byte x, k, t, left, want;
	bool touch, rearm;
#ifdef MUTANT_D
	bool reopen;
#endif
end:	HOLD_ONCE((posted > 0 || fired > 0) && !stopped, running++);
	if
	:: posted > 0 ->
		posted--;
#ifndef MUTANT_C    /* not yet */
		woken = 0
#endif
	:: fired > 0 ->
		fired--;
#ifdef MUTANT_H    /* takes it that the timer is now idle, but a callback may be stale and the timer armed anew */
		if :: !stepping -> armed = NEVER :: else fi
#endif
	fi;
	if
#ifdef MUTANT_F    /* trusts the one who is stepping to have seen everything */
	:: stepping
#else
	:: stepping -> rerun = 1
#endif
	:: else -> section()
	fi;
	DROP;
#ifdef MUTANT_C
	HOLD; woken = 0; DROP;
#endif
#ifdef MUTANT_D
	HOLD; if :: reopen -> shut = 0; reopen = 0 :: else fi; DROP;
#endif
	do :: touch -> housekeeping() :: else -> break od;
	do
	:: atomic { out?x -> assert(!done[x]); done[x] = 1; x = 0 }
	:: empty(out) -> break
	od;
	atomic {
		running--;
#if !defined(MUTANT_A) && !defined(MUTANT_B) && !defined(FINE)
		if
		:: posted + fired + running > 0 || dead || owed
		:: else ->
			assert(work == (waiting > 0));          /* else run() returns while somebody waits, or never */
			assert(waiting > 0 || !pending)
		fi
#endif
	};
	goto end
}

#ifdef TIMER
/* Time goes on whatever the others do, and an armed timer fires at its instant or later. */
active proctype clock() {
end:	do
	:: now < HORIZON -> now++
	:: atomic { pending && now >= expiry && !stopped -> pending = 0; fired++ }
	od
}
#endif

#ifdef CANCEL
/* The slot's handler. It finds a ticket, not a place in the queue, and so cannot come before its enter. */
proctype canceller(byte i) {
end:	waits[i];
	HOLD;
	if
	:: waits[i] ->
		cancelled[i] = 1;
#ifdef MUTANT_E    /* searches only the queue */
		if :: queue??[eval(i)] -> mark[i] = 1; wake() :: else fi
#else
		mark[i] = 1;
		wake()
#endif
	:: else
	fi;
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

#ifdef CONFIGURE
inline configure(n) {
	HOLD;
	free = free + n - seats;
	seats = n;
	if :: SHUT -> wake() :: else fi;
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
	:: HOLD_ONCE(owed, skip); wake(); DROP
	od
}
#endif

#ifdef SHUTDOWN
/* A context goes once its threads have left run(), so never while a step is under way; callers may be on other threads. Its
   services go newest first: ours before the scheduler, which then destroys what was posted, some of it perhaps just now. */
active proctype context() {
	byte x, k;
	chan gone = [N] of { byte };
	atomic { running == 0 -> stopped = 1 };
	HOLD;
	dead = 1;
	do
	:: queue?x -> gone!x
	:: inbox?x -> gone!x
	:: empty(queue) && empty(inbox) -> break
	od;
	waiting = 0;
	owed = 0;
	k = 0;
	do
	:: k < N -> waits[k] = 0; k++
	:: else -> k = 0; break
	od;
	DROP;
	do
	:: atomic { gone?x -> assert(!done[x]); verdict[x] = DESTROYED; done[x] = 1 }
	:: empty(gone) -> break
	od;
	atomic { swept = 1; posted = 0; fired = 0; pending = 0; work = 0 }
}
#endif

/* Once nothing more can happen. */
active proctype check() {
	timeout;
#ifdef ALONE
	assert(!waits[1] && !waits[2] && (!waits[0] || owed))
#else
	assert(finished == N && waiting == 0 && len(inbox) + len(queue) == 0);
	assert(free == seats && seats == SEATS && inuse == 0);
	assert(posted == 0 && fired == 0 && running == 0 && !stepping && !rerun && !owed);
	assert(!pending && !work)                       /* an idle limiter keeps no run() alive */
#endif
}

init {
	byte i;
	atomic {
		do
		:: i < N -> run caller(i); i++
		:: else -> break
		od;
		i = 0;
#ifdef CANCEL
		run canceller(1)
#endif
	}
}
