#!/bin/bash
# 0600-makespan.t - the paper's experiment on a real Slurm: 60 tasks with real spans, 15 agents, by a plain
# job array of 4 tasks each, by the queue, and by the queue that knows what they took; and with
# preemptions and a node that crashes. The two halves go side by side on nodes of their own, once, or
# $RASER_REPEAT times, static in $RASER_SECONDS: then it measures.
repeat=${RASER_REPEAT:-1}
seconds=${RASER_SECONDS:-66}
RASER_TIMEOUT=${RASER_TIMEOUT:-$((420 * repeat))}
# shellcheck source=tests/cluster/slurm/lib.sh disable=SC2016
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null || skip_all "python3 is not installed"
# room for all 15 on two nodes of a half, and on three when one of four is down
start_slurm -n "a:8:49152:calm b:8:49152:calm c:5:24576:rough d:5:24576:rough e:5:24576:rough f:5:24576:rough"
src=$(cd "$(dirname "$0")/../../.." && pwd)
cp "$top/plugins/replay/replay" "$bin/replay"
cp "$src/plugins/replay/lite60.tsv" "$home/lite60.tsv"
bench() { as_user raser bench makespan --replay "$bin/replay" --trace lite60.tsv "$@"; }
# row FILE ARM COLUMN: of the table: done makespan - over
row() { awk -v a="1.$2" -v c="$3" '$1 == a { print c == "NF" ? $NF : $c }' "$home/$1"; }
drawn() { python3 -c 'import sys, xml.dom.minidom as x
print(len(x.parse(sys.argv[1]).getElementsByTagName("g")))' "$1"; }

{
	bench calm --seconds "$seconds" --repeat "$repeat" -- --constraint=calm >"$home/calm.out" 2>"$home/calm.err"
	echo $? >"$home/calm.status"
} &
calm=$!
extra_pids+=("$calm")
# what a user cannot do: the node on which somebody works loses its power, and comes back
{
	bench rough --seconds "$seconds" --repeat "$repeat" --arms static,queue --faults=5 \
		--crash 'echo "$RASER_NODE" >crash.new && mv crash.new crash && while [ -e crash ]; do sleep 0.2; done' \
		-- --constraint=rough >"$home/rough.out" 2>"$home/rough.err"
	echo $? >"$home/rough.status"
} &
rough=$!
extra_pids+=("$rough")
ended() { dead "$rough" || [ -s "$home/crash" ]; }
crashes=0
until wait_until 200 ended && dead "$rough"; do
	[ -s "$home/crash" ] || break
	one=$(cat "$home/crash")
	"$slurm/node" crash "$one"
	sleep 3 # the power is off for so long
	"$slurm/node" start "$one"
	crashes=$((crashes + 1))
	rm "$home/crash"
done
ok "both come to their end" wait_until $((100 * repeat)) dead "$calm"
is "$(cat "$home/calm.status")" 0 "without faults: three arms"
is "$(cat "$home/rough.status")" 0 "with faults: two arms"
diag "$(cat "$home"/calm.out "$home"/rough.out)"
is "$(cat "$home"/calm.err "$home"/rough.err)" "" "without a complaint"
is "$crashes" $((2 * repeat)) "a node crashed in each arm"

for arm in calm.static calm.queue calm.longest rough.static rough.queue; do
	is "$(row "${arm%.*}.out" "${arm#*.}" 2)" 60/60 "$arm: all 60 are done"
	attempts=$(drawn "$home/${arm%.*}/1.${arm#*.}.svg")
	is "${attempts:-none}" "$(row "${arm%.*}.out" "${arm#*.}" NF)" "$arm: its picture shows every attempt"
done
for arm in calm/1.queue calm/1.longest rough/1.queue; do
	is "$(as_user raser export "$home/$arm" | jq -r 'select(.verb == "done") | .task' | sort -u | wc -l)" 60 "$arm: 60 results"
	is "$(as_user raser export "$home/$arm" | jq -r 'select(.verb == "done") | .task' | sort | uniq -d)" "" \
		"$arm: none is done twice"
	is "$(as_user raser audit "$home/$arm" | tail -n 1)" "audit: every promise was kept" "$arm: and none broken"
done
# closer FILE ARM OTHER [TIMES]: to the bound
closer() { awk -v a="$(row "$1" "$2" 5)" -v b="$(row "$1" "$3" 5)" -v n="${4-1}" 'BEGIN { exit !(a != "" && a * n < b + 0) }'; }
ok "the queue comes closer to the bound than static partitioning" closer calm.out queue static
ok "and so does the longest first" closer calm.out longest static
ok "with faults, too" closer rough.out queue static
ok "and by more than half" closer rough.out queue static 2
as_user raser bench makespan --of "$home/rough/1.queue" >"$home/of.out"
ok "what was interrupted was resumed" grep -qE '^restored +[1-9]' "$home/of.out"
diag "$(cat "$home/of.out")"
ok "no job is left" wait_until 30 no_jobs
# what a dead node has had in cgroups stays until the rig ends, as until it is booted again
nothing_runs() { [ -z "$(left_processes)$(own_mounts 5)" ]; }
ok "nor a process or mount" wait_until 20 nothing_runs

plan
