# shellcheck shell=bash disable=SC2016,SC2034,SC2317
# lib.sh - what the tests of real shared file systems share: a rig (see rig.sh) with a daemon and
# agents in every client. A test sets `rig` (the program) and sources it. Commands for clients are
# quoted as they are: $SHARED, $OWN, $TOOLS and $LOGS mean something there only.
RASER_TIMEOUT=${RASER_TIMEOUT:-600}
cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lib.sh
. "$cluster/../lib.sh"

clients=3
steal_after=9
beat_ms=$((steal_after * 1000 / 6))
agents=6    # in each client
ntold=0     # tasks submitted so far

export RIG_STATE=$scratch/rig RASER_BUILD=$top
mkdir "$RIG_STATE"
logs=$RIG_STATE/share/log

rig() { "$cluster/$rig" "$@"; }
node() { rig run "$@"; }
# every COMMAND...: in all clients, one after the other
every() {
	local k
	for ((k = 1; k <= clients; k++)); do node "$k" "$@" || return; done
}

start_rig() {
	local why
	[ -z "${RASER_SANITIZED-}" ] || skip_long
	[ "$(id -u)" = 0 ] || skip_all "not root"
	why=$(rig missing)
	[ -z "$why" ] || skip_all "the rig $rig lacks: ${why//$'\n'/, }"
	restore+=("rig stop")
	rig start "$clients" >"$scratch/rig.log" 2>&1 || skip_all "$rig: $(tail -n 3 "$scratch/rig.log")"
	mkdir "$logs/history"
	cp "$top/raserfs" "$top/raser" "$top/tests/chk" "$top/tests/cluster/agents" "$top/tests/cluster/fresh" \
		"$RIG_STATE/share/bin/"
}

# shared_run NAME [KEY=VALUE...]: a run on the shared file system, as new_run makes them
shared_run() {
	local name=$1
	shift
	run=$name
	new_run steal_after=$steal_after max_failures=0 max_losses=999 retry_delay=0.1 low.failures=all \
		low.memory=0 medium.memory=0 high.memory=0 "$@" &&
		mv "$RUN/raser.ini" "$logs/" && rm -rf "$RUN" &&
		node 1 "\$TOOLS/raser init \$SHARED/$run && cat \$LOGS/raser.ini >\$SHARED/$run/raser.ini" >/dev/null
}

# ---- daemons: one in a client, mounted at $OWN/q ----

up() { # up K: and see it serve
	node "$1" 'mkdir -p $OWN/q 2>/dev/null
	umount -l $OWN/q 2>/dev/null
	RASER_HISTORY=$LOGS/history
	export RASER_HISTORY
	setsid $APART $TOOLS/raserfs -f '"\$SHARED/$run"' $OWN/q >>$LOGS/raserfs.'"$1"' 2>&1 </dev/null &
	pid=$!
	for i in $(seq 300); do
		[ -s $OWN/q/README ] && break
		[ -d /proc/$pid ] || exit 1
		sleep 0.1
	done
	[ -z "$APART" ] || pid=$(cat /proc/$pid/task/$pid/children)
	echo $pid >$OWN/daemon
	[ -s $OWN/q/README ]'
}

# For the audit, what is done to daemons is written down before it is done: `note WHAT WHOM` in a
# client writes a line as raserfs(8), HISTORIES, has it.
note='boot() { awk "{ print \$1 * 1000 }" /proc/uptime; }
tab() { printf "%s\t" "$@" | sed "s/\t\$//"; echo; }
note() {
	file=$LOGS/history/faults.$(hostname).history
	[ -s $file ] || tab $(boot) start faults $$ $(cat /proc/sys/kernel/random/boot_id) $(hostname) $(date +%s) >$file
	tab $(boot) fault $1 $2 >>$file
}
'

tell() { # tell K KILL|STOP|CONT|TERM: its daemon
	local what=${2,,}
	[ "$what" != kill ] && [ "$what" != stop ] ||
		node "$1" 'awk "/^owner/ { print \$2 }" $OWN/q/status >$OWN/owner' || return
	[ "$what" = term ] || node "$1" "$note note $what \$(cat \$OWN/owner)" || return
	node "$1" "kill -$2 \$(cat \$OWN/daemon)"
}

# unlink_beats K: all of nodes/, from client K
unlink_beats() {
	node "$1" "$note cd \$SHARED/$run"' && for f in nodes/*; do note remove $f && rm -f $f; done'
}

down() { # down K: end its daemon in order
	tell "$1" TERM && node "$1" 'for i in $(seq 100); do
		kill -0 $(cat $OWN/daemon) 2>/dev/null || exit 0
		sleep 0.1
	done; exit 1'
}

# Nothing that comes later would say more: what everybody thinks, and the end of the test.
give_up() {
	every 'timeout 10 cat $OWN/q/status' 2>&1 | while read -r k; do diag "$k"; done
	tail -n 5 "$logs"/raserfs.* "$logs"/agents.*.err | while read -r k; do diag "$k"; done
	plan
}

# ---- tasks and agents ----

# add K N: N more tasks, through the mount of client K
add() {
	awk -v a="$ntold" -v n="$2" 'BEGIN { for (i = a + 1; i <= a + n; i++) printf "{\"id\":\"t%d\"}\n", i }' \
		>"$logs/tasks.$ntold"
	node "$1" "cp \$LOGS/tasks.$ntold \$OWN/q/new/" && ntold=$((ntold + $2))
}

start_agents() { # start_agents K [WORK_MS]
	node "$1" "setsid \$TOOLS/agents \$OWN/q low $agents ${2:-100} \$LOGS/agents.$1 2>>\$LOGS/agents.$1.err \
		>/dev/null </dev/null &"
}

told_done() { cat "$logs"/agents.? 2>/dev/null | grep -c ' done$'; }
many_done() { [ "$(told_done)" -ge "$1" ]; }

# sees_done K: client K, after a fresh look (which a listing brings), knows that all of them are
sees_done() { [ "$(node "$1" 'ls $OWN/q/leases >&2; awk "\$1 == \"done\" { print \$2 }" $OWN/q/status')" = "$ntold" ]; } 2>/dev/null
all_see_done() {
	local k
	for ((k = 1; k <= clients; k++)); do sees_done "$k" || return; done
}

# wave TEXT TASKS FAULT [ARGUMENT...]: tasks are worked on everywhere when FAULT happens. In the end
# every task is done, and everybody sees it.
wave() {
	local text=$1 n=$2 from mended before=$nfailed
	shift 2
	from=$(now_ms)
	add $((RANDOM % clients + 1)) "$n" && wait_until 30 many_done $((ntold - n + n / 10))
	result $? "$text: $n tasks are being worked off"
	"$@"
	result $? "$text: so it was"
	mended=$(now_ms)
	wait_until 60 all_see_done
	result $? "$text: all are done, and every client sees it"
	[ "$nfailed" = "$before" ] || give_up
	diag "$text: $((mended - from)) ms, and $(($(now_ms) - mended)) ms to the end"
}

# agents_leave: a drained tier sends them away
has_sum() { grep -q '^#' "$logs/agents.$1"; }
agents_leave() {
	local k
	for ((k = 1; k <= clients; k++)); do : >"$logs/agents.$k.end"; done
	for ((k = 1; k <= clients; k++)); do ok "the agents of client $k leave a drained tier" wait_until 60 has_sum "$k"; done
}

# audit: the histories of all daemons against the run directory
audit() {
	local line
	node 1 "\$TOOLS/raser audit --tap --complete --settled \$SHARED/$run \$LOGS/history" >"$scratch/audit" 2>&1
	result $? "raser audit finds that the run kept its promises"
	while read -r line; do diag "$line"; done <"$scratch/audit"
}

# What agents were told, against each other: no task was accepted twice, and each that is done was
# told so or, when the answer was lost with a mount or the agent with its machine, may have been.
judge_answers() {
	cat "$logs"/agents.? >"$scratch/answers"
	is "$(grep ' done$' "$scratch/answers" | cut -d @ -f 1 | sort | uniq -d)" "" "no task was accepted twice"
	is "$(awk -v n="$ntold" '
		$2 == "took" { open[$1] = 1; next }
		{ delete open[$1] }
		$2 == "done" || $2 == "unknown" { sub(/@.*/, ""); seen[$1] = 1 }
		END {
			for (name in open) { sub(/@.*/, "", name); seen[name] = 1 }
			for (i = 1; i <= n; i++) if (!(("t" i) in seen)) print "t" i
		}' "$scratch/answers")" "" "every task was accepted from somebody"
	is "$(grep '^#' "$scratch/answers" | grep -v ' 0 failed')" "" "no agent met an error that it may not meet"
	diag "$(awk '{ n[$2]++ } END { for (w in n) if (w != "") printf "%s %d  ", w, n[w] }' \
		<(grep -v '^#' "$scratch/answers"))"
}
