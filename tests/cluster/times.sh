# shellcheck shell=bash disable=SC2016,SC2034,SC2317
# times.sh - how long it takes until others have a task, or its old holder is told. Each function
# prints milliseconds, measured by this machine's clock; what it costs to reach a client is in them.
# Clients 1 and 2 have a daemon, and no agents. Sourced after lib.sh.

# keep K NAME: a holder in client K that touches its lease every 50 ms, and says when it is refused
keep() {
	rm -f "$logs/took.$2" "$logs/refused.$2"
	cat >"$logs/keep" <<-'END'
		exec 3<>"$OWN/q/queue/low/$1@1" || exit
		cat <&3 >"$LOGS/took.$1"
		while touch "$OWN/q/leases/$1@1"; do sleep 0.05; done
		: >"$LOGS/refused.$1"
	END
	node "$1" "setsid sh \$LOGS/keep $2 >>\$LOGS/keep.err 2>&1 </dev/null &"
	wait_until 20 test -s "$logs/took.$2"
}

# one_kept K NAME: a task of its own, held in client K, and no other is there
one_kept() {
	node "$1" 'for i in 1 2 3 4 5; do
		left=$(ls -d $OWN/q/leases/* $OWN/q/pending/* 2>/dev/null)
		[ -n "$left" ] || break
		for f in $left; do mv $f $OWN/q/cancelled/ 2>/dev/null; done
		sleep 1.1 # a listing is fresh once a second
	done'
	node "$1" "echo '{\"id\":\"$2\"}' >\$OWN/q/new/$2" && keep "$1" "$2"
}

# until FROM_MS SECONDS COMMAND...: the time from then on until the command succeeds
until_ms() {
	local from=$1 limit=$2
	shift 2
	if wait_until "$limit" "$@"; then echo $(($(now_ms) - from)); else echo 999999; fi
}

# refused_after NAME K COMMAND: client 1 holds NAME; how long after COMMAND in client K is it told
refused_after() {
	local name=$1 k=$2 from
	shift 2
	one_kept 1 "$name" || return
	# it learns of the claim by asking
	node "$k" "until [ -e \$OWN/q/leases/$name@1 ]; do sleep 0.1; done"
	from=$(now_ms)
	node "$k" "$*" || return
	until_ms "$from" 30 test -e "$logs/refused.$name"
}
revoked_after() { refused_after "$1" 2 "rm \$OWN/q/leases/$1@1"; }
cancelled_after() { refused_after "$1" 2 "mv \$OWN/q/leases/$1@1 \$OWN/q/cancelled/"; }

# await_next K NAME: an agent in client K that waits for a task, and says which it got
await_next() {
	rm -f "$logs/next.$2"
	node "$1" "setsid sh -c 'head -n 1 \$OWN/q/queue/low/next >\$LOGS/next.$2.new && mv \$LOGS/next.$2.new \$LOGS/next.$2' \
		>>\$LOGS/keep.err 2>&1 </dev/null &"
}
has_next() { grep -qx "leases/$1@2" "$logs/next.$1" 2>/dev/null; }

# stolen_after NAME COMMAND...: client 1 holds NAME; how long after COMMAND an agent of client 2 has it
stolen_after() {
	local name=$1 from
	shift
	one_kept 1 "$name" || return
	await_next 2 "$name"
	sleep 1 # it waits by then
	from=$(now_ms)
	"$@" || return
	until_ms "$from" 60 has_next "$name"
}
kill_daemon() { tell 1 KILL; }

# told_after_theft NAME: client 1 holds NAME when its beat is deleted; how long after an agent of
# client 2 has it is the holder told. 0: it was told before.
told_after_theft() {
	local name=$1 from
	one_kept 1 "$name" || return
	await_next 2 "$name"
	sleep 1
	node 2 "rm \$SHARED/$run/nodes/node1.*" || return
	until_ms "$(now_ms)" 60 has_next "$name" >"$scratch/stolen"
	until_ms "$(now_ms)" 30 test -e "$logs/refused.$name"
}

# told_after_stop NAME: client 1 holds NAME and its daemon is stopped until client 2 has the task;
# how long after it goes on is the holder told
told_after_stop() {
	local name=$1 from
	one_kept 1 "$name" || return
	await_next 2 "$name"
	tell 1 STOP
	until_ms "$(now_ms)" 60 has_next "$name" >"$scratch/stolen"
	from=$(now_ms)
	tell 1 CONT
	until_ms "$from" 30 test -e "$logs/refused.$name"
}
