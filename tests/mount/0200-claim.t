#!/bin/bash
# 0200-claim.t - claiming by opening: who waits and who is interrupted, what a holder's death
# means, and that nothing is lost between a claim and its delivery.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

new_run steal_after=60 max_failures=0 || exit
mount_run m || exit
low=$M/queue/low
next=$low/next

# ---- drained ----

is "$(chk open r,nonblock "$next")" ENODATA "next of an empty queue, O_NONBLOCK: ENODATA"
is "$(timeout 20 "$top/tests/chk" open r "$next")" ENODATA "and without"
is "$(timeout 20 "$top/tests/chk" open rw "$M/queue/high/next")" ENODATA "so does O_RDWR, in any tier"

# ---- waiting ----

one keep
take keep "$low/keep@1" # a queue with a claim is not drained
is "$(chk open r,nonblock "$next")" EAGAIN "O_NONBLOCK, nothing there but claims: EAGAIN"
is "$(chk open rw,nonblock "$next")" EAGAIN "O_RDWR as well"

# blocked COMMAND...: start it and see that it waits
blocked() {
	"$@" >"$scratch/out" 2>"$scratch/err" &
	waiter=$!
	extra_pids+=("$waiter")
	wait_until 10 is_waiting 1 || diag "it does not wait: $*"
}
# over WANTED TEXT: how it ended
over() {
	wait_until 5 dead "$waiter"
	wait "$waiter" 2>/dev/null
	is $? "$1" "$2"
	ok "and nobody waits any more" wait_until 5 is_waiting 0
}

blocked cat "$next"
kill -TERM "$waiter"
over 143 "SIGTERM ends cat next"
blocked cat "$next"
kill -KILL "$waiter"
over 137 "so does SIGKILL"
from=$(now_ms)
blocked timeout 1 cat "$next"
over 124 "timeout 1 cat next"
below "$(($(now_ms) - from))" 3000 "ends it in time, ms"
blocked "$top/tests/chk" alarm 500 r "$next"
over 0 "a handler of SIGALRM without SA_RESTART"
is "$(cat "$scratch/out")" EINTR "interrupts it"
blocked "$top/tests/chk" open r "$next"
kill -STOP "$waiter"
kill -CONT "$waiter"
over 0 "SIGSTOP and SIGCONT"
is "$(cat "$scratch/out")" EINTR "interrupt it, as the kernel has it"
if command -v python3 >/dev/null; then
	blocked python3 -c '
import signal, sys
def on(sig, frame): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, on)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    open(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
' "$next"
	over 0 "Python, whose handler raises"
	is "$(cat "$scratch/out")" interrupted "gets its exception"
	blocked python3 -c 'import sys; print(open(sys.argv[1]).readline(), end="")' "$next"
	kill -STOP "$waiter"
	sleep 0.2
	kill -CONT "$waiter"
	sleep 0.2
	ok "Python waits again after SIGSTOP and SIGCONT" wait_until 5 is_waiting 1
	one py
	over 0 "and gets the next task"
	is "$(cat "$scratch/out")" "leases/py@1" "whole"
	is "$(chk write "$M/leases/py@1" "done")" ok "which it may end"
else
	skip 9 "no python3"
fi
one left
is "$(names "$low") $(names "$M/leases")" "left@1 keep@1" "who was interrupted has claimed nothing"

# ---- what does not wait ----

timeout 5 touch "$next" 2>/dev/null
is $? 1 "touch next fails at once"
timeout 5 bash -c ": >'$next'" 2>/dev/null
is $? 1 "> next fails at once"
timeout 5 bash -c "echo >>'$next'" 2>/dev/null
is $? 1 ">> next fails at once"
ok "[ -r next ]" [ -r "$next" ]
is "$(names "$low") $(names "$M/leases")" "left@1 keep@1" "none of that has claimed anything"

# ---- next ----

hold n rw "$next"
is "$(answer n) $(ask n read)" "ok ok" "O_RDWR of next claims"
is "$(ask n line 1) $(ask n line 2)" 'leases/left@1 {"id":"left"}' "the lease's name, then the payload"
is "$(names "$M/leases")" "keep@1 left@1" "it is a claim"
is "$(ask n write free)" ok "given back through its descriptor"
is "$(cat "$next")" $'leases/left@2\n{"id":"left"}' "O_RDONLY of next claims too"
sleep 0.3
is "$(names "$M/leases")" "keep@1 left@2" "and lasts without its descriptor"
is "$(chk write "$M/leases/left@2" "done")" ok "it is done"
end_holder n

wake_ms() {
	local from
	hold w r "$next"
	wait_until 5 is_waiting 1
	from=$(now_ms)
	one "wake$from"
	[ "$(answer w)" = ok ] && [ "$(ask w read)" = ok ] || return
	echo $(($(now_ms) - from))
	ask w write x >/dev/null
	chk write "$M/$(ask w line 1)" "done" >/dev/null
}
# not in a subshell: holders are this shell's
best=9999
for _ in 1 2 3; do
	wake_ms >"$scratch/ms"
	[ "$(cat "$scratch/ms")" -ge "$best" ] || best=$(cat "$scratch/ms")
	end_holder w
done
below "$best" 100 "a waiter has a task so soon after its submission began, ms"

# ---- a holder dies ----

# crash_ms NAME: from kill -9 to T@2
crash_ms() {
	local from end
	one "$1"
	take c "$low/$1@1" || return
	from=$(now_ms)
	kill -KILL "${held[c]}"
	end=$((from + 5000))
	until [ -e "$M/queue/medium/$1@2" ] || [ "$(now_ms)" -gt "$end" ]; do :; done
	ms=$(($(now_ms) - from))
	wait "${held[c]}" 2>/dev/null
	forget c
}
best=9999
for i in 1 2 3 4 5; do
	crash_ms "crash$i"
	[ "$ms" -ge "$best" ] || best=$ms
done
below "$best" 100 "from kill -9 of an O_RDWR holder to its task, ms"
is "$(chk touch "$M/leases/crash1@1")" ESTALE "its late touch"
is "$(chk rename 0 "$M/leases/crash1@1" "$M/done/crash1@1")" ESTALE "its late mv"
is "$(chk write "$M/leases/crash1@1" "done")" ESTALE "its late verb"
is "$(chk open rw "$low/crash1@1")" ENOENT "the attempt cannot be taken again"
is "$(xattr "$M/tasks/crash1" failures) $(xattr "$M/tasks/crash1" reason)" "1 crash" "it counts as a failure"
ok "T@2 is there to be taken" take c "$M/queue/medium/crash1@2"
is "$(chk unlink "$M/leases/crash1@2")" ok "a claim is revoked"
is "$(ask c write "done")" ESTALE "a late write into its descriptor"
is "$(ask c touch)" ESTALE "a late touch of its descriptor"
is "$(ask c close)" ok "it can be closed"
is "$(xattr "$M/tasks/crash1" state) $(xattr "$M/tasks/crash1" attempt)" "pending 3" "and that ends nothing else"
end_holder c
for i in 1 2 3 4 5; do mv "$M/pending/crash$i" "$M/cancelled/" || break; done

# a waiter takes over at once
best=9999
for i in 1 2 3; do
	one "over$i"
	take c "$low/over$i@1"
	hold w r "$M/queue/high/next"
	wait_until 5 is_waiting 1
	from=$(now_ms)
	kill -KILL "${held[c]}"
	[ "$(answer w)" = ok ] || diag "the waiter got nothing"
	ms=$(($(now_ms) - from))
	[ "$ms" -ge "$best" ] || best=$ms
	wait "${held[c]}" 2>/dev/null
	forget c
	ask w read >/dev/null
	is "$(ask w line 1)" "leases/over$i@2" "a waiter gets the task of a dead holder"
	chk write "$M/leases/over$i@2" "done" >/dev/null
	end_holder w
done
below "$best" 100 "so long after its death, ms"

# ---- how long a descriptor lasts ----

# still NAME, then ended NAME: its lease
still() {
	sleep 0.3
	is "$(names "$M/leases")" "keep@1 $1@1" "$2"
}
ended() {
	ok "$2" wait_until 5 has_count "$M/leases" 1
	is "$(names "$M/queue/medium")" "$1@2" "and the task is there again"
	mv "$M/pending/$1@2" "$M/cancelled/"
}
one dup
take c "$low/dup@1"
is "$(ask c dup) $(ask c close)" "ok ok" "dup, close"
still dup "the copy keeps the lease"
ask c undup >/dev/null
ended dup "the last copy ends it"
end_holder c

one fork
take c "$low/fork@1"
child=$(ask c fork)
adopt "$child"
kill -KILL "${held[c]}"
wait "${held[c]}" 2>/dev/null
forget c
still fork "a child that inherited it keeps the lease"
kill_hard "$child"
ended fork "its death ends it"

one exec
take c "$low/exec@1"
child=$(ask c fork exec)
adopt "$child"
is "$(ask c close)" ok "the parent closes"
still exec "a sleep that inherited it keeps the lease"
kill_hard "$child"
ended exec "its death ends it"
end_holder c

one map
take c "$low/map@1"
is "$(ask c mmap shared)" ENODEV "MAP_SHARED"
is "$(ask c mmap) $(ask c close)" "ok ok" "MAP_PRIVATE, close"
still map "the mapping keeps the lease"
is "$(ask c munmap)" ok "munmap"
ended map "its end ends it"
end_holder c

one shell
exec 8<>"$low/shell@1"
IFS= read -r line <&8
is "$line" '{"id":"shell"}' "exec 3<> in a shell claims"
is "$(names "$M/leases")" "keep@1 shell@1" "as long as it is open"
exec 8>&-
ended shell "closing it ends it"

# ---- undelivered ----

one un
hold c rw "$low/un@1"
is "$(answer c)" ok "a claim that is never read"
is "$(ask c close)" ok "and closed"
ok "comes back as un@2 in its tier" wait_until 5 exists "$low/un@2"
is "$(xattr "$M/tasks/un" failures) $(xattr "$M/tasks/un" losses) $(xattr "$M/tasks/un" reason)" \
	"0 0 undelivered" "counting nothing"
end_holder c
hold c rw "$next"
is "$(answer c)" ok "the same by next"
end_holder c
ok "and kill -9" wait_until 5 exists "$low/un@3"
is "$(xattr "$M/tasks/un" failures) $(xattr "$M/tasks/un" losses)" "0 0" "counting nothing"
hold c r "$next"
is "$(answer c)" ok "and by O_RDONLY"
end_holder c
ok "which was not delivered either" wait_until 5 exists "$low/un@4"
mv "$M/pending/un@4" "$M/cancelled/"

# ---- thousands wait ----

n=5000
[ -z "${RASER_QUICK-}" ] || n=500
best=9999
rss() { awk '/^VmRSS/ { print $2 }' "/proc/${daemon[m]}/status"; }
for try in 1 2 3; do
	before=$(rss)
	remote w "$top/tests/crowd" waiters $n "$next"
	is "$(answer w)" ok "$n opens of next"
	ok "wait" wait_until 30 is_waiting $n
	during=$(rss)
	ask w mark >/dev/null
	submit $n "many$try."
	like "$(ask w wait 20000)" "^answered=$n got=$n distinct=$n ms=[0-9]+$" "each gets a task of its own"
	ms=$(ask w tell)
	ms=${ms##*ms=}
	[ "$ms" -ge "$best" ] || best=$ms
	end_holder w
	is "$(count "$M/leases")" $((n + 1)) "and holds it"
	[ $try = 1 ] && grown=$((during - before))
	is "$(chk list 0 "$M/leases" | grep many | crowd ends 8 write "$M" | grep -c failed)" 0 "all of them are done"
	[ "$ms" -gt 1000 ] || break
done
below "$best" $((1000 * tries_slow)) "from the beginning of their submission, ms"
[ -n "${RASER_SANITIZED-}" ] || below "$grown" 16384 "what they made the daemon grow by, kB"

# ---- the storm ----

rounds=30
[ -z "${RASER_QUICK-}${RASER_SANITIZED-}" ] || rounds=5
before=$(json '[.ends.retry, .ends.lost] | join(" ")')
out=$(crowd storm "$M" high 200 150 $rounds)
diag "storm: $out"
like "$out" "^added=$((rounds * 150)) done=$((rounds * 150)) unsettled=0 odd=0 " \
	"holders are killed at any moment: every lease is of one that lives and has read, all get done"
# shellcheck disable=SC2086 # words are meant to be split
set -- $out
killed=${5#*=}
holding=${6#*=}
# shellcheck disable=SC2046,SC2086 # words are meant to be split
set -- $before $(json '[.ends.retry, .ends.lost] | join(" ")')
retried=$(($3 - $1))
[ "$retried" -ge "$holding" ] && [ "$retried" -le "$killed" ]
is $? 0 "only dead holders count as failures ($holding <= $retried <= $killed)"
is "$4" "$2" "and none as lost"
end_holder keep
unmount m
is $? 0 "the daemon ends"

# ---- which is the best ----

new_run steal_after=60 || exit
mount_run m2 || exit
cat >"$M/new/order" <<'END'
{"id":"s1"}
{"id":"s2","priority":5}
{"id":"s3","expected":100}
{"id":"s4","expected":50}
{"id":"s5","priority":-1,"expected":1000}
{"id":"s6"}
{"id":"h1","tier":"high","priority":-5}
{"id":"h2","tier":"high"}
END
# order N TIER: the tasks that next gives
order() {
	local i
	for ((i = 0; i < $1; i++)); do head -n 1 "$M/queue/$2/next" | sed 's|leases/||; s/@.*//'; done | tr '\n' ' '
}
is "$(order 1 high)" "h2 " "a tier with elevated_first begins with what others may not take"
is "$(order 1 low)" "s2 " "another with the highest priority"
echo '{"id":"late","priority":9}' >"$M/new/later"
is "$(order 1 low)" "late " "also when that came later"
is "$(order 1 high)" "h1 " "what others may not take comes before any priority"
is "$(order 5 low)" "s3 s4 s1 s6 s5 " "then priority, expected duration, submission"
is "$(chk open r,nonblock "$M/queue/low/next")" EAGAIN "and that was all"
unmount m2

# ---- a site where every open claims ----

new_run steal_after=60 || exit
mount_run m3 -o claim=open || exit
submit 2 x
is "$(cat "$M/queue/low/x1@1")" '{"id":"x1"}' "-o claim=open: cat claims"
sleep 0.3
is "$(names "$M/leases")" "x1@1" "and the claim lasts while it is heartbeaten"
is "$(chk open r "$M/queue/low/x1@1")" EBUSY "a second cat: EBUSY"
is "$(cat "$M/pending/x2@1")" '{"id":"x2"}' "pending/ still shows"
is "$(names "$M/leases")" "x1@1" "and does not claim"
is "$(chk write "$M/leases/x1@1" "done")" ok "it can be ended"
unmount m3
plan
