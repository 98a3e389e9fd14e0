#!/bin/bash
# 2500-job.t - raser job: one agent kept going, with and without a Slurm, whose commands are stand-ins
# here that answer, hang, fail or babble; tests/cluster/slurm has the real one.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317,SC2016
. "$(dirname "$0")/../lib.sh"

S=$scratch
raser=$top/raser
mkdir "$S/bin" "$S/local"

# what scontrol shows of job 12_3: STATE REASON RESTARTS
shows() {
	printf 'JobId=15 ArrayJobId=12 ArrayTaskId=3 JobName=x JobState=%s Reason=%s Dependency=(null) Requeue=1 Restarts=%s BatchFlag=1 PreemptTime=None\n' \
		"$1" "$2" "$3" >"$S/shown"
}
# the stand-ins log how they are called; a file fail-COMMAND holds what one does instead
for name in scontrol squeue; do
	cat >"$S/bin/$name" <<-END
		#!/bin/bash
		echo "$name \$*" >>"$S/calls"
		[ ! -e "$S/fail-$name" ] || . "$S/fail-$name"
		case "$name \$*" in
		"scontrol -o show job 12_3") cat "$S/shown" ;;
		"scontrol requeue 12_3") ;;
		"squeue -h -j 12_3 -o %L") echo 1:00:00 ;;
		*) exit 64 ;;
		esac
	END
done
chmod +x "$S/bin/"*
calls() { sort "$S/calls" 2>/dev/null | tr '\n' ';'; }

# start NAME VARIABLE=VALUE... -- ARGUMENT...: raser job RUN in the background; its pid is $job
start() {
	local name=$1 env=()
	shift
	while [ "$1" != -- ]; do env+=("$1") && shift; done
	shift
	rm -f "$S/calls"
	env -u SLURM_TMPDIR TMPDIR="$S/local" PATH="$S/bin:$PATH" "${env[@]}" "$raser" job "$RUN" "$@" \
		>"$S/$name.out" 2>"$S/$name.log" </dev/null &
	job=$!
	extra_pids+=("$job")
}
slurm=(SLURM_JOB_ID=15 SLURM_ARRAY_JOB_ID=12 SLURM_ARRAY_TASK_ID=3 SLURM_CPUS_ON_NODE=1 SLURMD_NODENAME=n1)
left_nothing() { [ -z "$(ls "$S/local")" ]; }
# ended STATUS TEXT: the job ends so, and leaves nothing
ended() {
	wait_until 20 dead "$job" || kill -KILL "$job"
	wait "$job"
	is $? "$1" "$2"
	# an agentd whose mount was killed tries to give its task back for as long as its grace
	wait_until 8 left_nothing
	is "$(ls "$S/local")" "" "... and nothing is left on the node"
	! grep -q "$S/local" /proc/self/mountinfo || diag "a mount is left: $(grep "$S/local" /proc/self/mountinfo)"
}
says() { grep -qE "$2" "$S/$1.log"; }
agentd() { pgrep -P "$job" -x raser-agentd; }
raserfs() { pgrep -P "$job" -x raserfs-super; }
begun() { find "$RUN/results" -name output.log -size +0 2>/dev/null | wc -l; }
# an agent more is at work than there were at the last mark
mark() { was=$(begun); }
works() { [ "$(begun)" -gt "$was" ]; }
nobody() { [ -z "$(pgrep -f "$S/local/raser-job")" ]; }
pending() { [ "$(state pending)" = 1 ]; }
# kill_all PID...: none of them empty
kill_all() {
	local pid
	for pid in "$@"; do is_pid "$pid" && kill -KILL "$pid"; done
}
state() { "$raser" status "$RUN" | awk -v w="$1" '$1 == w { print $2 }'; }
counts() { find "$RUN/chain" -name '*.end' -exec readlink {} + | awk -F : '{ print $4 $5 "/" $6 }' | sort | uniq -c | tr -s ' \n' ' '; }

# ---- outside of Slurm ----

new_run grace=3 low.memory=0 low.failures=all max_failures=0 agent.sandbox=none agent.checkpoint_every=0 || exit
tasks 3 a | "$raser" submit "$RUN" - >/dev/null
start plain -- --tier low -- sh -c 'echo "$RASER_DEADLINE" >"$RASER_RESULTS/deadline"'
ended 0 "an agent outside of Slurm works until the queue is drained"
is "$(state "done")" 3 "all is done"
is "$(cat "$RUN/results/a1/out/deadline")" "" "there is no deadline"
is "$(calls)" "" "nobody asks Slurm"
is "$(find "$RUN/slurm" 2>/dev/null)" "" "nothing is accounted for"

tasks 1 b | "$raser" submit "$RUN" - >/dev/null
mark
start kills -- --tier low -- sh -c 'echo $RASER_ATTEMPT; exec sleep 100'
ok "an agent works" wait_until 20 works
mark
kill_all "$(agentd)"
ok "kill -9 of its agentd: it comes back" wait_until 20 works
pid=$(raserfs)
kill_all "$pid" "$(pgrep -P "$pid")"
ok "kill -9 of raserfs and its supervisor: it is mounted again" \
	wait_until 20 says kills 'taken up again: the mount is back'
kill -TERM "$job"
ended 99 "SIGTERM: the task is given back"
is "$(state pending)" 1 "... and is pending"
like "$(cat "$S/kills.log")" "raser-agentd was killed by signal 9; starting it again" "it says what happened"

mark
start term -- --tier low -- sh -c 'echo $RASER_ATTEMPT; exec sleep 100'
ok "an agent works" wait_until 20 works
kill -TERM "$(raserfs)"
ok "raserfs is told to end: it is mounted again" wait_until 20 says term 'raserfs .* ended with status 0; starting it again'
kill -KILL "$job"; wait "$job" 2>/dev/null
ok "kill -9 of the job: nothing of it goes on" wait_until 20 nobody
ok "its task is pending" wait_until 20 pending
left=$(find "$S/local" -name 'raser-job.*')
ok "what it leaves on the node is a folder" test -d "$left"
touch -d '5 minutes ago' "$left"
start sweeps -- --tier low -- true
ended 0 "the next one takes that away"
like "$(cat "$S/sweeps.log")" "removed .*/raser-job.*, which a dead job of this run has left" "and says so"

# ---- with a visible mount ----

if [ -u "$(command -v fusermount3)" ] || [ "$(id -u)" = 0 ]; then
	tasks 1 v | "$raser" submit "$RUN" - >/dev/null
	mark
	start visible -- --tier low --mount visible -- sh -c 'echo $RASER_ATTEMPT; exec sleep 100'
	ok "--mount visible" wait_until 20 grep -q " $S/local/raser-job.*/mnt " /proc/self/mountinfo
	wait_until 20 works
	pid=$(raserfs)
	kill -STOP "$pid" # it would take the mount away
	kill_all "$(pgrep -P "$pid")" "$pid" "$job"
	wait "$job" 2>/dev/null
	left=$(find "$S/local" -maxdepth 1 -name 'raser-job.*')
	ok "everything is killed: a dead mount is left" grep -q " $left/mnt " /proc/self/mountinfo
	touch -d '5 minutes ago' "$left"
	start visible -- --tier low --mount visible -- true
	ended 0 "the next one takes it away and works"
	is "$(grep -c "$S/local" /proc/self/mountinfo)" 0 "no mount is left"
	is "$(state pending)$(state claimed)" 00 "nor a task"
fi

# ---- without any ----

# a sanitizer's allocator, unlike the C library's, does not survive fork(2) beside threads: jobs hang
if [ -n "${RASER_SANITIZED-}" ]; then
	skip 9 "runs once, without sanitizers"
else
	new_run grace=3 low.memory=0 low.failures=all max_failures=0 agent.sandbox=none agent.checkpoint_every=0 || exit
	tasks 2 n | "$raser" submit "$RUN" - >/dev/null
	mark
	start none -- --tier low --mount none -- sh -c 'echo $RASER_ATTEMPT; [ "$RASER_TASK $RASER_ATTEMPT" = "n1 1" ] || exec sleep 100'
	ok "--mount none: an agent works" wait_until 20 works
	ok "... and on the next task" wait_until 20 eval '[ "$(begun)" -ge $((was + 2)) ]'
	mark
	kill_all "$(agentd)"
	ok "kill -9 of its agentd: it comes back" wait_until 20 works
	kill -TERM "$job"
	ended 99 "SIGTERM: the task is given back"
	is "$(state "done") $(state pending)" "1 1" "... and is pending"
	is "$(grep -c "$S/local" /proc/self/mountinfo)" 0 "nothing was mounted"
	if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
		printf '#!/bin/sh\nmount --bind /dev/null /dev/fuse && exec "$@"\n' >"$S/bin/nofuse" && chmod +x "$S/bin/nofuse"
		raser_was=$raser raser="$S/bin/raser"
		printf '#!/bin/sh\nexec unshare -m "%s" "%s" "$@"\n' "$S/bin/nofuse" "$raser_was" >"$raser" && chmod +x "$raser"
		start nofuse -- --tier low -- true
		raser=$raser_was
		ended 0 "a node without FUSE: it works without a mount"
		like "$(cat "$S/nofuse.log")" "no private mount can be had here: " "... and says why"
		is "$(state "done")" 2 "... to the end"
		rm "$S/bin/raser"
	fi
fi

# ---- in a job ----

# gives_back NAME TEXT: a job is at work, gets the signals that follow, and gives its task back
at_work() {
	local name=$1
	shift
	mark
	start "$name" "${slurm[@]}" "$@" -- --tier low -- sh -c 'echo $RASER_ATTEMPT; echo "$RASER_DEADLINE" >"$RASER_RESULTS/deadline"; exec sleep 100'
	wait_until 20 works || diag "no agent: $(cat "$S/$name.log")"
}
look='scontrol -o show job 12_3;' again='scontrol requeue 12_3;' left='squeue -h -j 12_3 -o %L;'

new_run grace=3 low.memory=0 low.failures=all max_failures=0 agent.sandbox=none agent.checkpoint_every=0 slurm.signal_before=60 || exit
tasks 1 j | "$raser" submit "$RUN" - >/dev/null
at_work usr1
now=$(date +%s)
kill -USR1 "$job"
kill -CONT "$job"
ended 99 "SIGUSR1 and SIGCONT: given back"
is "$(calls)" "$again$left" "and requeued, without a question"
d=$(cat "$RUN"/results/j1@1.*/out/deadline)
ok "the agent was told its deadline" test $((d - now)) -gt 3500 -a $((d - now)) -le 3540
like "$(cat "$RUN"/slurm/use/15.0)" "^[0-9.]+$" "what it used is written down"

shows RUNNING None 0
at_work bare
kill -TERM "$job"
ended 99 "a bare SIGTERM: given back"
is "$(calls)" "$look$again$left" "and requeued"
shows COMPLETING TimeLimit 0
at_work limit
kill -TERM "$job"
ended 99 "the time limit: given back"
is "$(calls)" "$look$again$left" "and requeued"
shows COMPLETING None 1
at_work requeued
kill -TERM "$job"
ended 99 "Slurm has requeued it: given back"
is "$(calls)" "$look$left" "and nothing more is asked of it"
shows COMPLETING None 0
at_work cancelled
kill -TERM "$job"
ended 0 "a cancel: given back"
is "$(calls)" "$look$left" "and never requeued"

# first a warning, then a cancel while the agent still takes its time
mark
start both "${slurm[@]}" -- --tier low -- sh -c 'trap "" TERM; echo x; while :; do sleep 0.1; done'
wait_until 20 works
kill -USR1 "$job"
ok "an agent that takes its time" wait_until 10 says both 'SIGUSR1'
kill -TERM "$job"
sleep 0.2
kill -TERM "$job"
ended 0 "a warning and then a cancel, which comes twice"
like "$(calls)" "^($look)+$left$" "is a cancel"

# Slurm that does not answer
echo 'exec sleep 100' >"$S/fail-scontrol"
echo 'echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1' >"$S/fail-squeue"
at_work hangs
kill -TERM "$job"
ok "scontrol hangs: the task is given back at once" wait_until 5 pending
ended 99 "and the job ends when nobody waits any more"
is "$(calls)" "$look$left" "it is not requeued: it may have been cancelled"
like "$(cat "$S/hangs.log")" "how much time this job has is not known: slurm_load_jobs error" "squeue fails: it works without"
is "$(cat "$(ls -td "$RUN"/results/j1@*/out | head -n 1)/deadline")" "" "and without a deadline"
echo 'head -c 100000 /dev/urandom' >"$S/fail-scontrol"
rm "$S/fail-squeue"
at_work babbles
kill -TERM "$job"
ended 99 "scontrol babbles: the task is given back"
is "$(calls)" "$look$left" "and nothing more is asked"
refuses() { echo '[ "$1" != requeue ] || { echo '"'$1'"' >&2; exit 1; }' >"$S/fail-scontrol"; }
refuses "Unable to contact slurm controller (connect failure)"
at_work away
kill -USR1 "$job"
ended 99 "a requeue that fails"
is "$(calls)" "$again$again$again$left" "is tried three times"
like "$(cat "$S/away.log")" "Unable to contact slurm controller" "and told"
shows COMPLETING None 0
at_work cancel-late
kill -USR1 "$job"
ok "a requeue that fails" wait_until 20 says cancel-late "Unable to contact"
kill -TERM "$job"
ended 0 "... and then a cancel"
is "$(calls)" "$look$again$left" "... is not tried again"
refuses "Requested operation is presently disabled for job 15"
at_work refused
kill -USR1 "$job"
ended 99 "a requeue that is not allowed"
is "$(calls)" "$again$left" "is tried once"
refuses "Job is pending execution for job 15"
at_work pending
kill -USR1 "$job"
ended 99 "a job that waits already"
is "$(calls)" "$again$left" "is requeued"
rm "$S/fail-scontrol"
like "$(counts)" "^ [0-9]+ fT/0 $" "nothing of all that counts against the task"

# ---- time ----

for mount in auto none; do
	new_run grace=3 low.memory=0 agent.sandbox=none agent.checkpoint_every=0 || exit
	printf '{"id":"%s","priority":%s,"expected":%s}\n' long 9 500 short 5 1 late 1 25 | "$raser" submit "$RUN" - >/dev/null
	echo '[ "$1" != -h ] || { echo 0:40; exit; }' >"$S/fail-squeue"
	start "late-$mount" "${slurm[@]}" -- --tier low --mount $mount -- sh -c '[ $RASER_TASK != short ] || sleep 7'
	ended 99 "$mount: a job with too little time for what is left gives up its allocation"
	is "$(calls)" "$again$left" "... for a fresh one"
	is "$(cd "$RUN/results" && for f in long short late; do [ ! -e "$f" ] || echo "$f"; done | xargs)" "long short" \
		"... having done what did fit, and what would fit into none"
	is "$(state pending)" 1 "... and nothing else"
	rm "$S/fail-squeue"
done

# ---- a node that cannot run agents ----

unfit=(--tier low --sandbox apptainer --image /nonexistent -- true)
start unfit "${slurm[@]}" SLURM_RESTART_COUNT=3 -- "${unfit[@]}"
ended 3 "agents cannot run on this node, after three requeues"
is "$(calls)" "$left" "no more"
like "$(cat "$S/unfit.log")" "agents cannot run on this node" "which it says"
start unfit "${slurm[@]}" -- "${unfit[@]}"
wait_until 20 says unfit "agents cannot run on this node"
ok "before that it stays a while, so that the next job does not run into it" alive "$job"
shows RUNNING None 0
kill -TERM "$job"
ended 99 "... but leaves at a signal"
is "$(calls)" "$look$again$left" "... to be tried elsewhere"

# ---- brakes ----

new_run grace=3 low.memory=0 agent.sandbox=none agent.checkpoint_every=0 || exit
tasks 1 j | "$raser" submit "$RUN" - >/dev/null

at_work drain
touch "$RUN/drain"
kill -USR1 "$job"
ended 0 "a run that is drained: given back, not requeued"
is "$(calls)" "$left" "nobody is asked"
start drained "${slurm[@]}" -- --tier low -- true
ended 0 "a job of it ends at its start"
like "$(cat "$S/drained.log")" "the run is being drained" "and says so"
rm "$RUN/drain"
# an agent finishes what it has, then leaves
tasks 3 d '"priority":9' | "$raser" submit "$RUN" - >/dev/null
start finishes "${slurm[@]}" -- --tier low -- sh -c 'touch "$1/drain"' sh "$RUN"
ended 0 "a run that is drained meanwhile: the agent leaves"
is "$(state "done")" 1 "when its task is done"
like "$(cat "$S/finishes.log")" "drain is there; leaving" "and says so"
rm "$RUN/drain"
at_work often SLURM_RESTART_COUNT=100
kill -USR1 "$job"
ended 0 "requeued often enough"
like "$(cat "$S/often.log")" "not requeued: this job was requeued 100 times, 100 are allowed" "and says so"
sed -i 's/^;*node_hours = .*/node_hours = 0.5/' "$RUN/raser.ini"
at_work cheap
echo 2000 >"$RUN/slurm/use/9.0"
kill -USR1 "$job"
ended 0 "the node-hours are used up meanwhile"
is "$(calls)" "$left" "it does not come back"
like "$(cat "$S/cheap.log")" "not requeued: 0.5[0-9] of 0.50 node-hours are used" "and says so"
start rich "${slurm[@]}" -- --tier low -- true
ended 0 "another job of it ends at its start"
rm "$RUN/slurm/use/9.0"
sed -i 's/^;*end =.*/end = 2020-01-01/' "$RUN/raser.ini"
start over "${slurm[@]}" -- --tier low -- true
ended 0 "a run that is over"
like "$(cat "$S/over.log")" "the end of the run has come" "which it says"

# ---- wrong use ----

fails() { # fails STATUS TEXT PATTERN ARGUMENT...
	local status=$1 text=$2 pattern=$3
	shift 3
	out=$("$raser" job "$@" 2>&1)
	is $? "$status" "$text"
	like "$out" "$pattern" "... and says so"
}
fails 2 "no tier" "usage: raser job" "$RUN" -- true
fails 2 "a tier that is not there" "raser.ini has no tier huge" "$RUN" --tier huge -- true
fails 2 "a mount of no kind" "--mount is auto, private, visible or none, not x" "$RUN" --tier low --mount x -- true
fails 2 "a command that is not there" "no-such: No such file" "$RUN" --tier low -- no-such
fails 1 "no run" "neither a run directory nor a mount" "$S" --tier low -- true
plan
