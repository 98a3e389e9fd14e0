#!/bin/bash
# 1000-agentd.t - the agent's daemon: exit codes, limits, results, signals, and that nothing of an
# agent is left behind, however it ends.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

new_run steal_after=30 max_failures=3 retry_delay=0.5 low.memory=0 medium.memory=0 \
	high.memory=200M grace=1 agent.sandbox=none || exit
mount_run m || exit
agentd=$top/raser-agentd
results=$RUN/results

# run_agent TIER SCRIPT: an agentd until it ends; its status
run_agent() {
	printf '%s\n' "$2" >"$scratch/agent.sh"
	"$agentd" --tier "$1" "$M" -- bash "$scratch/agent.sh" 2>>"$scratch/agentd.log"
}

# start_agent TIER SCRIPT: the same in the background, as $agent
start_agent() {
	printf '%s\n' "$2" >"$scratch/agent$RANDOM.sh"
	"$agentd" --tier "$1" "$M" -- bash "$(ls -t "$scratch"/agent*.sh | head -n 1)" \
		2>>"$scratch/agentd.log" &
	agent=$!
	extra_pids+=("$agent")
}

state() { echo "$(xattr "$M/tasks/$1" state) $(xattr "$M/tasks/$1" failures) $(xattr "$M/tasks/$1" reason)"; }
has_state() { [ "$(xattr "$M/tasks/$1" state)" = "$2" ]; }
has_attempt() { [ "$(xattr "$M/tasks/$1" attempt)" -ge "$2" ]; }

# ---- what an agent gets ----

one env '"x":[1, 2]'
# shellcheck disable=SC2016 # the agent's shell expands it
run_agent low 'cat; echo; cat "$RASER_TASK_FILE"; echo
echo "$RASER_TASK_ID $RASER_ATTEMPT $RASER_FAILURES $RASER_TIER"
[ "$PWD" = "$RASER_WORKSPACE" ] && echo own; touch here; echo kept >"$RASER_RESULTS/file"
[ "$(ps -o sid= -p $$)" -eq $$ ] && echo session'
is $? 0 "a drained queue ends agentd with 0"
is "$(state env)" "done 0 " "exit 0 is done"
log=$results/env/output.log
is "$(sed -n 1p "$log")" '{"id":"env","x":[1, 2]}' "the payload is on its stdin"
is "$(sed -n 2p "$log")" '{"id":"env","x":[1, 2]}' "and in RASER_TASK_FILE"
is "$(sed -n 3p "$log")" "env 1 0 low" "the environment tells the task"
is "$(sed -n 4,5p "$log" | tr '\n' ' ')" "own session " "its workspace and session are its own"
is "$(cat "$results/env/out/file")" kept "RASER_RESULTS is kept"
like "$(readlink "$results/env")" '^env@1\.[a-z2-7]{12}$' "results/T points to the accepted attempt"
is "$(jq -r '[.task, .attempt, .verb, .exit] | join(" ")' "$results/env/attempt.json")" \
	"env 1 done 0" "its record"
is "$(find "$TMPDIR" -name 'raser-agent.*' | wc -l)" 0 "the workspace is gone"

# ---- exit codes ----

# shellcheck disable=SC2016
codes='case $RASER_TASK_ID.$RASER_ATTEMPT in
final.*) echo "no hope"; exit 65;;
busy.1) exit 75;; busy.*) exit 0;;
preempted.1) exit 99;; preempted.*) exit 0;;
bad.*) echo "did not work"; exit 3;;
signal.1) kill -SEGV $$;; signal.*) exit 0;;
hungry.*) python3 -c "
x = []
while True: x.append(bytearray(1 << 20))" ;;
esac'
for t in final busy preempted bad signal hungry; do one $t; done
run_agent high "$codes"
is $? 0 "and so on until drained"
is "$(state final)" "failed 0 verdict" "65 is failed for good"
is "$(state busy)" "done 0 " "75 is offered again"
is "$(xattr "$M/tasks/busy" attempt)" 2 "after a while"
is "$(state preempted)" "done 0 " "99 is offered again and counts nothing"
is "$(state bad)" "failed 3 exit" "another status is retried up to max_failures"
is "$(state signal)" "done 1 " "a signal counts one failure"
is "$(state hungry)" "failed 3 oom" "memory beyond the tier's limit is told apart"
like "$(grep 'bad@3' "$M/events" | tail -n 1)" "did not work" "the last words are in the events"
is "$(jq -r .signal "$results"/signal@1.*/attempt.json)" 11 "and the signal in the record"

# ---- a command that is not there is the node's fault ----

one nocmd
printf '#!/no/such/interpreter\n' >"$scratch/nocmd"
chmod +x "$scratch/nocmd"
"$agentd" --tier low "$M" -- "$scratch/nocmd" 2>>"$scratch/agentd.log" &
extra_pids+=($!)
ok "a command that cannot be started is tried again" wait_until 20 has_attempt nocmd 3
is "$(xattr "$M/tasks/nocmd" failures)" 0 "and counts nothing"
kill -TERM "${extra_pids[-1]}"
wait "${extra_pids[-1]}"
is $? 99 "SIGTERM: exit 99"
ok "cancelled" mv "$M/pending/nocmd" "$M/cancelled/nocmd"

# ---- SIGTERM ----

one polite
# shellcheck disable=SC2016
start_agent low 'trap "echo saved; exit 99" TERM; touch "$RASER_RESULTS/up"; while :; do sleep 0.05; done'
ok "it works" wait_until 10 eval 'ls "$results"/polite@1.*/out/up'
kill -TERM "$agent"
wait "$agent"
is $? 99 "SIGTERM: exit 99"
is "$(state polite)" "pending 0 preempted" "the task is given back"
like "$(cat "$results"/polite@1.*/output.log)" "saved" "the agent had its grace"

# a tree that does not listen, with a part in a session of its own
# shellcheck disable=SC2016
stubborn='trap "" TERM; setsid bash -c "trap \"\" TERM; echo \$\$ >\"\$RASER_RESULTS/deep\"
while :; do sleep 0.05; done" & while :; do sleep 0.05; done'
start_agent low "$stubborn"
ok "its tree is up" wait_until 10 eval 'ls "$results"/polite@2.*/out/deep'
deep=$(cat "$results"/polite@2.*/out/deep)
kill -TERM "$agent"
wait "$agent"
is $? 99 "SIGTERM to a stubborn tree: exit 99"
ok "nothing of it is left" dead "$deep"
is "$(state polite)" "pending 0 preempted" "and the task is given back"

# ---- kill -9 ----

start_agent low "$stubborn"
ok "its tree is up" wait_until 10 eval 'ls "$results"/polite@3.*/out/deep'
deep=$(cat "$results"/polite@3.*/out/deep)
kill -KILL "$agent"
t0=$(now_ms)
ok "kill -9 of agentd: the task is free" wait_until 10 has_attempt polite 4
below $(($(now_ms) - t0)) 1500 "in no time"
is "$(state polite)" "pending 1 crash" "as a crash"
ok "and nothing of the agent is left" wait_until 10 dead "$deep"
ok "nor its workspace" wait_until 10 eval '[ "$(find "$TMPDIR" -name "raser-agent.*" | wc -l)" = 0 ]'

# the guard is killed: agentd ends the tree itself
# shellcheck disable=SC2016
start_agent high 'setsid bash -c "echo \$\$ >\"\$RASER_RESULTS/deep\"; while :; do sleep 0.05; done" &
while [ "$RASER_ATTEMPT" = 4 ]; do sleep 0.05; done'
ok "a tree is up" wait_until 10 eval 'ls "$results"/polite@4.*/out/deep'
deep=$(cat "$results"/polite@4.*/out/deep)
kill -KILL "$(pgrep -P "$agent" -f . | head -n 1)"
ok "kill -9 of the guard: the task ends" wait_until 10 has_attempt polite 5
ok "and nothing is left" wait_until 10 dead "$deep"
wait "$agent"
is $? 0 "agentd goes on and drains"
is "$(state polite)" "done 2 " "and the next attempt is done, what it left behind is killed"
is "$(pgrep -r R,S,D,T -f "raser-agentd .*$M " | wc -l)" 0 "no guard is left"

# ---- a claim that is lost ----

one lost
# shellcheck disable=SC2016
start_agent low '[ "$RASER_ATTEMPT" = 2 ] && exit 0
echo $$ >"$RASER_RESULTS/pid"; while :; do sleep 0.05; done'
ok "it works" wait_until 10 eval 'ls "$results"/lost@1.*/out/pid'
pid=$(cat "$results"/lost@1.*/out/pid)
rm "$M/leases/lost@1"
ok "a deleted lease: its agent is ended by the next heartbeat" wait_until 15 dead "$pid"
wait "$agent"
is "$(state lost)" "done 0 " "the task is done by the next attempt"
is "$(xattr "$M/tasks/lost" attempt)" 2 "which is its second"
is "$(jq -r .verb "$results"/lost@1.*/attempt.json)" lost "the record of the first says why"

# ---- agents that do harm ----

# into a file of 30 MB, and a log of 1 MB: should they not be held back, the machine must live
# shellcheck disable=SC2016
flood='ulimit -f 30000; touch "$RASER_RESULTS/up"; yes nonsense >>"$RASER_CONTROL" 2>/dev/null; '
one flood
t0=$(now_ms)
printf '%s\n' "$flood exit 65" >"$scratch/agent.sh"
timeout -s KILL 60 "$agentd" --tier low "$M" -- bash "$scratch/agent.sh" 2>&1 | head -c 1000000 >"$scratch/flood.log"
is "$(state flood)" "failed 0 verdict" "an agent that fills RASER_CONTROL ends as it says"
below $(($(now_ms) - t0)) 15000 "when it says"
is "$(grep -c "flood@1: RASER_CONTROL" "$scratch/flood.log")" 10 "and does not fill the log"

# shellcheck disable=SC2016
one stopped
start_agent high 'kill -STOP $PPID; exit 65'
ok "an agent that stops its guard ends as well" wait_until 30 has_state stopped failed
is "$(state stopped)" "failed 0 verdict" "as it says"
pkill -CONT -P "$agent" -x raser-guard
wait "$agent"
# shellcheck disable=SC2016
one stopped2
start_agent low 'guard=$PPID; trap "kill -STOP $guard" TERM; touch "$RASER_RESULTS/up"
while :; do sleep 0.05; done'
ok "one that stops it at its SIGTERM" wait_until 10 eval 'ls "$results"/stopped2@1.*/out/up'
kill -TERM "$agent"
ok "is ended" wait_until 15 dead "$agent"
pkill -CONT -P "$agent" -x raser-guard
wait "$agent"
is $? 99 "and given back"
ok "cancelled" mv "$M/pending/stopped2" "$M/cancelled/stopped2"

# whoever kills what makes its results durable does not undo a finished task
one synced
# shellcheck disable=SC2016
start_agent low 'for i in $(seq 3000); do echo x >"$RASER_RESULTS/f$i"; done'
job=
while alive "$agent" && [ -z "$job" ]; do
	job=$(pgrep -P "$agent" -x raser-job) && kill -KILL "$job"
done
wait "$agent"
is "$(state synced)/$(xattr "$M/tasks/synced" attempt)" "done 0 /1" "a job that syncs is killed: it is done again, the task is not"

one deep
run_agent low 'python3 -c "
import os
for i in range(400):
    os.mkdir(\"directory-%010d\" % i)
    os.chdir(\"directory-%010d\" % i)
open(\"file\", \"w\").close()
os.chmod(\"..\", 0)"'
is "$(state deep)" "done 0 " "a workspace with paths that are too long for the kernel"
is "$(find "$TMPDIR" -maxdepth 1 -name 'raser-agent.*' | wc -l)" 0 "is removed"

# ---- messages ----

one closed
# what is opened first must not become standard error
"$agentd" --tier low "$M" -- bash -c 'exec 2>/dev/null; ls -l "/proc/$(cut -d " " -f 4 "/proc/$PPID/stat")/fd"' \
	0<&- 1>&- 2>&-
is "$(state closed)" "done 0 " "agentd without standard input, output and error"
is "$(awk '$(NF - 2) <= 2 { print $NF }' "$results/closed/output.log" | sort -u)" /dev/null \
	"says nothing into the files that it opens"

like "$("$agentd" --tier nosuch "$M" -- true 2>&1)" "no mount of raserfs with a tier nosuch" "an unknown tier"
like "$("$agentd" --tier low "$scratch" -- true 2>&1)" "no mount of raserfs" "no mount"
"$agentd" "$M" >/dev/null 2>&1
is $? 2 "no command: usage"
like "$("$agentd" --tier low "$M" -- ./no-such-agent 2>&1)" "./no-such-agent: No such file" "no such command"
one relative
printf '#!/bin/sh\ncat >/dev/null; touch "$RASER_LEASE" && echo "$0"\n' >"$scratch/here"
chmod +x "$scratch/here"
(cd "$scratch" && "$agentd" --tier low m -- ./here 2>>agentd.log)
is "$(state relative)" "done 0 " "a relative command and a relative mount mean the same to the agent"
one bytes
run_agent low 'printf "\\377\\376 odd\\n"; exit 65'
is "$(jq -r .last_output "$results"/bytes@1.*/attempt.json)" "?? odd" "output that is no text has a record"

unmount m
plan
