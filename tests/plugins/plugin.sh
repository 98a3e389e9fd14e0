# shellcheck shell=bash disable=SC2034,SC2317
# plugin.sh - what the tests of the plugins share: TAP, and a small stand-in for raser-agentd.
#
# Nothing is mounted: a plugin knows only its environment, its workspace and its exit status, so
# attempt() makes these, may kill it, and keeps a copy of the workspace as its checkpoint.

export PYTHONDONTWRITEBYTECODE=1 # the sources may be read-only
src=$(cd "$(dirname "$0")/../.." && pwd -P)
# shellcheck source=tests/tap.sh
. "$src/tests/tap.sh"
finished=

helpers=() # children that end with the test

cleanup() {
	local status=$? pid
	trap - EXIT
	for pid in "${helpers[@]}"; do kill -KILL "$pid" 2>/dev/null; done
	[ -n "${RASER_KEEP-}" ] || rm -rf --one-file-system "$scratch"
	if [ -z "$finished" ]; then
		echo "Bail out! ended before its end, with status $status"
		exit 1
	fi
	exit "$status"
}

base=${TMPDIR:-}
if [ -z "$base" ]; then
	base=/tmp
	[ ! -w /dev/shm ] || base=/dev/shm
fi
scratch=$(cd "$(mktemp -d "$base/raser-plugin.XXXXXX")" && pwd -P) || exit 1
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

# need_python: python is one; not a wrapper around it, since it is started often
need_python() {
	command -v python3 >/dev/null || skip_all "python3 is not installed"
	python=$(python3 -c 'import sys; print(sys.executable if sys.version_info >= (3, 7) else "")')
	[ -n "$python" ] || skip_all "python3 is older than 3.7"
}

# need_killat: attempts can be killed by kill_at
need_killat() {
	[ -e "$top/tests/killat.so" ] || skip_all "$top/tests/killat.so is not built"
}

# ---- what raser-agentd does for a plugin ----

attempt=0 # number of the attempt
status=0  # how the last one ended
kill_at=  # KILLAT of killat.c
more=()   # further variables of the plugin's environment

# new_task PAYLOAD: the next attempts are about it; nothing is left of the last task
new_task() {
	attempt=0
	rm -rf "$scratch/checkpoint" "$scratch"/a.*
	printf '%s' "$1" >"$scratch/task"
	W='' R='' C='' L=''
}

# attempt COMMAND...: an attempt at the task. W is its workspace, R its results, C what it told by
# RASER_CONTROL, L its output; each attempt has others. Sets status.
attempt() {
	local preload=()
	attempt=$((attempt + 1))
	local a=$scratch/a.$attempt
	mkdir -p "$a/results"
	if [ -d "$scratch/checkpoint" ]; then
		cp -a "$scratch/checkpoint" "$a/work"
	else
		mkdir "$a/work"
	fi
	: >"$a/control"
	W=$a/work R=$a/results C=$a/control L=$a/log
	if [ -n "$kill_at" ]; then # a sanitizer wants to be first, and can do without
		preload=(LD_PRELOAD="$top/tests/killat.so" KILLAT="$kill_at"
			ASAN_OPTIONS="verify_asan_link_order=0:${ASAN_OPTIONS-}")
	fi
	# in braces, since bash tells of its own accord what died of a signal
	{ (
		cd "$W" && exec env RASER_TASK_ID="${task_id:-t}" RASER_TASK="${task_id:-t}" \
			RASER_ATTEMPT="$attempt" RASER_FAILURES=0 RASER_TIER=low RASER_MEMORY=0 \
			RASER_RESUMED="$([ -d "$scratch/checkpoint" ] && echo 1 || echo 0)" \
			RASER_DEADLINE= RASER_TASK_FILE="$scratch/task" RASER_WORKSPACE="$W" \
			RASER_RESULTS="$R" RASER_CONTROL="$C" RASER_CACHE="$scratch" \
			"${more[@]}" "${preload[@]}" "$@"
	) <"$scratch/task" >"$L" 2>&1; } 2>/dev/null
	status=$?
}

# checkpoint: the workspace of the last attempt is what the next one begins with
checkpoint() {
	rm -rf "$scratch/checkpoint"
	cp -a "$W" "$scratch/checkpoint"
}

# lines PATTERN: how many lines of RASER_CONTROL have it
told() { grep -c -e "$1" "$C"; }
