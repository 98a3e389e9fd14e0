#!/bin/bash
# 1100-run.t - raser run: mount, agents, progress, summary, exit status; on nothing but a directory.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser

new_run steal_after=2 low.memory=0 medium.memory=0 high.memory=0 max_failures=3
tasks 30 t >"$scratch/t.jsonl"
is "$("$raser" submit "$RUN" "$scratch/t.jsonl")" "30 tasks taken, 0 were there already" \
	"raser submit on a run directory"
out=$("$raser" run "$RUN" --agents low=2,medium=1,high=1 -- sh -c 'sleep 0.05' 2>&1)
is $? 0 "raser run: every task is done, exit 0"
like "$out" "30 of 30 tasks done, 0 failed, 0 cancelled, 0 left" "the summary"
like "$out" "makespan +[0-9.]+ s" "with its makespan"
like "$out" "agents +4, at work [0-9]+ %" "and how busy the agents were"
like "$out" "mounted for this run only" "mounted where nobody else sees it"
is "$(grep -c 'raser-run' /proc/self/mountinfo)" 0 "which is gone with it"
is "$(find "$RUN/nodes" -type f | wc -l)" 0 "its daemon has said good-bye"
like "$("$raser" status "$RUN")" "done 30" "raser status on the run directory"

# failures, and a hand beside
# fewer than would make the node pause
tasks 2 bad >"$scratch/bad.jsonl"
"$raser" submit "$RUN" "$scratch/bad.jsonl" >/dev/null
out=$("$raser" run "$RUN" --agents low=1,high=1 --beside \
	"ls \"\$RASER_MOUNT/queue\" >$scratch/beside" -- sh -c 'echo sorry; exit 1' 2>&1)
is $? 1 "tasks that failed: exit 1"
like "$out" "30 of 32 tasks done, 2 failed" "they are counted"
like "$out" "bad[0-9]@1 retry exit, moves up to medium: status 1: sorry" "what moved up, and why"
is "$(tr '\n' ' ' <"$scratch/beside")" "high low medium " "--beside runs in the mount's namespace"
is "$("$raser" retry "$RUN" --all)" "2 pending again" "raser retry --all"
is "$("$raser" cancel "$RUN" bad1 bad2)" "2 cancelled" "raser cancel"
like "$("$raser" cancel "$RUN" t1 2>&1)" "t1: it is done or failed, and that is final" "done is final"
like "$("$raser" retry "$RUN" nosuch 2>&1)" "nosuch: it is neither failed nor cancelled" "no such task"

# agents that are killed come back, and a run that is interrupted gives its tasks back
tasks 2 long | "$raser" submit "$RUN" - >/dev/null
# shellcheck disable=SC2016 # the agent's shell expands it
"$raser" run "$RUN" --mount "$scratch/mnt" --agents high=2 -- \
	sh -c '[ "$RASER_ATTEMPT" -gt 5 ] || sleep 100' >"$scratch/out" 2>&1 &
run=$!
extra_pids+=("$run")
M=$scratch/mnt
ok "--mount: visible" wait_until 20 exists "$M/status"
ok "two at work" wait_until 20 has_count "$M/leases" 2
lease=$(names "$M/leases" | cut -d ' ' -f 1)
kill -KILL "$(sed -n 's/^agent raser-agentd\[\([0-9]*\)\]$/\1/p' "$M/leases/$lease")"
ok "a killed agent's task is free, and another agent comes" wait_until 20 gone "$M/leases/$lease"
ok "two at work again" wait_until 20 has_count "$M/leases" 2
kill -TERM "$run"
wait "$run"
is $? 99 "SIGTERM: exit 99"
like "$("$raser" status "$RUN")" "claimed 0" "the tasks are given back"
is "$(grep -c "$M" /proc/self/mountinfo)" 0 "and the mount is gone"

# as somebody without any right
if [ "$(id -u)" = 0 ] && [ -w /dev/fuse ]; then
	mode=$(stat -c %a /dev/fuse)
	restore+=("chmod $mode /dev/fuse")
	chmod 666 /dev/fuse
	chmod 1777 "$scratch"
	nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	run=$scratch/nobody
	"${nobody[@]}" "$raser" init "$run" >/dev/null
	tasks 5 n | "${nobody[@]}" "$raser" submit "$run" - >/dev/null
	out=$("${nobody[@]}" "$raser" run "$run" --agents low=1 -- sh -c 'id -u >"$RASER_RESULTS/id"' 2>&1)
	is $? 0 "raser run without any right"
	like "$out" "5 of 5 tasks done" "does its work"
	is "$(cat "$run"/results/n1/out/id)" 65534 "as the user it is"
else
	skip 3 "not root: the rest of the test is that case"
fi

# a raserfs that does not come to mount: a signal ends the wait
mkdir "$scratch/still" "$scratch/local"
cp "$raser" "$scratch/still"
printf '#!/bin/sh\nexec sleep 1000\n' >"$scratch/still/raserfs"
chmod +x "$scratch/still/raserfs"
TMPDIR=$scratch/local "$scratch/still/raser" run "$RUN" -- true >"$scratch/waits" 2>&1 &
waits=$!
extra_pids+=("$waits")
ok "raser run says what it waits for" wait_until 20 grep -q "waiting for raserfs to mount $RUN" "$scratch/waits"
kill -TERM "$waits"
wait "$waits"
is $? 99 "and a signal ends that"
like "$(cat "$scratch/waits")" "stopped before $RUN was mounted" "in a sentence"
is "$(ls -A "$scratch/local")" "" "with nothing left"

# messages
like "$("$raser" run "$scratch" -- true 2>&1)" "neither a run directory nor a mount" "no run directory"
like "$("$raser" run "$RUN" --agents low -- true 2>&1)" "write TIER=NUMBER" "bad --agents"
"$raser" run "$RUN" >/dev/null 2>&1
is $? 2 "no command: usage"
mount_run dead
kill_hard "${daemon[dead]}"
like "$("$raser" status "$M" 2>&1)" "daemon of this mount is dead; raserfs RUN $M mounts it again" "a dead mount"
like "$("$raser" frobnicate 2>&1)" "there is no verb frobnicate" "an unknown verb"

plan
