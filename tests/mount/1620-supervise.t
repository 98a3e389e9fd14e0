#!/bin/bash
# 1620-supervise.t - the supervisor of raserfs: kill -9 and stops under load, a mount within a second,
# agents that go on, ends that are meant, and restarts at bad moments.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

S=$scratch
M=$S/m
mkdir "$M"
agentd=$top/raser-agentd

# in the background, supervised; sets super
start_raserfs() {
	"$top/raserfs" -o log="$S/log" "$RUN" "$M" </dev/null 2>>"$S/log" || return
	super=$(awk '{ print $4 }' "/proc/$(background_pid)/stat")
	adopt "$super"
	adopt "$(background_pid)"
}
stand() { [ "$(xattr "$M/tasks/$1" state 2>/dev/null)" = claimed ]; }
has_attempt() { [ "$(xattr "$M/tasks/$1" attempt 2>/dev/null)" = "$2" ]; }
# kill_serving: kill -9, and ms until the mount answers again
kill_serving() {
	local pid t0
	pid=$(background_pid) || return
	t0=${EPOCHREALTIME/./}
	kill -KILL "$pid"
	until read -r _ <"$M/README"; do
		[ $((${EPOCHREALTIME/./} - t0)) -lt 20000000 ] || break
	done 2>/dev/null
	echo $(((${EPOCHREALTIME/./} - t0) / 1000))
	adopt "$(background_pid)"
}

# ---- kill -9 under load ----

new_run steal_after=60 max_failures=0 grace=2 low.memory=0 medium.memory=0 high.memory=0 agent.sandbox=none \
	agent.checkpoint_every=0 wedged_after=2 || exit
ok "in the background: with a supervisor" start_raserfs
is "$(cat "/proc/$super/comm")" raserfs-super "which is a process of its own"
one long '"tier":"medium"'
tasks 300 t >"$M/new/t"

# shellcheck disable=SC2016 # the agent's shell expands it
printf '%s\n' 'echo "$RASER_ATTEMPT" >>"$RASER_RESULTS/attempt"' \
	'case $RASER_TASK in long) echo $$ >>"'"$S"'/starts"; while [ ! -e "'"$S"'/go" ]; do sleep 0.05; done ;;' \
	'*) sleep 0.15 ;; esac' 'echo answer >"$RASER_RESULTS/answer"' >"$S/agent.sh"
"$agentd" --tier medium "$M" -- bash "$S/agent.sh" 2>>"$S/agentd.log" &
keeper=$!
extra_pids+=("$keeper")
wait_until 20 exists "$S/starts" || diag "no agent"
agentds=()
for i in 1 2 3; do
	"$agentd" --tier low "$M" -- bash "$S/agent.sh" 2>>"$S/agentd.log" &
	agentds+=($!)
done
extra_pids+=("${agentds[@]}")
# one that starts while the mount is gone has nothing to work on
all_work() { [ "$(count "$M/leases")" = 4 ]; }
wait_until 20 all_work || diag "not all agentds have a task"
# an agent of nothing but a shell: what it loses it forgets
shell_agent() {
	local lease
	while [ ! -e "$S/stop" ]; do
		{
			IFS= read -r lease <&3 && sleep 0.05 && echo "done" >"$M/$lease"
		} 3<>"$M/queue/low/next" || sleep 0.05 # the mount is gone, or the queue is drained
	done
}
shell_agent 2>/dev/null &
extra_pids+=($!)
shell_agent 2>/dev/null &
extra_pids+=($!)
times=()
back=()
lost=0
for round in 1 2 3 4 5 6 7 8 9 10; do
	before=$(mount_owner)
	ms=$(kill_serving)
	times+=("$ms")
	t0=$(now_ms)
	wait_until 5 eval "has_attempt long $((round + 1)) && stand long" || lost=$((lost + 1))
	back+=($(($(now_ms) - t0 + ms)))
	[ "$(mount_owner)" != "$before" ] || diag "round $round: the owner is the same"
	wait_until 2 gone "$RUN/nodes/$before" || diag "round $round: $before is still there"
	[ "$(mount_height)" = 1 ] || diag "round $round: $(mount_height) mounts"
	sleep 1.1 # a short life would make the next one wait
done
sorted=$(printf '%s\n' "${times[@]}" | sort -n | tr '\n' ' ')
diag "ms until the mount answers: $sorted; until the task is claimed again: ${back[*]}"
worst=$(printf '%s\n' "${times[@]}" | sort -n | tail -n 1)
below "$worst" $((1000 * tries_slow)) "mounted again within a second, ten times under load"
is $lost 0 "and the task is claimed again each time"
is "$(xattr "$M/leases/long@11" agent)" "raser-agentd[$keeper]" "by the same agentd"
is "$(wc -l <"$S/starts") $(alive "$(cat "$S/starts")" && echo lives)" "1 lives" "with the agent that ran all the time"
is "$(find "$RUN/nodes" -type f | wc -l) $(mount_height)" "1 1" "one owner, one mount, nothing stacked"
is "$(ps -o stat= --ppid "$super" | grep -vc Z) $(ps -o stat= --ppid "$super" | grep -c Z)" "1 0" \
	"one serving process, no zombie"
is "$(grep -c "was killed by signal 9; mounted again as .* after [0-9]* ms" "$S/log")" 10 "the log tells of each"
like "$(cat "$M/status")" "mounted again 10 times; the one before: [^ ]* \(pid [0-9]+\) was killed by signal 9" \
	"status of the last"
is "$(json .restarts) $(awk '/^raser_restarts_total/ { print $2 }' "$M/metrics")" "10 10" "so do the numbers"
wait_until 60 eval '[ "$(count "$M/done")" = 300 ]' || diag "$(cat "$M/status")"
touch "$S/go" "$S/stop"
wait "$keeper" "${agentds[@]}"
is $? 0 "every agentd lives on to the end of the queue"
is "$(names "$M/failed") $(count "$M/done")" " 301" "every task is done"
is "$(find "$RUN/chain" -name '*.end' -exec readlink {} + | grep -c ':d:')" 301 "exactly once"
is "$(find "$RUN/chain" -name '*.end' -exec readlink {} + | cut -d : -f 4-5 | sort -u | tr '\n' ' ')" "d:- f:B " \
	"what else ended was freed by a restart"
is "$(for t in "$M"/done/*; do xattr "$t" failures; xattr "$t" losses; done | sort -u)" 0 "no failure and no loss is counted"
is "$(for f in "$RUN"/results/t*@*/out/attempt; do [ "$(wc -l <"$f")" = 1 ] || echo "$f"; done)" "" \
	"no agent is started twice in one attempt"
is "$(cat "$RUN/results/long/out/answer")" answer "the result is there"


# ---- a wedge ----

# fusectl is what breaks a connection; where it is not mounted, umount -f
ctl=/sys/fs/fuse/connections
if [ "$(id -u)" = 0 ] && [ -z "$(ls $ctl)" ] && mount -t fusectl none $ctl 2>/dev/null; then
	restore+=("umount $ctl")
fi
one wedge '"tier":"high"'
ok "a claim" take w "$M/queue/high/wedge@1"
one blocked # somebody must wait for something
take b "$M/queue/low/blocked@1"
"$top/tests/chk" open r "$M/queue/low/next" >"$S/blocked" &
waiter=$!
extra_pids+=("$waiter")
wait_until 5 is_waiting 1
before=$(mount_owner)
pid=$(background_pid)
kill -STOP "$pid"
t0=$(now_ms)
"$top/tests/chk" stat "$M/README" >"$S/stat" & # and one whose request is never read
stat=$!
extra_pids+=("$stat")
disown
sleep 0.2
kill -KILL "$stat"
ok "who waits for a daemon that was stopped is freed" wait_until 15 dead "$waiter"
ms=$(($(now_ms) - t0))
ok "after the limit, not before ($ms ms)" [ $ms -gt 1500 ]
below $ms $((6000 * tries_slow)) "and soon"
is "$(cat "$S/blocked")" ECONNABORTED "with ECONNABORTED"
ok "the other one, too" wait_until 5 dead "$stat"
ok "another daemon serves" wait_until 5 mounted_again "$before"
adopt "$(background_pid)"
ok "the stopped one is gone" dead "$pid"
like "$(grep "pid $pid" "$S/log" | tail -n 1)" \
	"did not serve for [0-9]+ s and was broken off by (fusectl|umount -f) and killed; mounted again as " "which the log tells"
[ ! -d $ctl ] || [ -z "$(ls $ctl)" ] ||
	like "$(grep "pid $pid" "$S/log")" "broken off by fusectl" "by fusectl, where that is mounted"
ok "its claims go on" wait_until 5 exists "$M/queue/high/wedge@2"
is "$(mount_height)" 1 "nothing is stacked"
end_holder w
end_holder b

# all of it stands still: that is nobody's fault
before=$(mount_owner)
pid=$(background_pid)
kill -STOP "$super" "$pid"
sleep 3.5
kill -CONT "$super"
sleep 0.5
kill -CONT "$pid"
sleep 1
is "$(mount_owner)" "$before" "a supervisor that was stopped itself condemns nobody"

# ---- broken off by somebody else; unmounted ----

if [ -n "$(ls $ctl)" ]; then
	echo 1 >"$ctl/$(connection "$M")/abort"
	ok "a connection that somebody breaks off is mounted again" wait_until 5 mounted_again "$before"
	adopt "$(background_pid)"
else
	skip 1 "no fusectl"
fi
# without fusectl it is unmounted by force: what lies over it is somebody else's
umount "$ctl" 2>/dev/null
if [ "$(id -u)" = 0 ]; then
	before=$(mount_owner)
	pid=$(background_pid)
	mount -t tmpfs cover "$M"
	kill -STOP "$pid"
	ok "a stopped daemon is ended, though its mount is covered" wait_until 20 dead "$pid"
	is "$(findmnt -n -o SOURCE "$M" | tail -n 1)" cover "the cover is left alone"
	ok "who covers it is told" wait_until 10 grep -q "$M: the mount of a dead daemon cannot be taken away" "$S/log"
	umount "$M"
	ok "and it is mounted again once that is away" wait_until 20 mounted_again "$before"
	adopt "$(background_pid)"
	is "$(mount_height)" 1 "alone"
fi
pid=$(background_pid)
umount "$M" 2>/dev/null || fusermount3 -u "$M"
ok "umount ends the serving process" wait_until 5 dead "$pid"
ok "and its supervisor" wait_until 5 dead "$super"
is "$(mount_height) $(find "$RUN/nodes" -type f | wc -l)" "0 0" "nothing is left"

# ---- the death of the supervisor ----

exec {lock}>"$S/lock"
flock "$lock"
start_raserfs || exit
exec {lock}>&-
ok "in the background it keeps nothing open that its starter had" flock -n "$S/lock" true
before=$(mount_owner)
one orphan
take o "$M/queue/low/orphan@1"
kill -KILL "$super"
ok "without its supervisor it says so" wait_until 5 grep -q "the supervisor of this daemon is gone; serving on" "$S/log"
is "$(mount_owner) $(ask o touch)" "$before ok" "and serves on"
pid=$(background_pid)
kill -KILL "$pid"
ok "until it dies, too" wait_until 5 dead "$pid"
is "$(chk stat "$M/status")" ENOTCONN "which leaves a dead mount"
end_holder o
start_raserfs || exit
is "$(mount_height)" 1 "that the next raserfs takes away"
ok "its claims come back at once" wait_until 5 exists "$M/queue/low/orphan@2"

# ---- ends that are meant ----

take o "$M/queue/low/orphan@2"
pid=$(background_pid)
kill -TERM "$super"
wait_until 5 grep -q "leaving: 1 claims are still held" "$S/log"
is "$(ask o write "done")" ok "SIGTERM to the supervisor: what is held may still end"
ok "then the daemon is gone" wait_until 5 dead "$pid"
ok "and the supervisor" wait_until 5 dead "$super"
end_holder o
is "$(mount_height) $(find "$RUN/nodes" -type f | wc -l)" "0 0" "in order"
"$top/raserfs" -f -o supervise "$RUN" "$M" 2>>"$S/log" &
super=$!
extra_pids+=("$super")
wait_until 5 mount_serves
pid=$(background_pid)
adopt "$pid"
ok "-f -o supervise: in the foreground" [ "$(stat_field "$pid" 4)" = "$super" ]
kill -TERM "$pid"
wait "$super"
is $? 0 "SIGTERM to the serving process is meant as well: status 0"
mount_run f || exit
is "$(background_pid)" "${daemon[f]}" "-f alone has no supervisor"
unmount f
M=$S/m
"$top/raserfs" -o nosupervise "$RUN" "$M" </dev/null 2>>"$S/log"
pid=$(background_pid)
adopt "$pid"
nok "-o nosupervise has none either" grep -q raserfs-super "/proc/$(stat_field "$pid" 4)/comm"
umount "$M" 2>/dev/null || fusermount3 -u "$M"
like "$("$top/raserfs" -o supervise,nosupervise "$RUN" "$M" 2>&1; echo $?)" "does not go with nosupervise.*1" \
	"supervise and nosupervise"
like "$("$top/raserfs" -f -o supervise "$RUN" /dev/fd/9 2>&1; echo $?)" "who has mounted it must mount again.*1" \
	"supervise and a descriptor"
sed -i 's/^wedged_after.*/wedged_after = 1/' "$RUN/raser.ini"
like "$("$top/raserfs" "$RUN" "$M" 2>&1; echo $?)" "wedged_after must be 0 or at least 2 seconds.*1" \
	"a limit that cannot be: told as ever, at the first start"
sed -i 's/^wedged_after.*/wedged_after = 2/' "$RUN/raser.ini"

# ---- bad moments ----

start_raserfs || exit
before=$(mount_owner)
mv "$RUN/FORMAT" "$S/FORMAT"
kill -KILL "$(background_pid)"
ok "a run directory that cannot be read now" wait_until 5 grep -q "cannot be mounted at $M now; trying on" "$S/log"
ok "leaves no dead mount" wait_until 5 eval '[ "$(mount_height)" = 0 ]'
rmdir "$M"
sleep 1
alive "$super"
is $? 0 "is waited for"
mkdir "$M"
mv "$S/FORMAT" "$RUN/FORMAT"
ok "and mounted when it is there again" wait_until 10 mounted_again "$before"
like "$(tail -n 20 "$S/log")" "was killed by signal 9; mounted again as [^ ]* after [0-9]{4} ms" "however long it took"

# killed again and again: pauses grow, service resumes
end_super() { kill -TERM "$super" && wait_until 5 dead "$super"; }
end_super
start_raserfs || exit
killed=0
end=$(($(now_ms) + 5000))
while [ "$(now_ms)" -lt $end ]; do
	pid=$(ps -o pid= --ppid "$super" | head -n 1)
	[ -z "$pid" ] || { kill -KILL $pid 2>/dev/null && killed=$((killed + 1)); }
	sleep 0.05
done
below $killed 12 "a daemon that dies every 50 ms is mounted again ever more slowly"
ok "but not never" [ $killed -ge 4 ]
ok "and in the end it serves" wait_until 20 mount_serves
is "$(mount_height)" 1 "once"
sleep 1.1
before=$(mount_owner)
pid=$(background_pid)
adopt "$pid"

# another run in its place
cp "$RUN/FORMAT" "$S/FORMAT"
echo 'raserfs 1 zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' >"$RUN/FORMAT"
kill -KILL "$pid"
ok "a directory that is another run's is not mounted again" wait_until 20 dead "$super"
like "$(tail -n 3 "$S/log")" "is another run by now; leaving" "and the log says why"
is "$(mount_height)" 0 "nothing is left mounted"
cp "$S/FORMAT" "$RUN/FORMAT"

plan
