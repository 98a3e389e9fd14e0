# shellcheck shell=bash disable=SC2034,SC2016,SC2154
# jobs.sh - what the tests of signals share: jobs of one Slurm at the same time, each with a run directory
# and a task of its own, whose agent counts tenths of a second and goes on where it was.

mkdir -m 1777 "$scratch/local" # of all nodes
how=      # to mount: for raser job
more=     # members of a task

# an agent that has to work for $1 tenths of a second in all, and goes on where it was
cat >"$home/agent" <<'END'
#!/bin/bash
n=$(cat n 2>/dev/null || echo 0)
echo "from $n, until ${RASER_DEADLINE:-none}"
while [ "$n" -lt "$1" ]; do
	sleep 0.1
	echo $((n += 1)) >n
done
echo "$n" >"$RASER_RESULTS/n"
END
chmod 755 "$home/agent"

declare -A run=() id=()

# a_run NAME [KEY=VALUE...]: a run of that name, with one task
a_run() {
	local name=$1
	shift
	user_run grace=3 steal_after=8 agent.sandbox=none agent.checkpoint_every=4 low.memory=64M \
		slurm.local="$scratch/local" "$@"
	run[$name]=$RUN
	echo "{\"id\":\"t\"${more:+,}$more}" | as_user raser submit "$RUN" - >/dev/null
}
# scenario NAME TENTHS [KEY=VALUE...] -- [SBATCH OPTION...]: a run, and a job for it
scenario() {
	local name=$1 tenths=$2 keys=()
	shift 2
	while [ "$1" != -- ]; do keys+=("$1") && shift; done
	shift
	a_run "$name" "${keys[@]}"
	job_of "$name" low "$home/agent $tenths" "$@"
}
# job_of NAME TIER COMMAND [SBATCH OPTION...]
job_of() {
	local name=$1 tier=$2 command=$3
	shift 3
	printf '#!/bin/bash\nexec raser job %s --tier %s%s -- %s\n' "${run[$name]}" "$tier" "${how:+ --mount $how}" "$command" |
		as_user tee "$home/$name.$tier.sh" >/dev/null
	id[$name.$tier]=$(as_user sbatch --parsable --requeue --open-mode=append -n 1 --mem=200 -J "$name" \
		-o "$home/$name.out" "$@" "$home/$name.$tier.sh")
	id[$name]=${id[$name.$tier]}
}
log() { cat "$home/$1.out" 2>/dev/null; }
says() { log "$1" | grep -qE -- "$2"; }
starts() { log "$1" | grep -c 'task t@[0-9]*: started'; }
at_work() { [ "$(starts "$1")" -ge "${2:-1}" ]; }
# ends NAME: outcome, reason and failures of each attempt; "fT0": given back as preempted
ends() {
	local k
	for k in 1 2 3 4 5 6 7 8 9; do readlink "${run[$1]}"/chain/*/t@$k.end; done |
		awk -F : '{ printf "%s%s%s ", $4, $5, $6 }'
}
is_done() { [ -e "${run[$1]}/results/t/out/n" ]; }
is_pending() { RUN=${run[$1]} state_is pending 1; }
# agentd NAME: the process of its agent's daemon; raserfs: of the serving one; process: of raser job
agentd() { pgrep -u "$uid" -f "^$bin/raser-agentd .*$(basename "$(folder "$1")")/" | head -n 1; }
folder() { find "$scratch/local" -maxdepth 1 -name "raser-job.*.$(uuid "$1").*" 2>/dev/null | head -n 1; }
uuid() { awk 'NR == 1 { print $NF }' "${run[$1]}/FORMAT"; }
raserfs() { pgrep -u "$uid" -f "^$bin/raserfs .*${run[$1]} " | sort -n; }
process() { pgrep -u "$uid" -f "^raser job ${run[$1]} "; }
# comes_back NAME ENDS TEXT: the job has come back, and its task is done
comes_back() {
	ok "$3: it comes back and is done" wait_until "${4:-90}" is_done "$1"
	is "$(ends "$1")" "$2" "... no failure is counted"
}

