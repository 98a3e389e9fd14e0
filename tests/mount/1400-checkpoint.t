#!/bin/bash
# 1400-checkpoint.t - what an agent loses when something dies: minutes at most, by periodic
# checkpoints, on request and at a SIGTERM; two generations, fallback, limits, a full disk.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

agentd=$top/raser-agentd
keys=(steal_after=6 max_failures=0 retry_delay=0.3 low.memory=0 medium.memory=0 high.memory=0)

# setup KEY=VALUE...: a fresh run, mounted at M; $results and $store
nmounts=0
setup() {
	[ "$nmounts" = 0 ] || unmount "m$nmounts" || return
	nmounts=$((nmounts + 1))
	new_run "${keys[@]}" "$@" && mount_run "m$nmounts" || exit
	results=$RUN/results
	store=$RUN/checkpoints
}

# agent SCRIPT: what the agents of this run do from now on
agent() { printf '%s\n' "$1" >"$scratch/agent.sh"; }

start() { # start TIER [OPTION...]: an agentd in the background, as $pid
	local tier=$1
	shift
	"$agentd" --tier "$tier" "$@" "$M" -- bash "$scratch/agent.sh" 2>>"$scratch/agentd.log" &
	pid=$!
	extra_pids+=("$pid")
}

run_one() { # run_one TIER: until the queue is drained
	"$agentd" --tier "$1" "$M" -- bash "$scratch/agent.sh" 2>>"$scratch/agentd.log"
}

state() { echo "$(xattr "$M/tasks/$1" state) $(xattr "$M/tasks/$1" failures) $(xattr "$M/tasks/$1" reason)"; }
archives() { find "$store/$1" -name '*.tar.*' ! -name '*.tried' -printf '%f\n' 2>/dev/null | sort -V; }
has_archive() { [ -n "$(archives "$1")" ]; }
has_archives() { [ "$(archives "$1" | wc -l)" -ge "$2" ]; }
record() { jq -r "$2" "$results/$1".*/attempt.json; }
newest() { archives "$1" | tail -n 1; }

# counts to 40 in its workspace, and says from where; slow enough to be interrupted
# shellcheck disable=SC2016 # the agent's shell expands it
counter='n=0; [ ! -e n ] || n=$(cat n)
echo "$RASER_RESUMED $n" >>"$RASER_RESULTS/from"
while [ "$n" -lt 40 ]; do
	sleep 0.05; n=$((n + 1)); echo "$n" >n.new; mv n.new n; echo "$n" >>"$RASER_RESULTS/log"
done'

# ---- kill -9, in and without a sandbox ----

for kind in none bwrap; do
	setup checkpoint_every=0.3 agent.checkpoint_every=0.3 agent.sandbox=$kind
	agent "$counter"
	one t
	start low
	ok "$kind: it is saved while it works" wait_until 20 has_archives t 2
	ok "$kind: and again" wait_until 20 eval '[ "$(newest t)" != "$(archives t | head -n 1)" ]'
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	was=$(wc -l <"$(echo "$results"/t@1.*/out/log)")
	run_one medium
	is $? 0 "$kind: another agentd finishes it after kill -9"
	is "$(state t)" "done 1 " "$kind: one failure, then done"
	from=$(cat "$results/t/out/from")
	like "$from" '^1 [1-9]' "$kind: it was resumed, not begun anew"
	below $((was - ${from#* })) 30 "$kind: steps that were done twice"
	like "$(record t@2 .restored)" '^1\.[a-z2-7]{12}-[0-9]+\.[0-9a-f]{16}\.tar\.zst$' \
		"$kind: the record names the checkpoint"
	like "$(record t@2 '.lost_seconds < 3')" true "$kind: and the work that was lost"
	is "$(json .resumed)" 1 "$kind: status.json counts it"
	like "$(cat "$M/report.html")" "1 attempts went on after one that had ended" "$kind: the report says so"
	is "$(record t@1 .state)" running "$kind: the killed attempt left a record all the same"
	is "$(ls "$store")" "" "$kind: of a task that is done no checkpoint is kept"
done

# ---- SIGTERM ----

# makes odd things, and tells on resuming whether they are the same
# shellcheck disable=SC2016
odd='sum() { find . -printf "%p %y %m %s %T@ %l %n\n" | grep -v "^\. " | sort | sha256sum; find . -type f -print0 | sort -z | xargs -0 sha256sum; }
if [ "$RASER_RESUMED" = 1 ]; then sum >"$RASER_RESULTS/after"; exit 0; fi
mkdir -p "a b/c" locked; head -c 100000 /dev/urandom >"a b/c/data"; ln "a b/c/data" hard; ln -s /nowhere sym
truncate -s 50M sparse; echo x >"$(printf "odd\nname\377")"; touch -d "2001-02-03 04:05:06.789" old; chmod 0640 old
trap "sum >$RASER_RESULTS/before; exit 99" TERM
touch "$RASER_RESULTS/up"; while :; do sleep 0.05; done'
setup agent.checkpoint_every=0 agent.sandbox=none grace=6
agent "$odd"
one odd
start low
ok "an agent without periodic checkpoints works" wait_until 20 eval '[ -e "$(echo "$results"/odd@1.*/out/up)" ]'
nok "and has none" has_archive odd
t0=$(now_ms)
kill -TERM "$pid"
wait "$pid"
is $? 99 "SIGTERM: exit 99"
below $(($(now_ms) - t0)) 4000 "well within the grace"
is "$(state odd)" "pending 0 preempted" "the task is given back"
is "$(archives odd | wc -l)" 1 "with a checkpoint"
below "$(stat -c %s "$store/odd/$(newest odd)")" 2000000 "in which holes cost nothing"
is "$(stat -c %a "$store/odd" "$store/odd/$(newest odd)" | tr '\n' ' ')" "700 600 " "its owner's alone"
run_one low
before=$(cat "$results"/odd@1.*/out/before)
is "$(cat "$results/odd/out/after")" "$before" "the workspace is restored to the byte"
like "$(record odd@2 '.lost_seconds < 2')" true "nothing was lost"

# an agent that does not care about SIGTERM
# shellcheck disable=SC2016
agent '[ "$RASER_RESUMED" = 0 ] || exit 0
trap "" TERM; echo x >x; touch "$RASER_RESULTS/up"; while :; do sleep 0.05; done'
one deaf
start low
ok "a deaf one works" wait_until 20 eval '[ -e "$(echo "$results"/deaf@1.*/out/up)" ]'
t0=$(now_ms)
kill -TERM "$pid"
wait "$pid"
is $? 99 "it is killed"
below $(($(now_ms) - t0)) 6500 "before the grace is over"
is "$(archives deaf | wc -l)" 1 "and saved all the same"
run_one low
is "$(state deaf)" "done 0 " "and done by the next"

# preempted while it restores, again and again: that is not the checkpoint's fault
# shellcheck disable=SC2016
agent 'if [ "$RASER_RESUMED" = 1 ]; then cat x >"$RASER_RESULTS/x"; exit 0; fi
[ ! -e "$RASER_RESULTS/../../../begun" ] || exit 65
echo kept >x; seq -f file%.0f 1 20000 | xargs touch; trap "exit 99" TERM; touch "$RASER_RESULTS/up"
while :; do sleep 0.05; done'
one large
start low
ok "one with many files" wait_until 60 eval '[ -e "$(echo "$results"/large@1.*/out/up)" ]'
kill -TERM "$pid"
wait "$pid"
is "$(archives large | wc -l)" 1 "is saved"
touch "$RUN/begun"
for k in 2 3 4; do
	start low
	ok "attempt $k restores it" wait_until 20 grep -q "^begun $k\." "$store/large/$(newest large).tried"
	kill -TERM "$pid"
	wait "$pid"
	is "$?/$(tail -n 1 "$store/large/$(newest large).tried" | cut -d . -f 1)" "99/undone $k" "and is preempted"
done
run_one low
is "$(state large)/$(cat "$results/large/out/x")" "done 0 /kept" "it is restored all the same"

# ---- on request, unchanged, generations ----

setup agent.checkpoint_every=0 agent.sandbox=none
# shellcheck disable=SC2016
agent 'if [ "$RASER_RESUMED" = 1 ]; then cat x >"$RASER_RESULTS/x"; exit 0; fi
echo asked >x; echo checkpoint >>"$RASER_CONTROL"
while [ "$(ls "'"$RUN"'/checkpoints/asked" 2>/dev/null | grep -c "tar.zst$")" = 0 ]; do sleep 0.02; done
kill -9 $PPID; sleep 100'
one asked
start low
wait "$pid" 2>/dev/null
ok "a checkpoint is taken when the agent asks for one" wait_until 20 has_archive asked
run_one medium
is "$(cat "$results/asked/out/x")" asked "and used"

setup agent.checkpoint_every=0.3 agent.sandbox=none
# shellcheck disable=SC2016
agent 'echo once >x; while [ ! -e "'"$scratch"'/go" ]; do sleep 0.05; done
for i in 1 2 3 4 5; do echo $i >x; echo checkpoint >>"$RASER_CONTROL"; sleep 0.4; done; exit 7'
one still
start low
ok "a workspace is saved once" wait_until 20 has_archive still
first=$(archives still)
sleep 1.2
is "$(archives still)" "$first" "and not again while nothing changes in it"
touch "$scratch/go"
ok "when it changes it is" wait_until 20 eval '[ "$(newest still)" != "$first" ]'
ok "the attempt fails" wait_until 20 eval '[ "$(xattr "$M/tasks/still" failures)" -ge 1 ]'
kill -KILL "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
is "$(archives still | wc -l)" 2 "two generations are kept"

# ---- fallback ----

# the newest one is damaged: the older one is used, and it is said
new=$(newest still)
old=$(archives still | tail -n 2 | head -n 1)
size=$(stat -c %s "$store/still/$new")
printf '\377\377\377' | dd of="$store/still/$new" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
# shellcheck disable=SC2016
agent 'echo "$RASER_RESUMED" >"$RASER_RESULTS/resumed"; exit 3'
k=$(xattr "$M/tasks/still" attempt)
start high
ok "a damaged checkpoint does not stop it" wait_until 20 eval '[ "$(xattr "$M/tasks/still" attempt)" -gt "$k" ]'
kill -KILL "$pid" 2>/dev/null
wait "$pid" 2>/dev/null
is "$(record "still@$k" .restored)" "$old" "the older one is restored"
like "$(record "still@$k" .restore_note)" "$new" "and the note names the damaged one"

# ---- limits ----

setup agent.checkpoint_every=0.3 agent.checkpoint_limit=1M agent.sandbox=none grace=4
# shellcheck disable=SC2016
agent '[ "$RASER_ATTEMPT" = 1 ] || exit 0; head -c 3000000 /dev/urandom >big; touch "$RASER_RESULTS/up"; sleep 100'
one big
: >"$scratch/agentd.log"
start low
ok "a large workspace is not saved, and it is said" wait_until 20 grep -q "task big@1: no checkpoint: " "$scratch/agentd.log"
kill -TERM "$pid"
wait "$pid"
is $? 99 "SIGTERM goes on without one"
nok "nothing is left of the try" eval 'find "$store" -type f ! -name "*.alive" | grep -q .'
run_one low
is "$(state big)" "done 0 " "and the task is done by the next, from the beginning"

# ---- a full disk ----

if [ "$(id -u)" = 0 ] && mkdir "$scratch/small" && mount -t tmpfs -o size=4m small "$scratch/small"; then
	restore+=("umount -l $scratch/small")
	setup agent.checkpoint_every=0.3 agent.sandbox=none
	rmdir "$RUN/checkpoints"
	ln -s "$scratch/small" "$RUN/checkpoints"
	# shellcheck disable=SC2016
	agent 'n=0; if [ "$RASER_RESUMED" = 1 ]; then cp small "$RASER_RESULTS/small"; exit 0; fi
echo kept >small; touch "$RASER_RESULTS/up"
while [ ! -e "'"$scratch"'/grow" ]; do sleep 0.05; done
head -c 8000000 /dev/urandom >large; touch "$RASER_RESULTS/large"; sleep 100'
	one full
	: >"$scratch/agentd.log"
	start low
	ok "the disk takes the first checkpoint" wait_until 20 has_archive full
	touch "$scratch/grow"
	ok "but not the next" wait_until 20 grep -q "no checkpoint: .*No space left" "$scratch/agentd.log"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	is "$(find "$scratch/small" -name 'tmp.*' | wc -l)" 0 "nothing half-written is left"
	run_one medium
	is "$(cat "$results/full/out/small")" kept "the one before it is as good as ever"
else
	skip 4 "not root: no small disk"
fi

# ---- where the file system can clone, the agent does not stand still ----

if [ "$(id -u)" = 0 ] && command -v mkfs.xfs >/dev/null && truncate -s 400M "$scratch/xfs.img" &&
	mkfs.xfs -q -m reflink=1 "$scratch/xfs.img" && mkdir "$scratch/xfs" && mount -o loop "$scratch/xfs.img" "$scratch/xfs"; then
	restore+=("umount -l $scratch/xfs")
	setup agent.checkpoint_every=0.3 agent.sandbox=none
	agent "$counter"
	one cloned
	: >"$scratch/agentd.log"
	start low --workspaces "$scratch/xfs"
	ok "it is saved on a file system that can clone" wait_until 20 has_archives cloned 2
	cat >"$scratch/heavy.sh" <<-'EOF'
		[ -e data ] || head -c 60000000 /dev/urandom >data; touch "$RASER_RESULTS/up"
		while :; do echo x >>log; sleep 0.05; done
	EOF
	one heavy
	"$agentd" --tier high --workspaces "$scratch/xfs" "$M" -- bash "$scratch/heavy.sh" 2>>"$scratch/heavy.log" &
	heavy=$!
	extra_pids+=("$heavy")
	ok "a large one, too" wait_until 30 grep -q "task heavy@1: checkpoint" "$scratch/heavy.log"
	kill -KILL "$heavy"
	"$top/raser" cancel "$M" heavy >/dev/null
	read -r took still <<<"$(sed -n 's/.*task heavy@1: checkpoint .* in \([0-9]*\) ms, .* still for \([0-9]*\)$/\1 \2/p' "$scratch/heavy.log" | head -n 1)"
	below "$((2 * still))" "$took" "while its agent goes on"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	"$agentd" --tier medium --workspaces "$scratch/xfs" "$M" -- bash "$scratch/agent.sh" 2>>"$scratch/agentd.log"
	like "$(cat "$results/cloned/out/from")" '^1 [1-9]' "and resumed from one"
	is "$(find "$scratch/xfs" -name 'raser-agent.*' | wc -l)" 0 "nothing of it is left there"
else # loop devices are the machine's
	skip 5 "no xfs can be mounted"
fi

unmount "m$nmounts"
plan
