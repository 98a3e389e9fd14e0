#!/bin/bash
# 1650-plugins.t - plugins from raser init to raser run: tasks, setup once a node, results, evidence,
# a recorded trajectory that is stopped at every step, memory, and a task that kills every agent.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
src=$(cd "$(dirname "$0")/../.." && pwd)
cd "$scratch" || exit

# init RUN PLUGIN...: with short times
init() {
	local run=$1
	shift
	"$raser" init "$run" --plugin "$@" >"$run.init" 2>&1 || return
	sed -i -e 's/^steal_after = .*/steal_after = 6/' -e 's/^max_failures = .*/max_failures = 3/' \
		-e 's/^retry_delay = .*/retry_delay = 0.3/' -e 's/^grace = .*/grace = 4/' \
		-e 's/^checkpoint_every = .*/checkpoint_every = 0/' "$run/raser.ini"
}
state() { "$raser" export "$1" | jq -r "select(.task == \"$2\") | \"\(.attempt) \(.verb)\"" | sort; }

# ---- two commands ----

printf 'echo "$RASER_TASK_ID" >"$RASER_RESULTS/id"\n# a comment\nread x; echo "$x"; exit 65\n' >"a list; of commands"
ok "raser init with a plugin, whose argument has blanks" init shell "$top/plugins/shell/raser-shell" "a list; of commands"
like "$(tail -n 1 shell.init)" "^2 tasks taken" "submits its tasks"
out=$("$raser" run shell --agents low=2 2>&1)
is $? 1 "raser run needs no more"
like "$out" "1 of 2 tasks done, 1 failed" "one is done, the other said no"
is "$(cat shell/results/*/out/id | wc -l)" 2 "with a result, by both its names"
like "$("$raser" init shell --plugin "$top/plugins/shell/raser-shell" x 2>&1)" "shell: there is a run here already" \
	"a run is never made twice"
mkdir mine && echo "[tier a]" >mine/raser.ini
like "$("$raser" init mine --plugin "$top/plugins/shell/raser-shell" x 2>&1)" "raser.ini is there already: write the line" \
	"a raser.ini is never overwritten"
like "$("$raser" init none --plugin ./nosuch 2>&1)" "./nosuch: No such file" "no such plugin"
like "$("$raser" init none --plugin /bin/false 2>&1)" "/bin/false get_tasks ended with status 1; no run was made" "one without tasks"
nok "and indeed there is none" exists none
"$raser" init bare >/dev/null
like "$("$raser" run bare 2>&1)" "give a COMMAND, or name a plugin" "a run without a plugin needs a command"

# ---- a Python module, unchanged, with one beside it, and with its run in the same folder ----

mkdir project
cat >project/beside.py <<'EOF'
WORD = "beside"
EOF
cat >project/agent.py <<'EOF'
import beside

def get_tasks():
    for i in range(4):
        yield {"id": "p%d" % i, "n": i}
    yield "a string"

def run_task(task):
    print(task, beside.WORD)
    if isinstance(task, dict) and task["n"] == 2:
        raise ValueError("two is bad")
    return not (isinstance(task, dict) and task["n"] == 3)
EOF
ok "a Python module" init project/run "$src/plugins/python/raser-python" project/agent.py
out=$("$raser" run project/run --agents low=2,medium=1,high=1 2>&1)
like "$out" "3 of 5 tasks done, 2 failed" "its verdicts count"
is "$(cat project/run/results/p1/output.log)" "{'id': 'p1', 'n': 1} beside" "it finds what lies beside it"
like "$(state project/run p2 | tail -n 1)" "^3 retry exit status 1: ValueError: two is bad" "an exception is evidence"

# ---- setup ----

cat >plug <<'EOF'
#!/bin/sh
case $1 in
get_tasks) for i in 1 2 3 4 5 6; do echo "{\"id\": \"s$i\"}"; done ;;
setup) echo once >>"$SETUPS"; [ ! -e "$BROKEN" ] || { echo "no image" >&2; exit 3; }; echo image >"$RASER_CACHE/image" ;;
run_task) sleep 0.5; cat "$RASER_CACHE/image" >"$RASER_RESULTS/image"; touch "$RASER_CACHE/mine" 2>/dev/null && echo writable >"$RASER_RESULTS/cache"; true ;;
esac
EOF
chmod +x plug
export SETUPS=$scratch/setups BROKEN=$scratch/broken
ok "a plugin with setup" init setup ./plug
out=$("$raser" run setup --agents low=4 2>&1)
like "$out" "6 of 6 tasks done" "works"
is "$(cat setups)" once "setup ran once, for four agents"
[ "$(jq -r .agentd setup/results/s?/attempt.json | sort -u | wc -l)" -gt 2 ]
result $? "and then all of them work"
is "$(find "$TMPDIR" -maxdepth 1 -name 'raser-node.*' -path "*$(awk '{ print $NF }' setup/FORMAT)*" | wc -l)" 0 "whose last one removes the node's folder"
is "$(cat setup/results/s?/out/image | sort | uniq -c | xargs)" "6 image" "its cache is seen by all"
[ "$(jq -r .sandbox setup/results/s1/attempt.json)" = bwrap ]
result $? "in a sandbox, since bwrap works here"
is "$(find setup/results -name cache | wc -l)" 0 "where it cannot be written"
touch broken
init broken.run ./plug
"$raser" run broken.run --agents low=1 >out 2>&1 &
run=$!
extra_pids+=("$run")
ok "a setup that fails is said" wait_until 20 sh -c \
	'grep -qs "this node cannot be set up: .*/plug setup ended with status 3; trying again" broken.run/logs/run.*.log'
is "$(find broken.run/chain -name '*.claim' | wc -l)" 0 "and nothing is claimed meanwhile"
rm broken
wait "$run"
is $? 0 "until it works"

# ---- a recorded trajectory, stopped at every step ----

head -n 2 "$src/plugins/replay/steps.tsv" >steps.tsv
ok "a recorded trajectory" init steps "$top/plugins/replay/replay" 20 1 "$scratch/steps.tsv"
n=$(awk -F'\t' 'NR == 2 { print split($3, x, ",") + 1 }' steps.tsv)
RUN=$scratch/steps
mount_run m || exit
task=$(names "$M/pending")
task=${task%@*}
agentd=$top/raser-agentd
recorded() { cat "$RUN/results/$task@"*/trajectory.jsonl 2>/dev/null | jq -s 'map(.step) | max // 0'; }
has_recorded() { [ "$(recorded)" -ge "$1" ]; }
lives=0
for ((i = 1; i < 2 * n; i += 2)); do
	"$agentd" --tier low "$M" 2>>agentd.log &
	pid=$!
	extra_pids+=("$pid")
	wait_until 20 has_recorded "$i" || break
	kill -TERM "$pid" 2>/dev/null
	wait "$pid"
	[ $? = 99 ] || break # it was faster, and has finished
	lives=$((lives + 1))
done
"$agentd" --tier low "$M" 2>>agentd.log
is "$(xattr "$M/tasks/$task" state)/$(xattr "$M/tasks/$task" failures)" done/0 "stopped at every step, it is done, without a failure"
diag "$lives lives for $n steps"
[ "$lives" -ge $((n / 2)) ]
result $? "it was stopped often enough"
is "$(jq -c .step "$RUN/results/$task/trajectory.jsonl" | xargs)" "$(seq $((2 * n)) | xargs)" "its trajectory has every step once, in order"
is "$(jq -r .kind "$RUN/results/$task/trajectory.jsonl" | uniq -c | awk '$1 != 1' | wc -l)" 0 "replies and observations by turns"
[ "$(jq -r .attempt "$RUN/results/$task/trajectory.jsonl" | sort -un | wc -l)" -gt 1 ]
result $? "of more than one attempt"
unmount m

# ---- what must end in failed/, and why ----

cat >deadly <<'EOF'
#!/bin/sh
case $1 in
get_tasks) echo '{"id": "deadly"}'; echo '{"id": "hidden"}' ;;
run_task)
	[ "$RASER_TASK_ID" = hidden ] || { echo "about to die"; kill -SEGV $$; }
	# a child that runs out of memory, and a parent that does not care
	python3 -c 'x = bytearray(300 << 20)' 2>/dev/null
	exit 0 ;;
esac
EOF
chmod +x deadly
init deadly.run ./deadly
sed -i -e 's/^memory = .*/memory = 64M/' deadly.run/raser.ini
out=$("$raser" run deadly.run --agents low=1,medium=1,high=1 2>&1)
is "$(state deadly.run deadly | tail -n 1)" "3 retry crash signal 11: about to die" "a task that kills every agent ends after max_failures"
like "$out" "0 of 2 tasks done, 2 failed" "as failed"
if [ "$(jq -r .memory_by deadly.run/results/hidden@1.*/attempt.json)" != poll ]; then
	like "$(state deadly.run hidden | tail -n 1)" "^3 retry oom the kernel killed 1 of its processes" "a child killed for memory is seen, though its parent exits 0"
	is "$(jq -r '.oom_kills, .exit' deadly.run/results/hidden@1.*/attempt.json | xargs)" "1 0" "and recorded"
else
	skip 2 "no cgroup can be made here"
fi
like "$out" "moves up to medium" "and moved to a higher tier"

plan
