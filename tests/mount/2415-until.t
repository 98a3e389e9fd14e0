#!/bin/bash
# 2415-until.t - a mount whose node's time ends: what it offers, who is woken and told what, on real
# mounts beside one without such an end.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

start_watchdog 120
new_run steal_after=60 || exit

# ---- what cannot be ----

# refused WANTED TEXT OPTIONS
refused() {
	local got
	mkdir -p "$scratch/no"
	got=$(timeout 20 "$top/raserfs" -f -o "$3" "$RUN" "$scratch/no" 2>&1)
	is $? 1 "$2: status 1"
	like "$got" "$1" "it says why"
}
refused 'until=soon: not a time in seconds since 1970' "a word" until=soon
refused 'until=300: not a time' "a number of seconds from now" until=300
refused 'since=x: not a time' "a bad beginning" "until=$(date +%s),since=x"
refused 'since says nothing without until' "a beginning without an end" "since=$(date +%s)"

# ---- what is offered ----

mount_run free || exit
one short '"expected":1'
one mid '"expected":100'
one long '"expected":5000'
one huge '"expected":90000'
one unknown
now=$(date +%s)
mount_run ends -o "until=$((now + 4000)),since=$((now - 4000))" || exit
is "$(names "$M/queue/low")" "short@1 mid@1 huge@1 unknown@1" "left out is what takes longer, but not what always would"
is "$(ready low)" 4 "so it is counted"
is "$(names "$M/pending" | wc -w) $(json .too_long) $(json .until)" "5 1 $((now + 4000))" "the status tells"
like "$(grep "this node's time" "$M/status")" "^this node's time ends .*: 1 tasks take longer" "in words, too"
is "$(names "$scratch/free/queue/low" | wc -w) $(grep -c "this node's time" "$scratch/free/status")" "5 0" \
	"another mount has them all"
is "$(chk stat "$M/queue/low/long@1")" ok "it can be looked up"
take it "$M/queue/low/long@1"
is "$(names "$M/leases")" "long@1" "and claimed by its name"
ask it write "free" >/dev/null
end_holder it
wait_until 10 exists "$M/queue/low/long@2"
nok "and is left out again" grep -q long < <(names "$M/queue/low")
unmount ends

# ---- an agent that waits ----

for t in short mid huge unknown; do mv "$scratch/free/pending/$t@1" "$scratch/free/cancelled/"; done
now=$(date +%s)
mount_run ends -o "until=$((now + 4000)),since=$((now - 4000))" || exit
is "$(timeout 30 cat "$M/queue/low/next" 2>&1)" "cat: $M/queue/low/next: Timer expired" \
	"nothing that is left fits: ETIME"
chk open rw,nonblock "$M/queue/low/next" >/dev/null # may need a look at the run first
is "$(chk open rw,nonblock "$M/queue/low/next")" ETIME "without waiting, too"
M=$scratch/free
wait_until 10 exists "$M/queue/low/long@2"
take it "$M/queue/low/long@2"
ask it write "done" >/dev/null
end_holder it
M=$scratch/ends
is "$(timeout 30 cat "$M/queue/low/next" 2>&1)" "cat: $M/queue/low/next: No data available" \
	"nothing is left at all: ENODATA"
unmount ends

# Something that fits is held elsewhere, and stops to fit while agents wait for it.
M=$scratch/free
one s1 '"expected":10'
one s2 '"expected":600'
take a "$M/queue/low/s1@1"
take b "$M/queue/low/s2@1"
until=$(($(date +%s) + 18))
mount_run ends -o "until=$until,since=$((until - 2000))" || exit
"$top/tests/chk" open rw "$M/queue/low/next" >"$scratch/blocked" 2>&1 &
blocked=$!
extra_pids+=("$blocked")
wait_until 5 is_waiting 1
nok "an agent waits for what may come back" test -s "$scratch/blocked"
wait_until 20 dead "$blocked"
left=$((until - $(date +%s)))
is "$(cat "$scratch/blocked")" ETIME "until it would be too late for it"
ok "not before that ($left s)" test "$left" -le 11
ok "and not at the end of the node's time" test "$left" -ge 1

# the same for poll(2) on ready, and the end of all
ask a write "free" >/dev/null
wait_until 10 exists "$scratch/free/pending/s1@2"
mv "$scratch/free/pending/s1@2" "$scratch/free/cancelled/"
end_holder a
M=$scratch/free
one u
until=$(($(date +%s) + 6))
mount_run last -o "until=$until,since=$((until - 2000))" || exit
is "$(names "$M/queue/low")" "u@1" "what nobody knows the length of is offered to the end"
hold r r "$M/queue/low/ready"
answer r >/dev/null
ask r read >/dev/null
ask r again >/dev/null
is "$(ask r "poll 10000")" "in" "poll tells the moment"
ok "and not before it" test "$(date +%s)" -ge "$until"
is "$(names "$M/queue/low") $(ready low)" " 0" "when nothing is offered any more"
wait_until 10 eval '[ "$(chk open rw,nonblock "$M/queue/low/next")" = ETIME ]'
is "$(chk open rw,nonblock "$M/queue/low/next")" ETIME "and agents are sent home"
end_holder r
end_holder b
unmount last
unmount ends
unmount free

# ---- agents without a mount ----

# a sanitizer's allocator, unlike the C library's, does not survive fork(2) beside threads
if [ -n "${RASER_SANITIZED-}" ]; then
	skip 3 "runs once, without sanitizers"
else
	new_run steal_after=60 || exit
	printf '{"id":"first","priority":1}\n{"id":"second","expected":30}\n' | "$top/raser" submit "$RUN" - >/dev/null
	timeout 60 "$top/raser-agentd" --direct --quiet --tier low --until $(($(date +%s) + 35)) "$RUN" -- sleep 7
	is $? 4 "an agent on the run directory leaves when what is left takes too long"
	is "$("$top/raser" status "$RUN" | awk '/^(pending|done)/ { print $2 }' | xargs)" "1 1" "having done what did not"
	timeout 60 "$top/raser-agentd" --direct --quiet --tier low --until $(($(date +%s) + 35)) "$RUN" -- true
	is $? 0 "and with new time it does the rest"
fi
plan
