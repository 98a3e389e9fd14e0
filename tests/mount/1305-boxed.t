#!/bin/bash
# 1305-boxed.t - agents in sandboxes from nearby, without a queue: frozen and thawed, measured,
# killed with their guard, over an image; as this user and as one without any right. The cost of
# a start is told, not judged.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"
need_sandboxes
listen_here || exit

# near NAME SCRIPT: an agent of the shell, as the holder NAME; near_work is its workspace
near() {
	remote "$1" "${as[@]}" "$top/tests/boxed" "${near_options[@]}" "$kind" "$near_dir" /bin/sh -c "$2"
	near_work=$(answer "$1")
	[ "${near_work%% *}" = ok ] || diag "$near_work"
	near_work=${near_work#ok }
}
number() { cat "$near_work/n" 2>/dev/null; }
counts_on() { local n; n=$(number) && [ -n "$n" ] && [ "$n" != "$1" ]; }

try_near() {
	local mark="$kind as $who" n i same=yes frozen=yes
	# shellcheck disable=SC2016 # the agent's shell expands it
	near a 'setsid sh -c "i=0; while :; do i=\$((i + 1)); echo \$i >m; mv m n; done" & wait'
	ok "$mark: a tree counts" wait_until 20 counts_on ""
	is "$(stat -c %u "$near_work/n")" "$uid" "$mark: what it writes is the user's"
	for i in 1 2 3 4 5; do
		[ "$(ask a freeze)" = ok ] || frozen=no
		n=$(number)
		sleep 0.05 # nothing shall happen
		[ "$(number)" = "$n" ] || same=no
		ask a thaw >/dev/null
		wait_until 5 counts_on "$n" || same=stuck
	done
	is "$frozen $same" "yes yes" "$mark: frozen and thawed five times"
	like "$(ask a usage)" '^[0-9]+ [1-9][0-9]+ [1-9][0-9]+ [1-9]' "$mark: its use is seen"
	tree=$(tree_of "${held[a]}")
	is "$(ask a kill)" ok "$mark: SIGKILL"
	like "$(ask a wait)" 'signal=9 oom=0 .* ours=1 failed=0' "$mark: it was us"
	wait "${held[a]}" 2>/dev/null
	forget a
	# shellcheck disable=SC2086 # words are meant to be split
	ok "$mark: nothing is left" wait_until 10 tree_dead $tree

	near a 'while :; do echo 1 >n; sleep 0.05; done'
	ok "$mark: again" wait_until 20 counts_on ""
	guard=$(ask a guard)
	tree=$(tree_of "${held[a]}")
	kill -KILL "${held[a]}" "$guard"
	wait "${held[a]}" 2>/dev/null
	forget a
	# shellcheck disable=SC2086
	ok "$mark: kill -9 of agentd and its guard at once leaves nothing" wait_until 10 tree_dead $tree
}

try_image() {
	like "$("${as[@]}" "$top/tests/boxed" -i "$scratch/image" -t 1 "$kind" "$near_dir" /bin/sh -c \
		'[ ! -e /bin/bash ] && [ ! -e /etc/passwd ] && touch /raser/work/x /tmp/x /var/tmp/x' 2>&1)" \
		'^[0-9.]+$' "$kind as $who: the image is its root, and needs nothing of ours"
}

# boxed OPTION... SCRIPT: run once; what it says, which is a time when all is well
boxed_once() {
	"${as[@]}" "$top/tests/boxed" "${@:1:$#-1}" -t 1 "$kind" "$near_dir" /bin/sh -c "${@: -1}" 2>&1
}

try_network() {
	local reach="nc 127.0.0.1 $port </dev/null | grep -q reached" time='^[0-9.]+$'
	[ "$kind" = apptainer ] || reach="/bin/bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port && grep -q reached <&3'"
	like "$(boxed_once "${near_options[@]}" "$reach")" '^status' "$kind as $who: no network"
	like "$(boxed_once -n "${near_options[@]}" "$reach")" "$time" "$kind as $who: the host's when asked for"
	[ ! -e /etc/resolv.conf ] || [ "$kind" = apptainer ] ||
		like "$(boxed_once -n -i "$scratch/image" '[ -e /etc/resolv.conf ] && [ ! -e /etc/passwd ]')" \
			"$time" "$kind as $who: over an image, too, with names"
}

start_cost() {
	diag "$kind as $who: a start of true takes $("${as[@]}" "$top/tests/boxed" "${near_options[@]}" \
		-t 10 "$kind" "$near_dir" /bin/true) ms"
}

try_user() {
	for kind in "$@"; do
		near_options=()
		[ "$kind" = apptainer ] && near_options=(-i "$scratch/image")
		try_near
		[ "$kind" = none ] || try_image
		[ "$kind" = none ] || try_network
	done
}

who=$(id -un) uid=$(id -u) as=() near_dir=$TMPDIR
try_user none bwrap gvisor apptainer
for kind in none bwrap gvisor apptainer; do
	near_options=()
	[ "$kind" = apptainer ] && near_options=(-i "$scratch/image")
	start_cost
done
if [ "$(id -u)" = 0 ]; then
	who=nobody uid=65534 as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	near_dir=$scratch/nobody
	mkdir "$near_dir"
	chown 65534:65534 "$near_dir"
	try_user bwrap gvisor
	# capabilities that a user namespace around us hands down
	as+=(unshare --user --map-current-user --keep-caps)
	kind=bwrap
	like "$(boxed_once 'grep -q "CapPrm:.*[^0]" /proc/self/status || true')" '^[0-9.]+$' \
		"bubblewrap starts from within a user namespace with its capabilities"
	as=() near_dir=$TMPDIR
else
	skip 27 "not root: that was the other user"
fi

# the mount, where it is asked for
new_run || exit
mount_run m || exit
for kind in bwrap gvisor apptainer; do
	near_options=()
	[ "$kind" = apptainer ] && near_options=(-i "$scratch/image")
	like "$(boxed_once "${near_options[@]}" -s "$M" "cat $M/status")" '^[0-9.]+$' "$kind: the mount can be shown"
done

plan
