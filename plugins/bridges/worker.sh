#!/bin/sh
# worker.sh - works on the tasks of a mount of raserfs: exec 3<>, touch and echo.
#
#   worker.sh MOUNT TIER COMMAND [ARG...]
#
# COMMAND gets a task on standard input, and RASER_TASK and RASER_ATTEMPT. Its exit status means what
# it means to raser-agentd: 0 done, 65 failed for good, 75 not its fault, others are tried again.
# See raser-bridges(7).
set -u
[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mount=$1 tier=$2
shift 2
had=${LC_ALL-}
export LC_ALL=C # a shell has no errno, so messages are told apart
tmp=$(mktemp -d) || exit 1
child='' stop=''
trap 'rm -rf "$tmp"' EXIT
trap 'stop=1; [ -z "$child" ] || kill "$child"' TERM INT HUP
ls -d "$mount/queue/$tier/" >/dev/null || exit 1
every=$(sed -n 's/.*"steal_after": *\([0-9]*\).*/\1/p' "$mount/status.json")
every=$((every / 3))
[ "$every" -gt 0 ] || every=1

failed() { grep -q "$1" "$tmp/why"; } # why the last command failed

solve() { # in a process of its own: a descriptor that it keeps would keep the claim
	exec 3>&-
	RASER_TASK=${lease##*/}
	RASER_ATTEMPT=${RASER_TASK##*@}
	RASER_TASK=${RASER_TASK%@*}
	export RASER_TASK RASER_ATTEMPT
	if [ -n "$had" ]; then LC_ALL=$had; else unset LC_ALL; fi
	exec "$@"
}

beat() { # outlives this shell when that is killed: then the claim is over, and so is the command
	exec 3>&- </dev/null >/dev/null 2>&1
	while sleep "$every"; do
		if ! kill -0 $$ || touch -c "$lease" 2>&1 | grep -q "Stale file handle"; then
			kill "$child"
			return
		fi
	done
}

dead=0
while [ -z "$stop" ]; do
	if { command exec 3<>"$mount/queue/$tier/next"; } 2>"$tmp/why"; then # waits, and claims
		# no cat: that of busybox calls sendfile(2), which reads nothing here
		IFS= read -r lease <&3 2>"$tmp/why" && dd bs=65536 <&3 >"$tmp/task" 2>"$tmp/why" || lease=
	else
		lease=
	fi
	if [ -z "$lease" ]; then
		exec 3>&-
		! failed "No data available" || exit 0 # drained
		if [ -s "$mount/README" ]; then dead=0; else dead=$((dead + 1)); fi
		[ $dead -lt 300 ] || { cat "$tmp/why" >&2; exit 1; } # no daemon for 5 minutes
		[ -n "$stop" ] || sleep 1
		continue
	fi
	lease=$mount/$lease
	solve "$@" <"$tmp/task" &
	child=$!
	beat &
	beater=$!
	[ -z "$stop" ] || kill "$child"
	wait "$child"
	status=$?
	if [ -n "$stop" ] && [ $status -gt 128 ]; then # it was the wait that was interrupted
		kill "$child" 2>/dev/null
		wait "$child"
		status=$?
	fi
	case $status in
	0) verb='done' ;;
	65) verb="failed status 65" ;;
	75) verb="free not-its-fault" ;;
	99) verb="free preempted" ;;
	*) if [ -n "$stop" ]; then verb="free preempted"; else verb="retry exit status $status"; fi ;;
	esac
	until { echo "$verb" | cat >"$lease"; } 2>"$tmp/why"; do
		! failed "Stale file handle" || break # what was done here does not count
		[ -s "$mount/README" ] || dead=$((dead + 1))
		[ $dead -lt 300 ] || { cat "$tmp/why" >&2; exit 1; }
		sleep 1
	done
	kill -KILL "$beater" # a shell that was forked a moment ago has the traps of its parent yet
	wait "$beater" 2>/dev/null # or the news of its death would interrupt the next open
	child=
	exec 3>&-
done
exit 99
