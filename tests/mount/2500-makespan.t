#!/bin/bash
# 2500-makespan.t - raser bench makespan: what is said of records, and of a run; its picture; what was
# agreed; the simulator's tables.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
src=$(cd "$(dirname "$0")/../.." && pwd)
cd "$scratch" || exit
bench() { "$raser" bench makespan "$@" 2>&1; }

# ---- records that are written by hand: every figure is known ----

"$raser" init records >/dev/null
rm -r records/FORMAT # an arm: its tasks are in a file
printf '%s\n' a b c d >records/order
# record FOLDER AGENT STARTED [MORE]: times from 1000 on
record() {
	mkdir "records/results/$1"
	printf '{"task":"%s","attempt":%d,"owner":"h.%s","host":"h","agentd":%d,"tier":"low","started":%s%s}\n' \
		"${1%@*}" "$(cut -d @ -f 2 <<<"$1" | cut -d . -f 1)" "${1##*.}" "$2" "$3" "${4:+,$4}" \
		>"records/results/$1/attempt.json"
}
record a@1.o1 1 1000 '"ended":1010,"verb":"done"'
record b@1.o2 2 1000 '"ended":1006,"verb":"free preempted"'
record b@2.o3 2 1008 '"ended":1013,"verb":"done","restored":"1.o2-1.0123.tar.zst","restored_taken":1005,"restore_seconds":0.5,"lost_seconds":1'
record c@1.o1 1 1010
record c@2.o3 2 1016 '"ended":1019,"verb":"done"'
for t in a b c; do ln -s x records/results/$t; done
got=$(bench --of records --svg records.svg)
is $? 0 "figures of records"
is "$got" "tasks        4: 3 done, 1 not
agents       2, as many as had a task
attempts     5: 3 done, 1 given back, 0 retried, 0 failed, 0 lost, 1 without an end
makespan     19.0 s
bound        11.2 s, which the makespan exceeds by 68.9 %
static       19.5 s for the same work in equal blocks without faults, of which 2.6 % were saved
utilisation  78.9 %: agents held a task for 30.0 s of 38.0 s
done again   7.0 s of work, 6.0 s at most at a time
restored     1 times, in 0.500 s at most and 0.500 s on average
away         2 times a task waited for its next attempt, 2.0 s at most and 1.0 s on average" "all of them"
like "$(bench --of records --agents 4)" "utilisation +39.5 %.* of 76.0 s" "of more agents than had a task"

# shapes NAME: what the picture has of it
cat >shapes.py <<'E2'
import sys, xml.etree.ElementTree as tree
ns = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
bars = [g for g in root.iter(ns + "g")]
print(len(bars), "attempts", len(root.findall(ns + "line")) > 3, "lines")
for g in sorted(bars, key=lambda g: g.find(ns + "title").text):
    print(g.find(ns + "title").text, [r.get("fill") for r in g.findall(ns + "rect")],
          len(g.findall(ns + "path")))
E2
if command -v python3 >/dev/null; then
	is "$(python3 shapes.py records.svg)" "5 attempts True lines
a@1, 0.0 to 10.0 s: done; h ['#5aae7a'] 1
b@1, 0.0 to 6.0 s: given back (preempted), 1.0 s of it were done again; h ['#f0b44c', 'url(#again)'] 2
b@2, 8.0 to 13.0 s: done, resumed from a checkpoint; h ['#5aae7a'] 2
c@1, 10.0 to 16.0 s or so: no end was written, 6.0 s of it were done again; h ['#9aa5ad', 'url(#again)'] 2
c@2, 16.0 to 19.0 s: done; h ['#5aae7a'] 1" "the picture is XML, with every attempt"
else
	skip 1 "no python3"
fi
like "$(bench --of records --svg "$scratch/nosuch/x.svg")" "nosuch/x.svg.*: No such file" "no place for the picture"
ok "and nothing is left there" test -z "$(ls "$scratch"/*.new 2>/dev/null)"

# ---- what was agreed ----

# agree KEY=VALUE...: these and no others
agree() {
	awk '/^\[/ { in_it = $0 == "[accept]" } !in_it' records/raser.ini >ini
	{ printf '[accept]\n'; printf '%s\n' "$@"; cat ini; } >records/raser.ini
	bench --of records --accept | tail -n 4
}
out=$(agree makespan_gain=2.5 restore_seconds=0.5 utilisation=78.9 survival=75)
is "$(grep -c ' met: ' <<<"$out")" 4 "all is met"
like "$out" "restore +met: 0.50 s, agreed are at most 0.5 s" "in a line each"
out=$(bench --of records --accept >/dev/null; echo $?)
is "$out" 0 "by exit status"
for one in makespan_gain=2.6 restore_seconds=0.4 utilisation=79 survival=75.1; do
	out=$(agree $one)
	like "$out" "MISSED" "missed: $one"
	bench --of records --accept >/dev/null
	is $? 1 "by exit status"
	is "$(grep -c 'not agreed' <<<"$out")" 3 "and the others were not agreed"
done
rm -r "records/results/b@2.o3"
like "$(agree restore_seconds=1)" "restore +MISSED: nothing to judge by" "nothing was restored: nothing was shown"

# ---- mistakes ----

like "$(bench --of "$scratch")" "neither a run directory nor a mount" "no run"
"$raser" init empty >/dev/null
like "$(bench --of empty)" "no records of attempts yet" "a run without attempts"
for args in "" "--of" "--simulate" "--simulate --of empty" "--agents 0 --of empty" "--of empty x" "--simulate --trace x --accept"; do
	# shellcheck disable=SC2086 # words are meant to be split
	bench $args >/dev/null
	is $? 2 "usage: $args"
done
like "$("$raser" bench speed 2>&1)" "there is no benchmark speed" "no such benchmark"

# ---- the simulator ----

out=$(bench --simulate --trace "$src/plugins/replay/lite60.tsv")
like "$out" "lite60.tsv +60 +14.82 \| +20.80 +40.3 \| +16.80 +13.4 +19.2 \| +- +- +- \| +15.53 +4.8 +25.3" \
	"60 tasks and 15 agents, simulated"
out=$(bench --simulate --trace "$src/tests/makespan/acr-lite.tsv")
like "$out" "acr-run-2 +300 +55.41 \| +73.46 +32.6 \| +61.12 +10.3 +16.8 \| +58.36 +5.3 +20.6 \| +55.47 +0.1 +24.5" \
	"with estimates of the run before"
like "$out" "mean of 4 with a run before +\| +28.7 \| +7.4 +16.3 \| +4.9 +18.3 \| +0.6 +21.7" "and their mean"
out=$(bench --simulate --trace "$src/tests/makespan/terminal-bench.tsv")
like "$out" "mean of 24 with a run before +\| +95.0 \| +10.6 +41.4 \| +15.8 +38.8 \| +1.6 +45.9" \
	"estimates of one run are not always of use"
like "$(bench --simulate --trace "$src/plugins/replay/SOURCE")" "names no column for the task's id" "no table"

plan
