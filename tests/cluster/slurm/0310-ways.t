#!/bin/bash
# 0310-ways.t - signals of a Slurm that tracks processes by their parents, so that every process of a job
# gets them at once, agents too; jobs with a private mount, a visible one, and none.
# shellcheck source=tests/cluster/slurm/lib.sh
. "$(dirname "$0")/lib.sh"

start_slurm -n "a:16:8192 b:16:8192" -k 5 -m poll
# shellcheck source=tests/cluster/slurm/jobs.sh
. "$slurm/jobs.sh"
is "$(scontrol show config | awk '/^ProctrackType/ { print $3 }')" "proctrack/linuxproc" "processes are tracked by their parents"

for how in private visible none; do
	scenario "requeue-$how" 250 -- --mem=1000
	scenario "cancel-$how" 600 -- --mem=1000
	scenario "killed-$how" 600 -- --mem=1000 -w "$(n b)"
done
for how in private visible none; do
	ok "$how: a job is at work" wait_until 60 at_work "requeue-$how"
	as_user scontrol requeue "${id[requeue-$how]}"
	wait_until 60 at_work "cancel-$how"
	as_user scancel "${id[cancel-$how]}"
	wait_until 60 at_work "killed-$how"
done
one_visible() { [ "$(left_mounts | grep -c "^$scratch/local/raser-job")" = 1 ]; }
ok "one that is visible is there to be seen" wait_until 10 one_visible # the cancelled one is on its way
for how in private visible none; do
	ok "$how: scancel: the task is pending again" wait_until 10 is_pending "cancel-$how"
	# raserfs is told twice, by its supervisor as well, and leaves before its time; then it is mounted again
	like "$(ends "cancel-$how")" "^(fB0 )?fT0 $" "... given back, and no failure is counted"
	ok "... the job knows why" wait_until 10 says "cancel-$how" 'cancelled \(COMPLETING, None\)'
done

# everything is killed at once: the visible mount stays, dead, until the next job there
how=visible
dead_mount=$(folder "killed-$how")
for how in private visible none; do
	# shellcheck disable=SC2046 # words are meant to be split
	kill_hard $(raserfs "killed-$how") $(process "killed-$how")
done
ok "everything of a job is killed: its mount is left" grep -q " $dead_mount/mnt " /proc/self/mountinfo
for how in private visible none; do
	ok "$how: Slurm ends the job" wait_until 20 job_is "${id[killed-$how]}" JobState FAILED
	touch -d '5 minutes ago' "$(folder "killed-$how")" # what is younger may be in the making
	job_of "killed-$how" low "$home/agent 20" --mem=1000 -w "$(n b)"
	ok "... the next one is done" wait_until 30 is_done "killed-$how"
	ok "... and takes away what that one has left" says "killed-$how" 'removed .*/raser-job\..*, which a dead job'
done

for how in private visible none; do
	ok "$how: scontrol requeue: it comes back and is done" wait_until 60 is_done "requeue-$how"
	like "$(ends "requeue-$how")" "^(fB0 )?fT0 d-0 $" "... no failure is counted"
	is "$(job "${id[requeue-$how]}" Restarts)" 1 "... after one requeue"
	is "$(job "${id[cancel-$how]}" JobState) $(job "${id[cancel-$how]}" Restarts)" "CANCELLED 0" \
		"... what was cancelled has never come back"
done
ok "no job is left" wait_until 30 no_jobs
is "$(find "$scratch/local" -mindepth 1 -maxdepth 1 ! -name 'raser-agent.*')" "" "no folder is left on the nodes"
is "$(left_mounts | grep "^$scratch/local")" "" "nor a mount"
is_clean "nor anything else"
plan
