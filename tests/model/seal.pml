/*
 * seal.pml - the links of a finished task are packed into a seal and removed, though somebody
 * may be frozen who will wake.
 *
 * What sealer.c, seal.c and seal_overrules() do with a bay of one task, of which the daemons do
 * no more than is needed: claim, end (done or failed), reopen what failed. A verdict on a frozen
 * process may fall at any time: the sealer waits steal_after, and a freeze may last longer.
 *
 *   budgets   ND daemons (all may be frozen; they start at any time), NP sealers, K attempts,
 *             GHOST (creates delivered again later), VERDICTS, POWER (a crash of the storage
 *             that loses what was not synced)
 *   controls  SILENTSEALER SILENTDAEMON NOOVERRULE FORGETOWN LINKSFIRST UNSYNCED EARLYREMOVE
 *             REMOVEALL REUSENAME, and REACH=n
 */
#ifndef ND
#define ND 2
#endif
#ifndef NP
#define NP 1
#endif
#ifndef K
#define K 3
#endif
#ifndef GHOST
#define GHOST 0
#endif
#ifndef VERDICTS
#define VERDICTS 1
#endif
#ifndef POWER
#define POWER 0
#endif
#ifndef REACH
#define REACH 0
#endif
#define reach(n, what) if :: REACH == n -> assert(!(what)) :: else fi
#define S 2 /* seals that a bay can have in its life here */

#define AGENT  1
#define REOPEN 2
#define DONE   1
#define FAILED 2

byte cv[K + 2], ct[K + 2], ev[K + 2], et[K + 2]; /* links: verb or outcome, and owner */
/* a seal: up to which attempt, its outcome, and who wrote its end; 0: none. Torn ones are none. */
byte sk[S + 2], so[S + 2], st[S + 2];
bool synced[S + 2];
bool beat[ND + NP + 1];	  /* daemons are 1 .. ND, sealers come behind */
byte verdicts = VERDICTS, ghosts = GHOST, power = POWER;
byte acks;
byte best;		  /* what the task has come to: it never goes back */
bool g_full, g_end;
byte g_k, g_v, g_t;

#define SEAL   (sk[2] -> 2 : (sk[1] -> 1 : 0))
#define LIVING (beat[1] || (ND > 1 && beat[2]))
#define SEALING (beat[ND + 1] || (NP > 1 && beat[ND + 2]))

/* The fold: the seal first, and only links above it. at, state: as the task stands. */
#define PENDING 0
#define CLAIMED 3
inline fold()
{
	at = 0;
	state = PENDING;
#ifndef LINKSFIRST
	if :: SEAL -> at = sk[SEAL]; state = so[SEAL] :: else fi;
#endif
	i = K;
	do
	:: i > at && !cv[i] && !ev[i] -> i--
	:: i > at && ev[i] -> at = i; state = ev[i]; break
	:: i > at && !ev[i] && cv[i] == AGENT -> at = i; state = CLAIMED; break
	:: i > at && !ev[i] && cv[i] == REOPEN -> at = i; state = PENDING; break
	:: else -> break
	od;
#ifdef LINKSFIRST
	if :: !at && SEAL -> at = sk[SEAL]; state = so[SEAL] :: else fi;
#endif
	i = 0
}

/* seal_overrules(): our beat is old, so before anybody is answered a seal is looked for. */
#ifdef NOOVERRULE
#define OVERRULED(n) false
#else
#define OVERRULED(n) (!beat[me] && SEAL && sk[SEAL] >= (n))
#endif
/* but an end that is in the seal as we wrote it stands, whatever another has made there since */
#define IN_SEAL(n, v) (SEAL && sk[SEAL] == (n) && so[SEAL] == (v) && st[SEAL] == me)
#ifdef FORGETOWN
#define OUR_END(n, v) false
#else
#define OUR_END(n, v) IN_SEAL(n, v)
#endif

inline keep_ghost(e, n, v)
{
	if
	:: ghosts && !g_full -> ghosts--; g_full = true; g_end = e; g_k = n; g_v = v; g_t = me
	:: true
	fi
}

proctype Daemon(byte me)
{
	byte at, state, i, n, v, hold;
	bool mine, won;

	/* its own name first, then it looks for the other's */
	beat[me] = true;
#ifndef SILENTDAEMON
	!SEALING;
#endif
end:	do
	:: atomic { !hold && beat[me] -> fold() };
	   if
	   :: state == PENDING && at < K ->
		n = at + 1;
		atomic { if :: !cv[n] -> cv[n] = AGENT; ct[n] = me; keep_ghost(false, n, AGENT) :: else fi };
		atomic {
			if
			:: cv[n] == AGENT && ct[n] == me && !OVERRULED(n) -> hold = n
			:: else
			fi
		}
	   :: state == FAILED && at < K - 1 ->
		n = at + 1;
		atomic { if :: !cv[n] -> cv[n] = REOPEN; ct[n] = me; keep_ghost(false, n, REOPEN) :: else fi }
	   :: state == CLAIMED ->
		/* somebody's claim, revoked or lost: max_failures is 1 here */
		n = at;
		if
		:: cv[n] == AGENT ->
			atomic { if :: !ev[n] -> ev[n] = FAILED; et[n] = me; keep_ghost(true, n, FAILED)
				    :: else fi }
		:: else
		fi
	   :: else
	   fi;
	   at = 0; state = 0; n = 0
	/* settle() */
	:: hold ->
		atomic {
			if :: v = DONE :: v = FAILED fi;
			mine = cv[hold] == AGENT && ct[hold] == me
		};
		if
		:: mine ->
			do
			:: atomic { if :: !ev[hold] -> ev[hold] = v; et[hold] = me;
						      keep_ghost(true, hold, v)
				      :: else fi };
			   /* the text read back decides; a name that is gone is made again */
			   atomic { if :: ev[hold] -> won = ev[hold] == v && et[hold] == me; break
				       :: else fi }
			od;
			atomic {
				if
				:: (won && !OVERRULED(hold)) || (OVERRULED(hold) && OUR_END(hold, v)) ->
					if
					:: v == DONE ->
						acks++;
						assert(acks == 1);
						reach(1, SEAL);
						reach(2, !beat[me])
					:: else
					fi
				:: else ->
					reach(3, won);
					/* nobody is told that it lost what counts as done by it */
					assert(v != DONE || !IN_SEAL(hold, DONE))
				fi;
				hold = 0; mine = false; won = false; v = 0
			}
		:: else -> hold = 0; v = 0
		fi
	/* its beat is gone: a new life begins with a new name and a look for sealers. One here. */
	:: !beat[me] -> break
	/* or it leaves, having ended its claim */
	:: atomic { beat[me] && !hold -> beat[me] = false; break }
	od
}

proctype Sealer(byte me)
{
	byte at, state, i, n, seals, old;
	byte text;

#ifndef SILENTSEALER
	atomic { !SEALING -> beat[me] = true };
#endif
	/* nobody for steal_after; whoever is silent is judged */
	!LIVING;
#ifdef SILENTSEALER
	beat[me] = true;
#endif
	/* read_bay() */
	atomic {
		fold();
		seals = SEAL;
		if :: sk[2] -> old = 2 :: else -> old = seals fi
	};
	if
	:: (state == DONE || state == FAILED) && (!seals || at > sk[seals]) && seals < S && beat[me] ->
#ifdef EARLYREMOVE
		goto remove;
#endif
write:		/* write_seal(): under a name that was never used */
		atomic {
			text = (ev[at] -> et[at] : 0);
#ifdef REUSENAME
			n = 1;
			sk[n] = at; so[n] = state; st[n] = text
#else
			n = seals + 1;
			if
			:: !sk[n] && !synced[n] -> sk[n] = at; so[n] = state; st[n] = text
			:: else -> goto out
			fi
#endif
		};
#ifndef UNSYNCED
		atomic { if :: sk[n] == at && so[n] == state -> synced[n] = true :: else -> goto out fi }
#endif
remove:		/* remove_links(): claims, then ends, at or below what the seal says */
		i = 1;
		do
		:: i <= K -> atomic {
			if
#ifdef REMOVEALL
			:: true -> cv[i] = 0; ct[i] = 0
#else
			:: i <= at -> cv[i] = 0; ct[i] = 0
#endif
			:: else
			fi;
			i++ }
		:: else -> break
		od;
		i = 1;
		do
		:: i <= K -> atomic {
			if
#ifdef REMOVEALL
			:: true -> ev[i] = 0; et[i] = 0
#else
			:: i <= at -> ev[i] = 0; et[i] = 0
#endif
			:: else
			fi;
			i++ }
		:: else -> break
		od;
		i = 0;
#ifdef EARLYREMOVE
		if :: !n && beat[me] -> goto write :: else fi;
#endif
		/* and the seal before */
		atomic { if :: old && n > old -> sk[old] = 0; so[old] = 0; st[old] = 0 :: else fi };
		reach(4, true)
	:: else
	fi;
out:	beat[me] = false
}

/* Judges whoever may be frozen. */
active proctype Verdict()
{
	byte i;

end:	do
	:: atomic { verdicts -> select(i : 1 .. ND + NP);
		    if :: beat[i] -> verdicts--; beat[i] = false :: else fi; i = 0 }
	od
}

#if GHOST
active proctype Late()
{
end:	do
	:: atomic { g_full ->
		if
		:: g_end && !ev[g_k] -> ev[g_k] = g_v; et[g_k] = g_t; reach(5, SEAL && sk[SEAL] >= g_k)
		:: !g_end && !cv[g_k] -> cv[g_k] = g_v; ct[g_k] = g_t; reach(5, SEAL && sk[SEAL] >= g_k)
		:: else
		fi;
		g_full = false; g_end = false; g_k = 0; g_v = 0; g_t = 0
	   }
	od
}
#endif

#if POWER
active proctype Power()
{
	byte i;

end:	atomic { power ->
		power--;
		i = 1;
		do
		:: i <= S -> if :: sk[i] && !synced[i] -> sk[i] = 0; so[i] = 0; st[i] = 0 :: else fi; i++
		:: else -> break
		od
	}
}
#endif

/* `done` is final, and no attempt is forgotten. */
active proctype Judge()
{
	byte at, state, i;

end:	do
	:: atomic { fold();
		    assert(at >= best / 4);
		    assert(best % 4 != DONE || state == DONE);
		    if
		    :: 4 * at + state > best && state != CLAIMED -> best = 4 * at + state
		    :: else
		    fi;
		    at = 0; state = 0 }
	od
}

init
{
	atomic {
		byte j = 1;
		do :: j <= ND -> run Daemon(j); j++ :: else -> break od;
		j = 1;
		do :: j <= NP -> run Sealer(ND + j); j++ :: else -> break od
	}
}
