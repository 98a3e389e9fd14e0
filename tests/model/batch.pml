/*
 * batch.pml - submissions become batches: batches/N -> b.<r>.sqlite.
 *
 * What submit.c does, and load_batches() of the daemons that read. A submission holds a task of
 * two ids at most, each with one of two payloads; which, is chosen freely.
 *
 *   budgets   NS submitters, B numbers, CRASH, LOST (creates without an answer), DEL (links of
 *             batches deleted by hand, below the highest and while nobody submits), DELTOP and BUSY
 *             (the highest too, and at any time: not promised)
 *   controls  NAIVE UNREAD REFILL EARLY DROPUNKNOWN, and REACH=n
 */
#ifndef NS
#define NS 2
#endif
#ifndef B
#define B 4
#endif
#ifndef CRASH
#define CRASH 1
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef DEL
#define DEL 0
#endif
#ifndef BUSY
#define BUSY 0
#endif
#ifndef REACH
#define REACH 0
#endif
#define reach(n, what) if :: REACH == n -> assert(!(what)) :: else fi

#define NONE	 0
#define ACCEPTED 1
#define REJECTED 2

byte link[B + 2];	  /* batches/N: the submitter whose file it names */
bool ever[B + 2];	  /* it stood once */
bool file[NS + 1];	  /* b.<r>.sqlite is whole and durable */
byte a[NS + 1], b[NS + 1]; /* what is left in it of the ids a and b: payload, 0 = nothing */
byte crashes = CRASH, lost = LOST, del = DEL;
byte seen;		  /* the daemon: last number that it has taken */
bool has[NS + 1];	  /* and whose batches */
bool deleted;
byte busy;		  /* submitters between reading and publishing */

#define TOP (link[4] -> 4 : (link[3] -> 3 : (link[2] -> 2 : (link[1] -> 1 : 0))))

/* What the run holds of an id before batch n. */
inline lookup(n)
{
	ka = 0; kb = 0; i = 1;
	do
	:: i < n ->
		if :: link[i] && !ka -> ka = a[link[i]] :: else fi;
		if :: link[i] && !kb -> kb = b[link[i]] :: else fi;
		i++
	:: else -> break
	od;
	i = 0
}

proctype Submit(byte me)
{
	byte wa, wb, ka, kb, n, i, told;
	bool made, unsure;

	/* what it wants */
	atomic { select(wa : 0 .. 2); select(wb : 0 .. 1); if :: !wa && !wb -> wa = 1 :: else fi };
again:
	/* reload(): read all batches; compare with them */
	atomic {
		n = TOP + 1;
		made = false;
		busy++;
#ifdef REFILL
		i = 1;
		do :: i < n && link[i] -> i++ :: else -> break od;
		n = i; i = 0;
		lookup(B + 1);
#elif defined(UNREAD)
		ka = 0; kb = 0;
#else
		lookup(n);
#endif
		if
		:: (wa && ka && ka != wa) || (wb && kb && kb != wb) -> told = REJECTED
		:: else ->
			a[me] = (ka -> 0 : wa);
			b[me] = (kb -> 0 : wb);
			if :: !a[me] && !b[me] -> told = ACCEPTED :: else fi
		fi;
		ka = 0; kb = 0
	};
	if
	:: told || n > B -> busy--; goto out
	:: else
	fi;
#ifndef EARLY
	file[me] = true; /* written, synced, read back */
#endif
	/* chain_cas() */
	do
	:: atomic {
		if
		:: !link[n] ->
			link[n] = me; made = true;
#ifdef NAIVE
			if :: lost -> lost--; made = false :: true fi;
#endif
			ever[n] = true
		:: link[n]
		:: lost -> lost--; unsure = true
		fi
	   };
	   if
	   :: link[n] -> break
	   :: !link[n] && unsure -> 
		/* the daemon is told to stop while nobody answers */
		if
		:: crashes -> crashes--;
#ifdef DROPUNKNOWN
			file[me] = false;
#endif
			/* and the create arrives after all */
			atomic { if :: !link[n] -> link[n] = me; ever[n] = true :: true fi };
			busy--;
			goto gone
		:: true
		fi
	   :: else
	   fi
	od;
#ifdef EARLY
	if :: crashes -> crashes--; busy--; goto gone :: true fi;
	file[me] = true;
#endif
	atomic {
		busy--;
		if
#ifdef NAIVE
		:: made -> told = ACCEPTED
		:: !made -> file[me] = false
#else
		:: link[n] == me -> told = ACCEPTED
		:: link[n] != me -> file[me] = false
#endif
		fi
	};
	if :: !told -> goto again :: else fi;
out:
	atomic {
		if
		:: told == ACCEPTED ->
			/* every task that was handed in is in the run, once, with its payload */
			lookup(B + 1);
			assert(deleted || !wa || ka == wa);
			assert(deleted || !wb || kb == wb);
			reach(1, a[me] != wa);
			reach(2, link[2] == me && link[1] && link[1] != me);
			reach(3, LOST && !lost);
			/* and the daemon that has read further still gets to see it */
			i = 1;
			do
			:: i <= B ->
				assert(!(link[i] == me && i <= seen && !has[me]));
				i++
			:: else -> break
			od;
			i = 0
		:: told == REJECTED ->
			reach(4, true);
			i = 1;
			do :: i <= B -> assert(link[i] != me); i++ :: else -> break od
		:: else
		fi
	};
gone:	skip
}

/* A daemon: takes batches in their order, and never one below those it has. */
active proctype Daemon()
{
	byte i;

end:	do
	:: atomic { seen < B && TOP > seen ->
		i = seen + 1;
		do :: !link[i] -> i++ :: else -> break od;
		/* who is named is there, whole */
		assert(file[link[i]]);
		/* and holds no id that one before it holds */
		seen = i;
		i = 1;
		do
		:: i < seen ->
			assert(!link[i] || link[i] == link[seen] || !(a[link[i]] && a[link[seen]]));
			assert(!link[i] || link[i] == link[seen] || !(b[link[i]] && b[link[seen]]));
			assert(link[i] != link[seen]); /* published once */
			i++
		:: else -> break
		od;
		has[link[seen]] = true;
		i = 0
	   }
	:: atomic { del && TOP > 1 && (!busy || BUSY) -> select(i : 1 .. B);
#ifndef DELTOP
		if :: i < TOP && link[i] -> del--; deleted = true; link[i] = 0 :: else fi;
#else
		if :: link[i] -> del--; deleted = true; link[i] = 0 :: else fi;
#endif
		i = 0
	   }
	od
}

init
{
	atomic {
		byte i = 1;
		do
		:: i <= NS -> run Submit(i); i++
		:: else -> break
		od
	}
}
