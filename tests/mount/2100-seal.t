#!/bin/bash
# 2100-seal.t - raser seal: what it leaves, who waits for whom, and 100,000 tasks in few files.
# shellcheck source=tests/lib.sh disable=SC2317
RASER_TIMEOUT=${RASER_TIMEOUT:-600}
beside=yes
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
[ -x "$top/tests/finish" ] || skip_all "$top/tests/finish is not built"

# everything that people can ask a run without mounting it
told() {
	"$raser" status "$RUN"
	"$raser" export "$RUN" | sort
	"$raser" export "$RUN" --steps | sort
}
inodes() { find "$RUN" | wc -l; }
links() { find "$RUN/chain" -type l | wc -l; }
sealer() { find "$RUN/nodes" -name 'seal.*' | grep -q .; }
nobody_left() { [ -z "$(ls "$RUN/nodes")" ]; }

# ---- a run with everything in it ----

new_run steal_after=1.2 low.memory=0 medium.memory=0 high.memory=0 max_failures=2
work() { # keep1 leaves a file of its own, bad fails, steps has a trajectory, the others only talk
	"$raser" run "$RUN" --sandbox none --agents low=2,high=1 -- sh -c "
		case \$RASER_TASK_ID in
		keep*) echo result >\"\$RASER_RESULTS/answer\" ;;
		bad*) [ -e $scratch/good ] || { echo sorry; exit 1; } ;;
		esac
		echo \"\$RASER_TASK_ID is done\"" >"$scratch/run.out" 2>&1
}
seal() { "$raser" seal "$RUN" >"$scratch/out" 2>&1; }
tasks 20 t | "$raser" submit "$RUN" - >/dev/null
tasks 2 keep | "$raser" submit "$RUN" - >/dev/null
tasks 2 bad | "$raser" submit "$RUN" - >/dev/null
tasks 2 off | "$raser" submit "$RUN" - >/dev/null
"$raser" cancel "$RUN" off1 off2 >/dev/null
ok "a cancel without a mount leaves no beat" nobody_left
work
is $? 1 "tasks that are done, failed and cancelled"
like "$("$raser" status "$RUN")" "done 22.failed 2.cancelled 2" "as counted"
folder=$(readlink "$RUN/results/t1")
echo '{"step":1}' >"$RUN/results/$folder/trajectory.jsonl"
mkdir -p "$RUN/checkpoints/t2" "$RUN/checkpoints/bad1"
before=$(told)
like "$before" '"step":1.*"task":"t1"' "with steps"

mount_run m || exit
out=$("$raser" seal "$RUN" 2>&1)
is $? 1 "while it is mounted it is not sealed"
like "$out" "in use: $(awk '/^owner/ { print $2 }' "$M/status") on .*, process ${daemon[m]}, last beat" \
	"and the owner is named"
like "$("$raser" seal "$M" 2>&1)" "is a mount" "nor through a mount"
unmount m

"$raser" seal "$RUN" >"$scratch/out" 2>&1 &
pid=$!
extra_pids+=("$pid")
ok "a sealer announces itself" wait_until 10 sealer
kill -TERM "$pid"
wait "$pid"
is $? 1 "SIGTERM: exit 1"
like "$(cat "$scratch/out")" "waiting for .* s more.*stopped before anything was done" "it says what it did"
ok "and says good-bye" nobody_left
is "$(links)" 54 "nothing is sealed yet"

few=$(inodes)
out=$("$raser" seal "$RUN" 2>&1)
is $? 0 "raser seal"
like "$out" "4 bays sealed, 0 were before, 0 are unfinished" "it says what it packed"
like "$out" "54 links removed; 24 attempts packed into 2 archives; checkpoints of 1 done" "and removed"
is "$(links)" 0 "no link is left"
below "$(inodes)" "$((few - 150))" "files"
is "$(told)" "$before" "status and export say the same"
is "$(cat "$RUN/results/keep1/out/answer")" result "results with files of their own stay"
ok "leftover checkpoints of a task that is not done stay" exists "$RUN/checkpoints/bad1"
nok "those of one that is done do not" exists "$RUN/checkpoints/t2"
is "$("$raser" checkpoint ls "$RUN" 2>&1)" "" "raser checkpoint finds nothing odd"
mkdir "$scratch/unpacked"
for file in "$RUN"/sealed/*.tar.zst; do tar --zstd -xf "$file" -C "$scratch/unpacked"; done
is "$(cat "$scratch/unpacked/results/t1/output.log")" "t1 is done" "tar opens what was packed"
out=$("$raser" seal "$RUN" 2>&1)
like "$out" "0 bays sealed, 4 were before" "sealing twice changes nothing"
is "$(told)" "$before" "nothing at all"

mount_run m || exit
like "$(cat "$M/status")" "done 22.failed 2.cancelled 2" "a mount says the same"
is "$(cat "$M/done/t1@1")" '{"id":"t1"}' "the payload of a sealed task"
is "$(xattr "$M/failed/bad1@2" reason)" exit "why a sealed task failed"
ok "a sealed task is reopened" mv "$M/failed/bad1@2" "$M/pending/"
tasks 5 more >"$M/new/more"
is "$(names "$M/pending")" "bad1@4 more1@1 more2@1 more3@1 more4@1 more5@1" "the run goes on"
unmount m
out=$("$raser" seal "$RUN" --bay nosuch.0 2>&1)
is "$?/$out" "1/raser seal: there is no bay nosuch.0 (ls $RUN/chain)" "a bay that is not there is no reason to wait"
"$raser" seal "$RUN" --bay "$(cd "$RUN/chain" && ls -d ./*.0 | sed -n '1s|./||p')" >/dev/null
touch "$scratch/good"
work
is $? 1 "worked on: one has failed and two are cancelled"
before=$(told)
like "$before" "done 28.failed 1.cancelled 2" "one is done that had failed"
seal
like "$(cat "$scratch/out")" "2 bays sealed, 3 were before, 0 are unfinished" "sealed again"
is "$(told)" "$before" "every outcome is kept"
is "$(links)" 0 "in no link"
mount_run m || exit
is "$(names "$M/failed") $(names "$M/cancelled") $(count "$M/done")" "bad2@2 off1@1 off2@1 28" "nor for a mount"
unmount m

# ---- who waits ----

"$raser" seal "$RUN" >/dev/null 2>&1 &
pid=$!
extra_pids+=("$pid")
wait_until 10 sealer
kill -STOP "$pid"
mkdir -p "$scratch/w"
"$top/raserfs" -f "$RUN" "$scratch/w" 2>"$scratch/w.log" </dev/null &
daemon[w]=$!
waits() { grep -q "is being sealed by seal.* process $pid" "$scratch/w.log"; }
ok "a mount waits while somebody seals" wait_until 10 waits
nok "it is not there yet" is_mounted "$scratch/w"
ok "a sealer that does not beat any more is dead" wait_until 20 is_mounted "$scratch/w"
kill -CONT "$pid"
wait "$pid"
is $? 1 "and is told so, or that the run is in use"
unmount w

"$raser" seal "$RUN" >/dev/null 2>&1 &
pid=$!
extra_pids+=("$pid")
wait_until 10 sealer
kill -STOP "$pid"
"$raser" retry "$RUN" bad2 >"$scratch/out" 2>"$scratch/err" &
hand=$!
extra_pids+=("$hand")
says() { grep -q 'is being sealed' "$scratch/err"; }
ok "so does a hand" wait_until 10 says
kill -KILL "$pid"
wait "$hand"
is "$? $(cat "$scratch/out")" "0 1 pending again" "which goes on when the sealer is killed"
ok "and nobody is left" nobody_left

# ---- killed anywhere ----

new_run steal_after=0.6
tasks 3000 k | "$raser" submit "$RUN" - >/dev/null
"$top/tests/finish" "$RUN"
before=$(told)
differs=0
kills=0
for delay in 0.7 0.75 0.8 0.9 1.0 1.1 1.2 1.3 1.5 1.7; do
	"$raser" seal "$RUN" >/dev/null 2>&1 &
	pid=$!
	sleep "$delay"
	kill -KILL "$pid" 2>/dev/null && kills=$((kills + 1))
	wait "$pid" 2>/dev/null
	[ "$(told)" = "$before" ] || differs=$((differs + 1))
done
is "$differs" 0 "killed $kills times at some moment: everything is said as before"
ok "sealing goes on" seal
is "$(told)" "$before" "to the end"
is "$(links) $(find "$RUN/results" -mindepth 1 | wc -l)" "0 0" "and leaves nothing"

# ---- many ----

if [ -z "${RASER_SANITIZED-}" ]; then
	many=100000 # with RASER_MUST_RUN, else a fifth: they take a minute to make and to seal
	[ -n "${RASER_MUST_RUN-}" ] || many=20000
	new_run steal_after=0.6
	tasks $many task- | "$raser" submit "$RUN" - >/dev/null
	"$top/tests/finish" "$RUN"
	diag "start: $("$top/tests/finish" --look "$RUN")"
	before=$(told)
	diag "before: $(inodes) files, $(du -sk "$RUN" | cut -f 1) kB"
	t0=$(now_ms)
	ok "$many tasks are sealed" seal
	diag "sealed in $(($(now_ms) - t0)) ms"
	below "$(inodes)" $((many / 50)) "files of $many tasks"
	diag "after: $(inodes) files, $(du -sk "$RUN" | cut -f 1) kB"
	is "$(told | cksum)" "$(cksum <<<"$before")" "which say what they said"
	start=$("$top/tests/finish" --look "$RUN")
	diag "start: $start"
	below "${start%% *}" 200 "calls on the run directory to read all of it"
	tries_slow=5
	mount_run many || exit
	is "$(count "$M/done")" $many "a mount shows them"
	is "$(cat "$M/done/task-777@1")" '{"id":"task-777"}' "and their payloads"
	unmount many
else
	skip 6 "runs once, without sanitizers"
fi
plan
