#!/bin/bash
# 1700-chaos.t - 200 tasks, 8 agents, and everything goes wrong at once: agentds, guards, agents and
# their children are killed every 100 ms, SIGTERM comes in storms, the disk runs full. Every task
# is done exactly once, no process is left, every workspace that is restored is what was saved, and
# no more work is lost at a time than checkpoint_every allows.
# RASER_CHAOS is how many seconds it lasts, RASER_SEED repeats the order of faults.
RASER_TIMEOUT=${RASER_TIMEOUT:-$((${RASER_CHAOS:-25} + 400))}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"
shopt -s extglob

[ -z "${RASER_SANITIZED-}" ] || skip_long
[ "$(id -u)" = 0 ] || skip_all "not root: no small disk can be made"
seconds=${RASER_CHAOS:-25}
seed=${RASER_SEED:-$RANDOM}
ntasks=200
[ -z "${RASER_QUICK-}" ] || { ntasks=40 seconds=10; }

mkdir "$scratch/disk"
mount -t tmpfs -o size=64m disk "$scratch/disk" || skip_all "no tmpfs can be mounted"
restore+=("umount -l $scratch/disk")
mkdir "$scratch/disk/fill"
# the queue itself on the small disk, too
new_run steal_after=6 max_failures=0 max_losses=999 retry_delay=0.5 grace=2 low.memory=0 \
	medium.memory=0 high.memory=0 low.failures=all agent.checkpoint_every=0.5 "agent.sandbox=${RASER_SANDBOX:-none}"
mv "$RUN" "$scratch/disk/run"
RUN=$scratch/disk/run
tasks "$ntasks" t >"$scratch/tasks"
"$top/raser" submit "$RUN" "$scratch/tasks" >/dev/null

# The agent: 20 steps, each leaving a file that can be checked, and a child that works, too. A step
# counts when it is in `state`; what stands there must be on disk, whole, after any restore.
cat >"$scratch/agent" <<'EOF'
#!/usr/bin/env python3
import hashlib, json, os, subprocess, sys, time
def body(i): return hashlib.sha512(("%s %d" % (os.environ["RASER_TASK_ID"], i)).encode()).digest() * 64
def bad(why):
    open(os.environ["CHAOS_BAD"], "a").write("%s@%s: %s\n" % (os.environ["RASER_TASK_ID"], os.environ["RASER_ATTEMPT"], why))
    sys.exit(65)
n = 0
if os.path.exists("state"):
    text = open("state").read()
    if not text.endswith("\n"): bad("the state is torn: %r" % text)
    n = int(text)
    for i in range(n):
        if open("f%d" % i, "rb").read() != body(i): bad("f%d is not what was saved" % i)
elif os.environ["RASER_RESUMED"] == "1" and os.path.exists("f0"):
    bad("files without a state")
while n < 20:
    subprocess.run(["sh", "-c", "sleep 0.02 & wait"]).check_returncode()
    with open("f%d" % n, "wb") as f: f.write(body(n))
    with open("state.new", "w") as f: f.write("%d\n" % (n + 1))
    os.rename("state.new", "state")
    n += 1
with open(os.environ["RASER_RESULTS"] + "/answer", "w") as f: f.write("%d\n" % n)
EOF
chmod +x "$scratch/agent"
export CHAOS_BAD=$scratch/bad
: >"$CHAOS_BAD"

"$top/raser" run "$RUN" --agents low=8 --mount "$scratch/m" -- "$scratch/agent" >"$scratch/out" 2>&1 &
run=$!
extra_pids+=("$run")
ok "raser run is up" wait_until 20 exists "$scratch/m/status"
python3 "$(dirname "$0")/../chaos.py" "$run" "$seconds" "$scratch/disk/fill" "$seed" >"$scratch/did" &
chaos=$!
extra_pids+=("$chaos")
wait "$chaos"
diag "seed $seed; $(cat "$scratch/did")"
wait "$run"
is $? 0 "every task is done"
diag "$(grep -E '^(attempts|reasons|resumed|makespan)' "$scratch/out")"
is "$(tail -n +2 "$scratch/out" | grep -cE "^$ntasks of $ntasks tasks done, 0 failed, 0 cancelled, 0 left")" 1 "and the summary says so"
is "$(find "$RUN/chain" -name '*.end' -exec readlink {} + | awk -F: '$4 == "d"' | wc -l)" "$ntasks" "each exactly once"
is "$(find "$RUN/chain" -name '*@*.end' -printf '%f %l\n' | awk -F: '$4 == "d"' | sed 's/@.*//' | sort | uniq -d)" "" "none twice"
is "$(cat "$CHAOS_BAD")" "" "every restored workspace was what had been saved"
is "$(cat "$RUN"/results/t+([0-9])/out/answer 2>/dev/null | sort | uniq -c | tr -s ' ')" " $ntasks 20" "every result is whole, and one a task"
like "$(cat "$scratch/did")" "chaos: [1-9][0-9]* agentd, .* [1-9][0-9]* storm, [1-9][0-9]* full" "there was chaos"
kills=$(sed 's/.*: \([0-9]*\) agentd, \([0-9]*\) guard, \([0-9]*\) agent, \([0-9]*\) child.*/\1+\2+\3+\4/' "$scratch/did")
[ $((kills)) -ge "$seconds" ]
result $? "at least a process a second was killed ($((kills)) in $seconds s)"
redo=$(sed -n 's/^resumed .* again, \([0-9.]*\) s at most.*/\1/p' "$scratch/out")
like "$redo" '^[0-9]+\.[0-9]$' "the summary tells the work that was lost"
below "${redo%.*}" 4 "no more at a time than checkpoint_every and a few seconds"
is "$(pgrep -r R,S,D,T -f "$scratch/(agent|m)( |\$)" | wc -l)" 0 "no agent, guard or agentd is left"
is "$(find "$TMPDIR" -maxdepth 1 -name 'raser-agent.*' | wc -l)" 0 "no workspace"
is "$(find "$RUN/checkpoints" -type f | wc -l)" 0 "and no checkpoint"

plan
