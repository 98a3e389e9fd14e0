#!/bin/bash
# 2520-contest.t - raser bench makespan DIR --local: the same tasks by blocks that are divided in advance,
# by the queue and by the longest first, here, with and without faults. Percents are not judged: it is
# much too short.
RASER_TIMEOUT=${RASER_TIMEOUT:-240}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
replay=$top/plugins/replay/replay
cd "$scratch" || exit
printf 'instance_id\tspan_s\tmem_peak_mb_joined\n' >table
# blocks of two: 30, 110, 60; the longest comes third
printf '%s\t%d\t0\n' a 10 b/1 20 c 90 'd "q" \e' 20 e 30 f 30 >>table
bench() { "$raser" bench makespan "$@" --local --replay "$replay" --trace table --agents low=2,high=1 --sandbox none; }
# row ARM: its line
row() { awk -v a="1.$1" '$1 == a' out; }
drawn() { python3 -c 'import sys, xml.dom.minidom as x
for f in sys.argv[1:]: print(len(x.parse(f).getElementsByTagName("g")))' "$@" | xargs; }

bench one --seconds 3 >out 2>err
is $? 0 "three arms"
is "$(cat err)" "" "without a complaint"
like "$(head -n 1 out)" "6 tasks of .*table, 3 agents \(low=2,high=1\), on this machine; time passes 36.6667 times faster" \
	"what is compared"
like "$(sed -n 2p out)" "bound 2.5 s; static without faults 3.0 s" "and with what"
for arm in static queue longest; do
	like "$(row $arm)" "1.$arm +6/6 .* 6$" "$arm: all done, in six attempts"
done
like "$(row static)" "1.static +6/6 +[345].[0-9] s +[0-9.]+ % +- " "static is what others are compared with"
ok "its blocks are of neighbours" test "$(cat one/1.static/blocks/1/*.name | xargs -d '\n')" = "c d %22q%22 %5Ce" -o \
	"$(cat one/1.static/blocks/1/*.name | xargs -d '\n')" = 'c d "q" \e'
if command -v python3 >/dev/null; then
	is "$(drawn one/1.static.svg one/1.queue.svg one/1.longest.svg)" "6 6 6" "a picture each"
else
	skip 1 "no python3"
fi
is "$(cut -f 1 one/1.durations | sort | xargs -d '\n')" 'a b%2F1 c d "q" \e e f' "what they took is kept"
like " $("$raser" export one/1.longest | jq -rs 'sort_by(.started) | .[:3] | map(.task) | join(" ")') " " c " \
	"longest: the longest is among the first, although it was submitted later"
like "$("$raser" bench makespan --of one/1.static)" "tasks +6: 6 done, 0 not" "--of an arm, also of the static one"
like "$("$raser" bench makespan --of one/1.queue)" "attempts +6: 6 done" "and of a queue"
is "$(grep -E '^(steal_after|checkpoint_every)' one/1.queue/raser.ini | xargs)" "steal_after = 6 checkpoint_every = 8.18" \
	"times of raser.ini pass faster, too"

# ---- faults; what was agreed ----

mkdir two
"$raser" init template >/dev/null
cp template/raser.ini two/raser.ini
sed -i 's/^;survival = .*/survival = 100/' two/raser.ini
# shellcheck disable=SC2016 # for the shell that is run by it
bench two --seconds 6 --faults=3 --crash 'echo "crash at $RASER_NODE"; kill -9 "-$RASER_PID"' --accept >out 2>err
is $? 0 "with faults, and all that was agreed is met"
like "$(cat out)" "faults: 3 preemptions an arm and a crash, seed 1" "said"
like "$(cat out)" "survival +met: 100.00 %" "by all tasks that are done"
for arm in static queue longest; do
	like "$(row $arm)" "1.$arm +6/6 " "$arm: all are done all the same"
	ok "$arm: more attempts than tasks" test "$(row $arm | awk '{ print $NF }')" -gt 6
	like "$(cat two/1.$arm.log)" "crash at" "$arm: one crash"
done
done_again() { row "$1" | sed 's/.*% *\([0-9.]*\) s.*/\1/'; }
ok "static has done more again than the queue" awk -v s="$(done_again static)" -v q="$(done_again queue)" \
	'BEGIN { exit !(s > q) }'
is "$("$raser" audit two/1.queue | tail -n 1)" "audit: every promise was kept" "the queue has kept its promises"
sed -i 's/^survival.*/survival = 100\nmakespan_gain = 99.9/' two/raser.ini
rm -r two/1.* two/tasks.jsonl
bench two --seconds 2 --arms static,queue --accept >out 2>err
is $? 1 "what is missed is told by the exit status"
like "$(cat out)" "makespan gain +MISSED: .*agreed are at least 99.9 %" "and which"

# ---- mistakes, and an end by a signal ----

like "$(bench two 2>&1)" "two/tasks.jsonl: File exists; give a new directory" "a directory that was used"
like "$(bench x --arms longest 2>&1)" "longest learns from queue" "nothing to learn from"
like "$(bench x --arms fast 2>&1)" "no fast" "no such arm"
like "$("$raser" bench makespan x --local --agents 3 2>&1)" "write TIER=NUMBER" "no tiers"
for args in "--seconds 0" "--repeat 0" "--faults=x" "-- --mem=1G" "--svg f"; do
	# shellcheck disable=SC2086 # words are meant to be split
	"$raser" bench makespan x --local $args >/dev/null 2>&1
	is $? 2 "usage: $args"
done
nok "and nothing was made" exists x
"$raser" bench makespan three --local --replay "$replay" --trace table --agents low=3 --seconds 1000 --arms static,queue \
	>out 2>err &
pid=$!
extra_pids+=("$pid")
begun() { [ -n "$(find three/1.static/results -name attempt.json 2>/dev/null)" ]; }
ok "a long one" wait_until 20 begun
kill -TERM "$pid"
wait "$pid"
is $? 1 "ends at a signal"
like "$(cat err)" "interrupted" "and says so"
is "$(wc -l <out)" 4 "and no more"
is "$(pgrep -f "$scratch/three" | wc -l)" 0 "nothing of it is left"

plan
