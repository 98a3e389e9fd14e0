#!/bin/bash
# 0400-nodes.t - several mounts of one run directory: who may do what, and what the freezing, the
# death and the eviction of one mean for the others.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

attempt() { xattr "$M/tasks/$1" attempt; }
state() { echo "$(xattr "$M/tasks/$1" state) $(xattr "$M/tasks/$1" failures) $(xattr "$M/tasks/$1" losses)"; }
owner() { awk '/^owner/ { print $2 }' "$scratch/$1/status"; }
# on NAME COMMAND...: with M as that mount
on() {
	local M=$scratch/$1
	shift
	"$@"
}
# sees NAME DIR WANTED: a listing there
sees() { [ "$(names "$scratch/$1/$2")" = "$3" ]; }
# comes PATH: by looking, as the first look may start a refresh only
comes() { wait_until 5 exists "$1"; }

# ---- two mounts ----

new_run steal_after=6 max_failures=0 || exit
mount_run a || exit
mount_run b || exit
A=$scratch/a
B=$scratch/b
M=$A
submit 4 t
ok "the other mount learns of a submission" wait_until 5 sees b queue/low "t1@1 t2@1 t3@1 t4@1"
ok "and of a new daemon" wait_until 5 has_count "$A/nodes" 2
is "$(names "$A/nodes" | tr ' ' '\n' | sort)" "$(printf '%s\n' "$(owner a)" "$(owner b)" | sort)" \
	"nodes/ shows both"
take h1 "$A/queue/low/t1@1"
is "$(chk open rw "$B/queue/low/t1@1")" EBUSY "what one mount claims is EBUSY at the other"
is "$(chk open rw "$B/queue/low/t1@1")" EBUSY "again"
ok "its lease resolves there" comes "$B/leases/t1@1"
is "$(names "$B/leases")" "t1@1" "and is listed"
like "$(cat "$B/leases/t1@1")" "owner $(owner a)" "and tells its owner"
is "$(on b xattr "$B/tasks/t1" claimer)" "$(owner a)" "so does user.raser.claimer"
is "$(chk touch "$B/leases/t1@1")" EPERM "touch there: EPERM"
is "$(chk touch "$B/queue/low/t1@1")" EPERM "also by its name in queue/"
is "$(chk rename 0 "$B/leases/t1@1" "$B/done/t1@1")" EPERM "mv to done/: EPERM"
is "$(chk rename 0 "$B/leases/t1@1" "$B/pending/t1@1")" EPERM "mv to pending/: EPERM"
is "$(chk write "$B/leases/t1@1" "done")" EPERM "a verb: EPERM"
is "$(ask h1 touch) $(names "$A/leases")" "ok t1@1" "none of that touched it"
beat=$(stat -c %Y "$B/leases/t1@1")
moved() { [ "$(stat -c %Y "$B/leases/t1@1")" -gt "$beat" ]; }
ok "its time there is its owner's beat" wait_until 10 moved
is "$(ask h1 write "done")" ok "it is done"
ok "which the other mount learns" wait_until 5 sees b "done" t1@1
is "$(chk stat "$B/leases/t1@1")" ESTALE "there the lease is over at once"
is "$(chk open rw "$B/queue/low/t1@1")" ENOENT "and the attempt gone"
end_holder h1

take h2 "$A/queue/low/t2@1"
comes "$B/leases/t2@1"
is "$(chk unlink "$B/leases/t2@1")" ok "anyone may revoke"
is "$(on b state t2) $(on b attempt t2)" "pending 0 0 2" "and the task is there again"
take h3 "$B/queue/low/t2@2"
told() { [ "$(ask h2 touch)" = ESTALE ]; }
ok "the former holder is told within a beat" wait_until 3 told
is "$(ask h2 write "done")" ESTALE "it cannot end the task"
is "$(chk rename 0 "$A/leases/t2@1" "$A/done/t2@1")" ESTALE "by no means"
end_holder h2
is "$(ask h3 write "done")" ok "the new one can"
end_holder h3
take h4 "$A/queue/low/t3@1"
comes "$B/leases/t3@1"
is "$(chk rename 0 "$B/leases/t3@1" "$B/cancelled/t3@1")" ok "anyone may cancel"
is "$(on b state t3)" "cancelled 0 0" "a claimed task"
told() { [ "$(ask h4 touch)" = ESTALE ]; }
ok "whose holder is told within a beat" wait_until 3 told
ok "and whose mount shows it" wait_until 5 sees a cancelled t3@1
end_holder h4
is "$(chk rename 0 "$A/cancelled/t3@1" "$A/pending/t3@1")" ok "it is reopened elsewhere"
ok "and seen as pending" wait_until 5 exists "$B/queue/low/t3@3"
is "$(chk open rw "$B/queue/low/t4@1")" ok "an undelivered claim"
ok "is seen to be free again" wait_until 5 exists "$A/queue/low/t4@2"
unmount b
is $? 0 "one daemon leaves"
ok "and is not in nodes/ any more" wait_until 10 has_count "$A/nodes" 1
is "$(count "$RUN/nodes")" 1 "nor in the run directory"

# ---- one leaves with claims ----

M=$A
take h "$A/queue/low/t4@2"
kill -TERM "${daemon[a]}"
sleep 0.3
is "$(ask h touch)" ok "a daemon that leaves serves those who hold"
is "$(chk open r,nonblock "$A/queue/low/next")" EAGAIN "grants nothing"
is "$(ask h write "done")" ok "takes their ends"
ok "and goes" wait_until 5 dead "${daemon[a]}"
end_holder h
wait "${daemon[a]}"
is $? 0 "with status 0"
mount_run a -o grace=0.5 || exit
take h "$A/queue/low/t3@3"
unmount a
is $? 0 "one whose grace ends leaves too"
end_holder h
mount_run a || exit
is "$(state t3) $(attempt t3) $(xattr "$M/tasks/t3" reason)" "pending 0 0 4 restart" \
	"its claims are freed, counting nothing"
is "$(state t4)" "done 0 0" "the other is done"
unmount a

# ---- one freezes ----

new_run steal_after=2 max_failures=0 || exit
for n in a b c; do mount_run $n || exit; done
M=$A
submit 3 f
submit 60 g
take fa "$A/queue/low/f1@1"
old=$(owner a)
ok "three daemons live" wait_until 5 has_count "$B/nodes" 3
comes "$B/leases/f1@1"
kill -STOP "${daemon[a]}"
from=$(now_ms)
slow=0
for i in $(seq 1 30); do
	t=$(chk -t open rw "$B/queue/low/g$i@1") # undelivered, which is a whole claim and its end
	[ "${t% *}" = ok ] || diag "g$i: $t"
	[ "${t#* }" -le 100 ] || slow=$((slow + 1))
	t=$(chk -t touch "$B/leases/f1@1")
	[ "${t% *}" = EPERM ] || [ "${t% *}" = ESTALE ] || diag "touch: $t"
	sleep 0.02
done
below $slow 4 "while one is frozen, the others claim as ever: claims of 30 over 100 ms"
ok "its claims are stolen" wait_until 10 exists "$B/queue/low/f1@2"
ms=$(($(now_ms) - from))
[ $ms -ge 800 ] && [ $ms -lt 4000 ]
is $? 0 "after the window, and not much later ($ms ms)"
is "$(on b state f1)" "pending 0 1" "as a loss"
[ ! -e "$RUN/nodes/$old" ]
is $? 0 "its beat is unlinked"
take fb "$B/queue/low/f1@2"
kill -CONT "${daemon[a]}"
is "$(ask fa touch)" ESTALE "the frozen one finds out before it answers a touch"
is "$(ask fa write "done")" ESTALE "or an end"
is "$(chk touch "$A/leases/f1@1")" ESTALE "by path as well"
reborn() { [ "$(owner a)" != "$old" ]; }
ok "it takes a new name" wait_until 5 reborn
ok "with a new beat" wait_until 5 exists "$RUN/nodes/$(owner a)"
end_holder fa
is "$(ask fb touch)" ok "the successor holds the task"
is "$(ask fb write "done")" ok "and ends it"
end_holder fb
ok "which the other learns" wait_until 5 sees a "done" f1@2
ok "it claims again" wait_until 5 take fa "$A/queue/low/f2@1"
is "$(ask fa write "done")" ok "and ends"
end_holder fa

# a short freeze costs nothing
take fa "$A/queue/low/f3@1"
kill -STOP "${daemon[a]}"
sleep 0.4
kill -CONT "${daemon[a]}"
is "$(ask fa touch)" ok "a freeze below the window costs nothing"
sleep 0.5
is "$(ask fa touch) $(state f3)" "ok claimed 0 0" "also later"
end_holder fa

# ---- a beat is deleted, or evicted ----

take fa "$A/queue/low/g1@2"
comes "$B/leases/g1@2"
old=$(owner a)
rm "$RUN/nodes/$old"
ok "rm of a beat in the run directory is a verdict" wait_until 10 exists "$B/queue/low/g1@3"
# by whoever meets them first: others, or the daemon itself, which finds its beat gone and begins anew
over() { echo "$(on b state "$1") $(on b xattr "$B/tasks/$1" reason)"; }
like "$(over g1)" "^pending 0 (1 dead-owner|0 restart)\$" "its claims are over"
told() { [ "$(ask fa touch)" = ESTALE ]; }
ok "their holders are told" wait_until 5 told
ok "and it lives on under a new name" wait_until 5 reborn
end_holder fa
take fa "$A/queue/low/g2@2"
comes "$B/leases/g2@2"
old=$(owner a)
is "$("$top/raser" evict "$RUN" "$old" 2>&1)" "" "raser evict"
ok "does the same" wait_until 10 exists "$B/queue/low/g2@3"
like "$(over g2)" "^pending 0 (1 dead-owner|0 restart)\$" "its claims are over"
ok "the holder is told" wait_until 5 told
ok "a new name" wait_until 5 reborn
"$top/raser" evict "$RUN" "$old" 2>/dev/null
is $? 1 "nobody is evicted twice"
end_holder fa

# ---- one dies ----

take fa "$A/queue/low/g3@2"
comes "$B/leases/g3@2"
old=$(owner a)
crash a
is "$(ask fa touch)" ENOTCONN "the descriptors of a dead daemon are dead"
is "$(chk stat "$A/status")" ENOTCONN "so is its mount"
ok "others on its machine see that its process is gone" wait_until 5 exists "$B/queue/low/g3@3"
is "$(on b state g3) $(on b xattr "$B/tasks/g3" reason)" "pending 0 0 restart" "and free its claims, counting nothing"
buried() { [ ! -e "$RUN/nodes/$old" ]; }
ok "and bury it" wait_until 5 buried
end_holder fa
mount_run a || exit
is "$(chk stat "$A/status")" ok "a new daemon takes the dead mount away and mounts"
is "$(stat -c %T -f "$A")" fuseblk "it is one" # what stat(1) calls fuse
like "$(findmnt -n -o FSTYPE "$A" | sort | uniq -c)" '^ *1 ' "and only one"
for n in a b c; do unmount $n; done
is "$(count "$RUN/nodes")" 0 "who leaves leaves no beat"

# ---- the only one dies ----

new_run steal_after=180 || exit
mount_run a || exit
submit 3 r
take h "$A/queue/low/r1@1"
cat "$A/queue/low/next" >/dev/null
is "$(count "$A/leases")" 2 "two claims, one of them by its descriptor"
crash a
end_holder h
mount_run a || exit
ok "its successor frees its claims at once" wait_until 2 has_count "$A/leases" 0
ok "wherever they are" wait_until 2 sees a queue/low "r1@2 r2@2 r3@1"
is "$(state r1) $(state r2)" "pending 0 0 pending 0 0" "counting nothing"
ok "and its beat is gone" wait_until 2 has_count "$RUN/nodes" 1
unmount a

# ---- one dies, and its parent does not ask for its status ----

new_run steal_after=180 || exit
M=$scratch/z
mkdir "$M"
bash -c '"$0" -f "$1" "$2" & exec sleep 1000' "$top/raserfs" "$RUN" "$M" 2>>"$scratch/z.log" &
parent=$!
extra_pids+=("$parent")
disown
wait_until 10 test -s "$M/README"
one zombie
take h "$M/queue/low/zombie@1"
pid=$(background_pid)
adopt "$pid"
kill -KILL "$pid"
is_zombie() { [ "$(stat_field "$1" 3)" = Z ]; }
ok "a daemon becomes a zombie" wait_until 5 is_zombie "$pid"
mount_run y || exit
ok "which is as dead as any" wait_until 2 exists "$M/queue/low/zombie@2"
end_holder h
kill -KILL "$parent"
unmount y

# ---- links that somebody deletes ----

new_run steal_after=2 max_failures=0 || exit
mount_run a || exit
mount_run b || exit
M=$A
submit 3 d
take h "$A/queue/low/d1@1"
rm "$RUN"/chain/*/d1@1.claim
told() { [ "$(ask h touch)" = ESTALE ]; }
ok "a claim is deleted: its holder is told within a beat" wait_until 3 told
is "$(ask h write "done")" ESTALE "and cannot end the task"
end_holder h
offered() { ls "$B/pending" >/dev/null; ls "$B"/queue/low/d1@* >/dev/null 2>&1; }
ok "others are offered it" wait_until 5 offered
name=$(chk list 0 "$B/queue/low" | grep '^d1@')
take h "$B/queue/low/$name"
is "$(ask h write "done")" ok "and can do it"
end_holder h
take h "$A/queue/low/d2@1"
is "$(ask h write "done")" ok "a task is done"
end_holder h
rm "$RUN"/chain/*/d2@1.end
mount_run c || exit # who never saw the end
M=$scratch/c
is "$(xattr "$M/tasks/d2" state)" claimed "its end is deleted: to who comes later it is claimed"
drains() { # without waiting when there is nothing yet
	local got
	ls "$A/pending" >/dev/null
	got=$(timeout 1 head -n 1 "$M/queue/high/next" 2>/dev/null)
	[ -z "$got" ] || chk write "$M/$got" "done" >/dev/null
	[ "$(chk open r,nonblock "$M/queue/high/next")" = ENODATA ]
}
# its daemon writes it again when it comes across it: in half a minute, or when somebody looks
ok "and the run drains all the same" wait_until 70 drains
is "$(json '[.tasks.pending, .tasks.claimed, .tasks.done] | join(" ")')" "0 0 3" "with every task done"
# ---- in a job of Slurm ----

new_run steal_after=6 || exit
wrap=(env SLURM_JOB_ID=12 SLURM_ARRAY_JOB_ID=10 SLURM_ARRAY_TASK_ID=2 SLURM_RESTART_COUNT=1 SLURMD_NODENAME=fat-node-017)
mount_run s || exit
wrap=()
mount_run t || exit
like "$(owner s)" "^tnode017\." "a daemon in a job is named after Slurm's node"
is "$(jq -r '.job + " " + (.job_restarts | tostring)' "$scratch/s/status.json")" "10_2 1" "and tells its job"
is "$(jq -r '.job + " " + (.job_restarts | tostring)' "$scratch/t/status.json")" " 0" "which others do not have"
says() { [ "$(grep -E '^(host|job|restarts) ' "$M/nodes/$1" | xargs)" = "$2" ]; }
M=$scratch/t
ok "on every mount" wait_until 10 says "$(owner s)" "host fat-node-017 job 10_2 restarts 1"
M=$scratch/s
ok "those without one have no such lines" wait_until 10 says "$(owner t)" "host $(hostname)"
unmount s
unmount t

plan
