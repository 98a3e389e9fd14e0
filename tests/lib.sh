# shellcheck shell=bash disable=SC2317
# lib.sh - what the tests of the mount share: TAP, run directories, daemons, holders, clean-up.
#
# A test sources it from the directory of the build, where raserfs, raser and tests/chk are:
#     . "$(dirname "$0")/../lib.sh"
# It mounts and gives the order of events; tests/chk tells exact errors. Everything that is
# started is ended by the trap at the end, by its recorded number.

# shellcheck source=tests/tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

plan() {
	local name
	if [ -n "${RASER_SANITIZED-}" ]; then # what daemons that end from here on have to say as well
		for name in "${!daemon[@]}"; do unmount "$name"; done
		is "$(cat "$scratch"/*.log | grep -E -A 12 'Sanitizer|runtime error:' | head -n 40)" "" \
			"no sanitizer has anything to say"
	fi
	echo "1..$ntests"
	finished=1
	[ "$nfailed" = 0 ]
	exit
}

# ---- clean-up ----

finished=
main_pid=$$
scratch=
declare -A daemon=()  # mount's name -> pid
declare -A held=()    # holder's name -> pid
extra_pids=()         # other children of this shell
adopted=()            # processes that are not, as PID:START
restore=()            # commands for the end, last first

alive() { # neither gone nor a zombie
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	stat=${stat##*) }
	[ "${stat%% *}" != Z ] && [ "${stat%% *}" != X ]
}
dead() { ! alive "$1"; }

# Only what is the number of one process: 0 and -1 would be everybody.
is_pid() { [[ $1 =~ ^[1-9][0-9]*$ ]] && [ "$1" -gt 1 ]; }

kill_hard() {
	local pid
	for pid in "$@"; do
		is_pid "$pid" && kill -KILL "$pid" 2>/dev/null
	done
}

# stat_field PID N: field N of proc(5), stat, from the third on
stat_field() {
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	echo "${stat##*) }" | cut -d ' ' -f $(($2 - 2))
}

# A number may be another's by now: only what is still a child of this shell.
kill_children() {
	local pid
	for pid in "$@"; do
		[ "$(stat_field "$pid" 4)" = "$main_pid" ] && kill_hard "$pid"
	done
}

# adopt PID: a process that this test has caused, and that is not its child
adopt() {
	is_pid "$1" && adopted+=("$1:$(stat_field "$1" 22)")
}

kill_adopted() {
	local one
	for one in "${adopted[@]}"; do
		[ "$(stat_field "${one%:*}" 22)" = "${one#*:}" ] && kill_hard "${one%:*}"
	done
}

# own_mounts FIELD: of mountinfo, for what is mounted below the scratch directory
own_mounts() {
	awk -v s="$scratch/" -v f="$1" 'index($5, s) == 1 { print $f }' /proc/self/mountinfo
}

# Break a connection, so that nobody waits for its daemon any more: fuse.rst, "abort".
abort_mount() {
	echo 1 2>/dev/null >"/sys/fs/fuse/connections/$(connection "$1")/abort" || umount -f "$1" 2>/dev/null
}

is_mounted() {
	grep -q " $1 " /proc/self/mountinfo
}

detach() {
	local path=$1 i
	for i in 1 2 3; do
		is_mounted "$path" || return 0
		umount -l "$path" 2>/dev/null || fusermount3 -uzq "$path" 2>/dev/null
	done
	! is_mounted "$path"
}

cleanup() {
	local status=$? i name path safe=1
	trap - EXIT
	trap '' TERM INT HUP # a second one must not leave half of it
	exec 2>/dev/null     # what bash says of those that are killed now
	kill_hard "${watchdog-}"
	for ((i = ${#restore[@]} - 1; i >= 0; i--)); do
		eval "${restore[$i]}"
	done
	# shellcheck disable=SC2046 # words are meant to be split
	kill_children "${held[@]}" "${extra_pids[@]}" "${daemon[@]}" $(jobs -p)
	kill_adopted
	wait 2>/dev/null
	if [ -n "$scratch" ]; then
		while read -r path; do
			detach "$path" || safe=
		done < <(own_mounts 5)
		if [ -n "$safe" ]; then
			chmod -R u+w "$scratch" 2>/dev/null
			[ -n "${RASER_KEEP-}" ] || rm -rf --one-file-system "$scratch"
		fi
	fi
	if [ -z "$finished" ]; then
		echo "Bail out! ended before its end, with status $status"
		exit 1
	fi
	exit "$status"
}

# Ends a test that hangs: first the connections, so that nobody stays in an unkillable wait.
start_watchdog() {
	local limit=${RASER_TIMEOUT:-$1}
	mkfifo "$scratch/never"
	(
		trap - EXIT
		read -r -t "$limit" _ <>"$scratch/never"
		echo "# watchdog: over after $limit s"
		own_mounts 5 | while read -r path; do abort_mount "$path"; done
		kill -TERM "$main_pid"
		read -r -t 30 _ <>"$scratch/never" # the shell may be in the middle of a read
		for path in /proc/[0-9]*; do
			[ "$path" = "/proc/$BASHPID" ] || kill_children "${path#/proc/}"
		done
		own_mounts 5 | while read -r path; do detach "$path"; done
		[ -n "$(own_mounts 5)" ] || rm -rf --one-file-system "$scratch"
		kill -KILL "$main_pid"
	) &
	watchdog=$!
}

trap cleanup EXIT
trap 'exit 143' TERM INT HUP

# ---- waiting ----

now_ms() { echo "$((${EPOCHREALTIME/[.,]/} / 1000))"; }

# wait_until SECONDS COMMAND...: poll every 10 ms; its status is whether the command succeeded
wait_until() {
	local end=$(($(now_ms) + $(awk -v s="$1" 'BEGIN { print int(s * 1000) }')))
	shift
	until "$@"; do
		[ "$(now_ms)" -lt "$end" ] || return 1
		sleep 0.01
	done
}

# best N COMMAND...: the least number that the command prints in N tries
best() {
	local n=$1 least='' got
	shift
	while [ "$n" -gt 0 ]; do
		got=$("$@") || got=999999
		if [ -z "$least" ] || [ "$got" -lt "$least" ]; then least=$got; fi
		n=$((n - 1))
	done
	echo "$least"
}

# ---- run directories and mounts ----

nruns=0
wrap=() # what a daemon is started with: env, setpriv, ...
tries_slow=1
[ -z "${RASER_SANITIZED-}" ] || tries_slow=5

# new_run [KEY=VALUE...]: RUN is a new run directory; keys of [run], SECTION.KEY, or TIER.KEY of a tier
new_run() {
	local set key tier
	nruns=$((nruns + 1))
	RUN=$scratch/run$nruns
	"$top/raser" init "$RUN" >/dev/null || return
	for set in "$@"; do
		key=${set%%=*}
		tier=run
		case $key in
		agent.* | slurm.* | limits.* | accept.*) tier=${key%%.*} key=${key#*.} ;;
		*.*) tier="tier ${key%%.*}" key=${key#*.} ;;
		esac
		awk -v s="[$tier]" -v k="$key" -v v="${set#*=}" '
			/^\[/ { in_it = $0 == s }
			in_it && ($1 == k || $1 == ";" k) { print k " = " v; next }
			{ print }' "$RUN/raser.ini" >"$RUN/ini.new" && cat "$RUN/ini.new" >"$RUN/raser.ini"
		rm -f "$RUN/ini.new"
	done
}

# The number of the connection that is mounted at a path, on top; nothing when there is none.
connection() {
	awk -v p="$1" '$5 == p { sub(/.*:/, "", $3); n = $3 } END { print n }' /proc/self/mountinfo
}

# mount_run NAME [OPTION...]: RUN at $scratch/NAME, which becomes M. Fails when the daemon does.
mount_run() {
	local name=$1 end
	shift
	M=$scratch/$name
	mkdir -p "$M" 2>/dev/null # it is there, but cannot be looked at, when a daemon has died
	"${wrap[@]}" "$top/raserfs" -f "$@" "$RUN" "$M" 2>>"$scratch/$name.log" </dev/null &
	daemon[$name]=$!
	end=$(($(now_ms) + 10000 * tries_slow))
	until is_mounted "$M" && [ -s "$M/README" ]; do
		if dead "${daemon[$name]}" || [ "$(now_ms)" -gt "$end" ]; then
			diag "mount $name: $(tail -n 3 "$scratch/$name.log")"
			return 1
		fi
		sleep 0.01
	done
}

# end_daemon NAME [SIGNAL]: its exit status, 124 when it does not end
end_daemon() {
	local pid=${daemon[$1]}
	kill "-${2:-TERM}" "$pid" 2>/dev/null
	kill -CONT "$pid" 2>/dev/null
	wait_until 10 dead "$pid" || return 124
	wait "$pid" 2>/dev/null
}

# unmount NAME: end its daemon in order, and see the mount gone
unmount() {
	local status
	end_daemon "$1"
	status=$?
	unset "daemon[$1]"
	detach "$scratch/$1"
	return $status
}

# crash NAME: kill -9 of the daemon; the dead mount stays
crash() {
	kill -KILL "${daemon[$1]}"
	wait "${daemon[$1]}" 2>/dev/null
	unset "daemon[$1]"
}

# background_pid [COMMAND...]: the daemon of the mount M, as its beat tells; the words before a
# command say who asks. Fails when it is no raserfs.
background_pid() {
	local owner pid run
	run=$("$@" readlink "$M/results")
	owner=$("$@" cat "$M/status" | awk '/^owner/ { print $2 }')
	pid=$(awk '$1 == "pid" { print $2 }' "${run%/*}/nodes/$owner")
	is_pid "$pid" && [ "$(cat "/proc/$pid/comm")" = raserfs ] && echo "$pid"
}

# Of the mount M, which may be mounted again meanwhile: who serves it, whether anybody does, another
# than before, and how many lie on each other.
mount_owner() { awk '/^owner/ { print $2 }' "$M/status" 2>/dev/null; }
mount_serves() { [ -s "$M/README" ]; }
mounted_again() {
	local now
	now=$(mount_owner)
	[ -n "$now" ] && [ "$now" != "$1" ]
}
mount_height() { grep -c " $M " /proc/self/mountinfo; }

# ---- tasks ----

chk() { "$top/tests/chk" "$@"; }
crowd() { "$top/tests/crowd" "$@"; }

# tasks N PREFIX [MORE]: lines of JSON for PREFIX1 to PREFIXN; MORE: further members
tasks() {
	awk -v n="$1" -v p="$2" -v m="${3:+,}${3-}" \
		'BEGIN { for (i = 1; i <= n; i++) printf "{\"id\":\"%s%d\"%s}\n", p, i, m }'
}

# submit N PREFIX [MORE]: through the mount M
submit() {
	tasks "$@" >"$M/new/s$RANDOM$RANDOM"
}

# one NAME [MORE]: a single task of that id
one() {
	printf '{"id":"%s"%s}\n' "$1" "${2:+,}${2-}" >"$M/new/o$RANDOM$RANDOM"
}

names() { chk list 0 "$1" | tr "\n" " " | sed "s/ $//"; }
count() { chk list 0 "$1" | wc -l; }
xattr() { chk getxattr "$1" "user.raser.$2"; }
json() { jq -r "$1" "$M/status.json"; }
exists() { [ -e "$1" ]; }
gone() { [ ! -e "$1" ]; }

# ready TIER: how many it could be given
ready() { cat "$M/queue/$1/ready"; }
is_ready() { [ "$(ready "$1")" = "$2" ]; }
# how many opens wait at the daemon of M
waiting() { awk '/^tier / { n += $(NF - 1) } END { print n + 0 }' "$M/status"; }
is_waiting() { [ "$(waiting)" = "$1" ]; }
has_count() { [ "$(count "$1")" = "$2" ]; }

# ---- programs under remote control: chk hold, crowd waiters ----

declare -A hin=() hout=()

# remote NAME COMMAND...: start it; the caller takes its first answer
remote() {
	local name=$1 in=$scratch/$1.in out=$scratch/$1.out fd
	shift
	rm -f "$in" "$out"
	mkfifo "$in" "$out"
	"$@" <"$in" >"$out" 2>/dev/null &
	held[$name]=$!
	exec {fd}<>"$in"
	hin[$name]=$fd
	exec {fd}<>"$out"
	hout[$name]=$fd
}

# hold NAME FLAGS PATH: a process that holds a file open; first it says ok or an error
hold() { remote "$1" "$top/tests/chk" hold "$2" "$3"; }

# answer NAME: the next line that a holder says
answer() {
	local line=silence
	IFS= read -r -t 20 line <&"${hout[$1]}" || line=silence
	printf '%s\n' "$line"
}

# ask NAME COMMAND...: an order and its answer
ask() {
	local name=$1
	shift
	printf '%s\n' "$*" >&"${hin[$name]}"
	answer "$name"
}

# take NAME PATH: a claim by O_RDWR, its payload read
take() {
	local got
	hold "$1" rw "$2"
	got=$(answer "$1")
	[ "$got" = ok ] && got=$(ask "$1" read)
	[ "$got" = ok ] || diag "$2 cannot be taken: $got"
	[ "$got" = ok ]
}

forget() {
	local fd=${hin[$1]}
	exec {fd}>&-
	fd=${hout[$1]}
	exec {fd}>&-
	unset "held[$1]" "hin[$1]" "hout[$1]"
}

# end_holder NAME [SIGNAL]: kill it and see it gone
end_holder() {
	kill "-${2:-KILL}" "${held[$1]}" 2>/dev/null
	wait "${held[$1]}" 2>/dev/null
	forget "$1"
}

# ---- sandboxes ----

# Skips the test where one of the sandboxes is missing; the stand-in for Apptainer is put on PATH,
# and $scratch/image is a root folder that knows nothing of us.
need_sandboxes() {
	local tool file app box
	for tool in bwrap runsc busybox python3; do
		command -v $tool >/dev/null || skip_all "$tool is not installed"
	done
	PATH=$scratch/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	mkdir "$scratch/bin"
	cp "$(dirname "${BASH_SOURCE[0]}")/apptainer" "$scratch/bin/apptainer"
	chmod 755 "$scratch/bin/apptainer"
	box=$(command -v busybox)
	for file in $box $(ldd "$box" | grep -o '/[^ ]*'); do
		mkdir -p "$scratch/image$(dirname "$file")"
		cp -L "$file" "$scratch/image$file"
	done
	mkdir -p "$scratch/image/bin"
	for app in sh cat grep id kill ls mkdir mv nc rm setsid sleep touch true env readlink; do
		ln -sf "$box" "$scratch/image/bin/$app"
	done
}

# listen_here: somebody on this host answers "reached" at $port of 127.0.0.1
listen_here() {
	python3 -c '
import socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(16)
print(s.getsockname()[1], file=open(sys.argv[1], "w"), flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"reached\n")
    c.close()' "$scratch/port" &
	extra_pids+=($!)
	# shellcheck disable=SC2034 # the tests use it
	wait_until 20 test -s "$scratch/port" && port=$(cat "$scratch/port")
}

# tree_of PID: it and all that comes from it, as PID:START
tree_of() {
	local child
	echo "$1:$(stat_field "$1" 22)"
	for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do tree_of "$child"; done
}

# tree_dead PID:START...: none of them lives
tree_dead() {
	local one
	for one in "$@"; do
		[ "$(stat_field "${one%:*}" 22)" != "${one#*:}" ] || dead "${one%:*}" || return 1
	done
}

# ---- the beginning ----

for program in raserfs raser tests/chk tests/crowd; do
	[ -x "$top/$program" ] || skip_all "$top/$program is not built"
done
command -v jq >/dev/null || skip_all "jq is not installed"
if [ ! -c /dev/fuse ] || ! "$top/tests/chk" open rw /dev/fuse | grep -qx ok; then
	skip_all "/dev/fuse cannot be used"
fi
base=${TMPDIR:-}
if [ -z "$base" ]; then
	base=/tmp
	[ ! -w /dev/shm ] || base=/dev/shm
fi
scratch=$(cd "$(mktemp -d "$base/raser-mount.XXXXXX")" && pwd -P) || exit 1
chmod 755 "$scratch"
TMPDIR=$scratch/tmp
mkdir "$TMPDIR"
chmod 1777 "$TMPDIR"
export TMPDIR
start_watchdog $((120 * tries_slow))
