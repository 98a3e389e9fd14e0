#!/bin/bash
# 0300-lease.t - keeping, losing and ending a claim: heartbeats, verbs, moves, limits.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

new_run steal_after=60 max_failures=2 max_losses=3 retry_delay=1 || exit
mount_run m || exit
low=$M/queue/low
l=$M/leases

state() { echo "$(xattr "$M/tasks/$1" state) $(xattr "$M/tasks/$1" failures) $(xattr "$M/tasks/$1" losses)"; }
# claim NAME: a new task of low, claimed by nobody's descriptor
claim() {
	local got
	one "$@"
	got=$(head -n 1 "$low/next")
	[ "$got" = "leases/$1@1" ] || diag "$1 is not claimed, but $got"
}

# ---- heartbeats ----

one t
take t "$low/t@1"
ok "touch" touch "$l/t@1"
ok "touch -c" touch -c "$l/t@1"
ok "touch -m" touch -m "$l/t@1"
ok "touch of its name in queue/" touch "$low/t@1"
is "$(ask t touch)" ok "futimens of the descriptor"
is "$(chk touch "$l/t@1")" ok "utimensat of the path"
like "$(touch -d '2001-01-01' "$l/t@1" 2>&1)" "Invalid argument" "touch -d: Invalid argument"
like "$(touch -r /proc/self/exe "$l/t@1" 2>&1)" "Invalid argument" "touch -r: Invalid argument"
like "$(touch "$l/nosuch@1" 2>&1)" "." "touch of what never was says something"
is "$(chk stat "$l/nosuch@1")" ENOENT "and makes nothing"
if command -v python3 >/dev/null; then
	ok "os.utime" python3 -c 'import os, sys; os.utime(sys.argv[1])' "$l/t@1"
	ok "pathlib.touch" python3 -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).touch()' "$l/t@1"
else
	skip 2 "no python3"
fi

# ---- verbs ----

is "$(ask t write "done")" ok "done, into the descriptor behind the payload"
is "$(state t)" "done 0 0" "is done"
is "$(ask t write "done")" ok "once more is success"
is "$(ask t write failed)" ESTALE "another verb is not"
is "$(ask t touch)" ESTALE "nor a heartbeat"
is "$(ask t close)" ok "the descriptor closes"
sleep 0.2
is "$(state t)" "done 0 0" "and that changes nothing"
end_holder t
one t2
hold t rw "$low/t2@1"
is "$(answer t) $(ask t write "done")" "ok ok" "done without having read the payload"
end_holder t
is "$(state t2)" "done 0 0" "is done"

claim v1
ok "echo done > leases/T@1" bash -c "echo 'done' >'$l/v1@1'"
is "$(state v1)" "done 0 0" "is done"
claim v2
is "$(chk write "$l/v2@1" "failed it cannot be compiled")" ok "failed REASON"
is "$(state v2)" "failed 0 0" "is failed"
like "$(grep 'v2@1 failed' "$M/events")" "it cannot be compiled" "the reason is told"
claim v3
is "$(chk write "$l/v3@1" free)" ok "free"
is "$(state v3) $(xattr "$M/tasks/v3" reason)" "pending 0 0 released" "is pending, and nothing is counted"
is "$(cat "$low/v3@2")" '{"id":"v3"}' "as the next attempt"
mv "$M/pending/v3@2" "$M/cancelled/"
claim v4
is "$(chk write "$l/v4@1" retry)" ok "retry"
is "$(state v4)" "pending 1 0" "counts a failure"
mv "$M/pending/v4@2" "$M/cancelled/"
claim v5
is "$(chk write "$l/v5@1" "retry oom 900 MB")" ok "retry oom"
is "$(xattr "$M/tasks/v5" reason)" oom "tells why"
mv "$M/pending/v5@2" "$M/cancelled/"
claim v6
until=$(($(date +%s) + 3600))
is "$(chk write "$l/v6@1" "parked $until")" ok "parked UNTIL"
like "$(cat "$l/v6@1")" "parked until $(date -d "@$until" '+%Y-%m-%d %H:%M:%S')" "is told"
is "$(names "$l")" "v6@1" "and ends nothing"
for bad in "" "Done" "done-ish" "parked" "parked -1" "parked x" "finish" $'done\ndone' "$(printf '\001')"; do
	[ -z "$bad" ] || is "$(chk write "$l/v6@1" "$bad")" EINVAL "no verb: ${bad//[^a-zA-Z -]/?}"
done
is "$(names "$l")" "v6@1" "none of that ends it"
is "$(chk write "$l/v6@1" "failed $(head -c 3000 /dev/zero | tr '\0' x)")" ok "a very long reason"
is "$(state v6)" "failed 0 0" "is cut"
claim v7
is "$(chk write "$l/v7@1" "free not-its-fault")" ok "free not-its-fault (exit 75)"
is "$(state v7) $(ready low)" "pending 0 0 0" "counts nothing, and is not offered for a while"
is "$(chk open r,nonblock "$low/next")" EAGAIN "next waits for it"
ok "it is offered after retry_delay" wait_until 5 is_ready low 1
mv "$M/pending/v7@2" "$M/cancelled/"

# ---- moves ----

# moved NAME TEXT: after a move to done/
moved() {
	local status=$?
	is "$status $(chk stat "$M/done/$1@1") $(state "$1")" "0 ok done 0 0" "$2"
}
claim m1
mv "$l/m1@1" "$M/done/"
moved m1 "mv T@1 done/"
mv "$l/m1@1" "$M/done/"
moved m1 "the same again"
claim m2
mv "$l/m2@1" "$M/done"
moved m2 "mv T@1 done"
claim m3
mv -n "$l/m3@1" "$M/done/"
moved m3 "mv -n"
claim m4
mv -T "$l/m4@1" "$M/done/m4@1"
moved m4 "mv -T"
claim m5
claim m6
claim m7
mv "$l/m5@1" "$l/m6@1" "$l/m7@1" "$M/done/"
moved m5 "mv of several"
moved m6 "all of them"
moved m7 "to the last"
claim m8
mv -t "$M/done" "$l/m8@1"
moved m8 "mv -t"
claim m9
mv -f "$l/m9@1" "$M/done/"
moved m9 "mv -f"
claim m10
(cd "$M" && mv leases/m10@1 "done/")
moved m10 "mv of relative names"
if command -v busybox >/dev/null; then
	claim m11
	busybox mv "$l/m11@1" "$M/done/"
	moved m11 "busybox mv"
else
	skip 1 "no busybox"
fi
if command -v python3 >/dev/null; then
	claim m12
	python3 -c 'import shutil, sys; shutil.move(sys.argv[1], sys.argv[2])' "$l/m12@1" "$M/done"
	moved m12 "shutil.move"
	claim m13
	python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2] + "/m13@1")' "$l/m13@1" "$M/done"
	moved m13 "os.rename"
	claim m14
	python3 -c 'import pathlib, sys; pathlib.Path(sys.argv[1]).replace(sys.argv[2] + "/m14@1")' "$l/m14@1" "$M/done"
	moved m14 "pathlib.replace"
else
	skip 3 "no python3"
fi
claim m15
is "$(chk rename noreplace "$l/m15@1" "$M/done/m15@1")" ok "RENAME_NOREPLACE"
moved m15 "is mv"
claim f1
mv "$l/f1@1" "$M/failed/"
is "$? $(state f1)" "0 failed 0 0" "mv T@1 failed/"
claim f2
mv "$l/f2@1" "$M/pending/"
is "$? $(state f2) $(names "$low")" "0 pending 0 0 f2@2" "mv T@1 pending/ gives it back"
ok "pending/T@1 resolves for who moved it" exists "$M/pending/f2@1"
mv "$M/pending/f2@2" "$M/cancelled/"
claim x1
mkdir "$scratch/elsewhere"
nok "mv out of tasks/ to another file system fails" mv "$M/tasks/x1" "$scratch/elsewhere/" 2>/dev/null
one x2
nok "mv out of queue/ as well" mv "$low/x2@1" "$scratch/elsewhere/" 2>/dev/null
is "$(state x1) $(state x2)" "claimed 0 0 pending 0 0" "and the tasks stay as they are"
nok "mv of an unclaimed task to done/ fails" mv "$M/pending/x2@1" "$M/done/" 2>/dev/null
is "$(state x2) $(count "$M/done")" "pending 0 0 $(json .tasks.done)" "and makes no copy"
mv "$l/x1@1" "$M/done/"
mv "$M/pending/x2@1" "$M/cancelled/"

# ---- revoking and cancelling ----

one r
take r "$low/r@1"
is "$(chk unlink "$l/r@1")" ok "rm leases/T@1"
is "$(state r) $(xattr "$M/tasks/r" reason)" "pending 0 0 revoked" "frees the task, counting nothing"
is "$(ask r touch) $(ask r write "done")" "ESTALE ESTALE" "its holder is told"
is "$(chk rename 0 "$l/r@1" "$M/done/r@1")" ESTALE "and can end nothing"
like "$(chk unlink "$l/r@1")" "^(ESTALE|ENOENT)$" "there is nothing more to revoke"
is "$(names "$low")" "r@2" "it is there for others"
end_holder r
sleep 0.2
is "$(state r) $(names "$low")" "pending 0 0 r@2" "the holder's death changes nothing"
take r "$low/r@2"
is "$(chk rename 0 "$l/r@2" "$M/cancelled/r@2")" ok "mv leases/T@k cancelled/"
is "$(state r)" "cancelled 0 0" "cancels a claimed task"
is "$(ask r touch) $(ask r write "done")" "ESTALE ESTALE" "its holder is told"
is "$(chk rename 0 "$l/r@2" "$M/cancelled/r@2")" ok "the same again is success"
end_holder r
is "$(chk open rw "$low/r@3")" ENOENT "nobody can take it"
one c1
mv "$M/pending/c1@1" "$M/cancelled/"
is "$? $(state c1) $(names "$low")" "0 cancelled 0 0 " "mv pending/T@1 cancelled/"
is "$(chk open r,nonblock "$low/next")" ENODATA "a cancelled queue is drained"
claim c2
is "$(chk write "$l/c2@1" failed) $(chk rename 0 "$M/failed/c2@1" "$M/cancelled/c2@1")" "ok EPERM" \
	"failed is not cancelled"

# ---- reopening ----

mv "$M/cancelled/c1@1" "$M/pending/"
is "$? $(state c1)" "0 pending 0 0" "mv cancelled/T@1 pending/"
name=$(names "$low")
like "$name" '^c1@[2-9]$' "with a number never used"
ok "pending/c1@1 resolves" exists "$M/pending/c1@1"
ok "it can be claimed" take c "$low/$name"
is "$(ask c write "done") $(state c1)" "ok done 0 0" "and ended"
end_holder c
claim o1
claim o2
chk write "$l/o1@1" retry >/dev/null
cat "$M/queue/medium/next" >/dev/null
is "$(chk write "$l/o1@2" failed) $(chk write "$l/o2@1" failed)" "ok ok" "two tasks fail"
is "$(state o1) $(xattr "$M/tasks/o1" tier)" "failed 1 0 medium" "one of them after it had moved up"
mv "$M/failed/o1@2" "$M/failed/o2@1" "$M/pending/"
is $? 0 "mv of both to pending/"
is "$(state o1) $(state o2)" "pending 0 0 pending 0 0" "makes them pending with counters of zero"
is "$(xattr "$M/tasks/o1" tier) $(xattr "$M/tasks/o2" tier)" "medium low" "in the tiers that they had"
nok "low does not see the one" grep -q o1 <<<"$(names "$low")"
for t in o1 o2; do chk rename 0 "$M/pending/$t@1" "$M/cancelled/$t@1" >/dev/null; done
is "$(state o1) $(state o2)" "cancelled 0 0 cancelled 0 0" "they can be cancelled by an older number"

# ---- the tools do the same ----

for target in "$M" "$RUN"; do
	k=$([ "$target" = "$M" ] && echo mount || echo run)
	one "t.$k"
	one "u.$k"
	cat "$low/u.$k@1" >/dev/null
	take u "$low/u.$k@1"
	is "$("$top/raser" cancel "$target" "t.$k" "u.$k")" "2 cancelled" "raser cancel on the $k"
	ls "$M/pending" >/dev/null # a mount learns what was done past it when somebody looks
	both_are() { ls "$M/pending" >/dev/null; [ "$(state "t.$k") $(state "u.$k")" = "$1 0 0 $1 0 0" ]; }
	ok "cancels both" wait_until 5 both_are cancelled
	is "$("$top/raser" retry "$target" "t.$k" "u.$k@1")" "2 pending again" "raser retry on the $k"
	ok "makes both pending" wait_until 5 both_are pending
	end_holder u
	"$top/raser" cancel "$target" nosuch >/dev/null 2>&1
	is $? 1 "raser cancel of what is not there fails"
	"$top/raser" cancel "$target" m1 >/dev/null 2>&1
	is $? 1 "raser cancel of what is done fails"
	"$top/raser" retry "$target" m1 >/dev/null 2>&1
	is $? 1 "raser retry of what is done fails"
	is "$(state m1)" "done 0 0" "and done stays done"
	"$top/raser" cancel "$target" --all >/dev/null
	is $? 0 "raser cancel --all"
	ok "cancels what is pending" wait_until 5 both_are cancelled
	is "$(json '.tasks.pending + .tasks.claimed')" 0 "and leaves nothing"
done

# ---- moving up, and giving up ----

one e
fail() { # TIER NAME
	take e "$M/queue/$1/$2" && is "$(ask e write retry)" ok "$2 fails in $1"
	end_holder e
}
seen() { for t in low medium high; do [ -e "$M/queue/$t/$1" ] && printf '%s ' $t; done; }
is "$(seen e@1)" "low medium high " "without a failure all tiers see a task"
fail low e@1
is "$(seen e@2)" "medium high " "with one, medium and high"
fail high e@2
is "$(state e)" "failed 2 0" "with max_failures it is given up"
like "$(grep 'e@2 ' "$M/events" | tail -n 1)" "e@2 failed crash" "and that is told"
one n '"max_failures":0'
fail low n@1
fail medium n@2
is "$(seen n@3)" "high " "with two, only high"
fail high n@3
fail high n@4
is "$(state n)" "pending 4 0" "max_failures 0 never gives up"
take e "$M/queue/high/n@5"
is "$(ask e write free) $(state n)" "ok pending 4 0" "free counts nothing"
end_holder e
mv "$M/pending/n@6" "$M/cancelled/"
one g '"max_failures":1'
fail low g@1
is "$(state g)" "failed 1 0" "max_failures of a task counts for it"
cat >"$M/new/levels" <<'END'
{"id":"k1","memory":"1500M"}
{"id":"k2","memory":3221225472}
{"id":"k3","memory":"4G","tier":"medium"}
{"id":"k4","memory":1,"tier":"medium"}
END
is "$(seen k1@1)|$(seen k2@1)|$(seen k3@1)|$(seen k4@1)" "medium high |high |high |medium high " \
	"memory and tier say where a task begins"
for t in k1 k2 k3 k4; do mv "$M/pending/$t@1" "$M/cancelled/"; done

# ---- a node where everything dies at once ----

is "$(json .paused)" false "the node claims"
submit 9 b
for i in 1 2 3 4 5 6 7 8; do
	cat "$low/b$i@1" >/dev/null
	take b "$low/b$i@1"
	ask b write "retry exit 1" >/dev/null
	end_holder b
done
is "$(json .paused) $(ready low)" "true 0" "after 8 attempts that died at once it pauses"
like "$(cat "$M/status")" "no claims here" "and says so"
is "$(chk open r,nonblock "$low/next")" EAGAIN "next waits"
ok "then one attempt is tried" wait_until 10 is_ready low 1
is "$(timeout 5 head -n 1 "$low/next") $(ready high)" "leases/b9@1 0" "only one"
is "$(chk write "$l/b9@1" "done") $(json .paused)" "ok false" "whose success ends the pause"
is "$(ready high)" 8 "the others are offered again"
unmount m
is $? 0 "the daemon ends"

# ---- who is silent ----

new_run steal_after=2 max_failures=0 || exit
mount_run s || exit
low=$M/queue/low
l=$M/leases
beats() { while touch -c "$1" 2>/dev/null; do sleep 0.1; done; }
one s
take s "$low/s@1"
beats "$l/s@1" &
loop=$!
extra_pids+=("$loop")
from=$(now_ms)
one q
cat "$low/q@1" >/dev/null
hold q r "$low/next"
is "$(answer q) $(ask q read) $(ask q line 1)" "ok ok leases/q@1" "a claim without heartbeats"
ok "is lost" wait_until 10 exists "$low/q@2"
ms=$(($(now_ms) - from))
[ $ms -ge 2000 ] && [ $ms -lt 4000 ]
is $? 0 "after steal_after, and soon after it ($ms ms)"
is "$(state q) $(xattr "$M/tasks/q" reason)" "pending 0 1 stale" "which is a loss, and no failure"
is "$(chk touch "$l/q@1")" ESTALE "its holder is told"
end_holder q
sleep 1
is "$(names "$l")" "s@1" "one with heartbeats stays"
kill -STOP "$loop" "${held[s]}"
ok "one whose agent was stopped is stolen" wait_until 10 exists "$low/s@2"
ok "by another" take s2 "$low/s@2"
beats "$l/s@2" &
loop2=$!
extra_pids+=("$loop2")
sleep 2.5
kill -CONT "$loop" "${held[s]}"
is "$(ask s touch)" ESTALE "the sleeper's touch of its descriptor fails when it wakes"
is "$(ask s write "done")" ESTALE "its verb"
is "$(chk touch "$l/s@1")" ESTALE "its touch by name"
is "$(chk rename 0 "$l/s@1" "$M/done/s@1")" ESTALE "its mv"
ok "its loop ends" wait_until 5 dead "$loop"
end_holder s
sleep 0.3
is "$(names "$l")" "s@2" "its successor holds the task"
is "$(state s) $(xattr "$M/tasks/s" attempt)" "claimed 0 1 2" "stolen once"
is "$(grep -c '^[0-9]* [0-9]* s@[0-9]* lost' "$M/events")" 1 "and once only"
is "$(ask s2 write "done") $(state s)" "ok done 0 0" "the successor ends it"
end_holder s2
wait_until 5 dead $loop2
unmount s

new_run steal_after=0.6 max_failures=0 max_losses=3 || exit
mount_run z || exit
one z
lose() { cat "$M/queue/high/z@$1" >/dev/null; hold z rw "$M/queue/high/z@$1"; answer z >/dev/null; ask z read >/dev/null; }
lose 1
ok "a loss" wait_until 10 exists "$M/queue/low/z@2"
end_holder z
lose 2
ok "a second loss in a row counts as a failure" wait_until 10 exists "$M/queue/medium/z@3"
is "$(state z) $(seen z@3)" "pending 1 2 medium high " "and moves the task up"
end_holder z
lose 3
ok "with max_losses it is given up" wait_until 10 exists "$M/failed/z@3"
end_holder z
plan
