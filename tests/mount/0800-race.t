#!/bin/bash
# 0800-race.t - eight processes race for 20,000 names over three mounts: each is won exactly once.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

[ -z "${RASER_SANITIZED-}${RASER_QUICK-}" ] || skip_long
n=20000
new_run steal_after=60 || exit
for m in a b c; do mount_run $m || exit; done
S=$scratch
M=$S/a
submit $n r
all_know() {
	local m
	for m in a b c; do
		ls "$S/$m/pending" >/dev/null
		[ "$(cat "$S/$m/queue/low/ready")" = "$n" ] || return 1
	done
}
ok "three mounts know $n tasks" wait_until 20 all_know
from=$(now_ms)
out=$(crowd race 8 $n r "$S/a/queue/low" "$S/b/queue/low" "$S/c/queue/low")
diag "$out ($(($(now_ms) - from)) ms)"
like "$out" "^once=$n more=0 none=0 failed=0" "every name is won exactly once"
like "$out" "failed=0( ENOENT=[0-9]+)?( EBUSY=[0-9]+)?$|failed=0( EBUSY=[0-9]+)?( ENOENT=[0-9]+)?$" \
	"the losers get EBUSY, or ENOENT once it is done, and nothing else"
lost=0
for m in a b c; do
	M=$S/$m
	lost=$((lost + $(json .races_lost)))
done
[ $lost -gt 0 ]
is $? 0 "they did race ($lost creates were lost)"
all_done() {
	local m
	for m in a b c; do
		[ "$(count "$S/$m/done")" = "$n" ] || return 1
	done
}
ok "every mount sees all of them done" wait_until 20 all_done
for m in a b c; do
	M=$S/$m
	is "$(json '[.tasks.pending, .tasks.claimed, .tasks.done, .tasks.failed, .tasks.unread] | join(" ")')" \
		"0 0 $n 0 0" "$m: no task is anything else"
done
is "$(find "$RUN/chain" -name '*.claim' | wc -l) $(find "$RUN/chain" -name '*.end' | wc -l)" "$n $n" \
	"one claim and one end of each in the run directory"
for m in a b c; do unmount $m; done
plan
