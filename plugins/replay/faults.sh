#!/bin/sh
# faults.sh - what a cluster does to agents, while a run is on: claims are deleted, agents are
# killed and frozen. Run by `raser run --beside`, which says in RASER_MOUNT where the queue is.
set -u
cd "$RASER_MOUNT" || exit 1

# the n-th claim that is held now
claim() {
	n=$1
	for f in leases/*@*; do
		n=$((n - 1))
		[ $n -gt 0 ] || { [ -e "$f" ] && echo "${f#leases/}"; return; }
	done
}

# the agent of a claim: "agent raser-agentd[123]"
agent() { sed -n 's/^agent raser-agentd\[\([0-9]*\)\]$/\1/p' "leases/$1" 2>/dev/null; }

say() { echo "faults: $*"; }

turn=0
while sleep 1.3; do
	turn=$((turn + 1))
	c=$(claim $((turn % 12 + 1)))
	[ -n "$c" ] || continue
	case $((turn % 4)) in
	1 | 3)
		rm "leases/$c" && say "deleted leases/$c"
		;;
	2)
		pid=$(agent "$c") && [ -n "$pid" ] && kill -9 "$pid" && say "killed the agent of $c"
		;;
	0)
		# longer than steal_after: its task is stolen, and it must notice when it wakes
		pid=$(agent "$c") && [ -n "$pid" ] && kill -STOP "$pid" &&
			say "froze the agent of $c" && (sleep 5 && kill -CONT "$pid") &
		;;
	esac
done
