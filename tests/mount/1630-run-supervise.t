#!/bin/bash
# 1630-run-supervise.t - raser run goes on when its raserfs dies, supervisor and all: with a visible
# mount, with a private one, and as somebody without any right.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

S=$scratch

# ---- a visible mount ----

new_run steal_after=60 max_failures=0 grace=2 low.memory=0 medium.memory=0 high.memory=0 agent.sandbox=none \
	agent.checkpoint_every=0 || exit
tasks 60 r >"$S/r.jsonl"
"$top/raser" submit "$RUN" "$S/r.jsonl" >/dev/null
"$top/raser" run "$RUN" --mount "$S/visible" --agents low=3 -- sh -c 'echo $$ >>"$RASER_RESULTS/pid"; sleep 0.4' \
	>"$S/out" 2>&1 &
run=$!
extra_pids+=("$run")
M=$S/visible
wait_until 20 mount_serves
super=$(awk '{ print $4 }' "/proc/$(background_pid)/stat")
ok "raser run: its raserfs has a supervisor" grep -q raserfs-super "/proc/$super/comm"
# both at once; the supervisor alone, then the daemon; the daemon alone
for how in both both orphan serving; do
	before=$(mount_owner)
	pid=$(background_pid)
	super=$(stat_field "$pid" 4)
	case $how in
	both) kill -KILL "$super" "$pid" ;;
	orphan)
		kill -KILL "$super"
		sleep 1.5 # longer than what is nobody's may live
		is "$(mount_owner)" "$before" "raser run: a daemon without its supervisor serves on"
		kill -KILL "$pid"
		;;
	serving) kill -KILL "$pid" ;;
	esac
	ok "raser run: kill -9 ($how), and it is mounted again" wait_until 10 mounted_again "$before"
	is "$(mount_height)" 1 "once"
	sleep 1.2
done
wait "$run"
is $? 0 "raser run goes on to the end"
like "$(cat "$S/out")" "60 of 60 tasks done" "with every task done"
like "$(cat "$S/out")" "raserfs    died and was mounted again 4 times" "and says how often"
like "$(cat "$S/out")" "raserfs died \([^ ]* \(pid [0-9]+\) was killed by signal 9\); mounted again as" "and when"
like "$(grep ^attempts "$S/out")" " 0 retried, 0 lost, [0-9]+ freed, 0 failed" "nothing is counted against a task"
is "$(find "$RUN/chain" -name '*.end' -exec readlink {} + | grep -c ':d:')" 60 "each accepted once"
is "$(cat "$RUN"/results/r*/out/pid | sort -u | wc -l)" 60 "by the agent that had begun it"
is "$(mount_height)" 0 "and nothing is left"

# ---- private to the run, and as somebody without any right ----

# serving BUT: who serves RUN, another than BUT; from outside of its namespace
serving() {
	local pid
	pid=$(awk '$1 == "pid" { print $2 }' "$RUN"/nodes/* 2>/dev/null) && is_pid "$pid" && [ "$pid" != "$1" ] &&
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = raserfs ] && echo "$pid"
}
private() { # private WHO COMMAND...: how it runs the tools
	local who=$1 run pid old super
	shift
	RUN=$S/$who
	"$@" "$S/bin/raser" init "$RUN" >/dev/null
	sed -i 's/^sandbox.*/sandbox = none/; s/^memory .*/memory = 0/; s/^wedged_after.*/wedged_after = 2/' \
		"$RUN/raser.ini"
	"$@" "$S/bin/raser" submit "$RUN" "$S/r.jsonl" >/dev/null
	"$@" "$S/bin/raser" run "$RUN" --agents low=4 -- sh -c 'echo $$ >>"$RASER_RESULTS/pid"; sleep 0.5' \
		>"$S/$who.out" 2>&1 &
	run=$!
	extra_pids+=("$run")
	wait_until 20 eval 'serving 0 >/dev/null'
	sleep 1
	old=$(serving 0)
	kill -KILL "$old"
	ok "$who: a private mount, kill -9" wait_until 10 eval "serving $old >/dev/null"
	sleep 1
	old=$(serving 0)
	super=$(stat_field "$old" 4)
	kill -KILL "$super" "$old"
	ok "$who: and of the supervisor as well" wait_until 10 eval "serving $old >/dev/null"
	sleep 1
	old=$(serving 0)
	is "$(grep -c " $(tr '\0' '\n' <"/proc/$old/cmdline" | tail -n 1) " "/proc/$old/mountinfo")" 1 "$who: one mount"
	kill -STOP "$old"
	ok "$who: a wedge" wait_until 20 eval "serving $old >/dev/null"
	wait "$run"
	is $? 0 "$who: the run goes on to its end"
	like "$(cat "$S/$who.out")" "60 of 60 tasks done.*mounted again 3 times" "$who: with every task done"
	is "$(cat "$RUN"/results/r*/out/pid | sort -u | wc -l)" 60 "$who: by 60 agents"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	mkdir "$S/bin"
	cp "$top/raser" "$top/raserfs" "$top/raser-agentd" "$S/bin/" # where any user can run them
	private root env
	if setpriv --reuid=65534 --regid=65534 --clear-groups unshare -Urm true 2>/dev/null; then
		restore+=("chmod $(stat -c %a /dev/fuse) /dev/fuse")
		chmod 666 /dev/fuse
		chmod 1777 "$S"
		private nobody setpriv --reuid=65534 --regid=65534 --clear-groups
	else
		skip 7 "no user namespaces"
	fi
else
	skip 14 "not root, or no mount namespaces"
fi
plan
