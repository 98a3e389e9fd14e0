#!/bin/bash
# 1200-million.t - a million tasks: listing stays quick, memory small, and a claim costs as many
# calls on the run directory as with a thousand.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

[ -z "${RASER_SANITIZED-}" ] || skip_long

# pairs N: N tasks claimed and done, one after the other; prints the calls it took
calls() { jq '[.calls | del(.list, .stat, .touch, .read) | .[]] | add' "$M/status.json"; }
pairs() {
	local before i lease
	before=$(calls)
	for ((i = 0; i < $1; i++)); do
		{
			read -r lease
			cat >/dev/null
			echo 'done' >"$M/$lease"
		} <"$M/queue/low/next"
	done
	echo $(($(calls) - before))
}

new_run || exit
mount_run small || exit
submit 1000 t
wait_until 20 is_ready low 1000
pairs 1 >/dev/null # the first makes the bay's directory
few=$(pairs 50)
unmount small

new_run || exit
t0=$(now_ms)
tasks 1000000 task- '"repo":"example/project","base":"0123456789abcdef"' |
	"$top/raser" submit "$RUN" - >"$scratch/out"
is "$(cat "$scratch/out")" "1000000 tasks taken, 0 were there already" "a million tasks"
diag "submitted in $(($(now_ms) - t0)) ms"
t0=$(now_ms)
tries_slow=$((tries_slow * 6)) # on a busy machine it may take long to read them
mount_run big || exit
diag "mounted in $(($(now_ms) - t0)) ms"
list() {
	local t0
	t0=$(now_ms)
	[ "$(ls -f "$M/queue/low" | wc -l)" = 1000002 ] || return 1
	echo $(($(now_ms) - t0))
}
below "$(best 3 list)" 5000 "ls -f of a million in ms"
pairs 1 >/dev/null
many=$(pairs 50)
is "$many" "$few" "50 claims and ends: as many calls as with a thousand tasks"
rss=$(awk '/^VmHWM/ { print $2 }' "/proc/${daemon[big]}/status")
below "$rss" $((512 * 1024)) "kB of memory at most"
is "$(ready low)" 999949 "and the rest is ready"
unmount big
plan
