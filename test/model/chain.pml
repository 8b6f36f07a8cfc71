/* The protocol of chains in include/weir/detail/chain/protocol.hpp, for spin. protocol.pml models the inside of one limiter (the
   step, its timer, its context), which is assumed to be right here: a wake-up is a bit, `posted`, that some thread will handle.

   M limiters, CH chains over several of them, PL plain callers of one each. Switches:
     CANCEL   chain 0 is cancelled: before its enter, while it waits, or too late
     CLOSE    limiter 1 is closed
     THREE    three limiters and three chains in a ring: {0,1} {1,2} {2,0}; PL is 0 by default
     PL=n     plain callers: limiter 0, 1, 0, 1 ..
     SEATS=n  seats of each limiter (default 1);  WEIGHTS, with SEATS=2: chain 0 requests 2 of limiter 0, and chain 1 of limiter 1
     ROUNDS=n each plain caller makes n requests
     KMAX=n   after n passes a chain is overdue (default 1; 0: there is no reservation)
     EXPIRE   a reservation may end at any moment, any number of times
     TOGETHER the permit of a chain is released at all its limiters in one section, and not one by one
     RANKED   the queues rank their requests in different ways, whatever their arrival is
     BATCH    if a claim calls other chains, and has all their locks, it claims them in the same section
     LIVE     plain callers make requests forever, and a claim gets its locks in one step (the mutex is assumed to be fair)

   How to run: ./check_chain searches the configurations that it lists, and every mutant. One by hand:
     spin -P'cc -E -x c' -DCANCEL -a chain.pml && cc -O0 -w -DSAFETY -o pan pan.c && ./pan -m3000000 -w24
     spin -P'cc -E -x c' -DLIVE -a chain.pml && cc -O0 -w -DNFAIR=4 -o pan pan.c && ./pan -a -f -m3000000
   (an optimised build takes longer than the search; LIVE checks, under weak fairness, that every chain is granted at last)

   Mutants are #ifdefs named after the mistake. Each describes its deviation, and check_chain names the failure that it causes.

   Here                     in the code
   line[m]                  the requests in the queue of m;  ahead[m,i] the older requests there that still wait (perhaps elsewhere)
   waiting                  all waiting requests: a waiting chain is registered with all its members
   called                   chain_operation::called, set under one lock, cleared under all
   calls                    local: the chains that this thread has called, and must claim once it has no lock
   locked                   locks held from one step to the next, by claims only. A section under one lock is one atomic step.
*/

#ifdef THREE
#define M 3
#ifndef CH
#define CH 3
#endif
#ifndef PL
#define PL 0
#endif
#define MEM(i) ((i) < CH -> (BIT(i) | BIT(((i) + 1) % 3)) : BIT(((i) - CH) % 3))
#else
#define M 2
#ifndef CH
#define CH 2
#endif
#ifndef PL
#define PL 2
#endif
#define MEM(i) ((i) < CH -> 3 : BIT(((i) - CH) % 2))
#endif
#define N (CH + PL)
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef KMAX
#define KMAX 1
#endif
#ifndef SEATS
#define SEATS 1
#endif
#define NOBODY 255
#ifdef WEIGHTS
#define COST(m, i) ((i) == (m) && (i) < CH && (i) < 2 -> 2 : 1)
#else
#define COST(m, i) 1
#endif
#define FITS(m, i) (free[m] >= COST(m, i))

#define BIT(i) (1 << (i))
#define IN(i, set) ((set) & BIT(i))
#define PUT(i, set) set = (set) | BIT(i)
#define CUT(i, set) set = (set) & ~BIT(i)
#define AHEAD(m, i) ahead[(m) * N + (i)]
#define PLAIN(set) ((set) & ~(BIT(CH) - 1))

byte free[M] = SEATS;
byte locked;
byte line[M];
byte ahead[M * N];
byte waiting, called;
byte closed, posted;
byte marked, doomed;            /* cancelled before its request; while it waits */
byte passed[CH];
byte overdue;                   /* passed KMAX times, not reserving */
byte barrier[M] = NOBODY;       /* the chain that reserves m */
byte run_out;                   /* chains whose reservation is over */
byte ready[M];                  /* the reserving chain that m allowed in its last claim: it waits for another limiter */
byte held[N];                   /* permits: a set of limiters */
byte fresh;                     /* newcomers that are not decided yet: they overtake no request */
byte over, let_in;              /* completed requests; granted requests */
byte finished;
byte called_at[M];              /* for asserts only: chains whose turn it is at m, with free permits, before their claim */
#ifdef stand_at_tail
byte elder[M * N];
#define ELDER(m, i) elder[(m) * N + (i)]
#else
#define ELDER(m, i) AHEAD(m, i)
#endif

/* Whether a request precedes i at m. A chain that reserves m precedes all later requests, and so does an overdue one where it
   does not stand. */
#ifdef RANKED
#define EVERYBODY (BIT(N) - 1)
/* The ranks are: 0, 1, 2 .. at limiter 0; N - 1, N - 2 .. at limiter 1; 1, 2 .. 0 at limiter 2. */
#define RANK(m, i) ((m) == 0 -> BIT(i) - 1 : ((m) == 1 -> EVERYBODY & ~(BIT((i) + 1) - 1) : ((i) == 0 -> EVERYBODY & ~1 : (BIT(i) - 1) & ~1)))
#define IS_NEXT(m, n) (IN(n, line[m]) && !(RANK(m, n) & line[m]))
#define OLDER_IS_NEXT(m, i, n) (n < N && IN(n % N, AHEAD(m, i)) && IS_NEXT(m, n % N))
#define AN_OLDER_IS_NEXT(m, i) (OLDER_IS_NEXT(m, i, 0) || OLDER_IS_NEXT(m, i, 1) || OLDER_IS_NEXT(m, i, 2) || OLDER_IS_NEXT(m, i, 3) || OLDER_IS_NEXT(m, i, 4))
#define BEHIND_RESERVER(m, i) (barrier[m] != NOBODY && IN(barrier[m] % N, AHEAD(m, i)))
#define GOES_BY_ARRIVAL(m, i) (barrier[m] == (i) || IN(i, overdue) && !IN(i, line[m]))
#ifdef rank_overdue_by_arrival_alone    /* it leaves a queue for another one in which it is first */
#define LATER_IN_RANK(m, i) (RANK(m, i) & line[m] || IN(i, overdue) && !IN(i, line[m]))
#else
#define LATER_IN_RANK(m, i) (RANK(m, i) & line[m])
#endif
#define BLOCKED(m, i) (IN(i, fresh) -> line[m] != 0 : (BEHIND_RESERVER(m, i) || LATER_IN_RANK(m, i) && !(GOES_BY_ARRIVAL(m, i) && !AN_OLDER_IS_NEXT(m, i))))
#else
#define BLOCKED(m, i) (AHEAD(m, i) & line[m])
#endif

/* m allows i: permits are free, and no request is before it. */
#if defined(claim_overlooks_elders)     /* checks only the permits */
#define LETS(m, i) (FITS(m, i) && !IN(m, closed))
#elif defined(keep_what_it_has)         /* takes all that is available, and waits for the rest */
#define LETS(m, i) (IN(m, held[i]) || FITS(m, i) && !IN(m, closed) && !BLOCKED(m, i))
#else
#define LETS(m, i) (FITS(m, i) && !IN(m, closed) && !BLOCKED(m, i))
#endif
#define ALL_LET(i) ((!IN(0, MEM(i)) || LETS(0, i)) && (!IN(1, MEM(i)) || LETS(1, i)) && (M < 3 || !IN(M - 1, MEM(i)) || LETS(M - 1, i)))
#define CLOSED(i) (MEM(i) & closed)

/* A waiting chain without a pending claim is in a queue that keeps it: permits are lacking, or another request is before it.
   If it reserves, it is in all queues; if not, in one. */
#ifdef stand_at_tail
#define OVERTAKES(m, i) (ELDER(m, i) & line[m])
#else
#define OVERTAKES(m, i) BLOCKED(m, i)
#endif
#define KEEPS(m, c) (IN(c, line[m]) && (!FITS(m, c) || OVERTAKES(m, c) || IN(m, posted)))
#define ONE_IF(b) ((b) -> 1 : 0)
#define STANDS(c) (ONE_IF(IN(c, line[0])) + ONE_IF(IN(c, line[1])) + ONE_IF(M > 2 && IN(c, line[M - 1])))
#define RESERVES(c) (barrier[0] == (c) || barrier[1] == (c))
#define SEEN_TO(c) (!IN(c, waiting) || IN(c, called) || KEEPS(0, c) || KEEPS(1, c) || KEEPS(M - 1, c))
#define TOLD(c) (!IN(c, waiting) || IN(c, called) || !(CLOSED(c)) || (CLOSED(c) & posted))
#define IN_PLACE(c) (!IN(c, waiting) || STANDS(c) == (RESERVES(c) -> 2 : 1))
/* A queue whose head could be granted is about to be served. */
#define FIRST_AT(m, c) (!IN(m, MEM(c)) || barrier[m] == NOBODY && !(AHEAD(m, c) & overdue))
#define MAY_RESERVE(c) (IN(c, overdue) && FIRST_AT(0, c) && FIRST_AT(1, c) && FIRST_AT(M - 1, c))
#define MAY_RESERVE_SOON(c) (MAY_RESERVE(c) && !IN(c, called))
#define HEAD(m, i) (IN(i, line[m]) && !BLOCKED(m, i))
#define LOOKED_AT(m, c) (HEAD(m, c) && (IN(c, called) || IN(c, ready[m])))
#define TOO_BIG(m, i) (HEAD(m, i) && !FITS(m, i))
#define SERVED(m) (IN(m, posted) || free[m] == 0 || !line[m] || TOO_BIG(m, m) || LOOKED_AT(m, 0) || LOOKED_AT(m, 1 % CH) || LOOKED_AT(m, 2 % CH) || LOOKED_AT(m, CH - 1))
inline coherent() {
#ifdef call_takes_out   /* so that the failure itself is found */
	skip
#else
	assert(SEEN_TO(0) && (CH < 2 || SEEN_TO(1 % CH)) && (CH < 3 || SEEN_TO(2 % CH)));
	assert(TOLD(0) && (CH < 2 || TOLD(1 % CH)) && (CH < 3 || TOLD(2 % CH)));
	assert(IN_PLACE(0) && (CH < 2 || IN_PLACE(1 % CH)) && (CH < 3 || IN_PLACE(2 % CH)));
	assert(SERVED(0) && SERVED(1) && SERVED(M - 1));
	assert(!MAY_RESERVE_SOON(0) && (CH < 2 || !MAY_RESERVE_SOON(1 % CH)) && (CH < 3 || !MAY_RESERVE_SOON(2 % CH)))
#endif
}

/* A section under the lock of m. */
#define HOLD_ONCE(g, m) atomic { (g) && !IN(m, locked) ->
#define HOLD(m) HOLD_ONCE(true, m)
#define DROP coherent() }

/* Takes all locks of c, in the order of their addresses. The section itself is one step, up to UNLOCK. */
#ifdef LIVE
#define LOCK_ALL(c) atomic { !(locked & MEM(c)) ->
#elif defined(opposite_locks)   /* in the order in which the chain names them */
#define LOCK_ALL(c) \
	l = 0; \
	do \
	:: l < M && IN(((c) == 0 -> l : M - 1 - l), MEM(c)) -> \
		atomic { !IN(((c) == 0 -> l : M - 1 - l), locked) -> PUT(((c) == 0 -> l : M - 1 - l), locked); l++ } \
	:: l < M && !IN(((c) == 0 -> l : M - 1 - l), MEM(c)) -> l++ \
	:: l == M -> l = 0; break \
	od; \
	atomic { true ->
#else
#define LOCK_ALL(c) \
	do \
	:: atomic { l < M && IN(l, MEM(c)) && !IN(l, locked) -> PUT(l, locked); l++; if :: l < M && !IN(l, MEM(c)) -> l++ :: else fi } \
	:: atomic { l == 0 && !IN(l, MEM(c)) -> l++ } \
	:: atomic { l == M -> l = 0; break } \
	od; \
	atomic { true ->
#endif
#define UNLOCK_ALL(c) locked = locked & ~MEM(c); coherent() }

/* All below, up to the processes, runs under the locks that it concerns. */

/* Requests a claim of c, once this thread has no lock. */
inline call(c) {
	if
#ifdef call_without_flag        /* although another thread is handling it */
	:: false
#else
	:: IN(c, called)
#endif
	:: else -> PUT(c, called); PUT(c, calls)
	fi
}

inline take(m, i) {
	assert(FITS(m, i));                                     /* never above the limit */
	assert(!IN(m, closed));
#ifndef RANKED
	assert(!(ELDER(m, i) & line[m]));                       /* no request in the queue is overtaken: plain or chain */
	assert(!(PLAIN(ELDER(m, i))));
	assert(!(ELDER(m, i) & called_at[m]));                  /* nor a chain whose turn it is */
	assert((i) >= CH || M > 2 || !(ELDER(m, i)));           /* chains over the same limiters are granted in order of arrival */
#endif
	free[m] = free[m] - COST(m, i);
	PUT(m, held[i])
}

inline complete(i) {
	assert(!IN(i, over));                                   /* once */
	assert(held[i] == 0 || held[i] == MEM(i));              /* all or nothing */
	PUT(i, over)
}

/* Ends the wait of i. */
inline forget(i) {
	k = 0;
	do
	:: k < M ->
		CUT(i, line[k]); CUT(i, ready[k]); CUT(i, called_at[k]);
		if :: barrier[k] == i -> barrier[k] = NOBODY :: else fi;
		j = 0;
		do :: j < N -> CUT(i, AHEAD(k, j)); CUT(i, ELDER(k, j)); j++ :: else -> break od;
		AHEAD(k, i) = 0; ELDER(k, i) = 0;
		k++
	:: else -> break
	od;
	CUT(i, waiting);
	k = 0; j = 0
}

/* Begins the wait of i, behind all requests that wait at its members, in any queue. */
inline join(i) {
	k = 0;
	do
	:: k < M ->
		if
		:: IN(k, MEM(i)) ->
			j = 0;
			do
			:: j < N -> if :: IN(j, waiting) && IN(k, MEM(j)) -> PUT(j, AHEAD(k, i)); PUT(j, ELDER(k, i)) :: else fi; j++
			:: else -> break
			od
		:: else
		fi;
		k++
	:: else -> break
	od;
	PUT(i, waiting);
	k = 0; j = 0
}

/* A newcomer that waits at m may be first there: a step serves the queue. */
#ifdef RANKED
#define EXPEDITE(m) PUT(m, posted)
#else
#define EXPEDITE(m) skip
#endif

/* Serves the queue of m, up to a chain, which is called, unless it is marked as ready here. */
inline serve(m) {
	do
	:: line[m] == 0 || IN(m, closed) -> break
	:: else ->
		f = 0;
		do :: HEAD(m, f) -> break :: else -> f++ od;
		if
		:: !FITS(m, f) -> break
		:: else
		fi;
		if
		:: f >= CH -> CUT(f, line[m]); take(m, f); forget(f); PUT(f, let_in); complete(f)
		:: f < CH ->
			if
#ifdef reserver_not_called      /* it was examined once */
			:: !RESERVES(f) ->
#elif defined(call_again)       /* although it was examined just now */
			:: true ->
#else
			:: !IN(f, ready[m]) ->
#endif
				call(f);
#ifdef call_takes_out   /* so that requests behind it may be granted meanwhile */
				CUT(f, line[m]); PUT(f, called_at[m])
#else
				PUT(f, called_at[m]);
				break
#endif
#if defined(reserver_not_called)
			:: RESERVES(f) -> break
#elif !defined(call_again)
			:: IN(f, ready[m]) -> break
#endif
			fi
		fi
	od;
	f = 0
}

/* c moves to the queue of a limiter that blocks it; any such limiter is possible. */
inline enter_queue(c) {
	if
	:: IN(0, MEM(c)) && !LETS(0, c) -> at = 0
	:: IN(1, MEM(c)) && !LETS(1, c) -> at = 1
#if M > 2
	:: IN(2, MEM(c)) && !LETS(2, c) -> at = 2
#endif
	fi;
	PUT(c, line[at]); CUT(c, ready[at])
}

inline stand_nowhere(c) {
	k = 0;
	do :: k < M -> CUT(c, line[k]); k++ :: else -> break od;
	k = 0
}

inline note_who_lets(c) {
	k = 0;
	do
	:: k < M -> CUT(c, ready[k]); if :: IN(k, MEM(c)) && LETS(k, c) -> PUT(c, ready[k]) :: else fi; k++
	:: else -> break
	od;
	k = 0
}

/* The oldest overdue chain of m can perhaps reserve now. */
inline next_overdue(m) {
	j = 0;
	do
	:: j < CH ->
		if :: IN(j, overdue) && IN(m, MEM(j)) && !(AHEAD(m, j) & overdue) -> call(j) :: else fi;
		j++
	:: else -> break
	od;
	j = 0
}

inline reserve(c) {
	k = 0;
	do
	:: k < M -> if :: IN(k, MEM(c)) -> barrier[k] = c; PUT(c, line[k]) :: else fi; k++
	:: else -> break
	od;
	k = 0;
	CUT(c, overdue);
	passed[c] = 0
}

inline leave_off_reserving(c) {
	k = 0;
	do :: k < M -> if :: barrier[k] == c -> barrier[k] = NOBODY :: else fi; k++ :: else -> break od;
	k = 0
}

#define STANDS_IN_LINE_THAT_REJECTS(c) \
	(IN(c, line[0]) && !LETS(0, c) || IN(c, line[1]) && !LETS(1, c) || IN(c, line[M - 1]) && !LETS(M - 1, c))

/* Decides on c. Sets told: another chain may be able to reserve now. */
inline decide(c) {
	assert(!IN(c, over));                                   /* it still exists */
	assert(IN(c, waiting) && held[c] == 0);                 /* a waiting chain holds no permits */
	k = 0;
	do :: k < M -> CUT(c, called_at[k]); k++ :: else -> break od;
	k = 0;
#ifndef clear_flag_late         /* once the locks are free */
	CUT(c, called);
#endif
	told = RESERVES(c) || IN(c, overdue);
	if
	:: IN(c, doomed) || CLOSED(c) -> CUT(c, overdue); forget(c); complete(c)
	:: !(IN(c, doomed) || CLOSED(c)) && ALL_LET(c) ->
		CUT(c, overdue);
		stand_nowhere(c);
		l = 0;
		do :: l < M -> if :: IN(l, MEM(c)) && !IN(l, held[c]) -> take(l, c) :: else fi; l++ :: else -> break od;
		l = 0;
		forget(c);
		PUT(c, let_in);
		complete(c)
	:: else ->
#ifdef keep_what_it_has
		l = 0;
		do :: l < M -> if :: IN(l, MEM(c)) && !IN(l, held[c]) && LETS(l, c) -> CUT(c, line[l]); take(l, c) :: else fi; l++ :: else -> break od;
		l = 0;
#endif
		note_who_lets(c);
		if
		:: RESERVES(c) ->
			if
			:: IN(c, run_out) -> leave_off_reserving(c); stand_nowhere(c); enter_queue(c)
			:: else -> told = 0
			fi
		:: !RESERVES(c) && STANDS_IN_LINE_THAT_REJECTS(c)
		:: !RESERVES(c) && !(STANDS_IN_LINE_THAT_REJECTS(c)) ->         /* it was passed */
			stand_nowhere(c);
#if defined(move_in_two_sections)       /* finds the blocking limiter, and moves there under the lock of this limiter alone */
			enter_queue(c);
			CUT(c, line[at]);
			moves = 1 + at;
#elif defined(stand_at_tail)
			enter_queue(c);
			AHEAD(at, c) = line[at] & ~BIT(c);
			j = 0;
			do :: j < N -> CUT(c, AHEAD(at, j)); j++ :: else -> break od;
			j = 0;
#else
			enter_queue(c);
#endif
			at = 0;
#if KMAX > 0
			if :: passed[c] < KMAX -> passed[c]++ :: else fi;
			if :: passed[c] == KMAX -> PUT(c, overdue) :: else fi
#endif
		fi;
		if
		:: MAY_RESERVE(c) -> reserve(c)
		:: else -> if :: RESERVES(c) :: else -> k = 0; do :: k < M -> CUT(c, ready[k]); k++ :: else -> break od; k = 0 fi
		fi;
		if :: !IN(c, overdue) :: else -> told = 0 fi
	fi;
	at = 0;
	CUT(c, run_out)
}

/* Serves the queues that c has left, and calls the chains that may reserve now. */
inline aftermath(c) {
#ifndef leave_line_unserved
	serve(0);
	serve(1);
#if M > 2
	serve(2);
#endif
#endif
	if
	:: told ->
#ifndef reserve_untold
		next_overdue(0);
		next_overdue(1);
#if M > 2
		next_overdue(2);
#endif
#endif
		told = 0
	:: else
	fi
}

/* Runs outside all locks: claims each chain that this thread has called. */
inline claims() {
	do
	:: calls ->
		atomic { do :: IN(x, calls) -> break :: else -> x++ od; CUT(x, calls) };
		LOCK_ALL(x)
			decide(x);
			aftermath(x);
#ifdef BATCH
			z = 0;
			do
			:: z < CH && IN(z, calls) && !(MEM(z) & ~MEM(x)) -> CUT(z, calls); decide(z); aftermath(z); z = 0
			:: z < CH && !(IN(z, calls) && !(MEM(z) & ~MEM(x))) -> z++
			:: z == CH -> break
			od;
			z = 0;
#endif
		UNLOCK_ALL(x);
#ifdef clear_flag_late
		atomic { CUT(x, called) };
#endif
#ifdef move_in_two_sections
		if
		:: moves -> HOLD(moves - 1) if :: IN(x, waiting) -> PUT(x, line[moves - 1]) :: else fi; moves = 0; DROP
		:: else
		fi;
#endif
		x = 0
	:: else -> break
	od
}

/* After a release at m: serves the queue, or leaves that to the step. */
inline hand_over(m) {
	if
	:: line[m] == 0
	:: line[m] != 0 && !IN(m, closed) -> serve(m)
	:: line[m] != 0 -> PUT(m, posted)
	fi
}

proctype chain(byte c) {
	byte x, z, f, j, k, l, at, calls;
	bool told;
#ifdef move_in_two_sections
	byte moves;
#endif

	LOCK_ALL(c)
		if
		:: IN(c, marked) || CLOSED(c) -> complete(c)
		:: else ->
			join(c);
			PUT(c, fresh);
			if
			:: ALL_LET(c) ->
				l = 0;
				do :: l < M -> if :: IN(l, MEM(c)) -> take(l, c) :: else fi; l++ :: else -> break od;
				l = 0;
				forget(c);
				PUT(c, let_in);
				complete(c)
			:: else -> enter_queue(c); EXPEDITE(at); at = 0
			fi;
			CUT(c, fresh)
		fi;
	UNLOCK_ALL(c);

	IN(c, over);
	if
	:: atomic { !IN(c, let_in) -> finished++ }
#ifdef TOGETHER
	:: IN(c, let_in) ->
		LOCK_ALL(c)
			k = 0;
			do
			:: k < M -> if :: IN(k, MEM(c)) -> free[k] = free[k] + COST(k, c); CUT(k, held[c]) :: else fi; k++
			:: else -> break
			od;
			k = 0;
			if :: IN(0, MEM(c)) -> hand_over(0) :: else fi;
			if :: IN(1, MEM(c)) -> hand_over(1) :: else fi;
#if M > 2
			if :: IN(2, MEM(c)) -> hand_over(2) :: else fi;
#endif
		UNLOCK_ALL(c);
		finished++;
		claims()
#else
	:: IN(c, let_in) ->
		do
		:: HOLD_ONCE(IN(0, held[c]), 0) free[0] = free[0] + COST(0, c); CUT(0, held[c]); hand_over(0); DROP; claims()
		:: HOLD_ONCE(IN(1, held[c]), 1) free[1] = free[1] + COST(1, c); CUT(1, held[c]); hand_over(1); DROP; claims()
#if M > 2
		:: HOLD_ONCE(IN(2, held[c]), 2) free[2] = free[2] + COST(2, c); CUT(2, held[c]); hand_over(2); DROP; claims()
#endif
		:: atomic { !held[c] -> finished++; break }
		od
#endif
	fi
}

#define WHERE(i) ((i - CH) % M)

proctype plain(byte i) {
	byte x, z, f, j, k, l, at, calls, round;
	bool told;
#ifdef move_in_two_sections
	byte moves;
#endif

	do
	:: round < ROUNDS ->
		HOLD(WHERE(i))
			if
			:: IN(WHERE(i), closed) -> complete(i)
			:: else ->
				if
				:: line[WHERE(i)] == 0 && free[WHERE(i)] > 0 -> take(WHERE(i), i); PUT(i, let_in); complete(i)
				:: else -> join(i); PUT(i, line[WHERE(i)]); EXPEDITE(WHERE(i))
				fi
			fi;
		DROP;
		IN(i, over);
		if
		:: !IN(i, let_in)
		:: HOLD_ONCE(IN(i, let_in), WHERE(i))
			free[WHERE(i)]++; CUT(WHERE(i), held[i]);
			hand_over(WHERE(i));
			DROP;
			claims()
		fi;
		atomic {
			CUT(i, let_in);
#ifndef LIVE
			round++;
			if :: round < ROUNDS -> CUT(i, over) :: else fi
#else
			CUT(i, over)
#endif
		}
	:: round == ROUNDS -> atomic { finished++; break }
	od
}

/* The step of limiter m. */
proctype actor(byte m) {
	byte x, z, f, j, k, l, at, calls, y;
	bool told;
#ifdef move_in_two_sections
	byte moves;
#endif
end:	do
	:: HOLD_ONCE(IN(m, posted), m)
		CUT(m, posted);
		if
		:: IN(m, closed) ->
			y = 0;
			do
#ifdef close_tells_line_only    /* and not registered chains that wait elsewhere */
			:: y < CH -> if :: IN(y, waiting) && IN(y, line[m]) -> call(y) :: else fi; y++
#else
			:: y < CH -> if :: IN(y, waiting) && IN(m, MEM(y)) -> call(y) :: else fi; y++
#endif
			:: y >= CH && y < N -> if :: IN(y, line[m]) -> forget(y); complete(y) :: else fi; y++
			:: else -> break
			od;
			y = 0
		:: else -> serve(m)
		fi;
		DROP;
		claims()
	od
}

#ifdef CANCEL
/* The lock of its home, limiter 0, guards its link. */
active proctype canceller() {
	byte x, z, f, j, k, l, at, calls;
	bool told;
#ifdef move_in_two_sections
	byte moves;
#endif
	HOLD(0)
		if
		:: IN(0, over)
		:: !IN(0, over) && !IN(0, waiting) -> PUT(0, marked)
		:: !IN(0, over) && IN(0, waiting) ->
#ifdef cancel_by_itself         /* under the lock of its home alone */
			forget(0); complete(0)
#else
			PUT(0, doomed); call(0)
#endif
		fi;
	DROP;
	claims()
}
#endif

#ifdef CLOSE
active proctype closer() {
	HOLD(1)
		PUT(1, closed);
		PUT(1, posted);
	DROP
}
#endif

#ifdef EXPIRE
/* The timer of its home. */
active proctype timer() {
	byte x, z, f, j, k, l, at, calls;
	bool told;
#ifdef move_in_two_sections
	byte moves;
#endif
	byte times;
end:	do
#ifdef LIVE     /* at most twice */
	:: HOLD_ONCE(times < 2 && barrier[0] != NOBODY && !IN(barrier[0], run_out), 0)
		times++;
#else
	:: HOLD_ONCE(barrier[0] != NOBODY && !IN(barrier[0], run_out), 0)
#endif
		PUT(barrier[0], run_out);
		call(barrier[0]);
		DROP;
		claims()
	od
}
#endif

#ifndef LIVE
/* Runs when no other process can continue. */
active proctype check() {
	timeout;
	assert(finished == N && !waiting && !called && !overdue && !locked && !posted);
	assert(!line[0] && !line[1] && !line[M - 1]);
	assert(free[0] == SEATS && free[1] == SEATS && free[M - 1] == SEATS);
	assert(barrier[0] == NOBODY && barrier[1] == NOBODY)
}
#else
ltl served { <> ((over & (BIT(CH) - 1)) == BIT(CH) - 1) }
#endif

init {
	byte i;
	atomic {
		do :: i < CH -> run chain(i); i++ :: i >= CH && i < N -> run plain(i); i++ :: else -> break od;
		i = 0;
		do :: i < M -> run actor(i); i++ :: else -> break od;
		i = 0
	}
}
