#!/bin/bash
# 2600-bridges.t - the examples of raser-bridges(7) as they are shipped: each drains a queue while its
# workers are killed; nothing is lost, and nothing is accepted twice.
# It takes a minute, more on a busy machine.
RASER_TIMEOUT=${RASER_TIMEOUT:-400}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

[ -z "${RASER_SANITIZED-}" ] || skip_long
src=$(cd "$(dirname "$0")/../.." && pwd)
bridges=$src/plugins/bridges
raser=$top/raser
command -v python3 >/dev/null || skip_all "python3 is not installed"
python=$(python3 -c 'import sys; print(sys.executable)') # not a wrapper, which killing would leave behind
export PYTHONDONTWRITEBYTECODE=1
start=$PWD
cd "$scratch" || exit

# bridge_run TASKS [STEAL_AFTER]: RUN has one tier, so that failures by kills move nothing; history in H
bridge_run() {
	nruns=$((nruns + 1))
	RUN=$scratch/run$nruns H=$scratch/history$nruns
	mkdir "$RUN" "$H"
	printf '[run]\nsteal_after = %s\nmax_failures = 0\nretry_delay = 0.2\n[tier any]\nmemory = 1G\n' \
		"${2-6}" >"$RUN/raser.ini"
	"$raser" init "$RUN" >/dev/null && tasks "$1" t | "$raser" submit "$RUN" - >/dev/null
	export RASER_HISTORY=$H
	: >"$scratch/solved"
}

# what the workers run: notes the attempt and the payload. t2 is hopeless, t3 fails once, and some last
# until their worker is killed.
victims="t5 t10 t15 t20"
cat >solve <<EOF
#!/bin/sh
read -r task
[ -n "\$task" ] || exit 1 # its worker was killed before it could say what is to be done
case \$RASER_TASK in
t2) exit 65 ;;
t3) [ "\$RASER_ATTEMPT" -gt 1 ] || exit 3 ;;
t5 | t10 | t15 | t20) [ "\$RASER_ATTEMPT" -gt 1 ] || [ ! -e $scratch/shooting ] || sleep 10 ;;
*) sleep 0.1 ;;
esac
echo "\$RASER_TASK@\$RASER_ATTEMPT \$task" >>$scratch/solved
EOF
chmod +x solve

has_ended() { json '.tasks | .done + .failed' | grep -qx "$1"; }
some_ended() { [ "$(json '.tasks | .done + .failed')" -ge "$1" ]; }

# shoot TASK: kill who has claimed its first attempt
shoot() {
	local pid
	pid=$(sed -n 's/^agent .*\[\([0-9]*\)\]$/\1/p' "$M/leases/$1@1" 2>/dev/null)
	is_pid "$pid" && kill -KILL "$pid" && kills=$((kills + 1))
}

# verdict N TEXT: the run of N tasks is over, and its account is right
verdict() {
	local out
	is "$(json '.tasks | "\(.done) \(.failed) \(.pending) \(.claimed)"')" "$(($1 - 1)) 1 0 0" "$2: all are done but the hopeless one"
	unmount m
	out=$("$raser" audit --complete --settled "$RUN" "$H" 2>&1)
	is $? 0 "$2: no task was lost, none accepted twice" || diag "$out"
	is "$(cut -d ' ' -f 2- solved | sort -u | wc -l)" $(($1 - 1)) "$2: every task came with its payload"
}

# drains TEXT COMMAND...: the command works on 24 tasks; four times one of its workers is killed
drains() {
	local text=$1 pid victim
	shift
	bridge_run 24 && mount_run m || return
	kills=0
	: >"$scratch/shooting"
	"$@" >"$scratch/out" 2>&1 &
	pid=$!
	extra_pids+=("$pid")
	for victim in $victims; do wait_until 20 shoot "$victim"; done
	rm "$scratch/shooting"
	is $kills 4 "$text: four workers were killed at work"
	ok "$text: the others and their successors go on" wait_until 60 has_ended 24
	ok "$text: and end when nothing is left" wait_until 20 dead "$pid"
	wait "$pid"
	is $? 0 "$text: with status 0"
	verdict 24 "$text"
}

# again N COMMAND...: N workers, each started again when it is killed, as a batch system would
again() {
	local i n=$1
	shift
	for ((i = 0; i < n; i++)); do
		(until "$@" || [ ! -d "$scratch" ]; do :; done) &
	done
	wait
}

# ---- each example, with workers killed ----

drains "worker.py" again 3 "$python" "$bridges/worker.py" "$scratch/m" any ./solve
drains "pool.py" "$python" "$bridges/pool.py" 3 "$scratch/m" any ./solve
drains "ray_actor.py" "$python" "$bridges/ray_standin.py" "$bridges/ray_actor.py" 3 "$scratch/m" any ./solve
like "$(cat out)" "^[0-9]+ attempts were ended by 3 actors" "ray_actor.py: adds up what its actors did"
for shell in dash bash "busybox sh"; do
	if command -v "${shell%% *}" >/dev/null; then
		# shellcheck disable=SC2086 # words are meant to be split
		drains "worker.sh in $shell" again 3 $shell "$bridges/worker.sh" "$scratch/m" any ./solve
	else
		skip 7 "$shell is not installed"
	fi
done
if command -v parallel >/dev/null; then
	seq 3 >slots
	drains "GNU parallel" parallel --will-cite -n0 -j3 --retries 100 "$bridges/worker.sh" "$scratch/m" any ./solve :::: slots
else
	skip 7 "GNU parallel is not installed"
fi
if command -v snakemake >/dev/null; then
	mkdir flow
	drains "Snakemake" snakemake -q --directory flow --snakefile "$bridges/Snakefile" --cores 3 --config workers=3 \
		mount="$scratch/m" tier=any command="$scratch/solve"
	is "$(wc -l <flow/done.txt) $(cat flow/failed.txt)" "23 t2@1" "Snakemake: the lists for the rules behind it"
else
	skip 8 "Snakemake is not installed"
fi

# ---- the page ----

page=$src/man/raser-bridges.7
awk '$0 == ".\\\" example: twenty.py" { on = 1; next } $0 == ".\\\" end" { on = 0 }
	on && !/^\.(Bd|Ed)/ { gsub(/\\e/, "\\"); print }' "$page" >twenty.py
cat >>twenty.py <<'END'

import subprocess, sys
def solve(task, lost):
    name = str(task[7:].split(b'"')[0], "ascii")
    env = dict(os.environ, RASER_TASK=name, RASER_ATTEMPT="2")
    status = subprocess.run(sys.argv[1:], input=task, env=env).returncode
    return {0: "done", 65: "failed hopeless"}.get(status, "retry exit")
work(os.environ["MNT"], "any", solve, 2)
END
export MNT=$scratch/m
drains "twenty lines of Python" again 3 "$python" twenty.py ./solve
ok "the page shows the actor as it is" "$python" - "$page" "$bridges/ray_actor.py" <<'END'
import sys
page, actor = (open(f).read() for f in sys.argv[1:])
shown = page[page.index("@ray.remote"):]
sys.exit(shown[:shown.index(".Ed")] not in actor)
END

# ---- heartbeats, and claims that are lost ----

# keeps TEXT COMMAND...: one worker with a task longer than steal_after, and one that is taken away
keeps() {
	local text=$1 pid child
	shift
	bridge_run 1 3 && mount_run m || return
	printf '#!/bin/sh\necho $$ >%s\nexec sleep "$(cat %s)"\n' "$scratch/child" "$scratch/long" >nap
	chmod +x nap
	echo 4.5 >long
	rm -f child
	"$@" ./nap >out 2>&1 &
	pid=$!
	extra_pids+=("$pid")
	ok "$text: a task that takes longer than steal_after" wait_until 20 has_ended 1
	is "$(json '"\(.ends.done) \(.ends.lost)"')" "1 0" "$text: is kept by heartbeats"
	wait "$pid"
	rm child
	echo 600 >long
	one taken
	"$@" ./nap >out 2>&1 &
	pid=$!
	extra_pids+=("$pid")
	wait_until 10 test -s child
	child=$(cat child)
	rm "$M/leases/taken@1"
	ok "$text: an attempt that was taken away is stopped at the next heartbeat" wait_until 10 dead "$child"
	ok "$text: and the next one begins" wait_until 10 exists "$M/leases/taken@2"
	wait_until 10 another "$child"
	child=$(cat child)
	kill -TERM "$pid"
	ok "$text: SIGTERM gives the task back" wait_until 10 exists "$M/pending/taken@3"
	is "$(xattr "$M/tasks/taken" reason) $(xattr "$M/tasks/taken" failures)" "preempted 0" "$text: which counts nothing"
	ok "$text: and stops the command" wait_until 10 dead "$child"
	wait "$pid"
	is $? 99 "$text: status 99"
	unmount m
}
another() { [ -s child ] && [ "$(cat child)" != "$1" ]; }
keeps "worker.py" "$python" "$bridges/worker.py" "$scratch/m" any
keeps "pool.py" "$python" "$bridges/pool.py" 1 "$scratch/m" any
keeps "worker.sh" sh "$bridges/worker.sh" "$scratch/m" any

# killed with a command that goes on
bridge_run 1 3 && mount_run m || exit
rm child
sh "$bridges/worker.sh" "$scratch/m" any ./nap >out 2>&1 &
pid=$!
extra_pids+=("$pid")
wait_until 10 test -s child
tree=$(tree_of "$pid")
kill -KILL "$pid"
wait "$pid" 2>/dev/null
ok "worker.sh is killed: its task is free at once" wait_until 2 exists "$M/pending/t1@2"
# shellcheck disable=SC2086 # words are meant to be split
ok "and what it has left behind ends" wait_until 10 tree_dead $tree
unmount m

# ---- daemons that leave and die ----

for worker in "$python $bridges/worker.py" "sh $bridges/worker.sh"; do
	text=${worker##*/}
	bridge_run 40 && mount_run m -o supervise || exit
	for i in 1 2 3; do
		# shellcheck disable=SC2086 # words are meant to be split
		$worker "$scratch/m" any ./solve >>out 2>&1 &
		extra_pids+=($!)
	done
	wait_until 20 some_ended 2
	owner=$(mount_owner)
	kill -KILL "$(background_pid)"
	ok "$text: the daemon is killed, and mounted again" wait_until 20 mounted_again "$owner"
	wait_until 20 some_ended 8
	[ "$(json .tasks.pending)" -gt 0 ]
	result $? "$text: there is work left"
	unmount m
	mount_run m || exit
	ok "$text: it leaves, and is started again" wait_until 40 has_ended 40
	wait_until 20 has_count "$M/leases" 0
	verdict 40 "$text"
done

# ---- by Apptainer, on a descriptor ----

if command -v bwrap >/dev/null && command -v runsc >/dev/null && command -v busybox >/dev/null; then
	cd "$start" && need_sandboxes
	cd "$scratch" || exit
	for app in sed mktemp dd tr env; do ln -sf "$(command -v busybox)" "$scratch/image/bin/$app"; done
	bridge_run 6
	cp solve inside
	sed -i "s,$scratch/solved,/out/solved," inside
	mkdir out.d
	apptainer exec --userns --containall --bind "$scratch/out.d:/out,$scratch/inside:/inside,$bridges:/bridges" \
		--fusemount "host:$top/raserfs $RUN /queue" "$scratch/image" sh /bridges/worker.sh /queue any /inside >out 2>&1
	is $? 0 "apptainer --fusemount: a worker in the container"
	mv out.d/solved solved
	mount_run m || exit
	verdict 6 "apptainer --fusemount"
	diag "$(head -n 5 out)"
else
	skip 4 "bubblewrap, runsc or busybox is not installed"
fi

plan
