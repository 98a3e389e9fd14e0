#!/bin/bash
# 2420-direct.t - raser-agentd --direct, a daemon of the queue without a mount: beside a mount, killed,
# stopped, told to end, on a storage that hangs or is full; raser run without FUSE; chaos and its audit.
# RASER_CHAOS is how many seconds that lasts, RASER_SEED repeats the order of faults.
RASER_TIMEOUT=${RASER_TIMEOUT:-$((${RASER_CHAOS:-15} + 240))}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

# a sanitizer's allocator, unlike the C library's, does not survive fork(2) beside threads: jobs of agentd
# would hang now and then
[ -z "${RASER_SANITIZED-}" ] || skip_long
S=$scratch
raser=$top/raser
agentd=$top/raser-agentd
keys=(max_failures=0 max_losses=999 grace=2 low.memory=0 medium.memory=0 high.memory=0 low.failures=all
	agent.sandbox=none agent.checkpoint_every=0)

# direct NAME TIER COMMAND...: in the background on RUN; its pid is in $pid
direct() {
	local name=$1 tier=$2
	shift 2
	"${wrap[@]}" "$agentd" --direct --tier "$tier" "$RUN" -- "$@" </dev/null >"$S/$name.out" 2>"$S/$name.log" &
	pid=$!
	extra_pids+=("$pid")
}
# submit_to N PREFIX [MORE]: into RUN, without a mount
submit_to() { tasks "$@" | "$raser" submit "$RUN" - >/dev/null; }
link_text() { readlink "$RUN"/chain/*/"$1" 2>/dev/null; }
# ended NAME OUTCOME:REASON: the link that ends an attempt says so
ended() { [ "$(link_text "$1.end" | cut -d : -f 4-5)" = "$2" ]; }
claimed() { [ -n "$(link_text "$1.claim")" ]; }
owner_of() { link_text "$1.claim" | cut -d : -f 1; }
accepted() { find "$RUN/chain" -name '*.end' -exec readlink {} + | grep -c ':d:'; }
beats() { find "$RUN/nodes" -type f | wc -l; }
# end_of PID...: wait for them; their statuses are in $ends
end_of() {
	local one
	ends=
	for one in "$@"; do
		wait_until 20 dead "$one" || diag "process $one does not end"
		wait "$one"
		ends+=" $?"
	done 2>/dev/null # bash tells of those that were killed
	ends=${ends# }
}
# An agent that says where it is, and works until it may end.
# shellcheck disable=SC2016
patient='echo "$RASER_ATTEMPT $RASER_RESUMED $$" >>"$0/starts.$RASER_TASK"; echo "$RASER_ATTEMPT" >>seen
	while [ ! -e "$0/go.$RASER_TASK" ]; do sleep 0.05; done; cp seen "$RASER_RESULTS/"'
starts() { wc -l <"$S/starts.$1"; }
has_starts() { [ "$(starts "$1" 2>/dev/null)" = "$2" ]; }
# last_agent TASK: the process that works on it, or did
last_agent() { tail -n 1 "$S/starts.$1" | cut -d ' ' -f 3; }

# ---- what it is asked and what it says ----

new_run steal_after=12 "${keys[@]}" || exit
is "$("$agentd" --direct --check --tier low "$RUN" -- true)" \
	"without a mount, agents run without a sandbox, their memory is not limited" "--check says which way"
is "$(beats)" 0 "and takes no part"
like "$("$agentd" --direct --tier low "$S" -- true 2>&1)" "$S is no run directory" "no run directory"
like "$("$agentd" --direct --tier nosuch "$RUN" -- true 2>&1)" "raser.ini has no tier nosuch" "no such tier"
like "$("$agentd" --tier low "$RUN" -- true 2>&1)" "$RUN is a run directory: give a mount of it, or --direct" \
	"a run directory without --direct"
mount_run m || exit
like "$("$agentd" --direct --tier low "$M" -- true 2>&1)" "a mount is given without --direct" "a mount with it"

# ---- beside a mount ----

submit_to 1 hi '"tier":"high"'
submit_to 40 t
# shellcheck disable=SC2016
work='env | grep -E "^RASER_(MOUNT|LEASE|TASK)=" >"$RASER_RESULTS/env"; sleep 0.05'
"$agentd" --tier low "$M" -- sh -c "$work" 2>"$S/mounted.log" &
mounted=$!
extra_pids+=("$mounted")
direct a low sh -c "$work"
a=$pid
direct b low sh -c "$work"
b=$pid
end_of "$a" "$b" "$mounted"
is "$ends" "0 0 0" "two without a mount, one with: drained"
is "$(accepted) $(count "$M/done") $(names "$M/pending")" "40 40 hi1@1" "each task is accepted once, another tier's is left"
is "$(find "$RUN/chain" -name '*.claim' -exec readlink {} + | cut -d : -f 1 | sort | uniq -c | wc -l)" 3 "all three took some"
is "$(find "$RUN/results" -name env -path '*/t*@*' -exec cat {} + | grep -c RASER_TASK)" 40 "agents get what they need"
[ "$(find "$RUN/results" -name env -path '*/t*@*' -exec cat {} + | grep -c RASER_LEASE)" -lt 40 ]
result $? "but no lease without a mount"
is "$(beats)" 1 "their beats went with them"

# ---- the end of its node's time, and a run that is drained ----

submit_to 1 long '"expected":100000'
now=$(date +%s)
"$agentd" --direct --tier low --since $((now - 200000)) --until $((now + 600)) "$RUN" -- true 2>"$S/until.log"
is "$? $(tail -n 1 "$S/until.log" | cut -d ' ' -f 3-)" \
	"4 every task that is left takes longer than there is time here; leaving" "no time left for what is left"
touch "$RUN/drain"
"$agentd" --direct --tier low "$RUN" -- true 2>"$S/drain.log"
is "$? $(grep -c "$RUN/drain is there" "$S/drain.log") $("$raser" status "$RUN" | grep ^pending)" "0 1 pending 2" \
	"nothing is taken of a drained run"
rm "$RUN/drain"
"$raser" cancel "$RUN" long1 >/dev/null

# ---- killed ----

submit_to 1 k
direct k low sh -c "$patient" "$S"
k=$pid
wait_until 20 exists "$S/starts.k1" || diag "$(cat "$S/k.log")"
from=$(now_ms)
kill -KILL "$k"
wait "$k" 2>/dev/null
# the daemon of the mount sees that the process is gone; 2 s is a beat
ok "kill -9: a daemon of this machine gives its task back" wait_until 10 ended k1@1 f:B
below $(($(now_ms) - from)) $((6000 * tries_slow)) "soon (ms)"
ok "its agent is gone" wait_until 5 dead "$(last_agent k1)"
unmount m
direct k low sh -c "$patient" "$S"
k=$pid
ok "another takes it up" wait_until 10 has_starts k1 2
# nobody else is there now; who comes in its place sees it at its start
kill -KILL "$k"
wait "$k" 2>/dev/null
from=$(now_ms)
direct k low sh -c "$patient" "$S"
k=$pid
ok "kill -9, and one in its place has the task again" wait_until 10 has_starts k1 3
below $(($(now_ms) - from)) $((6000 * tries_slow)) "soon (ms)"
is "$(link_text k1@2.end | cut -d : -f 4-6)" f:B:0 "and nothing is counted"
is "$(last_agent k1 | grep -c '^[0-9][0-9]*$') $(alive "$(last_agent k1)" && echo lives)" "1 lives" "with an agent"
touch "$S/go.k1"
end_of "$k"
is "$ends" 0 "done"
is "$(accepted) $(beats)" "41 0" "and nothing is left"

# ---- told to end ----

submit_to 1 e
direct e low sh -c "$patient" "$S"
e=$pid
wait_until 20 exists "$S/starts.e1"
kill -TERM "$e"
end_of "$e"
is "$ends" 99 "SIGTERM: 99"
ok "its task is given back" ended e1@1 f:T
is "$(find "$RUN/checkpoints/e1" -name '1.*.tar.zst' | wc -l) $(beats)" "1 0" "with a checkpoint, and it has left"
touch "$S/go.e1"
direct e low sh -c "$patient" "$S"
end_of "$pid"
is "$ends" 0 "another goes on"
is "$(cut -d ' ' -f 1-2 "$S/starts.e1" | tail -n 1) $(tr '\n' , <"$RUN/results/e1/out/seen")" "2 1 1,2," "where it was"

# ---- by an admin's hand, elsewhere ----

submit_to 2 h
mount_run m || exit
for i in 1 2; do
	direct h$i low sh -c "$patient" "$S"
done
wait_until 20 eval 'exists "$S/starts.h1" && exists "$S/starts.h2"'
wait_until 10 exists "$M/leases/h1@1"
from=$(now_ms)
chk unlink "$M/leases/h1@1" >/dev/null
"$raser" cancel "$M" h2 >/dev/null
ok "a lease that is removed on a mount: its agent is stopped, another begins" wait_until 10 has_starts h1 2
below $(($(now_ms) - from)) $((6000 * tries_slow)) "within a beat and its grace (ms)"
stopped() { grep -q "task h2@1: the claim is lost" "$S"/h?.log; }
ok "one that is cancelled: as well" wait_until 10 stopped
touch "$S/go.h1" "$S/go.h2"
wait_until 20 ended h1@2 d:-
is "$(link_text h1@1.end | cut -d : -f 4-5) $(link_text h2@1.end | cut -d : -f 4)" "f:X c" "the ends are the admin's"
kill -TERM "$pid" 2>/dev/null
unmount m

# ---- a storage that hangs or is full ----

new_run steal_after=12 "${keys[@]}" || exit
submit_to 3 s
rules() { printf '%s\n' "$@" >"$S/rules.new" && mv "$S/rules.new" "$S/rules"; }
wrap=(env "LD_PRELOAD=$top/tests/slowdisk.so" "SLOWDISK=$S/rules")
[ -z "${RASER_SANITIZED-}" ] || wrap=(env "LD_PRELOAD=$RASER_SANITIZED $top/tests/slowdisk.so" "SLOWDISK=$S/rules")

# in the opening of the run
rules "symlinkat * 20000 -"
direct s low sh -c "$patient" "$S"
opens() { [ "$(find "/proc/$pid/task" -maxdepth 1 2>/dev/null | wc -l)" = 3 ]; } # two threads, and itself
wait_until 20 opens
from=$(now_ms)
kill -TERM "$pid"
end_of "$pid"
is "$ends" 99 "SIGTERM while the storage hangs at the start"
below $(($(now_ms) - from)) $((2000 * tries_slow)) "is heard (ms)"

# in a claim
rules "symlinkat chain/*.claim 20000 -"
direct s low sh -c "$patient" "$S"
hangs() { grep -q "$RUN does not answer: .*; waiting for it" "$S/s.log"; }
ok "a claim that hangs in the storage is said" wait_until 20 hangs
from=$(now_ms)
kill -TERM "$pid"
end_of "$pid"
is "$ends" 99 "SIGTERM then"
below $(($(now_ms) - from)) $((3000 * tries_slow)) "is heard (ms)"
like "$(cat "$S/s.log")" "leaving without a farewell" "and agentd says what is left undone"
is "$(beats)" 1 "its beat, which the next one removes"

# in an end
touch "$S/go.s1" "$S/go.s2" "$S/go.s3"
rules "symlinkat chain/*.end 0 ENOSPC"
direct s low sh -c "$patient" "$S"
untaken() { grep -q "its end is not taken yet (No space left on device)" "$S/s.log"; }
ok "a full disk: an end is tried again" wait_until 20 untaken
rules "symlinkat chain/*.end 3000 -"
end_of "$pid"
is "$ends" 0 "and goes through, slowly, when it can"
is "$(accepted)" 3 "with every task"
is "$(grep -c "the claim is lost" "$S/s.log")" 0 "and no claim is lost"
wrap=()

# ---- stopped ----

new_run steal_after=3 "${keys[@]}" || exit
submit_to 1 z
direct z low sh -c "$patient" "$S"
z=$pid
wait_until 20 exists "$S/starts.z1"
zombie=$(owner_of z1@1)
kill -STOP "$z"
from=$(now_ms)
direct y low sh -c "$patient" "$S"
y=$pid
ok "SIGSTOP: its claim is stolen" wait_until 20 ended z1@1 l:D
ms=$(($(now_ms) - from))
[ $ms -ge 1500 ] && [ $ms -lt $((8000 * tries_slow)) ]
result $? "after the window, and not much later ($ms ms)"
ok "by another" wait_until 10 has_starts z1 2
# the zombie's agent ends well while nobody looks, and that is too late
touch "$S/go.z1"
end_of "$y"
is "$ends" 0 "which ends it"
kill -CONT "$z"
end_of "$z"
is "$ends" 0 "the one that stood still goes on to the end of the queue"
like "$(cat "$S/z.log")" "is over already|the claim is lost" "and is told that its task is not its own"
is "$(link_text z1@1.end | cut -d : -f 4) $(link_text z1@2.end | cut -d : -f 4) $(accepted)" "l d 1" "its end is refused"
is "$(readlink "$RUN/results/z1" | cut -d . -f 1)" "z1@2" "and its result with it"
like "$(cat "$S/z.log")" "the beat of $zombie is gone" "it has taken a new name"
is "$(beats)" 0 "nothing is left in nodes/"

# ---- without its run ----

new_run steal_after=3 "${keys[@]}" || exit
submit_to 1 g
direct g low sh -c "$patient" "$S"
g=$pid
wait_until 20 exists "$S/starts.g1"
direct idle low sh -c "$patient" "$S"
has_joined() { grep -q "working on $RUN itself" "$S/idle.log"; }
wait_until 20 has_joined
mv "$RUN" "$RUN.away"
end_of "$pid"
is "$ends $(grep -c "$RUN did not come back" "$S/idle.log")" "1 1" "the run is taken away: who has no task leaves with 1"
ok "who has one keeps its agent" alive "$(last_agent g1)"
mv "$RUN.away" "$RUN"
touch "$S/go.g1"
end_of "$g"
is "$ends $(accepted)" "0 1" "and ends its task when the run is back"

# ---- raser run ----

new_run steal_after=12 "${keys[@]}" || exit
submit_to 30 r
"$raser" run "$RUN" --no-fuse --agents low=2,medium=1 -- sh -c '[ "$RASER_ATTEMPT$RASER_TASK" != 1r3 ]; sleep 0.05' \
	>"$S/out" 2>"$S/err"
is "$?" 0 "raser run --no-fuse"
like "$(cat "$S/out")" "agents work on $RUN itself, without FUSE" "says how"
like "$(cat "$S/out")" "30 of 30 tasks done" "and what came of it"
like "$(cat "$S/out")" "attempts   3[0-9]: 30 done, [0-9]+ retried" "with what its agents counted"
is "$(find "$TMPDIR" -maxdepth 1 -name 'raser-run.*' | wc -l) $(beats)" "0 0" "and leaves nothing behind"
"$raser" run "$RUN" --no-fuse --mount "$S/x" -- true >/dev/null 2>&1
is "$?" 2 "--no-fuse and --mount exclude each other"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	submit_to 5 u
	# shellcheck disable=SC2016
	unshare -m bash -c 'mount --bind /dev/null /dev/fuse && exec "$@"' _ "$raser" run "$RUN" --agents low=1 -- true \
		>"$S/out" 2>"$S/err"
	is "$?" 0 "raser run where nothing can be mounted"
	is "$(grep -c 'nothing can be mounted here' "$S/err")" 1 "says so once"
	like "$(cat "$S/out")" "35 of 35 tasks done" "and does its work"
fi
# Ctrl-C
submit_to 1 c
"$raser" run "$RUN" --no-fuse --agents low=1 -- sh -c "$patient" "$S" >"$S/out" 2>"$S/err" &
run=$!
extra_pids+=("$run")
wait_until 20 exists "$S/starts.c1"
kill -TERM "$run"
end_of "$run"
is "$ends" 99 "raser run is told to end"
ok "and the task is given back" ended c1@1 f:T

# ---- chaos ----

seconds=${RASER_CHAOS:-15}
seed=${RASER_SEED:-$RANDOM}
mkdir "$S/history"
new_run steal_after=3 "${keys[@]}" || exit
export RASER_HISTORY=$S/history
ntasks=$((seconds * 8))
submit_to "$ntasks" t
mount_run m -o supervise || exit
# An agentd that ends otherwise than drained is started again, as by any supervisor.
# shellcheck disable=SC2016
working='trap "kill \$(jobs -p) 2>/dev/null; exit" TERM
until "$top/raser-agentd" --quiet "$@" -- sh -c "sleep 0.3" & wait $!; do sleep 0.1; done'
export top
workers=()
# shellcheck disable=SC2016 # at the end; a direct one would live on without its run
restore+=('kill -TERM "${workers[@]}" 2>/dev/null; wait "${workers[@]}"')
for where in "--direct --tier low $RUN" "--direct --tier low $RUN" "--direct --tier high $RUN" "--tier low $M"; do
	# shellcheck disable=SC2086 # words
	bash -c "$working" _ $where 2>>"$S/agentd.log" &
	workers+=("$!")
done
unset RASER_HISTORY # chaos finds it where the daemons have it
"$raser" chaos "$RUN" --for "$seconds" --seed "$seed" --every 0.3 --no-fill >"$S/chaos" 2>"$S/err"
status=$?
is "$status" 0 "chaos on a run with and without mounts: every promise is kept"
[ "$status" = 0 ] || while read -r line; do diag "$line"; done < <(cat "$S/chaos" "$S/err")
diag "seed $seed; $(grep -E '^(attempts|daemons|agent|lease|node)' "$S/chaos" | tr -s ' \n' ' ,')"
like "$(cat "$S/chaos")" "chaos: each of $ntasks tasks was accepted exactly once" "and says so"
like "$(cat "$S/chaos")" "kill -9   raser-agentd [a-zA-Z0-9-]+\.[a-z0-9]{12}, process" \
	"agentds without a mount were killed as daemons"
like "$(cat "$S/chaos")" "histories [1-9][0-9]*, answers in them [1-9]" "and what they told is in their histories"

plan
