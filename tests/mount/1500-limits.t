#!/bin/bash
# 1500-limits.t - who hangs, runs in circles or takes too long is ended with its reason; who works,
# waits for a model, or says that it is parked is left alone. What agents say, and their records.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

agentd=$top/raser-agentd
new_run steal_after=6 max_failures=1 retry_delay=0.3 grace=2 low.memory=0 medium.memory=0 high.memory=0 \
	agent.sandbox=none agent.hang_after=2 agent.checkpoint_every=0 || exit
mount_run m || exit
results=$RUN/results
evidence() { xattr "$M/tasks/$1" evidence; }
state() { echo "$(xattr "$M/tasks/$1" state) $(xattr "$M/tasks/$1" reason)"; }

# together NAME SCRIPT...: all at once, an agentd each; they take as long as the slowest
declare -A script=()
together() {
	local name i=0
	for name in "${!script[@]}"; do
		printf '%s\n' "${script[$name]}" >"$scratch/do.$name"
		printf '{"id":"%s"}\n' "$name"
		i=$((i + 1))
	done >"$M/new/all"
	local pids=() n
	# shellcheck disable=SC2016 # the agent's shell expands it
	for ((n = 0; n < i; n++)); do
		"$agentd" --tier low "$M" -- bash -c '. "'"$scratch"'/do.$RASER_TASK_ID"' 2>>"$scratch/agentd.log" &
		pids+=($!)
		extra_pids+=($!)
	done
	wait "${pids[@]}"
}

# shellcheck disable=SC2016 # the agent's shell expands it
{
	script[hung]='echo started; exec sleep 100'
	# a loop that only looks for something is hung, too: waiting programs do as much
	script[polling]='exec python3 -c "import time, os
[(time.sleep(0.1), os.path.exists(str(i))) for i in range(1000)]"'
	script[busy]='end=$((SECONDS + 6)); while [ $SECONDS -lt $end ]; do :; done'
	script[writing]='for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i; sleep 0.5; done'
	script[reading]='for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/zero of=/dev/null bs=1k count=64 2>/dev/null; sleep 0.5; done'
	script[parked]='echo "parked +5 rate limit" >>"$RASER_CONTROL"; sleep 6; echo ok'
	script[stillparked]='echo "parked $(($(date +%s) + 3))" >>"$RASER_CONTROL"; exec sleep 100'
	script[patient]='echo "set hang_after 8" >>"$RASER_CONTROL"; sleep 5'
	script[steps]='echo "set max_steps 3" >>"$RASER_CONTROL"
		while :; do echo "step {\"kind\": \"tool\", \"ok\": false}" >>"$RASER_CONTROL"; sleep 0.3; done'
	script[circles]='echo "set progress_after 2" >>"$RASER_CONTROL"; while :; do echo talk; sleep 0.2; done'
	script[progress]='echo "set progress_after 2" >>"$RASER_CONTROL"
		for i in 1 2 3 4 5; do echo "progress $i" >>"$RASER_CONTROL"; echo talk; sleep 1; done'
	script[nonsense]='echo "dance" >>"$RASER_CONTROL"; head -c 100000 /dev/zero | tr "\0" x >>"$RASER_CONTROL"; echo >>"$RASER_CONTROL"
		echo "step nothing" >>"$RASER_CONTROL"; echo "step {\"kind\":\"model\",\"tokens\":7,\"seconds\":0.5}" >>"$RASER_CONTROL"; sleep 0.5'
	script[finishes]='echo "set progress_after 1" >>"$RASER_CONTROL"; trap "echo finished in time; exit 0" TERM; while :; do sleep 0.1; done'
}
together
is "$(state hung)" "failed hung" "who does nothing is hung"
like "$(evidence hung)" "no CPU time, I/O or output for [2-9] s: started" "and the evidence says so, with its last words"
is "$(state polling)" "failed hung" "who only looks again and again is hung"
for t in busy writing reading; do is "$(state $t)" "done " "who is $t is not"; done
is "$(state parked)" "done " "nor who is parked"
is "$(state stillparked)" "failed hung" "until its time is over"
is "$(state patient)" "done " "an agent may set a limit of its own"
is "$(state steps)" "failed looping" "too many steps: looping"
like "$(evidence steps)" "^4 steps and not done" "with their number"
is "$(state circles)" "failed looping" "talk is no progress"
is "$(state progress)" "done " "progress is"
is "$(state nonsense)" "done " "nonsense in RASER_CONTROL hurts nobody"
like "$(cat "$scratch/agentd.log")" "task nonsense@1: RASER_CONTROL: a line is not understood: it is none of" "and is told"
is "$(jq -c '[.step, .kind, .tokens, .attempt]' "$results/nonsense/trajectory.jsonl")" '[1,"model",7,1]' \
	"a step is recorded behind it"
is "$(state finishes)" "done " "who ends well in the grace is done"
is "$(jq -r '.sandbox, .state, .steps' "$(echo "$results"/steps@1.*/attempt.json)" | tr '\n' ' ')" \
	"none ended 4 " "the record tells sandbox, state and steps"
like "$(cat "$M/report.html")" "<td>steps</td><td>1</td><td class=\"text\">looping 4 steps" "the report lists failed tasks with their evidence"

# what was said of an end is over with the next state
ok "a failed task is tried again" "$top/raser" retry "$M" steps
is "$(evidence steps)" "" "then nothing is said of it any more"
is "$("$top/raser" cancel "$M" steps)" "1 cancelled" "(and cancelled)"

# ---- time ----

unmount m
new_run steal_after=6 max_failures=1 grace=2 low.memory=0 medium.memory=0 high.memory=0 agent.sandbox=none \
	agent.time_limit=1.5 agent.checkpoint_every=0 || exit
mount_run m || exit
results=$RUN/results
script=()
# shellcheck disable=SC2016
{
	script[endless]='echo "$RASER_DEADLINE" >"$RASER_RESULTS/deadline"; date +%s >>"$RASER_RESULTS/deadline"; while :; do echo x; sleep 0.1; done'
	script[quick]='sleep 0.5'
}
together
is "$(state endless)" "failed timeout" "over its time: timeout"
like "$(evidence endless)" "over its time limit of 2 s" "which the evidence tells"
is "$(state quick)" "done " "who is quicker is done"
d=$(awk 'NR == 1 { a = $1 } NR == 2 { print a - $1 }' "$(echo "$results"/endless@1.*/out/deadline)")
like "$d" '^[12]$' "the agent knew its deadline"

# ---- what a lease shows ----

one shown
# shellcheck disable=SC2016
printf '%s\n' 'echo "step {\"kind\":\"model\"}" >>"$RASER_CONTROL"; for i in $(seq 12); do echo $i; sleep 0.1; done' >"$scratch/do.shown"
# shellcheck disable=SC2016
"$agentd" --tier low "$M" -- bash -c '. "'"$scratch"'/do.$RASER_TASK_ID"' 2>>"$scratch/agentd.log" &
extra_pids+=($!)
ok "the lease shows what the agent does" wait_until 10 grep -qE \
	'^activity active [0-9]+ s ago, 1 steps, cpu [0-9.]+ s, [0-9]+ MB, [1-9] processes' "$M/leases/shown@1"
wait "$!"

# ---- export ----

is "$("$top/raser" export "$RUN" | jq -r .task | sort | tr '\n' ' ')" "endless quick shown " "raser export: every attempt"
is "$("$top/raser" export "$RUN" --steps | jq -r '[.task, .step, .kind] | join(" ")')" "shown 1 model" "raser export --steps: those of accepted ones"
nok "an unknown option" "$top/raser" export "$RUN" --nonsense 2>/dev/null

unmount m
plan
