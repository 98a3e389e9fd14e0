#!/bin/bash
# 0300-signals.t - what Slurm does to a job, and what becomes of it and of its task: every row of the
# table in raser-agentd(8), nodes that fail, daemons that are killed, memory, brakes. All of them are jobs
# of one Slurm at the same time, each with a run directory of its own.
# shellcheck source=tests/cluster/slurm/lib.sh disable=SC2016
. "$(dirname "$0")/lib.sh"

start_slurm -n "a:16:8192:low b:16:4096 c:16:4096 d:16:4096 e:16:4096 f:16:4096 g:16:4096 h:16:4096" -k 5

# shellcheck source=tests/cluster/slurm/jobs.sh
. "$slurm/jobs.sh"

# ---- everything that only takes time begins now ----

# a time limit shorter than the task, with a warning and without; Slurm looks at it every 30 s
more='"expected":105'
scenario warned 1050 -- -t 1 --signal=B:USR1@15
more=
scenario limit 1050 -- -t 1
# on one of these nodes; the other one is for its second life
scenario crash 400 -- -x "$(n a),$(n b),$(n c),$(n e),$(n f),$(n g)"
scenario cut 600 -- -x "$(n a),$(n b),$(n c),$(n d),$(n f),$(n h)"
scenario preempted 400 -- -w "$(n b)" --mem=4000 --signal=B:USR1@60
scenario unwarned 400 -- -w "$(n f)" --mem=4000
scenario down 300 -- -w "$(n c)"
scenario bare 300 --
scenario requeue 300 --
scenario cancel 600 --
scenario kills 400 max_failures=0 low.failures=all --
scenario killed 600 low.failures=all --
scenario often 400 limits.max_requeues=1 --
# more memory than the low tier has; it is finished by the high one
a_run oom low.memory=48M medium.memory=48M high.memory=200M
cat >"$home/eater" <<'END'
#!/bin/bash
x=$(head -c 60000000 /dev/zero | tr '\0' x)
echo ${#x} >"$RASER_RESULTS/n"
END
chmod 755 "$home/eater"
job_of oom low "$home/eater" --mem=128

where() { job "${id[$1]}" NodeList | tail -c 2; }
wait_until 30 at_work crash && wait_until 30 at_work cut
crashed=$(where crash) cut=$(where cut)
node crash "$crashed"
node cut "$cut"
wait_until 30 at_work preempted && wait_until 30 at_work unwarned
as_user sbatch -p urgent -w "$(n b)" --mem=4000 -t 1 -o /dev/null --wrap 'sleep 5' >/dev/null
as_user sbatch -p urgent -w "$(n f)" --mem=4000 -t 1 -o /dev/null --wrap 'sleep 5' >/dev/null

# ---- signals ----

ok "jobs are at work" wait_until 30 at_work bare
as_user scancel --batch --signal=TERM "${id[bare]}"
wait_until 30 at_work requeue
as_user scontrol requeue "${id[requeue]}"
wait_until 30 at_work down
node down c
wait_until 30 at_work cancel
as_user scancel "${id[cancel]}"
ok "scancel: the task is pending again within seconds" wait_until 5 is_pending cancel
ok "scancel: the job says so" wait_until 10 says cancel 'cancelled \(COMPLETING, None\)'

# ---- brakes ----

wait_until 30 at_work often
as_user scancel --batch --signal=TERM "${id[often]}"
ok "max_requeues=1: a job comes back once" wait_until 30 at_work often 2
as_user scancel --batch --signal=TERM "${id[often]}"

# ---- kill -9 ----

wait_until 30 at_work kills
kill_hard "$(agentd kills)"
ok "kill -9 of agentd: it is started again, and resumes the task" wait_until 20 at_work kills 2
# shellcheck disable=SC2046 # words are meant to be split
kill_hard $(raserfs kills)
ok "kill -9 of raserfs and its supervisor: the agent goes on" wait_until 20 says kills 'taken up again: the mount is back'
wait_until 30 at_work killed
kill_hard "$(process killed)"
ok "kill -9 of raser job: Slurm ends the job" wait_until 20 job_is "${id[killed]}" JobState FAILED
nothing_of() { ! left_processes | grep -q "${run[$1]} "; }
ok "... nothing of it goes on" wait_until 10 nothing_of killed
was=${id[killed]}
job_of killed low "$home/agent 20"
ok "... and another one takes its task up" wait_until 30 is_done killed

ok "max_requeues: the job does not come back twice" wait_until 20 job_is "${id[often]}" JobState COMPLETED
like "$(log often)" "not requeued: this job was requeued 1 times, 1 are allowed" "... and says why"
ok "... its task is pending" wait_until 5 is_pending often
like "$(cat "${run[often]}"/slurm/use/*.0 "${run[often]}"/slurm/use/*.1 | tr '\n' ' ')" "^[0-9.]+ [0-9.]+ $" \
	"... and what it used is written down"
touch "${run[often]}/drain"
id2=$(as_user sbatch --parsable -n 1 --mem=200 -o "$home/often.out" "$home/often.low.sh")
ok "a run that is drained: a job ends at its start" wait_until 20 job_is "$id2" JobState COMPLETED
is_pending often && rm "${run[often]}/drain"

# ---- what came of it ----

comes_back bare "fT0 d-0 " "scancel --batch --signal=TERM"
is "$(job "${id[bare]}" Restarts)" 1 "... after one requeue"
comes_back requeue "fT0 d-0 " "scontrol requeue"
is "$(job "${id[requeue]}" Restarts)" 1 "... which is not repeated"
like "$(log requeue)" "Slurm has requeued this job \(restart 1\)" "... as scontrol tells"
ok "node down: the job is requeued" wait_until 10 says down 'Slurm has requeued this job \(restart 1\)'
node start c
comes_back down "fT0 d-0 " "node down"
comes_back kills "rC1 fB1 d-1 " "kill -9"
ok "... in its only life" job_is "${id[kills]}" Restarts 0
ok "memory: the low tier's job goes on and is COMPLETED" wait_until 60 job_is "${id[oom.low]}" JobState COMPLETED
job_of oom high "$home/eater" --mem=300
ok "... and the high tier's, which finishes the task" wait_until 60 job_is "${id[oom.high]}" JobState COMPLETED
is "$(ends oom)" "rM1 d-1 " "... after it was out of memory below"
comes_back preempted "fT0 d-0 " "preemption with a warning" 90
like "$(log preempted)" "SIGUSR1: the agent saves its work" "... by SIGUSR1"
comes_back unwarned "fT0 d-0 " "preemption without a warning" 90
like "$(log unwarned)" "Slurm has requeued this job \(restart 1\)" "... which Slurm requeues itself"
is "$(job "${id[unwarned]}" Restarts)" 1 "... once"

# the first copy of the job still works when Slurm starts a second one elsewhere: the lease keeps them apart
ok "node cut: a second copy of the job is started" wait_until 90 job_is "${id[cut]}" Restarts 1
ok "... while its first one works" test "$(node pids "$cut" | wc -l)" -gt 0
ok "... on another node" test "$(where cut)" != "$cut"
ok "a node that has lost its power: its job comes back" wait_until 60 is_done crash
like "$(ends crash)" "^(l|f).0 d-0 $" "... no failure is counted"
ok "the second copy leaves the task to the first" wait_until 120 is_done cut
is "$(ends cut)" "d-0 " "... no failure is counted"
node start "$cut"
comes_back limit "fT0 d-0 " "the time limit" 150
like "$(log limit)" "the time limit \(COMPLETING, TimeLimit\)" "... which scontrol tells"
ok "a time limit shorter than the task: it is done at last" wait_until 150 is_done warned
like "$(ends warned)" "^(fT0 )+d-0 $" "... over several allocations, without a failure"
is "$(cat "${run[warned]}/results/t/out/n")" 1050 "... nothing is lost"
is "$(job "${id[cancel]}" JobState) $(job "${id[cancel]}" Restarts)" "CANCELLED 0" "what was cancelled has never come back"
ok "no job is left" wait_until 30 no_jobs
# what was killed as a whole leaves folders; the next job of that run and node takes them away
is "$(find "$scratch/local" -maxdepth 1 -name 'raser-*' | grep -v -e "$(uuid killed)" -e "$(uuid crash)" -e raser-agent)" "" \
	"no folder is left on the nodes"
# nor do their control groups go, of which slurmd has no notion
forgotten() { find /sys/fs/cgroup -depth -type d -path "*/slurm_$prefix*/job_$1*" -exec rmdir {} + 2>/dev/null; }
forgotten "$was"
forgotten "${id[crash]}"
is_clean "nor anything else"
plan
