/* The supplier of a pool for spin: how include/weir/detail/pool/{supplier,jobs,attempts,job,place}.hpp start the jobs that make
   objects for waiting requests. protocol.pml models the limiter in which the requests wait, which is assumed to be right here:
   a request is granted in the section in which an object becomes idle. ./check_pool runs the model.

   Each process stands for these functions of C++: `caller` for starts_to_checkout, checkout_signature's outcome and the lease's
   item_return; `stepper` for a thread that runs supplier::step, with begin_job and start; `job` for supplier::run and supply, with
   the destructors of their assignment; `canceller` for the cancellation slot of a caller; `closer` and `shutter` for
   basic_pool::close and shutdown; `context` for supplier::context_ends and the destruction of the context. `check` is not in the
   code: it runs when no other process can continue.

   N callers that each check out one object and return it or keep it forever; MAX objects; two threads that run steps,
   so that two steps may overlap. All interleavings of the sections are searched. Switches add events:
     ONE_STEP      there is one such thread: for larger configurations
     FAILS=n       up to n attempts to make an object fail
     LONG          a pause before a retry ends only while a request waits: the end of the last wait must cancel it
     MIN=n         the pool keeps n objects without any request
     THROWS=n      up to n posts throw, of a step or of a job; the executor may have kept the function; a later event retries
     DISCARD       a caller may discard its object: it is broken
     CANCEL        caller 0 is cancelled while it waits, or too late
     CLOSE         the pool is closed
     HANG          with CLOSE: an attempt to make an object takes forever, if it is not cancelled
     SHUT_DOWN     newcomers are rejected, and the queue is served to its end
     CONTEXT_ENDS  its threads have left run(), its contents are destroyed and not run; callers continue meanwhile

   Asserted: there are never more than MAX objects, including objects under construction and under destruction; a place is
   reserved only for a request that waits or to reach MIN; each reserved place is returned once; while attempts fail, at most one
   job retries; nothing is posted to a context that was destroyed. And when no process can continue, no request waits while an
   object could be made, every place was returned, no job runs, and a pool that is closed has no idle object (`check`). A job that
   was not cancelled after the stop would still run then.

   Not modelled: checks of idle objects; ages and trim; configure; a cancellation that cannot be posted.

   Here                     in the code
   CORE .. DROP             a section under the lock of the core;  JOBS .. DROP under the lock of `jobs`. Each is one atomic step.
   line, admits_, closed    the waiting requests; room's admission; inventory::closed
   idle .. leaving          stock::counts
   x_                       the members of this name of wakeup and attempts
   running, is_retry, is_backing_off  sets of jobs
   posted, sent             messages in the executor: steps; jobs.  taken: sent_assignment::is_taken_ of jobs
   cancels, cancels_pause   cancellations on the strands of jobs: cancel(), cancel_backing_off()

   Mutants are #ifdefs named after the mistake. Each describes its deviation; check_pool requires that all are caught. */

#ifndef N
#define N 2
#endif
#ifndef MAX
#define MAX 2
#endif
#ifndef MIN
#define MIN 0
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef THROWS
#define THROWS 0
#endif
#ifndef J
#define J (MAX + 1)             /* jobs at a time; one may have returned its place and not ended yet */
#endif

#define BIT(i) (1 << (i))
#define IN(i, set) ((set) & BIT(i))
#define PUT(i, set) set = (set) | BIT(i)
#define CUT(i, set) set = (set) & ~BIT(i)

/* admission */
#define ADMITS_ALL 0
#define ADMITS_WAITING 1
#define ADMITS_NONE 2

/* Under the lock of the core: */
chan line = [N] of { byte };
byte admits_;
bool closed;
byte idle, in_use, being_created, leaving;
byte served, over;              /* sets of callers: granted; completed */
/* under the lock of `jobs`: */
bool has_ended, is_shut_down, step_posted_;
byte failures, retrying_;
byte running, is_retry, is_backing_off;

/* the executor and the world */
byte posted, sent, taken;
byte used;                      /* the numbers of jobs that exist */
byte posting;                   /* jobs whose post threw, and whose step may take them back */
byte cancels, cancels_pause;
byte at_work;                   /* threads in run() */
bool left_run, swept;
byte fails = FAILS, throws = THROWS;
byte finished, kept;            /* callers that are done; leases that are never returned */

#define OBJECTS (idle + in_use + being_created + leaving)
#define CORE atomic { true ->
#define JOBS atomic { true ->
#define DROP assert(OBJECTS <= MAX) }

#ifdef CONTEXT_ENDS
#define MAY_RUN !left_run
#define STARTS_WORK at_work++
#define STOPS_WORK at_work--
#else
#define MAY_RUN true
#define STARTS_WORK skip
#define STOPS_WORK skip
#endif

/* An object became idle. Runs under the lock of the core, like the next one. */
inline serve() {
	do
	:: idle > 0 && len(line) > 0 -> line?x; idle--; in_use++; PUT(x, served); PUT(x, over)
	:: else -> break
	od;
	x = 0
}

inline reject_all() {
	do
	:: line?x -> PUT(x, over)
	:: empty(line) -> break
	od;
	x = 0
}

/* change_stock(give_up): a place is returned without an object. */
inline give_up() {
	CORE
		assert(being_created > 0);
		being_created--;
	DROP
}

/* jobs::wake */
inline summon() {
	JOBS
		if
#ifdef post_whenever_asked      /* although a step is posted: steps without bound */
		:: has_ended
#else
		:: has_ended || step_posted_
#endif
		:: else ->
			assert(!swept);
			assert(posted == 0 || THROWS > 0);
			step_posted_ = 1;
			if
			:: posted++
			:: throws > 0 ->
				throws--;
#ifndef forget_failed_post
				step_posted_ = 0;
#endif
				if :: posted++ :: true fi       /* the executor may have kept it */
			fi
		fi;
	DROP
}

/* Nothing refers to the job any more. */
inline free_number(j) {
	if
	:: IN(j, sent | running | posting) -> skip
	:: else -> CUT(j, used); CUT(j, taken)
	fi
}

/* registration's destructor without its summons. */
inline end_job(j) {
	JOBS
#ifndef keep_the_retry          /* the job that retries ends, and no other may retry */
		if :: IN(j, is_retry) -> retrying_-- :: else fi;
#endif
		CUT(j, is_retry);
		CUT(j, is_backing_off);
		CUT(j, running);
		CUT(j, cancels);
		CUT(j, cancels_pause);
		free_number(j);
	DROP
}

/* stop and context_ends destroy the idle objects. */
inline destroy_idle() {
	do
	:: CORE if :: idle > 0 -> idle--; leaving++; more = 1 :: else -> more = 0 fi; DROP;
		if
		:: more -> CORE leaving--; DROP
		:: else -> break
		fi
	od
}

proctype caller(byte i) {
	byte x;
	bool waits, summons;
	CORE
		if
		:: admits_ != ADMITS_ALL -> PUT(i, over)
		:: admits_ == ADMITS_ALL && idle > 0 && len(line) == 0 -> idle--; in_use++; PUT(i, served); PUT(i, over)
		:: else -> line!i; waits = 1
		fi;
	DROP;
	if
	:: waits ->
		/* caller_waits; needs_supplier reads an atomic number. */
		atomic { summons = OBJECTS < MAX };
		if :: summons -> summon() :: else fi;
		IN(i, over);
#ifndef leave_unnoticed
		/* caller_left */
		atomic { summons = is_backing_off != 0 };
		if :: summons -> summon() :: else fi
#endif
	:: else
	fi;
	summons = 0;
	waits = 0;
	if
	:: IN(i, served) ->
		if
		:: kept++
		:: CORE                         /* it returns the object */
				in_use--;
				if :: closed -> leaving++; summons = 1 :: else -> idle++; serve() fi;
			DROP;
			if
			:: summons -> CORE leaving--; DROP; summon()        /* object_gone */
			:: else
			fi
#ifdef DISCARD
		:: CORE in_use--; DROP; summon()
#endif
		fi
	:: else
	fi;
	summons = 0;
	finished++
}

/* A thread that runs steps. */
proctype stepper() {
	byte j;
	bool may_make, may_fill, goes_on, threw;
end:	do
	:: atomic { posted > 0 && MAY_RUN -> posted--; STARTS_WORK;
#ifndef clear_step_posted_late  /* once the step is done */
		step_posted_ = 0
#endif
		};
		do
		:: JOBS                         /* jobs::next */
				goes_on = !has_ended;
				may_make = failures == 0 || retrying_ == 0;
				if
				:: is_shut_down -> may_fill = 0
				:: !is_shut_down -> may_fill = 1
				:: !is_shut_down && failures > 0 -> may_fill = 0        /* it is too early for a retry */
				fi;
			DROP;
			if :: !goes_on -> break :: else fi;
#ifdef count_and_reserve_apart
			CORE goes_on = may_make && (len(line) > being_created || may_fill && OBJECTS < MIN); DROP;
			CORE goes_on = goes_on && OBJECTS < MAX;
#else
			CORE
				goes_on = may_make && (len(line) > being_created || may_fill && OBJECTS < MIN);
#ifndef reserve_above_max
				goes_on = goes_on && OBJECTS < MAX;
#endif
#endif
				if
				:: goes_on -> assert(len(line) > being_created || OBJECTS < MIN); being_created++
				:: else
				fi;
			DROP;
			may_make = 0;
			may_fill = 0;
			if :: !goes_on -> break :: else fi;

			/* start: it claims the attempt, and posts the job to its strand. */
			JOBS
				used != BIT(J) - 1;
				if
				:: failures > 0 && retrying_ > 0 -> goes_on = 0
				:: else ->
					do :: IN(j, used) -> j++ :: else -> break od;
					PUT(j, used);
					if
					:: failures > 0 -> retrying_++; PUT(j, is_retry); assert(retrying_ <= 1)
					:: else
					fi;
					if
					:: PUT(j, sent)
					:: throws > 0 -> throws--; threw = 1; PUT(j, posting); if :: PUT(j, sent) :: true fi
					fi
				fi;
			DROP;
			if
			:: !goes_on ->
				give_up();
#ifndef forget_a_refused_place  /* a job that ended meanwhile saw the place in use, and its step began no job */
				goes_on = 1
#endif
			:: goes_on && threw ->
				goes_on = 0;
				atomic {
#ifdef take_twice               /* no matter whether the kept function has run */
					PUT(j, taken)
#else
					if :: IN(j, taken) -> threw = 0; CUT(j, posting); free_number(j) :: else -> PUT(j, taken) fi
#endif
				};
				if :: threw -> give_up(); end_job(j); threw = 0; atomic { CUT(j, posting); free_number(j) } :: else fi
			:: else
			fi;
			j = 0;
			if :: !goes_on -> break :: else fi
		od;
		goes_on = 0;
#ifdef clear_step_posted_late
		step_posted_ = 0;
#endif
		/* end_idle_retries */
		if
		:: atomic { is_backing_off && len(line) == 0 } ->
			JOBS if :: !has_ended -> cancels_pause = cancels_pause | is_backing_off :: else fi; DROP
		:: atomic { !(is_backing_off && len(line) == 0) }
		fi;
		STOPS_WORK
	od
}

#ifdef HANG
#define HANGS(j) (!IN(j, cancels))
#else
#define HANGS(j) false
#endif
#ifdef LONG
#define PAUSE_ENDS (len(line) > 0)
#else
#define PAUSE_ENDS true
#endif

/* The coroutine of one job at a time. Its strand handles a cancellation only while it is suspended. */
proctype job(byte j) {
	byte x, seen;
	bool goes_on, has_place, gone;
end:	do
	:: atomic { IN(j, sent) && MAY_RUN ->
		CUT(j, sent);
		if
		:: IN(j, taken) -> free_number(j)         /* it was kept, and taken back */
		:: else ->
			STARTS_WORK;
			has_place = 1;
			PUT(j, taken);
			PUT(j, running);
#ifdef begin_after_the_end      /* although it was not registered when the jobs were cancelled */
			goes_on = 1
#else
			goes_on = !has_ended
#endif
		fi
		};
		if :: !has_place -> goto end :: else fi;
		if :: !goes_on -> goto over_ :: else fi;

		JOBS                            /* retry_at: the pause may be over already */
			if :: failures > 0 -> PUT(j, is_backing_off) :: goes_on = 0 fi;
		DROP;
		if
		:: goes_on ->
#ifndef pause_unseen            /* the last wait may have ended before the pause began */
			CORE goes_on = len(line) > 0; DROP;
			if :: !goes_on -> goto over_ :: else fi;
#endif
			STOPS_WORK;
end_pause:		if
			:: atomic { MAY_RUN && PAUSE_ENDS -> STARTS_WORK }
			:: atomic { MAY_RUN && IN(j, cancels | cancels_pause) -> STARTS_WORK; goes_on = 0 }
			fi;
			JOBS CUT(j, is_backing_off); CUT(j, cancels_pause); DROP;
			if :: !goes_on -> goto over_ :: else fi
		:: else -> goes_on = 1
		fi;

		/* is_needed */
		CORE
			goes_on = len(line) > 0;
			seen = OBJECTS <= MIN;
		DROP;
		JOBS                            /* go_on, and the begin of the attempt */
#ifdef begin_after_the_end
			goes_on = goes_on || seen && !is_shut_down;
#else
			goes_on = !has_ended && (goes_on || seen && !is_shut_down);
#endif
			seen = 0;
			if
			:: goes_on ->
				seen = failures;
				STOPS_WORK
			:: else
			fi;
		DROP;
		if :: !goes_on -> goto over_ :: else fi;
end_make:	if
		:: atomic { MAY_RUN && !HANGS(j) -> STARTS_WORK }
		:: atomic { MAY_RUN && fails > 0 && !HANGS(j) -> STARTS_WORK; fails--; goes_on = 0 }
		:: atomic { MAY_RUN && IN(j, cancels) -> STARTS_WORK; goes_on = 0 }
		fi;
		if
		:: goes_on ->                   /* is_made */
			CORE
				being_created--;
				has_place = 0;
				if :: closed -> leaving++; gone = 1 :: else -> idle++; serve() fi;
			DROP;
			if :: gone -> CORE leaving--; gone = 0; DROP :: else fi;
			JOBS failures = 0; DROP
		:: else ->
			JOBS if :: !has_ended && seen == failures -> failures++ :: else fi; DROP
		fi;

over_:		seen = 0; goes_on = 0;
#ifdef return_the_place_late    /* after the summons, which finds no place, or too many jobs for the requests */
		end_job(j);
		summon();
		if :: has_place -> give_up() :: else fi;
#else
		if :: has_place -> give_up() :: else fi;
		end_job(j);
#ifndef end_unnoticed
		summon();
#endif
#endif
		has_place = 0;
		STOPS_WORK
	od
}

#ifdef CANCEL
active proctype canceller() {
	CORE if :: line??[0] -> line??0; PUT(0, over) :: else fi; DROP
}
#endif

#ifdef CLOSE
active proctype closer() {
	byte x;
	bool more;
	CORE admits_ = ADMITS_NONE; reject_all(); DROP;
	CORE closed = 1; DROP;
	JOBS
		has_ended = 1;
#ifndef stop_without_cancelling
		cancels = running;
#endif
	DROP;
#ifndef keep_idle_objects
	destroy_idle()
#endif
}
#endif

#ifdef SHUT_DOWN
active proctype shutter() {
	CORE if :: admits_ == ADMITS_ALL -> admits_ = ADMITS_WAITING :: else fi; DROP;
	JOBS is_shut_down = 1; DROP
}
#endif

#ifdef CONTEXT_ENDS
/* A context is destroyed after its threads have left run(): each job is suspended. It tells the limiter and the supplier, in any
   order, and then destroys the messages and the frames of the jobs. */
active proctype context() {
	byte x, y;
	bool more, tells;
	atomic { at_work == 0 -> left_run = 1 };
	if :: CORE admits_ = ADMITS_NONE; reject_all(); DROP; tells = 1 :: true fi;
	CORE closed = 1; DROP;
#ifndef outlive_the_context
	JOBS has_ended = 1; DROP;
#endif
	destroy_idle();
	if :: !tells -> CORE admits_ = ADMITS_NONE; reject_all(); DROP :: else fi;
	atomic { posted = 0; swept = 1 };
	do
	:: y < J ->
		if
		:: IN(y, running) -> give_up(); end_job(y); summon()
		:: !IN(y, running) && IN(y, sent) && !IN(y, taken) -> give_up(); CUT(y, sent); end_job(y)
		:: else -> atomic { CUT(y, used); CUT(y, sent); CUT(y, taken) }
		fi;
		y++
	:: else -> break
	od;
	y = 0
}
#endif

active proctype check() {
	byte x;
	timeout;
#if THROWS > 0
	if :: throws < THROWS -> throws = 0; summon(); timeout :: else fi;        /* any later event */
#endif
	assert(finished == N - len(line));
	assert(len(line) == 0 || in_use == MAX);                /* else an object could be made */
	assert(in_use == kept && being_created == 0 && leaving == 0);
	assert(!running && !used && !sent && !posted && !retrying_ && !is_backing_off);
	assert(!closed || idle == 0);
	assert(has_ended || swept || !step_posted_);
	assert(FAILS || THROWS || closed || is_shut_down || OBJECTS >= MIN)
}

init {
	byte i;
	atomic {
		if :: MIN > 0 -> step_posted_ = 1; posted = 1 :: else fi;       /* begin */
		do :: i < N -> run caller(i); i++ :: else -> break od;
		i = 0;
		do :: i < J -> run job(i); i++ :: else -> break od;
		run stepper();
#ifndef ONE_STEP
		run stepper();
#endif
		i = 0
	}
}
