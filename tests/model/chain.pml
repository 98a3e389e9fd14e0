/*
 * chain.pml - one task, its claim and end links, and the daemons that compete for them.
 *
 * What fs/queue does: chain_cas(), queue_claim(), settle(), end_foreign(), verb_link(),
 * restore_end(), bay_merge() and queue_look(), with every call on the run directory as one step.
 * README says what is left out. A text is its owner and a number that is drawn anew where the
 * code's sequence must tell two texts of one owner apart.
 *
 *   budgets   NW daemons, K attempts, CRASH, LOST (creates without an answer), NOSPC (creates
 *             refused), GHOST (creates delivered again later), DELC and DELE (claims and ends
 *             deleted by hand; with UNDO only claims of agents, as the storage forgets them in a
 *             crash), ADMIN (cancel, reopen)
 *   PROGRESS  silence is judged wrongly WRONG times and holders give back REL times: every task
 *             ends; with NOBURY, where nobody ends what the dead hold, it does not
 *   controls  NAIVE KLUDGE NOPRED REUSE NOCHECK NOCLOSE DENYOWN REMOVE SPLIT, and REACH=n: this happens
 */
#ifndef NW
#define NW 2
#endif
#ifndef K
#define K 3
#endif
#ifndef CRASH
#define CRASH 1
#endif
#ifndef LOST
#define LOST 1
#endif
#ifndef NOSPC
#define NOSPC 0
#endif
#ifndef GHOST
#define GHOST 0
#endif
#ifndef DELC
#define DELC 0
#endif
#ifndef DELE
#define DELE 0
#endif
#ifndef ADMIN
#define ADMIN 0
#endif
#ifndef WRONG
#define WRONG 1
#endif
#ifndef REL
#define REL 1
#endif
#ifndef REACH
#define REACH 0
#endif
#define reach(n, what) if :: REACH == n -> assert(!(what)) :: else fi

/* a claim link, and an end link; AGAIN: retry, lost or freed, after which it is pending */
#define AGENT	1
#define CANCEL	2
#define REOPEN	3
#define DONE	1
#define FAILED	2
#define AGAIN	3
#define STOPPED 4
#define VOID	5 /* a name whose text has not come yet (SPLIT) */

/* what a daemon knows of the task at attempt k */
#define PENDING 1
#define CLAIMED 2
#define OVER	3 /* done */
#define HALTED	4 /* failed or cancelled: may be reopened */

#define OWNER(text) ((text) % 16)

byte cv[K + 2], ct[K + 2]; /* claims: verb and text */
byte ev[K + 2], et[K + 2]; /* ends: outcome and text */
byte granted[K + 2];	   /* agents that hold attempt k now */
byte acks;		   /* times an agent was told `done` */
byte deleted, unsure;	   /* links deleted; creates refused: what makes texts of one owner differ */
byte crashes = CRASH, lost = LOST, nospc = NOSPC, ghosts = GHOST, admin = ADMIN;
byte wrong = WRONG, released = REL;
bool dead[16];

bool g_full, g_end; /* a create that the network still holds */
byte g_k, g_v, g_t;

/* Every link ever made is one that the rules allow. */
inline put(is_end, n, v, t)
{
	if
	:: is_end ->
		ev[n] = v;
		et[n] = t;
		assert(DELC + DELE + NOSPC || cv[n] == AGENT ||
		       (v == STOPPED && cv[n] == CANCEL))
	:: else ->
		cv[n] = v;
		ct[n] = t;
		assert(DELC + DELE + NOSPC || !ev[n]);
		assert(DELC + DELE + NOSPC || n == 1 || v == REOPEN || ev[n - 1] == AGAIN ||
		       cv[n - 1] == REOPEN);
		assert(DELC + DELE + NOSPC || v != REOPEN || ev[n - 1] == FAILED ||
		       ev[n - 1] == STOPPED || cv[n - 1] == CANCEL)
	fi;
	assert(DELC + DELE + NOSPC || !(ev[n - 1] == DONE))
}

/* One symlink(2): answered or not, done or not, and perhaps delivered once more, later. */
inline create(is_end, n, v, t)
{
	atomic {
		taken = (is_end -> ev[n] : cv[n]) != 0;
		refused = false;
		if
		:: !taken ->
#ifdef SPLIT
			put(is_end, n, (is_end -> VOID : v), (is_end -> 0 : t));
#else
			put(is_end, n, v, t);
#endif
			made = true
		:: taken -> made = false
		:: lost -> lost--; made = false
		:: nospc -> nospc--; unsure++; made = false; refused = true
		fi;
		if
		:: ghosts && !g_full ->
			ghosts--;
			g_full = true;
			g_end = is_end;
			g_k = n;
			g_v = v;
			g_t = t
		:: true
		fi
#if defined(NAIVE)
		/* a reply may be lost, and the resend is told EEXIST */
		if :: made && lost -> lost--; made = false :: true fi
#endif
	}
#ifdef SPLIT
	if
	:: is_end && made -> atomic { ev[n] = v; et[n] = t }
	:: else
	fi
#endif
}

/* chain_cas(): rc 1 won, 0 lost, 2 nothing happened. */
inline cas(is_end, n, v, t)
{
	unknown = false;
	do
	:: create(is_end, n, v, t);
	   atomic {
		   unknown = unknown || (!made && !taken && !refused);
		   if
		   :: (is_end -> ev[n] : cv[n]) ->
#if defined(NAIVE)
			   rc = made;
#elif defined(KLUDGE)
			   rc = 1;
#else
			   rc = ((is_end -> et[n] : ct[n]) == t &&
				 (is_end -> ev[n] : cv[n]) == v);
#endif
			   break
		   :: else ->
			   if
			   :: refused && !unknown -> rc = 2; break
			   :: else
			   fi
		   fi
	   }
	od;
	made = false;
	taken = false;
	refused = false;
	unknown = false
}

inline drop_hold()
{
	if :: hold -> granted[hold]--; hold = 0; text = 0 :: else fi
}

/* Take over what attempt h says: fold_end() and apply_fold(). */
inline fold(h)
{
	seen = 0;
	if
	:: h == 0 -> k = 1; s = PENDING
	:: else ->
		k = h;
		if
		:: ev[h] == DONE -> s = OVER
		:: ev[h] == FAILED || ev[h] == STOPPED -> s = HALTED
		:: ev[h] == AGAIN || ev[h] == VOID -> s = PENDING; k = h + 1
		:: !ev[h] && cv[h] == AGENT -> s = CLAIMED; seen = ct[h]
		:: !ev[h] && cv[h] == CANCEL -> s = HALTED
		:: !ev[h] && cv[h] == REOPEN -> s = PENDING; k = h + 1
		:: !ev[h] && !cv[h] -> s = PENDING
		fi
	fi
}

#define KNOWN (s == PENDING -> (k > 1 -> 2 * k - 1 : 0) : 2 * k + (s != CLAIMED))
#define STEP(h) (2 * (h) + ((h) && (ev[h] || cv[h] == CANCEL || cv[h] == REOPEN)))
#define ANY(h) (cv[h] || ev[h])
#if K == 2
#define TOP (ANY(2) -> 2 : (ANY(1) -> 1 : 0))
#elif K == 3
#define TOP (ANY(3) -> 3 : (ANY(2) -> 2 : (ANY(1) -> 1 : 0)))
#elif K == 4
#define TOP (ANY(4) -> 4 : (ANY(3) -> 3 : (ANY(2) -> 2 : (ANY(1) -> 1 : 0))))
#else
#define TOP (ANY(5) -> 5 : (ANY(4) -> 4 : (ANY(3) -> 3 : (ANY(2) -> 2 : (ANY(1) -> 1 : 0)))))
#endif
#define DRAW (me + 16 * (deleted + unsure))

/* Without deletions exactly one, and whatever claims the storage forgets. A deleted end is one more
 * run at worst; a claim deleted by hand is none, unless it was a verb of people. */
#if defined(REMOVE) || defined(UNDO)
#define ALLOWED 0
#elif DELC && ADMIN && !defined(STRICT)
#define ALLOWED deleted
#elif DELE && !defined(STRICT)
#define ALLOWED deleted
#else
#define ALLOWED 0
#endif

/* A create that was refused may arrive all the same: an end of our owner is ours. */
#ifdef DENYOWN
#define OUR_END(v) false
#else
#define OUR_END(v) (ev[hold] == (v) && OWNER(et[hold]) == me)
#endif

/* What a holder is told: success. Its end stands, and it is the only one. */
inline told_won(v)
{
	assert(ev[hold] == v && OWNER(et[hold]) == me || DELE);
	assert(mine);
	if
	:: v == DONE ->
		acks++;
		assert(acks <= 1 + ALLOWED);
		reach(1, hold > 1 && et[hold - 1] && OWNER(et[hold - 1]) != OWNER(ct[hold - 1]));
		reach(2, hold > 1 && cv[hold - 1] == REOPEN);
		reach(3, crashes < CRASH);
		reach(4, deleted && DELC);
		reach(5, LOST && !lost)
	:: else
	fi
}

/* settle(): the end of a claim of ours. */
inline settle(v)
{
	atomic {
		mine = cv[hold] == AGENT && ct[hold] == text;
#ifndef NOCHECK
		won = mine;
#else
		won = true;
#endif
		t = DRAW
	}
	if
	:: won ->
		cas(true, hold, v, t);
		atomic {
			if
			:: rc == 1 -> told_won(v); h = hold; drop_hold(); fold(h)
			:: rc == 0 && OUR_END(v) -> told_won(v); h = hold; drop_hold(); fold(h)
			:: rc == 0 && !OUR_END(v) ->
				/* told ESTALE: then no `done` of ours may stand */
				assert(DELE || v != DONE || !(ev[hold] == DONE && OWNER(et[hold]) == me));
				reach(6, v == DONE && ev[hold] == STOPPED);
				reach(7, v == DONE && ev[hold] == AGAIN);
				h = hold; drop_hold(); fold(h)
			:: rc == 2 -> skip /* still held */
			fi;
			rc = 0; t = 0; h = 0; mine = false; won = false
		}
	:: else ->
		atomic {
			reach(8, true);
			k = hold; s = PENDING; seen = 0; drop_hold(); t = 0; mine = false
		}
	fi
}
/* end_foreign(): what is ended has just been read, and it is the claim that was judged. */
inline end_foreign(v)
{
	atomic {
		won = cv[k] == AGENT && OWNER(ct[k]) == OWNER(seen);
		t = DRAW
	}
	if
	:: won ->
		cas(true, k, v, t);
		atomic {
			if :: rc != 2 -> h = k; fold(h) :: else fi;
			rc = 0; t = 0; h = 0; won = false
		}
	:: else -> atomic { h = TOP; fold(h); h = 0; t = 0 }
	fi
}

inline verb(n, v)
{
	t = DRAW;
	cas(false, n, v, t);
	atomic {
		if :: rc != 2 -> h = n; fold(h) :: else fi;
		rc = 0; t = 0; h = 0
	}
}

/* What was cancelled gets an end first, for somebody may still be about to end a claim that was
 * there before and is forgotten: close_cancelled(). */
inline reopen()
{
#ifndef NOCLOSE
	t = DRAW;
	cas(true, k, STOPPED, t);
	atomic {
		if :: rc != 2 -> h = k; fold(h) :: else fi;
		won = (rc != 2);
		rc = 0; t = 0; h = 0
	}
	if :: won && s == HALTED -> won = false; verb(k + 1, REOPEN) :: else -> won = false fi
#else
	verb(k + 1, REOPEN)
#endif
}

proctype Daemon(byte id)
{
	byte me = id, k = 1, s = PENDING, seen, hold, text, rc, t, h;
	bool made, taken, refused, unknown, mine, won;

end:	do
	/* list the bay: bay_merge(); a holder finds that it is none any more */
	:: atomic { STEP(TOP) > KNOWN ->
		h = TOP;
		if
		:: hold && (h > hold || ev[h] || cv[h] != AGENT) -> drop_hold()
		:: else
		fi;
		fold(h);
		h = 0
	   }
	/* forget_claim(): a claim of somebody else that is gone */
	:: atomic { !hold && s == CLAIMED && TOP < k -> h = TOP; fold(h); h = 0 }
	/* unread_gone(), check_claim(): our claim was deleted */
	:: atomic { hold && (!cv[hold] || ct[hold] != text) ->
		k = hold; s = PENDING; seen = 0; drop_hold()
	   }

	/* queue_claim() */
	:: atomic { !hold && k <= K &&
#ifdef NOPRED
		(s == PENDING || s == CLAIMED) ->
		if :: s == CLAIMED && k < K -> k++ :: else fi;
#else
		s == PENDING ->
#endif
		t = DRAW
	   }
	   cas(false, k, AGENT, t);
	   atomic {
		   if
		   :: rc == 1 ->
			hold = k; text = t; s = CLAIMED; seen = t;
			granted[k]++;
			assert(DELC + DELE + GHOST * NOSPC || granted[k] == 1)
		   :: rc == 0 -> h = k; fold(h); h = 0
		   :: rc == 2 -> skip
		   fi;
		   rc = 0; t = 0
	   }

	/* its agent ends it */
	:: hold -> settle(DONE)
#ifndef PROGRESS
	:: hold && ADMIN -> settle(FAILED)
#endif
	:: atomic { hold && released -> released-- }; settle(AGAIN)

	/* another's claim: its owner was judged silent, or dead, or an admin revokes it */
	:: atomic { !hold && s == CLAIMED &&
#ifdef PROGRESS
#ifdef NOBURY
		wrong ->
#else
		(dead[OWNER(seen)] || wrong) ->
#endif
		if :: !dead[OWNER(seen)] -> wrong-- :: else fi
#else
		OWNER(seen) != me
#endif
	   }; end_foreign(AGAIN)
	/* in our own name, and neither held nor in flight */
	:: !hold && s == CLAIMED && OWNER(seen) == me -> end_foreign(AGAIN)

#if DELE
	/* restore_end(): an end that we know is gone, and the claim is ours */
	:: atomic { !hold && s == OVER && !ev[k] && cv[k] == AGENT && OWNER(ct[k]) == me -> t = DRAW };
	   cas(true, k, DONE, t);
	   atomic { reach(10, rc == 1); rc = 0; t = 0 }
	:: atomic { !hold && s == PENDING && k > 1 && !ev[k - 1] && cv[k - 1] == AGENT &&
		    OWNER(ct[k - 1]) == me -> t = DRAW };
	   cas(true, k - 1, AGAIN, t);
	   rc = 0; t = 0
#endif

	/* the hands of people */
	:: atomic { admin && !hold && s == PENDING && k <= K -> admin-- }; verb(k, CANCEL)
	:: atomic { admin && !hold && s == CLAIMED -> admin-- }; end_foreign(STOPPED)
	:: atomic { admin && !hold && s == HALTED && k < K -> admin-- }; reopen()

	:: atomic { crashes ->
		crashes--;
		drop_hold();
		k = 1; s = PENDING; seen = 0;
#ifndef REUSE
		dead[me] = true;
		me = me + NW
#endif
	   }
	od
}

#if GHOST
/* What the network has held back arrives. */
active proctype Late()
{
end:	do
	:: atomic { g_full ->
		if
		:: g_end && !ev[g_k] -> ev[g_k] = g_v; et[g_k] = g_t; reach(9, true)
		:: !g_end && !cv[g_k] -> cv[g_k] = g_v; ct[g_k] = g_t; reach(9, true)
		:: else
		fi;
		g_full = false; g_end = false; g_k = 0; g_v = 0; g_t = 0
	   }
	od
}
#endif

#if DELC || DELE
/* Somebody, or a fault script, or a purge of old files; UNDO: a crash of the storage. */
active proctype Deleter()
{
	byte c = DELC, e = DELE, n;

end:	do
	:: atomic { c -> select(n : 1 .. K);
		    if
#ifdef UNDO
		    :: cv[n] == AGENT
#else
		    :: cv[n]
#endif
		    -> c--; deleted++; cv[n] = 0; ct[n] = 0
		    :: else
		    fi;
		    n = 0 }
	:: atomic { e -> select(n : 1 .. K);
		    if :: ev[n] -> e--; deleted++; ev[n] = 0; et[n] = 0 :: else fi; n = 0 }
	od
}
#endif

#ifdef REMOVE
/* The links of a finished task are removed while its daemons live. */
active proctype Sealer()
{
	byte n = 1;

end:	atomic { acks -> skip };
	do
	:: n <= K -> atomic { cv[n] = 0; ct[n] = 0; ev[n] = 0; et[n] = 0; n++ }
	:: else -> break
	od
}
#endif

init
{
	atomic {
		byte i = 1;
		do
		:: i <= NW -> run Daemon(i); i++
		:: else -> break
		od
	}
}

#ifdef PROGRESS
#define FINAL (acks > 0)
ltl ends { <> FINAL }
#endif
