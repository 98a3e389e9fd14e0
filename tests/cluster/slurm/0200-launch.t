#!/bin/bash
# 0200-launch.t - raser launch on a real Slurm: 60 tasks and 15 agents in three arrays, with FUSE and
# without; what follows on two nodes; members in each state; a lane with devices; and nothing is left.
# shellcheck source=tests/cluster/slurm/lib.sh disable=SC2016
. "$(dirname "$0")/lib.sh"

start_slurm -n "a:16:16384:low b:16:16384:low c:16:16384:mid d:16:16384:high:gpu:1" -g 2

cat >"$home/agent" <<'END'
#!/bin/sh
# a moment's work; with "wait" in its payload until $1 is there
if grep -q wait; then while [ ! -e "$1" ]; do sleep 0.2; done; else sleep 0.$((${RASER_TASK#t} % 10))5; fi
echo done >"$RASER_RESULTS/answer"
END
cat >"$home/score" <<'END'
#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --mem=50 --time=5
srun sh -c 'echo "scored on $SLURMD_NODENAME"'
END
chmod +x "$home/agent" "$home/score"

# launch ARGUMENT...: sets out, and array[TIER] and after from it
declare -A array=()
launch() {
	local word number tier rest
	out=$(as_user env OPENAI_API_KEY=sesame GIVEN=given raser launch "$RUN" --sandbox none "$@" 2>&1)
	status=$?
	array=()
	after=
	while read -r word number rest; do
		case $word in
		array)
			tier=${rest##*tier }
			array[${tier%%,*}]=${number%:}
			;;
		job) after=${number%:} ;;
		esac
	done <<<"$out"
}
keys="steal_after=6 grace=4 slurm.overhead=64M low.memory=64M medium.memory=96M high.memory=128M"
members() { as_user raser status "$RUN" 2>&1 | sed -n '/^slurm at/,$p'; }
# ask anew, whoever has asked in this minute
renewed() { rm -f "$RUN"/slurm/squeue.* && members; }
shows() { [[ $(renewed) =~ $1 ]]; }

# ---- 60 tasks, 15 agents ----

# sixty WAY: from nothing to everything done, the run mounted so, and scored on two nodes
sixty() {
	local way=$1 from
	# shellcheck disable=SC2086 # words
	user_run agent.env=GIVEN $keys
	as_user mkdir -p "$home/my runs"
	mv "$RUN" "$home/my runs/"
	RUN="$home/my runs/${RUN##*/}"
	tasks 60 t | as_user raser submit "$RUN" - >/dev/null
	from=$(now_ms)
	launch --agents low=5,medium=5,high=5 --command "$home/agent" --mount "$way" --then "$home/score"
	is $status 0 "$way: three arrays are submitted"
	is "${#array[@]} ${array[low]:+low} ${array[high]:+high} ${after:+then}" "3 low high then" "$way: and a job that follows"
	[ "$nfailed" = 0 ] || diag "$out"
	is "$(grep -l sesame -r "$scratch/rig/state" | wc -l)" 0 "$way: Slurm's files have no key"
	ok "$way: but what raser.ini names" grep -q given -r "$scratch/rig/state"
	ok "$way: all 60 are done" wait_until 90 state_is "done" 60
	diag "$way: $(($(now_ms) - from)) ms"
	scored() { grep -q scored "$RUN/logs/slurm-$after.out" 2>/dev/null && job_is "$after" JobState COMPLETED; }
	ok "$way: what follows has run" wait_until 40 scored
	# each agent says how it got at the run
	like "$(cat "$RUN"/logs/slurm-"${array[low]}"_*.out)" "${said[$way]}" "$way: it was"
	is "$(sort "$RUN/logs/slurm-$after.out" | uniq | grep -c '^scored on')" 2 "$way: on two nodes"
	is "$(as_user raser export "$RUN" | jq -r 'select(.verb == "done") | .task' | sort -u | wc -l)" 60 \
		"$way: each of the 60 has a result"
	is "$(as_user raser export "$RUN" | jq -r .slurm.array_job 2>/dev/null | sort -u | grep -c .)" 3 "$way: from all three arrays"
	ok "$way: every array has ended by itself" wait_until 30 no_jobs
	is "$(as_user raser audit --settled "$RUN" | tail -n 1)" "audit: every promise was kept" "$way: raser audit"
	like "$(renewed)" "^slurm at [-0-9: ]*
gone: ${array[low]} ${array[medium]} ${array[high]} $after$" "$way: nobody is left, says status"
	ok "$way: no workspace is left" no_workspace
	is_clean "$way: nor a mount, a process, a cgroup"
	[ "$nfailed" = 0 ] || slurm_tells
}
declare -A said=([private]="is mounted at .*, for this job alone" [visible]="is mounted at "
	[none]="without a mount")
sixty private
sixty none
if [ -u "$(command -v fusermount3)" ]; then sixty visible; else skip 15 "fusermount3 is not setuid"; fi

# ---- members in each state, and more of them ----

# shellcheck disable=SC2086 # words
user_run $keys
tasks 4 t '"wait":1' | as_user raser submit "$RUN" - >/dev/null
launch --agents low=3,high=2 --command "$home/agent '$home/go'" -- -w "$(n a)" --mem=6000
low=${array[low]} high=${array[high]}
ok "some live, and some wait: status says why" wait_until 30 shows "array $low low: .*3 live \(1-3\)|2 live \(1-2\).*1 wait"
like "$(members)" "[12] waits? \([-0-9]+: (Resources|Priority)\)" "for a node"
launch --agents medium=1 --command true
is $status 1 "more by mistake are refused"
like "$out" "agents already, of arrays $low:$high .*--more" "with a way out"
launch --agents medium=2 --more --command "$home/agent '$home/go'" --then "$home/score" -- --hold
is $status 0 "--more"
medium=${array[medium]}
like "$(renewed)" "array $medium medium: 2 held \(1-2: JobHeldUser\)
job $after then: (held \(JobHeldUser|waits \(Dependency)\)" "those are held"
as_user scontrol release "$medium"_1 "$after"
ok "until they are released" wait_until 30 shows "array $medium medium: 1 live \(1\), 1 held"
as_user scancel "$low"_1
ok "one is cancelled, and gone" wait_until 30 shows "array $low low: .*1 gone \(1\)"
as_user touch "$RUN/drain"
touch "$home/go"
as_user scancel "$medium"_2
ok "a file drains the run" wait_until 60 shows "^slurm at [-0-9: ]*
gone: .*$"
pending=$(state pending)
[ "$pending" -gt 0 ] || diag "$(members)"
like "$(cat "$RUN/logs/slurm-$after.out")" "is not drained: $pending tasks? (is|are) pending" "and what follows does not"
is "$(job "$after" JobState)" FAILED "it fails instead"

# ---- a lane with devices ----

rm "$RUN/drain"
# shellcheck disable=SC2086 # words
user_run $keys
printf '[tier gpu]\nmemory = 64M\nfailures = all\nladder = no\nsbatch = --gres=gpu:1\n' >>"$RUN/raser.ini"
(tasks 6 t; tasks 4 g '"tier":"gpu"') | as_user raser submit "$RUN" - >/dev/null
launch --agents low=2,gpu=1 --command "sh -c 'echo \$RASER_TIER >\$RASER_RESULTS/tier; sleep 0.2'"
is $status 0 "a lane with devices beside one without"
is "$(job "${array[gpu]}" TresPerNode)" "gres:gpu:1" "each with its options"
ok "all are done" wait_until 60 state_is "done" 10
is "$(cat "$RUN"/results/t?/out/tier | sort | uniq -c | tr -s ' ' | tr '\n' ' ') $(cat "$RUN"/results/g?/out/tier | sort -u)" \
	" 6 low  gpu" "those that name the lane there, and no others"
ok "every array has ended" wait_until 30 no_jobs
ok "no workspace is left" no_workspace
is_clean "nor a mount, a process, a cgroup"
plan
