#!/bin/bash
# 2420-launch.t - raser launch and the members of raser status, before a Slurm of four lines of shell: what
# would be submitted, what is refused, what half a failure leaves, how often Slurm is asked.
# tests/cluster/slurm has the real one.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317,SC2016
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
new_run steal_after=60 low.memory=100M medium.memory=0
slurm=$RUN/slurm
tasks 3 t | "$raser" submit "$RUN" - >/dev/null

# launch ARGUMENT...: its output and its status, each on lines of its own
launch() { "$raser" launch "$RUN" "$@" 2>&1; echo "status $?"; }

# ---- what is refused, with a sentence and nothing done ----

like "$(launch)" "usage: raser launch.*status 2" "no --agents"
refuse() { # refuse WANTED ARGUMENT...
	local wanted=$1
	shift
	like "$(launch "$@")" "$wanted.*status [12]" "refused: ${*: -1}"
}
refuse "asks for none" --command true --agents low=0
refuse "no tier huge" --command true --agents huge=1
refuse "write TIER=NUMBER" --command true --agents low
refuse "write TIER=NUMBER" --command true --agents low=x
refuse "names tier low twice" --command true --agents low=1,low=2
refuse "nosuch: No such file" --agents low=1 --command nosuch
refuse "it names an unset variable" --agents low=1 --command 'sh -c "echo $NOSUCH"'
refuse "give a COMMAND, or name a plugin" --agents low=1
refuse "leaves nothing: agents are told to save 120 s before" --command true --agents low=1 --time 2:00
like "$(PATH=/nowhere launch --agents low=1 --command /bin/true --time 0-0:3)" "leaves little: .*up to 60 s earlier" \
	"a little time is only warned of"
refuse "is no program" --command true --agents low=1 --then "$RUN/raser.ini"
refuse "No such file" --command true --agents low=1 --then "$RUN/nosuch"
refuse "write a number" --command true --agents low=1 --then "$raser" --then-nodes two
refuse "is for --then" --command true --agents low=1 --then-nodes 2
refuse "agents says how many" --command true --agents low=1 -- --array=1-9
refuse "has a line's end in it" --command true --agents low=1 --dry-run -- --comment=$'a\nb' -q
is "$(PATH=/nowhere launch --agents low=1 --command /bin/true | head -n 1)" \
	"raser launch: sbatch is not in PATH: jobs cannot be submitted from here" "refused: no Slurm"
ok "and nothing is written" gone "$slurm"

# ---- a stand-in ----

# sbatch keeps what it is given and counts; with $scratch/refuse it takes no second one. squeue says what
# is in $scratch/queue, and fails without it.
mkdir "$scratch/bin"
PATH=$scratch/bin:$PATH
export scratch
cat >"$scratch/bin/sbatch" <<'END'
#!/bin/bash
n=$(cat "$scratch/jobs" 2>/dev/null)
if [ -e "$scratch/refuse" ] && [ "$n" -gt "$(cat "$scratch/refuse")" ]; then
	echo "sbatch: error: Batch job submission failed: no more of them" >&2
	exit 1
fi
echo $((n + 1)) >"$scratch/jobs"
env >"$scratch/env.$((n + 1))"
grep '^#SBATCH' "${!#}" >"$scratch/job.$((n + 1))"
echo "sbatch: lua: welcome" >&2
echo "$((n + 1));cluster"
END
cat >"$scratch/bin/squeue" <<'END'
#!/bin/bash
echo "$*" >>"$scratch/asked"
cat "$scratch/queue" 2>/dev/null || { echo "slurm_load_jobs error: no controller"; exit 1; }
END
printf '#!/bin/sh\necho "JobRequeue = 1"\n' >"$scratch/bin/scontrol"
chmod +x "$scratch/bin/"*
echo 40 >"$scratch/jobs"
asked() { cat "$scratch/asked" 2>/dev/null | wc -l; }

# ---- --dry-run ----

out=$(SLURM_JOB_ID=1 launch --agents low=3,high=2 --command "sh -c 'sleep 1; echo \$x'" --time 1-0 --pass KEY --dry-run -- --comment 'a "b' -q x)
like "$out" "#SBATCH --array=1-3" "--dry-run shows the arrays"
like "$out" "#SBATCH --mem=356M" "their memory: the tier's and the overhead"
like "$out" "#SBATCH --time=1-0" "their time"
like "$out" "#SBATCH --requeue --open-mode=append" "what requeues them"
like "$out" "#SBATCH --signal=B:USR1@120" "the signal before the end"
like "$out" '#SBATCH --comment "a \\"b" -q x' "further options, quoted"
like "$out" "--export=PATH,HOME,[A-Z_,]*,KEY"$'\n' "what goes along"
like "$out" "exec $raser job $RUN --tier low --pass KEY -- [/a-z]*/sh -c 'sleep 1; echo \\\$x'" "and the command"
like "$out" "---- sbatch --parsable $slurm/high.1.sh" "and how it would be submitted"
is "$(asked) $(cat "$scratch/jobs")" "0 40" "Slurm is told nothing"
ok "and nothing is written" gone "$slurm"

# ---- half a failure ----

echo 40 >"$scratch/refuse"
out=$(launch --agents low=3,high=2 --command true)
like "$out" "array 41: 3 agents of tier low, slurm/low.1.sh" "the first array is taken"
like "$out" "not taken the agents of tier high: .*: no more of them" "the second is not, and why"
like "$out" "this is all that was submitted.*status 1" "which is said"
like "$out" "scancel 41"$'\n' "with a way to stop it"
is "$(names "$slurm")" "41.json low.1.sh" "no half of the other is left"
is "$(jq -r '[.job, .tier, .script, .agents] | join(" ")' "$slurm/41.json")" "41 low low.1.sh 3" "the record"
is "$(cat "$scratch/job.41" | wc -l) $(stat -c %a "$slurm/low.1.sh")" "9 755" "the script was what Slurm got"
echo 39 >"$scratch/refuse"
RUN2=$RUN
new_run
one='{"id":1}'
echo "$one" | "$raser" submit "$RUN" - >/dev/null
like "$(launch --agents low=1 --command true)" "no more of them"$'\n'"status 1" "when nothing is taken"
ok "nothing is left" gone "$RUN/slurm"
like "$(launch --agents low=1 --command true --more; rm "$scratch/refuse")" "these are the first" "--more, and none lives"
echo y >"$RUN/drain"
like "$(launch --agents low=1 --command true)" "drain.*remove it first.*status 1" "not with a drain file"
rm "$RUN/drain"
"$raser" cancel "$RUN" --all >/dev/null
like "$(launch --agents low=1 --command true)" "nothing to do in .*; submit tasks first" "nor with nothing to do"
RUN=$RUN2

# Ctrl-C while Slurm is being told
new_run
echo "$one" | "$raser" submit "$RUN" - >/dev/null
mkfifo "$scratch/told" "$scratch/go"
mv "$scratch/bin/sbatch" "$scratch/bin/sbatch.real"
printf '#!/bin/bash\necho x >"$scratch/told"; read -r _ <"$scratch/go"\nexec sbatch.real "$@"\n' >"$scratch/bin/sbatch"
chmod +x "$scratch/bin/sbatch"
echo 50 >"$scratch/jobs"
"$raser" launch "$RUN" --agents low=1,high=1 --command true >"$scratch/out" 2>&1 &
pid=$!
extra_pids+=("$pid")
read -r _ <"$scratch/told"
kill -TERM "$pid"
echo >"$scratch/go"
wait "$pid"
is "$? $(cat "$scratch/jobs") $(names "$RUN/slurm")" "143 51 51.json low.1.sh" "a signal: what was taken is written down"
like "$(cat "$scratch/out")" "array 51: 1 agent of tier low" "and said"
mv "$scratch/bin/sbatch.real" "$scratch/bin/sbatch"
echo 41 >"$scratch/jobs"
RUN=$RUN2

# ---- --more, and --then ----

out=$(launch --agents high=2 --command true)
like "$out" "whether agents of this run live already is not known: slurm_load_jobs error" "not when Slurm does not say"
printf '%s\n' '41|1|RUNNING|None' '41|2|PENDING|Resources' '41|3|PENDING|Resources' '9|N/A|RUNNING|None' >"$scratch/queue"
out=$(launch --agents high=2 --command true)
like "$out" "has agents already, of array 41 .*--more adds.*status 1" "not twice by mistake"
printf '#!/bin/sh\n#SBATCH --nodes=7\n#SBATCH --time=3\n\ntrue\n#SBATCH --not-read\n' >"$scratch/then"
chmod +x "$scratch/then"
out=$(OPENAI_API_KEY=secret SLURM_RESTART_COUNT=3 SBATCH_EXPORT=ALL SBATCH_ACCOUNT=mine \
	launch --agents high=2,low=1 --command true --more --then "$scratch/then" --then-nodes 2)
like "$out" "array 42: 2 agents of tier high, slurm/high.1.sh" "--more"
like "$out" "array 43: 1 agent of tier low, slurm/low.2.sh" "takes new names for scripts"
like "$out" "job 44: $scratch/then on nodes: 2, when" "and --then"
like "$(cat "$scratch/job.44")" "--time=3.*--nodes=2.*--dependency=afterany:41:42:43" "waits for all that live"
nok "and has only the options at its head" grep -q not-read "$scratch/job.44"
is "$(grep -E '^SLURM_RESTART|^SBATCH' "$scratch/env.42")" "SBATCH_ACCOUNT=mine" "sbatch does not hear of this job"
is "$(tail -n 2 "$slurm/then.1.sh")" "$raser status --drained $RUN || exit
exec $scratch/then" "it looks first"
like "$("$raser" status --drained "$RUN" 2>&1; echo "status $?")" "not drained: 3 tasks are pending.*status 1" "which says no"

# ---- members ----

# Somebody has asked in this minute already: launch.
status() { "$raser" status "$RUN" 2>&1; }
before=$(asked)
like "$(status)" "array 41 low: 1 runs without a beat \(1\), 2 wait \(2-3: Resources\)" "what was said is shown"
[ "$(asked)" -le $((before + 1)) ]
is $? 0 "without asking again"
printf '%s\n' '41|1|RUNNING|None' '41|2|PENDING|JobHeldUser' '42|1|PENDING|Resources' '42|2|PENDING|Resources' \
	'44|N/A|PENDING|Dependency' '9|N/A|RUNNING|None' >"$scratch/queue"
# until all of them came in one minute
for _ in 1 2 3; do
	minute=$(($(date +%s) / 60))
	rm -f "$slurm"/squeue.*
	before=$(asked)
	for _ in 1 2 3 4 5 6 7 8 9 10; do status >/dev/null & extra_pids+=($!); done
	wait "${extra_pids[@]}"
	[ "$(($(date +%s) / 60))" != "$minute" ] || break
done
is $(($(asked) - before)) 1 "ten who look at once ask once"
out=$(status)
like "$out" "slurm at 20[-0-9: ]*
array 41 low: 1 runs without a beat \(1\), 1 held \(2: JobHeldUser\), 1 gone \(3\)
array 42 high: 2 wait \(1-2: Resources\)
job 44 then: waits \(Dependency\)
gone: 43$" "each in its state, and nobody else's"
is "$(grep -c '^9' "$slurm"/squeue.*)" 0 "nor is anybody else's written down"
mv "$scratch/queue" "$scratch/queue.away"
rm -f "$slurm"/squeue.*
like "$(status)" "slurm at [-0-9: ]*: slurm_load_jobs error: no controller
slurm has not said yet" "a squeue that fails"
is "$("$raser" status "$RUN" >/dev/null; echo $?)" 0 "harms nobody"
mv "$scratch/queue.away" "$scratch/queue"
mv "$scratch/bin/squeue" "$scratch/"
before=$(names "$slurm")
like "$(PATH=$scratch/bin:/nowhere status)" "slurm cannot be asked from here: squeue is not in PATH" "nor one that is not there"
is "$(names "$slurm")" "$before" "which leaves the minute to others"
mv "$scratch/squeue" "$scratch/bin/"
touch "$slurm/squeue.1" "$slurm/squeue.99999999999"
mv "$slurm/"squeue.[2-9]???* "$scratch/" 2>/dev/null
like "$(status)" "array 41 low: 1 runs" "old names, and names of a clock that is wrong, keep nobody from asking"
is "$(find "$slurm" -name 'squeue.*' | wc -l)" 1 "and go"
mount_run m
like "$("$raser" status "$M")" "^run .*array 41 low: 1 runs" "through a mount, too, below what that says"
unmount m

# ---- brakes ----

mkdir "$slurm/use"
echo 7200 >"$slurm/use/41_1.0"
printf '[limits]\nnode_hours = 3\nmax_requeues = 5\nend = 2037-01-01\n' >>"$RUN/raser.ini"
touch "$RUN/drain"
like "$(status)" "drain: on.*end: 2037-01-01.*node-hours: 2.00 of 3.00.*requeues: at most 5" "what holds the run back"
rm "$RUN/drain"
echo 7200 >"$slurm/use/41_2.0"
like "$(launch --agents high=1 --command true --more)" "leave at once: .*node.hours.*status 1" \
	"not without node-hours"
is "$("$raser" fsck "$RUN" | grep -c slurm)" 0 "fsck knows all this"

plan
