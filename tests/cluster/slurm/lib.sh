# shellcheck shell=bash disable=SC2034,SC2317
# lib.sh - what the tests on a real Slurm share: a Slurm of their own on this machine, with node names of
# their own, and somebody without any right who submits. The daemons are root's; everything of ours is
# the user's: `as_user COMMAND...`. It sources tests/lib.sh, whose trap takes all of it down again.
slurm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RASER_TIMEOUT=${RASER_TIMEOUT:-400}
# shellcheck source=tests/lib.sh
. "$slurm/../../lib.sh"

user=${RASER_USER:-nobody}
home=$scratch/user     # the user's: runs, and where they submit from
local_dir=$home/local  # what nodes have of their own; they share it
bin=$scratch/bin       # our programs, where the user can run them
prefix=r$(($$ % 10000))

# n LETTER: the name of a node; an owner's name keeps 8 characters of it
n() { echo "$prefix$1"; }

# as_user COMMAND...: as somebody with a home and no rights, and nothing of our environment
as_user() {
	setpriv --reuid="$uid" --regid="$gid" --clear-groups --inh-caps=-all env -i -C "$home" HOME="$home" \
		PATH="$bin:/usr/local/bin:/usr/bin:/bin" LC_ALL=C SLURM_CONF="$SLURM_CONF" "$@"
}

# start_slurm [OPTION...]: options of start; -n has letters for names: "a:16:4096:low b:..." (default: four
# nodes, of 16 processors each). Skips the test where there can be none.
start_slurm() {
	local spec="a:16:16384:low b:16:16384:low c:16:16384:mid d:16:16384:high" one named='' options=()
	[ -z "${RASER_SANITIZED-}" ] || skip_long
	[ "$(id -u)" = 0 ] || skip_all "not root"
	for one in munged slurmctld slurmd sbatch; do
		command -v "$one" >/dev/null || skip_all "$one is not installed (./bootstrap check-slurm)"
	done
	uid=$(id -u "$user") && gid=$(id -g "$user") || skip_all "there is no user $user"
	while [ $# -gt 0 ]; do
		case $1 in
		-n) spec=$2 ;;
		*) options+=("$1" "$2") ;;
		esac
		shift 2
	done
	for one in $spec; do named="$named $prefix$one"; done
	mkdir -p "$local_dir" "$bin" "$scratch/rig"
	chown "$uid:$gid" "$home" "$local_dir"
	for one in raser raserfs raser-agentd; do ln "$top/$one" "$bin/$one" 2>/dev/null || cp "$top/$one" "$bin/$one"; done
	restore+=("'$slurm/stop' '$scratch/rig' >/dev/null")
	env -i PATH="$PATH" HOME=/root LC_ALL=C TMPDIR="$TMPDIR" "$slurm/start" -d "$scratch/rig" -n "$named" \
		"${options[@]}" >"$scratch/rig.out" 2>"$scratch/rig.log" ||
		skip_all "no Slurm: $(tail -n 1 "$scratch/rig.log")"
	# shellcheck disable=SC1091 # made by start
	. "$scratch/rig.out"
	as_user test -x "$bin/raser" || skip_all "$user cannot reach $bin"
}

# node crash|cut|down|start|pids LETTER
node() { "$slurm/node" "$1" "$(n "$2")"; }

# user_run [KEY=VALUE...]: RUN is a new run directory, as by new_run, that is the user's
user_run() {
	local was
	new_run slurm.local="$local_dir" "$@" && was=$RUN && RUN=$home/${was##*/} && cp -r "$was" "$RUN" && chown -R "$uid:$gid" "$RUN" &&
		rm -rf "$was"
}

# ---- what Slurm says ----

# job ID KEY: a value of `scontrol show job`; of the first record, when an array has many
job() { scontrol -o show job "$1" 2>/dev/null | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d = -f 2; }
job_is() { [ "$(job "$1" "$2")" = "$3" ]; }
# jobs STATE: how many records of arrays and jobs are in a state, of the user's
jobs_in() { squeue -h -r -u "$user" -t "$1" -o %i 2>/dev/null | wc -l; }
jobs_are() { [ "$(jobs_in "$1")" = "$2" ]; }
no_jobs() { [ -z "$(squeue -h -u "$user" -t PD,R,S,CG,CF -o %i 2>/dev/null)" ]; }

# ---- what tasks say ----

# state WORD: how many tasks of RUN are pending, claimed, done, failed, cancelled
state() { as_user raser status "$RUN" | awk -v w="$1" '$1 == w { print $2 }'; }
state_is() { [ "$(state "$1")" = "$2" ]; }

# ---- what may not be left: each prints what is ----

left_processes() {
	local p
	for p in /proc/[0-9]*; do
		case $(readlink "$p/exe" 2>/dev/null) in "$bin"/*) echo "${p#/proc/} $(tr '\0' ' ' <"$p/cmdline")" ;; esac
	done
}
left_mounts() { awk '$9 ~ /raser/ || $10 ~ /raser/ { print $5 }' /proc/self/mountinfo; }
left_cgroups() { find /sys/fs/cgroup -type d -path "*/slurm_$prefix*/job_*" 2>/dev/null; }
no_workspace() { [ -z "$(ls -A "$local_dir")" ]; }
# nothing_left: after the jobs of a test, within some seconds
nothing_left() { [ -z "$(left_processes)$(own_mounts 5)$(left_cgroups)" ]; }
tells_left() { diag "processes: $(left_processes)" "mounts: $(own_mounts 5)" "cgroups: $(left_cgroups)"; }
# is_clean TEXT
is_clean() {
	wait_until 20 nothing_left
	result $? "$1"
	nothing_left || tells_left
}

# slurm_tells: for a test that failed
slurm_tells() {
	diag "$(squeue -r -u "$user" 2>&1 | tail -n 30)"
	diag "$(tail -n 5 "$RUN"/logs/slurm-*.out 2>/dev/null)"
}
