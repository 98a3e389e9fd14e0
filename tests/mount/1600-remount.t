#!/bin/bash
# 1600-remount.t - the mount dies under a working agent: the agent goes on, and its task is taken up
# again from the daemon that comes in its place.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

agentd=$top/raser-agentd
new_run steal_after=6 max_failures=0 grace=2 low.memory=0 medium.memory=0 high.memory=0 agent.sandbox=none \
	agent.checkpoint_every=0 || exit
mount_run m || exit
results=$RUN/results
has_attempt() { [ "$(xattr "$M/tasks/$1" attempt)" -ge "$2" ]; }
held() { [ "$(xattr "$M/tasks/$1" state)" = claimed ]; }
remount() {
	crash m
	detach "$scratch/m"
	mount_run m
}

start() {
	"$agentd" --tier "${1-low}" "$M" -- bash "$scratch/agent.sh" 2>>"$scratch/agentd.log" &
	pid=$!
	extra_pids+=("$pid")
}

# shellcheck disable=SC2016 # the agent's shell expands it
printf '%s\n' 'echo "$$ $RASER_ATTEMPT" >>"'"$scratch"'/starts"
while [ ! -e "'"$scratch"'/go" ]; do sleep 0.05; done; echo answer >"$RASER_RESULTS/answer"' >"$scratch/agent.sh"
one t
start
ok "an agent works" wait_until 10 exists "$scratch/starts"
remount
ok "kill -9 of raserfs, and a new one" true
t0=$(now_ms)
ok "the task is claimed again" wait_until 15 eval 'has_attempt t 2 && held t'
below $(($(now_ms) - t0)) 5000 "soon"
is "$(xattr "$M/leases/t@2" agent)" "raser-agentd[$pid]" "by the same agentd"
is "$(wc -l <"$scratch/starts")" 1 "with the agent that runs"
remount
ok "twice" wait_until 15 eval 'has_attempt t 3 && held t'
touch "$scratch/go"
wait "$pid"
is $? 0 "and it goes on to the end of the queue"
is "$(xattr "$M/tasks/t" state)/$(xattr "$M/tasks/t" failures)" "done/0" "the task is done, without a failure"
is "$(cat "$results/t/out/answer")" answer "the result is the agent's"
is "$(wc -l <"$scratch/starts")" 1 "who was started once"
is "$(find "$RUN/chain" -name 't@*.end' -exec readlink {} + | grep -c ':d:')" 1 "accepted once"
is "$(cd "$results" && cat t@3.*/out/answer)" answer "the folder is found under the last number, too"

# it ends while there is no mount
rm -f "$scratch/go" "$scratch/starts"
one u
start
ok "another one works" wait_until 10 exists "$scratch/starts"
crash m
touch "$scratch/go"
ok "its end waits for the mount" wait_until 10 grep -q "task u@1: its end is not taken yet" "$scratch/agentd.log"
detach "$scratch/m"
mount_run m
wait "$pid"
is $? 0 "and is taken by the next daemon"
is "$(xattr "$M/tasks/u" state)/$(xattr "$M/tasks/u" failures)" "done/0" "done"

# it ends, and the daemon dies before it can say so
shim=(env "LD_PRELOAD=$top/tests/slowdisk.so" "SLOWDISK=$scratch/rules"
	"ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}")
for how in 0 3; do
	rm -f "$scratch/go" "$scratch/starts"
	: >"$scratch/rules"
	unmount m
	wrap=("${shim[@]}")
	mount_run m
	wrap=()
	printf '%s\n' "echo >>$scratch/starts; while [ ! -e $scratch/go ]; do sleep 0.05; done" \
		'[ "$RASER_ATTEMPT" -lt 2 ] || exit 0' "exit $how" >"$scratch/agent.sh"
	one "w$how"
	start medium
	ok "another one works" wait_until 10 exists "$scratch/starts"
	echo 'fsync * 5000 -' >"$scratch/rules"
	touch "$scratch/go"
	ok "its end stands" wait_until 10 eval '[ -n "$(find "$RUN/chain" -name "w$how@1.end")" ]'
	remount
	wait "$pid"
	is $? 0 "but nobody has said so"
	is "$(xattr "$M/tasks/w$how" state)/$(xattr "$M/tasks/w$how" failures)" "done/$((how > 0))" "it counts once"
	is "$(cd "$results" && readlink "w$how" | cut -d . -f 1)" "w$how@$((how > 0 ? 2 : 1))" "its result is found"
done

# somebody was faster
printf '%s\n' 'echo "$$ $RASER_ATTEMPT" >>"'"$scratch"'/starts"
while [ ! -e "'"$scratch"'/go" ]; do sleep 0.05; done' >"$scratch/agent.sh"
rm -f "$scratch/go" "$scratch/starts"
one v
start
ok "a third one works" wait_until 10 exists "$scratch/starts"
agent=$(cut -d ' ' -f 1 "$scratch/starts")
kill -STOP "$pid"
remount
ok "the next attempt is free" wait_until 10 exists "$M/queue/low/v@2"
take thief "$M/queue/low/v@2"
kill -CONT "$pid"
ok "whose task another has is stopped" wait_until 10 dead "$agent"
is "$(xattr "$M/tasks/v" attempt)" 2 "and takes nothing away"
is "$(ask thief "write done")" ok "from the thief, who ends it"
wait "$pid"
is $? 0 "agentd goes on"

unmount m
plan
