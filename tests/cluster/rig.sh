# shellcheck shell=bash
# rig.sh - what the rigs share. A rig is a program that sets a shared file system up on this machine,
# with several clients, in a network namespace that leads nowhere, and takes all of it away again:
#
#     RIG missing             prints what it lacks here; nothing when it can start
#     RIG start CLIENTS       sets it up, with the file system mounted in every client
#     RIG run K COMMAND       a shell command in client K, with $SHARED (the mounted file system),
#                             $OWN (a directory of the client), $TOOLS and $LOGS (share/bin and
#                             share/log of RIG_STATE) and $APART (words before a command that keep
#                             it from seeing the processes of other clients)
#     RIG stop                ends what it started
#
# RIG_STATE is the directory of one rig: its owner makes it and removes it after stop. What a rig
# started it knows by the numbers that it wrote there.
set -eu
: "${RIG_STATE:?a directory for the state of the rig}"
S=$RIG_STATE

say() { echo "${0##*/}: $*" >&2; }

# lacks PROGRAM PACKAGE: say that it does, if so
lacks() {
	PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null || echo "$1 (package $2)"
}

# the namespace is named by the state's inode: several rigs can run beside each other
NS=raser-$(stat -c %i "$S")
IN_NS=(nsenter "--net=/run/netns/$NS" --)
in_ns() { "${IN_NS[@]}" "$@"; }

net_up() {
	ip netns add "$NS"
	ip -n "$NS" link set lo up
}

net_down() { ip netns del "$NS" 2>/dev/null || true; }

# wait_for SECONDS COMMAND...
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		if [ "$SECONDS" -ge "$end" ]; then
			say "gave up waiting for: $*"
			return 1
		fi
		sleep 0.1
	done
}

# start_in_ns NAME COMMAND...: in a session of its own, whose number is remembered
start_in_ns() {
	local name=$1
	shift
	# a function in the background would be a subshell, and $! its number
	setsid "${IN_NS[@]}" "$@" </dev/null >>"$S/log/$name.log" 2>&1 &
	echo "$! $(cut -d ' ' -f 22 "/proc/$!/stat")" >"$S/$name.pid"
}

# kill_session PID START: all that came from it, unless its number is another's by now. Fails while
# there is somebody to kill: they may fork meanwhile, and hold what they hold until they are gone.
kill_session() {
	local dir found=0
	for dir in /proc/[0-9]*; do
		if awk -v s="$1" -v t="$2" '
			{ sub(/.*\) /, ""); exit !($4 == s && $20 >= t && $1 != "Z") }' \
			"$dir/stat" 2>/dev/null; then
			kill -KILL "${dir#/proc/}" 2>/dev/null || true
			found=1
		fi
	done
	return $found
}

# end_session NAME: and see it gone
end_session() {
	local pid start
	[ -s "$S/$1.pid" ] || return 0
	read -r pid start <"$S/$1.pid"
	wait_for 20 kill_session "$pid" "$start"
	rm -f "$S/$1.pid"
}

umount_below() {
	local path
	awk -v d="$1/" 'index($2, d) == 1 { print $2 }' /proc/self/mounts | sort -r |
		while read -r path; do umount -l "$path" || true; done
}

# run_on_host K SHARED COMMAND...: where the clients are mounts of this host
run_on_host() {
	local own=$S/own$1 shared=$2
	shift 2
	mkdir -p "$own"
	SHARED=$shared OWN=$own TOOLS=$S/share/bin LOGS=$S/share/log \
		APART='unshare --pid --fork --kill-child' sh -c "$*"
}

usage() {
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
}
