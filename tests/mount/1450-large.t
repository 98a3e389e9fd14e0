#!/bin/bash
# 1450-large.t - a workspace of very many files: it is measured, saved, restored and removed beside
# the heartbeat, which never waits for it; nobody takes its agent for hung.
# shellcheck source=tests/lib.sh disable=SC2317
RASER_TIMEOUT=${RASER_TIMEOUT:-400}
. "$(dirname "$0")/../lib.sh"

[ -z "${RASER_SANITIZED-}" ] || skip_long
files=${RASER_FILES:-200000}
[ -z "${RASER_QUICK-}" ] || files=20000
# a lease without a heartbeat for 3 s would be lost
new_run steal_after=3 max_failures=1 grace=60 low.memory=0 medium.memory=0 high.memory=0 \
	agent.sandbox=none agent.checkpoint_every=1 agent.hang_after=60 || exit
mount_run m || exit
cat >"$scratch/agent.py" <<'EOF'
import os, signal, sys
if os.environ["RASER_RESUMED"] == "1":
    n = sum(len(f) for _, _, f in os.walk("."))
    print(n, file=open(os.environ["RASER_RESULTS"] + "/files", "w"))
    sys.exit(0)
for i in range(int(sys.argv[1]) // 1000):
    os.mkdir("d%d" % i)
    for k in range(1000):
        with open("d%d/%d" % (i, k), "w") as f: f.write("%d %d\n" % (i, k))
open(os.environ["RASER_RESULTS"] + "/up", "w").close()
signal.pause()
EOF
one large
start() {
	"$top/raser-agentd" --tier low "$M" -- python3 "$scratch/agent.py" "$files" 2>>"$scratch/agentd.log" &
	pid=$!
	extra_pids+=("$pid")
}
start
ok "an agent makes $files files" wait_until 120 eval '[ -e "$(echo "$RUN"/results/large@1.*/out/up)" ]'
ok "they are saved" wait_until 120 grep -q "task large@1: checkpoint " "$scratch/agentd.log"
kill -TERM "$pid"
wait "$pid"
is $? 99 "a SIGTERM leaves a checkpoint within the grace"
is "$(xattr "$M/tasks/large" state)/$(xattr "$M/tasks/large" losses)" "pending/0" "the lease never was without a heartbeat"
start
wait "$pid"
is $? 0 "the next one goes on"
is "$(cat "$RUN/results/large/out/files")" "$((files / 1000 * 1000))" "with all of them"
is "$(xattr "$M/tasks/large" state)/$(xattr "$M/tasks/large" losses)" "done/0" "and never lost its lease"
diag "$(grep -o 'checkpoint .* ms, .*' "$scratch/agentd.log" | tail -n 1)"
is "$(find "$TMPDIR" -maxdepth 1 -name 'raser-agent.*' | wc -l)" 0 "the workspace is gone"

unmount m
plan
