#!/bin/bash
# replay.t - recorded runs as tasks; a trajectory that is killed at every step goes on there.
# shellcheck source=tests/plugins/plugin.sh
. "$(dirname "$0")/plugin.sh"

plugin=$top/plugins/replay/replay
data=$src/plugins/replay
[ -x "$plugin" ] || skip_all "$plugin is not built"
need_killat
command -v jq >/dev/null || skip_all "jq is not installed"

# ---- get_tasks ----

spans=$("$plugin" 60 16 "$data/lite60.tsv" get_tasks)
is $? 0 "get_tasks of spans"
is "$(jq -rs 'length, (map(.span) | add), (map(.peak_mb) | add)' <<<"$spans" | tr '\n' ' ')" \
	"$(awk -F'\t' 'NR > 1 { n++; s += $2; m += $4 } END { print n, s, m, "" }' "$data/lite60.tsv")" \
	"all of the table"
steps=$("$plugin" 60 16 "$data/steps.tsv" get_tasks)
is "$? $(wc -l <<<"$steps")" "0 5" "get_tasks of steps"
is "$(jq -r '"\(.replies | length) \(.observations | length) \(.gaps | length + 1)"' <<<"$steps" | sort -u | awk '$1 != $2 || $2 != $3' | wc -l)" \
	0 "as many gaps, replies and observations as there are steps"
is "$(jq -r '.gaps | map(tostring) | join(",")' <<<"$steps" | cksum)" \
	"$(awk -F'\t' 'NR > 1 { print $3 }' "$data/steps.tsv" | cksum)" "the gaps are those of the table"
like "$("$plugin" 60 16 "$data/nosuch.tsv" get_tasks 2>&1)" "nosuch.tsv: No such file" "no such table"
is "$("$plugin" 60 16 "$data/SOURCE" get_tasks >/dev/null 2>&1; echo $?)" 1 "no table"
is "$("$plugin" 60 >/dev/null 2>&1; echo $?)" 64 "usage"

# ---- spans ----

new_task '{"id": "s", "span": 0.1, "peak_mb": 10}'
attempt "$plugin" 10 10
is "$status $(cat "$L")" "0 s: 0.0 s, 1 MB" "a span, without a verb"
attempt "$plugin" 10 10 run_task
is "$status" 0 "and with one"
new_task '{"id": "s", "span": -1}'
attempt "$plugin" 10 10 run_task
is "$status" 65 "a task that is none"

# ---- steps: killed at every step ----

# trace N: the payload of the N-th trajectory
trace() { sed -n "$1p" <<<"$steps"; }
speed=1000000

payload=$(trace 1)
new_task "$payload"
n=$(jq '.replies | length' "$scratch/task")
attempt "$plugin" $speed 1 run_task
is "$status $(cat "$L")" "0 django__django-11163: $n steps" "an unbroken run"
is "$(told '^step {"kind": "model"') $(told '^step {"kind": "tool"')" "$n $n" "tells its steps"
is "$(sed -n 's/^step //p' "$C" | jq -r .kind | sort | uniq -c | xargs)" "$n model $n tool" "as JSON"
unbroken=$(cksum <"$R/trajectory")
is "$(cksum <"$W/trajectory")" "$unbroken" "the result is what it has kept"
want=$(jq '(.replies | add) + (.observations | add)' "$scratch/task")
heads=$(grep -aE '^(reply|observation) [0-9]+ [0-9]+$' "$R/trajectory" | awk '{ print length + 2 }' | paste -sd+)
is "$(($(stat -c %s "$R/trajectory") - (heads)))" "$want" "of the recorded size"

# killed_at_every_step before|after: each life ends at the first step that it would save, or at
# the second if the first is still to come, so that every step is met and every life gets on
killed_at_every_step() {
	local when=$1 at lives=0 wrong=0 resumed=0
	at=1
	[ "$when" = after ] || at=2
	new_task "$payload"
	kill_at="trajectory $at $when"
	while attempt "$plugin" $speed 1 run_task; [ "$status" = 137 ]; do
		lives=$((lives + 1))
		grep -q "resumed after step $resumed\$" "$L" || [ $resumed = 0 ] || wrong=$((wrong + 1))
		[ "$when" = after ] || [ "$lives" != "$n" ] || break # before the result's own rename
		resumed=$(grep -ac '^observation [0-9]* [0-9]*$' "$W/trajectory")
		[ "$resumed" = "$lives" ] || wrong=$((wrong + 1))
		[ "$(told kind...model)" -le 1 ] || wrong=$((wrong + 1))
		checkpoint
		[ "$lives" -lt "$n" ] || kill_at=
	done
	kill_at=
	[ "$status" = 0 ] || attempt "$plugin" $speed 1 run_task
	echo "$status after $lives lives, $wrong wrong, $(cksum <"$R/trajectory")"
}
is "$(killed_at_every_step after)" "0 after $n lives, 0 wrong, $unbroken" \
	"killed after each of its steps: the same bytes, and no step is done again"
is "$(killed_at_every_step before)" "0 after $n lives, 0 wrong, $unbroken" \
	"killed before each save, also that of the result: the same bytes"

# the longest one
payload=$(trace 5)
new_task "$payload"
n=$(jq '.replies | length' "$scratch/task")
attempt "$plugin" $speed 1 run_task
unbroken=$(cksum <"$R/trajectory")
is "$(killed_at_every_step after)" "0 after $n lives, 0 wrong, $unbroken" "the same for $n steps"

# ---- an older checkpoint, and one that is of no use ----

new_task "$(trace 2)"
kill_at="trajectory 4 after"
attempt "$plugin" $speed 1 run_task
checkpoint
kill_at="trajectory 9 after"
attempt "$plugin" $speed 1 run_task
kill_at=
attempt "$plugin" $speed 1 run_task
like "$status $(cat "$L")" "0 .*resumed after step 4" "an older checkpoint: from there"
good=$(cksum <"$R/trajectory")
printf 'x' >>"$scratch/checkpoint/trajectory"
attempt "$plugin" $speed 1 run_task
like "$status $(cat "$L")" "0 .*is not of this task: it is begun anew" "a damaged one: from the beginning"
is "$(cksum <"$R/trajectory")" "$good" "and the result is the same"
new_task "$(trace 3)"
mkdir "$scratch/checkpoint"
cp "$scratch/a.1/work/trajectory" "$scratch/checkpoint/" 2>"$scratch/null" || echo other >"$scratch/checkpoint/trajectory"
attempt "$plugin" $speed 1 run_task
like "$status $(cat "$L")" "0 .*is not of this task" "one of another task"

plan
