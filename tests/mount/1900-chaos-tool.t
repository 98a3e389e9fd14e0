#!/bin/bash
# 1900-chaos-tool.t - raser chaos on a run with two daemons and their agents: each task is accepted
# once, nothing of another run is touched, what chaos leaves behind when it is killed itself is undone,
# and a promise that was broken is told.
# RASER_CHAOS is how many seconds it lasts, RASER_SEED repeats the order of faults.
RASER_TIMEOUT=${RASER_TIMEOUT:-$((${RASER_CHAOS:-20} + 240))}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

seconds=${RASER_CHAOS:-20}
seed=${RASER_SEED:-$RANDOM}
raser=$top/raser
keys=(steal_after=3 max_failures=0 max_losses=999 grace=1 low.memory=0 medium.memory=0 high.memory=0
	low.failures=all agent.sandbox=none agent.checkpoint_every=0)
mkdir "$scratch/history" "$scratch/small"

# An agentd that ends otherwise than drained is started again, as by any supervisor; raserfs sees to itself.
# shellcheck disable=SC2016
working='trap "kill \$(jobs -p) 2>/dev/null; exit" TERM
until "$top/raser-agentd" --quiet --tier "$1" "$2" -- "$3" & wait $!; do sleep 0.1; done'
export top
work() { # work TIER MOUNT AGENT
	bash -c "$working" _ "$@" 2>>"$scratch/agentd.log" &
	extra_pids+=("$!")
	workers+=("$!")
}
workers=()

# a run that chaos must not know of, of the same user on the same machine, with an agent at work
new_run "${keys[@]}"
mount_run other || exit
other=$M
one stays
printf '#!/bin/sh\ntouch "%s"\nwhile [ ! -e "%s" ]; do sleep 0.1; done\n' "$scratch/works" "$scratch/go" >"$scratch/patient"
chmod +x "$scratch/patient"
"$top/raser-agentd" --tier low "$other" -- "$scratch/patient" 2>>"$scratch/agentd.log" &
patient=$!
extra_pids+=("$patient")
ok "another run has an agent at work" wait_until 20 exists "$scratch/works"
mapfile -t foreign < <(tree_of "$patient"; tree_of "${daemon[other]}")

# the run: on a small disk, where that can be had
new_run "${keys[@]}"
fill=--no-fill
if [ "$(id -u)" = 0 ] && mount -t tmpfs -o size=32m small "$scratch/small"; then
	restore+=("umount -l $scratch/small")
	mv "$RUN" "$scratch/small/run"
	RUN=$scratch/small/run
	fill=--floor=0
fi
export RASER_HISTORY=$scratch/history
ntasks=$((seconds * 12))
tasks "$ntasks" t | "$raser" submit "$RUN" - >/dev/null
printf '#!/bin/sh\nsleep 0.3\necho "$RASER_TASK_ID" >"$RASER_RESULTS/answer"\n' >"$scratch/agent"
chmod +x "$scratch/agent"
for m in a b; do
	ok "daemon $m is up" mount_run "$m" -o supervise
	work low "$scratch/$m" "$scratch/agent"
	work high "$scratch/$m" "$scratch/agent"
done
unset RASER_HISTORY # chaos finds it where the daemons have it

"$raser" chaos "$RUN" --for "$seconds" --seed "$seed" --every 0.3 "$fill" >"$scratch/out" 2>"$scratch/err"
status=$?
is "$status" 0 "raser chaos: every promise is kept"
[ "$status" = 0 ] || while read -r line; do diag "$line"; done < <(cat "$scratch/out" "$scratch/err")
diag "seed $seed; $(grep -E '^(attempts|daemons|agent|lease|node|storage)' "$scratch/out" | tr -s ' \n' ' ,')"
like "$(cat "$scratch/out")" "chaos: each of $ntasks tasks was accepted exactly once" "and says so"
like "$(cat "$scratch/out")" "audit: every promise was kept" "after an audit"
like "$(cat "$scratch/out")" "histories [1-9][0-9]*, answers in them [1-9]" "of what agents were told"
struck=$(awk '/^(agents|agentds|daemons|leases|node|storage)/ && $NF > 0' "$scratch/out" | wc -l)
[ "$struck" -ge 5 ]
result $? "there were faults of $struck kinds"
is "$(cat "$RUN"/results/t*[0-9]/out/answer 2>/dev/null | sort -u | wc -l)" "$ntasks" "a result for each task"
is "$(find "$RUN/logs" -name 'chaos.*' | wc -l)" 0 "its ballast is gone"

# what belongs to others
gone=0
for one in "${foreign[@]}"; do
	[ "$(stat_field "${one%:*}" 22)" = "${one#*:}" ] || gone=$((gone + 1))
done
# the agent's own `sleep` comes and goes
[ "$gone" -le 1 ]
result $? "the other run's processes live"
is "$(for one in "${foreign[@]}"; do grep -c "process ${one%:*}\$\|process ${one%:*}," "$scratch/out"; done | sort -u)" 0 \
	"none of them was touched"
touch "$scratch/go"
wait "$patient"
is $? 0 "and its agent ends as if nothing had been"
is "$(xattr "$other/tasks/stays" attempt)/$(xattr "$other/tasks/stays" state)" 1/done "in its first attempt"
mkdir "$scratch/own"
like "$(TMPDIR=$scratch/own "$raser" chaos "$other" --for 0 --wait 0 2>&1)" "no daemon here writes a history" \
	"daemons without a history: chaos says so"
is "$(ls -A "$scratch/own")" "" "and takes its own away"

# killed in the middle, with somebody stopped
one_state() { stat_field "$1" 3; }
all_stopped() {
	local pid
	for pid in $(sed -n 's/.*stop .*process \([0-9]*\),.*/\1/p' "$scratch/cut"); do
		[ "$(one_state "$pid")" = T ] && echo "$pid"
	done
}
tasks 200 u | "$raser" submit "$RUN" - >/dev/null
for m in a b; do work low "$scratch/$m" "$scratch/agent"; done
"$raser" chaos "$RUN" --for 60 --seed 5 --every 0.05 --no-fill >"$scratch/cut" 2>&1 &
cut=$!
extra_pids+=("$cut")
ok "chaos has stopped a process" wait_until 30 eval '[ -n "$(all_stopped)" ]'
kill_hard "$cut"
wait "$cut" 2>/dev/null
ok "chaos is killed: what it had stopped goes on" wait_until 10 eval '[ -z "$(all_stopped)" ]'

# a promise that is broken
end=$(find "$RUN/chain" -name 't1@*.end' -printf '%p %l\n' | awk -F: '$4 == "d"' | cut -d ' ' -f 1)
name=${end##*/}
attempt=${name#t1@}
ln -s "forger.abcdefghijkl:1:1" "${end%/*}/t1@$((${attempt%.end} + 1)).claim"
out=$("$raser" chaos "$RUN" --for 0 --wait 0 2>&1)
is $? 1 "a planted claim above done: chaos fails"
like "$out" "I3: task t1@[0-9]+ was done, but above it stands the claim" "and tells which"
out=$("$raser" audit "$RUN" "$scratch/history" 2>&1)
is $? 1 "so does raser audit"
like "$out" "I5: .*forger.* no history tells|links by daemons or tools without a history: 1" "which finds no writer"

# a run that was sealed since: its links are gone, what was told is still checked
new_run steal_after=1 low.memory=0 agent.sandbox=none
mkdir "$scratch/kept"
export RASER_HISTORY=$scratch/kept
tasks 5 s | "$raser" submit "$RUN" - >/dev/null
"$raser" run "$RUN" --agents low=1 -- true >/dev/null 2>&1
"$raser" seal "$RUN" >/dev/null 2>&1
unset RASER_HISTORY
is "$(find "$RUN/chain" -name '*.end' | wc -l)" 0 "a run is sealed"
"$raser" audit "$RUN" --complete --settled --undisturbed "$scratch/kept" >"$scratch/audit"
is $? 0 "its audit finds nothing"
like "$(cat "$scratch/audit")" "attempts 5, ended by others 0" "in all attempts that its seal tells of"
printf '1\tstart\tx\t1\tb\th\t1\n2\ttold\ts1\t7\tdone\t0\tn.x\t1\t2\n' >"$scratch/kept/lie.history"
like "$("$raser" audit "$RUN" "$scratch/kept")" "I4: task s1@7: " \
	"but that another attempt was told that it is done"

# nothing to break
for pid in "${workers[@]}"; do kill "$pid" 2>/dev/null; done
mkdir "$scratch/idle"
"$raser" init "$scratch/idle/run" >/dev/null
like "$(timeout 60 "$raser" chaos "$scratch/idle/run" --for 1 2>&1; echo "status $?")" \
	"no daemon or agent of yours works on .*status 1" "a run on which nobody works"
is "$("$raser" chaos "$scratch/idle/run" --for never 2>&1 | head -c 12)" "usage: raser" "no number"
like "$("$raser" chaos "$scratch/idle/run" --forever 2>&1)" "'--forever'.*usage: raser chaos" "an option that there is not is named"

plan
