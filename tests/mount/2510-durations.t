#!/bin/bash
# 2510-durations.t - what tasks took, learned from a run and told to the next: raser export --durations,
# raser submit and init --durations, and the longest is claimed first.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
cd "$scratch" || exit

# ---- from one run to the next ----

new_run steal_after=6 low.memory=0 || exit
# shellcheck disable=SC2016 # the agent's shell expands it
agent='read -r task; s=${task##*span\":}; sleep "${s%%[,\}]*}"'
cat >tasks.jsonl <<'E2'
{"id":"short","span":0.1}
{"id":"a/long","span":1.3}
{"id":"middle","span":0.7}
{"id":"unknown","span":0}
{"id":"told","span":0.4,"expected":60}
E2
grep -v unknown tasks.jsonl | "$raser" submit "$RUN" - >/dev/null
"$raser" run "$RUN" --agents low=2 --sandbox none -- sh -c "$agent" >run.out 2>&1
is $? 0 "a run"
"$raser" export "$RUN" --durations >table
is "$(cut -f 1 table | tr '\n' ' ')" "a%2Flong middle short told " "each task has a line, by its name"
is "$(awk -F'\t' '{ s = $1 == "short" ? 0.1 : $1 == "middle" ? 0.7 : $1 == "told" ? 0.4 : 1.3
	if ($2 < s || $2 > s + 1 || NF != 2) print }' table)" "" "with the seconds that it took"

# claims N: the names that N opens of `next` give, in their order
claims() {
	local i
	for ((i = 0; i < $1; i++)); do head -n 1 "$M/queue/low/next" | sed 's/.*leases.//'; done | xargs
}
new_run || exit
is "$("$raser" submit --durations table "$RUN" tasks.jsonl)" "5 tasks taken, 0 were there already" "submit --durations"
mount_run second || exit
is "$(xattr "$M/tasks/a%2Flong" expected) $(xattr "$M/tasks/short" expected)" "2 1" "whole seconds, rounded up"
is "$(xattr "$M/tasks/told" expected)" 60 "what a task says itself counts"
is "$(claims 5)" "told@1 a%2Flong@1 short@1 middle@1 unknown@1" "the longest expected is claimed first"
unmount second

# a table of another kind; the last line of a task counts; ids and names
printf 'task\tspan_s\nshort\t1\na/long\t5\nmiddle\t9\nshort\t7\n' >other
new_run || exit
mount_run third || exit
is "$("$raser" submit "$M" --durations other tasks.jsonl)" "5 tasks taken, 0 were there already" "into a mount"
is "$(claims 5)" "told@1 middle@1 short@1 a%2Flong@1 unknown@1" "which claims in that order"
unmount third

# a plugin's tasks
cat >plugin <<'E2'
#!/bin/sh
[ "$1" != get_tasks ] || cat "$TASKS"
E2
chmod +x plugin
export TASKS=$scratch/tasks.jsonl
"$raser" init --force plain --durations other --plugin ./plugin >/dev/null 2>&1
is $? 2 "the directory comes first"
like "$("$raser" init plugged --force --durations other --plugin ./plugin)" "5 tasks taken" "init --durations"
RUN=$scratch/plugged
mount_run fourth || exit
is "$(claims 3)" "told@1 middle@1 short@1" "and its tasks in that order"
unmount fourth

# ---- of attempts that were resumed, and of tasks that are not done ----

"$raser" init hand >/dev/null
# record FOLDER STARTED ENDED VERB [MORE]
record() {
	mkdir "hand/results/$1"
	printf '{"task":"%s","attempt":%d,"owner":"h.%s","host":"h","agentd":1,"started":%s,"ended":%s,"verb":"%s"%s}\n' \
		"${1%@*}" "$(cut -d @ -f 2 <<<"$1" | cut -d . -f 1)" "${1##*.}" "$2" "$3" "$4" "${5:+,$5}" \
		>"hand/results/$1/attempt.json"
}
# 10 s up to its checkpoint, 5 s more of which nothing is left; 4 s of work after a second of restoring;
# 6 s of work after half a second
record chain@1.o1 1000 1015 "retry crash"
record chain@2.o2 1020 1025 "free preempted" '"restored":"1.o1-3.x.tar.zst","restored_taken":1010,"restore_seconds":1,"lost_seconds":5'
record chain@3.o3 1030 1036.5 "done" '"restored":"2.o2-1.x.tar.zst","restored_taken":1025,"restore_seconds":0.5,"lost_seconds":0'
# nothing was kept: only the last counts
record again@1.o1 1000 1099 "lost"
record again@2.o1 1200 1207 "done"
# its longest is a bound from below
record open@1.o1 1000 1012 "retry exit"
record open@2.o2 1020 1023 "retry exit"
is "$("$raser" export hand --durations | tr '\t\n' ' ;')" "again 7.000;chain 20.000;open 12.000 least;" \
	"work that an end shows, nothing of it twice; or the longest attempt of what is not done"

# ---- mistakes ----

like "$("$raser" submit hand --durations nosuch tasks.jsonl 2>&1)" "nosuch: No such file" "no table"
like "$("$raser" submit hand --durations tasks.jsonl tasks.jsonl 2>&1)" "no column for the task's id" "none that is one"
like "$("$raser" status hand)" "tasks 0 in 0 batches" "and nothing was submitted"
like "$("$raser" init none --durations nosuch --plugin ./plugin 2>&1)" "nosuch: No such file" "nor is a run made"
nok "indeed" exists none
like "$("$raser" init none --durations other 2>&1)" "of use with --plugin" "without a plugin there is nothing to tell it to"

plan
