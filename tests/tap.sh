# shellcheck shell=bash disable=SC2034,SC2317
# tap.sh - what every test in shell begins with: one at a time, since many of them measure, and TAP. Those
# that wait more than they work and bear a busy machine say so by beside=yes, and run beside each other.
# lib.sh and plugins/plugin.sh source it, from the directory of the build.

set -u
LC_ALL=C
export LC_ALL
umask 022

top=${RASER_BUILD:-$PWD}
if [ -z "${RASER_LOCKED-}" ] && command -v flock >/dev/null; then
	export RASER_LOCKED=1
	exec flock ${beside:+-s} -o "${TMPDIR:-/tmp}/raser-test.$(id -u).lock" "$BASH" "$0" "$@"
fi

ntests=0
nfailed=0

diag() {
	local line
	printf '%s\n' "$*" | while IFS= read -r line; do printf '# %s\n' "$line"; done
}

result() { # result 0|1 TEXT
	ntests=$((ntests + 1))
	if [ "$1" = 0 ]; then
		echo "ok $ntests - ${2//#/ }"
	else
		nfailed=$((nfailed + 1))
		echo "not ok $ntests - ${2//#/ }"
		diag "at line ${BASH_LINENO[1]} of $0"
	fi
}

# ok TEXT COMMAND...: the command succeeds
ok() {
	local text=$1
	shift
	"$@"
	result $? "$text"
}

# nok TEXT COMMAND...: it fails
nok() {
	local text=$1
	shift
	! "$@"
	result $? "$text"
}

# is GOT WANTED TEXT
is() {
	[ "$1" = "$2" ]
	result $? "$3"
	[ "$1" = "$2" ] || diag "got:    $1" "
wanted: $2"
}

# like GOT PATTERN TEXT: GOT matches an extended regular expression
like() {
	[[ $1 =~ $2 ]]
	result $? "$3"
	[[ $1 =~ $2 ]] || diag "got:    $1" "
wanted: $2"
}

# below GOT LIMIT TEXT: a number below a limit
below() {
	[ "$1" -lt "$2" ]
	result $? "$3 ($1 < $2)"
}

skip() { # skip N WHY: N assertions that cannot be made here
	local i
	for ((i = 0; i < $1; i++)); do
		ntests=$((ntests + 1))
		echo "ok $ntests # SKIP $2"
	done
}

# the plan, and the end; lib.sh has more to say before
plan() {
	echo "1..$ntests"
	finished=1
	[ "$nfailed" = 0 ]
	exit
}

skip_all() {
	finished=1
	if [ -n "${RASER_MUST_RUN-}" ]; then
		echo "1..1"
		echo "not ok 1 - must run, but: $1"
		exit 1
	fi
	echo "1..0 # SKIP $1"
	exit 0
}

# what runs once, unsanitized, is no loss elsewhere
skip_long() {
	finished=1
	echo "1..0 # SKIP runs once, without sanitizers"
	exit 0
}
