/*
 * lease.pml - who is alive: beats, verdicts by unlinking, and daemons that outlive a verdict.
 *
 * What node.c, duty.c, claim.c and settle.c do around one task whose attempts follow each other.
 * Every daemon has three threads: one that beats, one that claims and ends, one that watches
 * others, so that a verdict may fall while a create is on its way. That a silent owner is told
 * from a slow one takes clocks, which this has not: a verdict may fall at any time, VERDICTS
 * times in all, on anybody who lives.
 *
 *   budgets   NW daemons, K attempts, VERDICTS, CRASH, LEAVE (daemons that leave in good order)
 *   controls  RECREATE GRANTOLD DROPEND NOMUSTBEAT CLAIMFIRST LEAVEFIRST NOVERDICT, REACH=n
 */
#ifndef NW
#define NW 2
#endif
#ifndef K
#define K 3
#endif
#ifndef VERDICTS
#define VERDICTS 2
#endif
#ifndef CRASH
#define CRASH 1
#endif
#ifndef LEAVE
#define LEAVE 0
#endif
#ifndef REACH
#define REACH 0
#endif
#define reach(n, what) if :: REACH == n -> assert(!(what)) :: else fi

#define OWNERS (NW * (2 + VERDICTS + CRASH) + 1)

#define DONE  1
#define FREED 2
#define LOST  3

byte claim[K + 2]; /* owner of T@k.claim, 0 = none */
byte ends[K + 2], by[K + 2];
bool beat[OWNERS + 1];	 /* nodes/<owner> */
bool robbed[OWNERS + 1]; /* a claim of it was ended as `lost` by another */
byte next = 1;		 /* owners are drawn, and never again */
byte acks;
byte verdicts = VERDICTS, crashes = CRASH, leaves = LEAVE;

/* of daemon d */
byte owner[NW + 1];
bool joined[NW + 1], must_beat[NW + 1], gone[NW + 1], leaving[NW + 1];
byte held[NW + 1];	 /* attempt that an agent of it holds */
byte held_as[NW + 1];	 /* under which owner it was claimed */
byte stray[NW + 1];	 /* attempt of ours that no agent has, to be ended by us */
byte stray_as[NW + 1];
bool ending[NW + 1];	 /* its end is in flight */

#define TOP (claim[K] -> K : (claim[K - 1] -> K - 1 : (claim[1] -> 1 : 0)))

/* T@k.end by daemon d, in the name of o. */
inline put_end(d, k, what, o)
{
	if :: !ends[k] -> ends[k] = what; by[k] = o :: else fi
}

inline forget(d)
{
	held[d] = 0;
	held_as[d] = 0
}

/* Claims, keeps and ends. */
proctype Serve(byte d)
{
	byte k, o;

end:	do
	/* queue_claim(): only a daemon that has joined, and not before a beat that is due */
	:: atomic { joined[d] && !must_beat[d] && !leaving[d] && !held[d] && !stray[d] && TOP < K &&
		    (TOP == 0 || ends[TOP] > DONE) ->
			k = TOP + 1;
			o = owner[d]
	   };
	   /* the create is on its way: a verdict may fall, and our beat find it */
	   atomic {
		   if
		   :: gone[d] -> skip
		   :: !gone[d] && !claim[k] -> claim[k] = o; stray[d] = k; stray_as[d] = o
		   :: else
		   fi
	   };
	   /* won: granted, unless we are another by now */
	   atomic {
		   if
#ifdef GRANTOLD
		   :: stray[d] == k && !gone[d] ->
#else
		   :: stray[d] == k && !gone[d] && joined[d] && owner[d] == o ->
#endif
			held[d] = k; held_as[d] = o; stray[d] = 0; stray_as[d] = 0
		   :: else
		   fi;
		   k = 0; o = 0
	   }

	/* settle(): the name in the end is that of the claim, whatever we are called by then */
	:: atomic { held[d] && !ending[d] -> ending[d] = true; k = held[d]; o = held_as[d] };
	   atomic { if :: gone[d] -> skip :: else -> put_end(d, k, DONE, o) fi };
	   atomic {
		   if
		   :: gone[d]
#ifdef DROPEND
		   :: !gone[d] && (!joined[d] || owner[d] != o) ->
			/* told ESTALE without looking */
			assert(!(ends[k] == DONE && by[k] == o))
#endif
		   :: else ->
			if
			:: ends[k] == DONE && by[k] == o ->
				acks++;
				assert(acks == 1);
				reach(1, k > 1 && ends[k - 1] == LOST);
				reach(2, owner[d] != o);
				reach(3, !beat[o])
			:: else ->
				if :: ends[k] == LOST && by[k] != o -> must_beat[d] = true :: else fi
			fi
		   fi;
		   if :: held[d] == k -> forget(d) :: else fi;
		   ending[d] = false; k = 0; o = 0
	   }

	/* queue_look(): an end that another wrote */
	:: atomic { held[d] && !ending[d] && ends[held[d]] ->
#ifndef NOMUSTBEAT
		must_beat[d] = true;
#endif
		forget(d)
	   }

	/* a claim in our own name that no agent has */
	:: atomic { stray[d] && !gone[d] -> put_end(d, stray[d], FREED, stray_as[d]); stray[d] = 0;
		    stray_as[d] = 0 }

	:: atomic { leaves && joined[d] && !leaving[d] -> leaves--; leaving[d] = true }
	od
}

/* queue_beat(): touches by path and never creates; ENOENT is the verdict. */
proctype Beat(byte d)
{
end:	do
	:: atomic { joined[d] && !leaving[d] && beat[owner[d]] && must_beat[d] -> must_beat[d] = false }
	:: atomic { joined[d] && !leaving[d] && !beat[owner[d]] ->
#ifdef RECREATE
		beat[owner[d]] = true; must_beat[d] = false
#else
		/* be_reborn(): every claim is given up; one whose end is in flight is answered by
		 * that end's own read-back */
		joined[d] = false;
		must_beat[d] = false;
		if
		:: held[d] && !ending[d] ->
			stray[d] = held[d]; stray_as[d] = held_as[d]; forget(d)
		:: else
		fi
#endif
	   }
	:: atomic { !joined[d] && !gone[d] && !leaving[d] && next < OWNERS ->
		owner[d] = next;
		next++;
#ifdef CLAIMFIRST
		joined[d] = true
#else
		beat[owner[d]] = true;
		joined[d] = true
#endif
	   }
#ifdef CLAIMFIRST
	   ; beat[owner[d]] = true
#endif
	/* leave: claims first, the beat last */
#ifdef LEAVEFIRST
	:: atomic { leaving[d] && joined[d] && beat[owner[d]] -> beat[owner[d]] = false }
	:: atomic { leaving[d] && held[d] && !ending[d] ->
		put_end(d, held[d], FREED, held_as[d]); forget(d) }
#else
	:: atomic { leaving[d] && held[d] && !ending[d] ->
		put_end(d, held[d], FREED, held_as[d]); forget(d) }
	:: atomic { leaving[d] && joined[d] && !held[d] && !stray[d] && !ending[d] ->
		beat[owner[d]] = false; joined[d] = false; gone[d] = true }
#endif
	/* it dies, with whatever was on its way */
	:: atomic { crashes && joined[d] && !gone[d] ->
		crashes--; joined[d] = false; gone[d] = true; forget(d); stray[d] = 0; stray_as[d] = 0 }
	/* and its supervisor starts another */
	:: atomic { gone[d] && !leaving[d] && !ending[d] -> gone[d] = false; must_beat[d] = false }
	od
}

/* Judges others, and ends what their verdict has set free. */
proctype Watch(byte d)
{
	byte o, x;

end:	do
	/* silent, or so it seemed: the verdict is published by unlinking */
	:: atomic { verdicts && joined[d] -> select(o : 1 .. OWNERS - 1);
		    if :: o != owner[d] && beat[o] -> verdicts--; beat[o] = false :: else fi; o = 0 }
	/* a dead owner's claim: its beat was missing from two listings */
	:: atomic { joined[d] && TOP && !ends[TOP] && claim[TOP] != owner[d] &&
#ifdef NOVERDICT
		    true
#else
		    !beat[claim[TOP]]
#endif
		    -> o = claim[TOP] };
	   atomic {
		   x = TOP;
		   if
		   :: joined[d] && claim[x] == o && !ends[x] ->
			ends[x] = LOST;
			by[x] = owner[d];
			reach(4, true);
#if LEAVE && !VERDICTS
			/* who leaves in good order loses nothing */
			assert(false || CRASH);
#endif
			/* one verdict costs one attempt */
			assert(!robbed[o]);
			robbed[o] = true;
			/* and an agent of a daemon whose beat stands is never robbed */
			x = 1;
			do
			:: x <= NW ->
				assert(!(held[x] && !ending[x] && held[x] == TOP && joined[x] && beat[owner[x]]));
				x++
			:: else -> break
			od
		   :: else
		   fi;
		   x = 0; o = 0
	   }
	od
}

init
{
	atomic {
		byte i = 1;
		do
		:: i <= NW -> run Serve(i); run Beat(i); run Watch(i); i++
		:: else -> break
		od
	}
}
