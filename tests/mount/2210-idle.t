#!/bin/bash
# 2210-idle.t - 200 agents wait at an empty queue, through two mounts of one run: what they cost the
# storage, and how soon a new task is claimed, at the mount that was given it and at the other.
RASER_TIMEOUT=${RASER_TIMEOUT:-400}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

[ -z "${RASER_SANITIZED-}" ] || skip_long
S=$scratch
agents=100 # at each mount
window=60 # seconds that are looked at
[ -n "${RASER_MUST_RUN-}" ] || window=20
new_run || exit # with the default times
mount_run a || exit
mount_run b || exit
one first
take first "$M/queue/low/first@1" # as long as one is held, nobody is told that the queue is drained
for m in a b; do
	remote $m "$top/tests/crowd" waiters $agents "$S/$m/queue/low/next"
	answer $m >/dev/null
done
M=$S/a
ok "100 agents wait here" wait_until 10 is_waiting $agents
M=$S/b
ok "and 100 there" wait_until 10 is_waiting $agents

# calls MOUNT: on the run directory so far
calls() { jq '[.calls[]] | add' "$S/$1/status.json"; }
# the pauses between looks double to 30 s: 0.5 s, 1 s, ... and are short to begin with
sleep 20
touch "$M/leases/first@1"
from=$(now_ms)
a=$(calls a) b=$(calls b)
jq -c .calls "$S/a/status.json" >"$S/calls.before"
sleep $window
ms=$(($(now_ms) - from))
a=$(($(calls a) - a)) b=$(($(calls b) - b))
diag "calls by 100 idle agents in $ms ms: $a at one mount, $b at the other"
diag "before $(cat "$S/calls.before")"
diag "after  $(jq -c .calls "$S/a/status.json")"
below $((a * 1000 / ms)) 2 "calls a second at one mount"
below $((b * 1000 / ms)) 2 "and at the other"

# given NAME MOUNT: the milliseconds until a task submitted at a mount is claimed anywhere
given() {
	local from
	from=$(now_ms)
	printf '{"id":"%s"}\n' "$1" >"$S/$2/new/$1"
	wait_until 40 is_claimed "$1" "$2" || return 1
	echo $(($(now_ms) - from))
}
is_claimed() { [ "$(chk getxattr "$S/$2/tasks/$1" user.raser.state)" = claimed ]; }
for i in 1 2 3; do
	below "$(given "here$i" a)" 1000 "a new task is claimed where it was submitted, ms"
done

# only the other mount has agents
end_holder a
touch "$S/b/leases/first@1"
submitted=$(now_ms)
printf '{"id":"there"}\n' >"$S/a/new/there"
claimed_there() { [ "$(chk list 0 "$S/b/leases" 2>/dev/null | grep -c '^there@1$')" = 1 ]; }
grants() { jq .claims "$S/b/status.json"; }
n=$(grants)
has_grown() { [ "$(grants)" -gt "$n" ]; }
ok "and at the other mount" wait_until 45 has_grown
ms=$(($(now_ms) - submitted))
below $ms 31000 "within the longest pause, ms"
ok "it is that one" claimed_there
end_holder b
end_holder first

plan
