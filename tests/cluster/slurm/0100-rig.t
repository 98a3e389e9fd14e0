#!/bin/bash
# 0100-rig.t - the Slurm that the others stand on: it comes up, somebody's job runs, is requeued, survives
# a node, and all of it goes away. raser doctor asks it.
# shellcheck source=tests/cluster/slurm/lib.sh disable=SC2016
. "$(dirname "$0")/lib.sh"

start_slurm -n "a:16:4096:low b:16:4096:high:gpu:1" -k 4
is "$(sinfo -h -N -p work -o '%N %t %G' | tr '\n' ' ')" "$(n a) idle (null) $(n b) idle gpu:1 " "two nodes are idle"

user_run grace=3
id=$(as_user sbatch --parsable -o out.%j --wrap "raser doctor '$RUN'; echo status \$?")
ok "a job ends" wait_until 60 job_is "$id" JobState COMPLETED
like "$(cat "$home/out.$id")" "Slurm +KillWait is 4 s, grace 3 s" "raser doctor in it asks Slurm"
like "$(cat "$home/out.$id")" "ok +Slurm +PreemptMode is REQUEUE" "and judges what it says"
like "$(cat "$home/out.$id")" "ok +Slurm +preemption is announced" "and finds how preemption is announced"
like "$(cat "$home/out.$id")" "status [01]$" "nothing here keeps raserfs from working"

id=$(as_user sbatch --parsable --requeue --open-mode=append -C low -o again.%j --wrap \
	'echo "${SLURM_RESTART_COUNT-first} on $SLURMD_NODENAME"; [ -n "${SLURM_RESTART_COUNT-}" ] || sleep 100')
first() { grep -qx "first on $(n a)" "$home/again.$id" 2>/dev/null; }
ok "a job is where its feature says" wait_until 30 first
node crash a
ok "a node that has lost its power takes all with it" wait_until 5 test -z "$(node pids a)"
down() { [ "$(sinfo -h -N -p work -n "$(n a)" -o %T)" = "down*" ]; }
ok "which is noticed" wait_until 90 down
ok "it can be started again" node start a
again() { grep -qx "1 on $(n a)" "$home/again.$id"; }
ok "the job has been requeued" wait_until 60 again
id=$(as_user sbatch --parsable --gres=gpu:1 -o gpu.%j --wrap 'echo $SLURMD_NODENAME $SLURM_GPUS_ON_NODE')
ok "a job that asks for a device" wait_until 30 job_is "$id" JobState COMPLETED
is "$(cat "$home/gpu.$id")" "$(n b) 1" "gets it"
ok "no job is left" wait_until 30 no_jobs
is_clean "nor anything else"
plan
