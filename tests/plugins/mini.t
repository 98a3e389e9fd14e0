#!/bin/bash
# mini.t - mini-SWE-agent as a plugin, killed around every save: the same calls, cost and messages.
#
# It uses a STAND-IN of mini-SWE-agent, tests/standin/minisweagent (and tests/standin1 for late
# releases of its version 1), which follows the facts of the real one that raser-mini relies on, and
# counts what really happens. Where the real one is installed (or its package is in the directory
# that RASER_MINI names) it is killed around every save, too.
# shellcheck source=tests/plugins/plugin.sh disable=SC2016
. "$(dirname "$0")/plugin.sh"

need_python
need_killat
command -v jq >/dev/null || skip_all "jq is not installed"
standin=$src/tests/standin
mini=("$python" -S "$src/plugins/mini-swe/raser-mini") # -S: it starts faster, and needs no packages
export STANDIN_LOG=$scratch/happened
more=(PYTHONPATH="$standin" SCRATCH="$scratch")

# replies REPLY...: a task whose model plays these
replies() {
	jq -cn --args '{id: "t", instance_id: "a__b-1", problem_statement: "mend it",
		agent: {system_template: "S", instance_template: "please {{task}}", cost_limit: 100},
		model: {model_class: "deterministic", model_name: "scripted",
			outputs: [$ARGS.positional[] | fromjson]}}' -- "$@"
}
# says COST ACTION...: a reply with these commands, each with a name for the count
says() {
	local cost=$1
	shift
	jq -cn --argjson cost "$cost" --args '{role: "assistant", content: "c\($cost)", extra: {cost: $cost,
		actions: [$ARGS.positional[] | capture("(?<name>[a-z]+): (?<command>.*)"; "m")]}}' -- "$@"
}
submit=$(says 0.25 'submit: echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat *')
wrong='{"role": "assistant", "format_error": "no command", "extra": {"cost": 1}}'
task=$(replies "$(says 1 'one: echo 1 >one; ls')" "$wrong" \
	"$(says 0.5 'two: echo 2 >two; ls' 'count: cat one two | wc -l')" "$submit")

outcome() { # what must be the same, however often it was killed
	jq -c '[.exit_status, .submission, .cost, .calls]' "$R/result.json"
	jq -c .messages "$R/t.traj.json"
}
happened() { grep -c "$1" "$STANDIN_LOG"; } # how often
most() { grep "$1" "$STANDIN_LOG" | sort | uniq -c | sort -n | awk 'END { print $1 }'; }

files() { (cd "$1" && shopt -s nullglob && echo *); }

# run TASK: from the beginning to its end, never killed
run() {
	: >"$STANDIN_LOG"
	new_task "$1"
	attempt "${mini[@]}" run_task
}

diag "with the stand-in for mini-SWE-agent in tests/standin"

# ---- unbroken ----

run "$task"
is "$status $(cat "$L")" "0 raser-mini: Submitted: 4 calls, cost 2.75" "a run to its end"
is "$(files "$R")" "result.json submission.patch t.traj.json" "its results"
is "$(cat "$R/submission.patch")" "1
2" "the submission"
is "$(jq -c '[.instance_id, .model_name_or_path, .exit_status]' "$R/result.json")" \
	'["a__b-1","scripted","Submitted"]' "and whose it is"
is "$(told 'step {"kind": "model".*"ok": true')$(told 'kind": "model".*"ok": false')$(told 'kind": "tool"')" \
	314 "steps: three replies, one without a command, four commands"
is "$(sed -n 's/^step //p' "$C" | jq -s 'map(.cost // 0) | add')" 2.75 "and what the replies cost"
is "$(files "$W/work")" "one two" "the files of the commands are apart from the state"
unbroken=$(outcome)
queries=$(happened query)

# ---- killed after and before each save of the conversation ----

# chain N WHEN: every life ends at its N-th save, and the next begins with what it left; sets lives
chain() {
	lives=0
	: >"$STANDIN_LOG"
	new_task "$task"
	kill_at="state.json $1 $2"
	while attempt "${mini[@]}" run_task; [ "$status" = 137 ] && [ "$lives" -lt 30 ]; do
		lives=$((lives + 1))
		checkpoint
	done
	kill_at=
	[ "$status" != 137 ] || attempt "${mini[@]}" run_task
}
chain 1 after
is "$status after $lives lives" "0 after 8 lives" "killed after each save"
is "$(outcome)" "$unbroken" "the same calls, cost and messages"
is "$(happened query) $(most execute)" "$queries 1" "no reply was asked for twice, and no command run twice"
chain 2 before
is "$status after $lives lives" "0 after 7 lives" "killed before each save"
is "$(outcome)" "$unbroken" "the same again"
is "$(most query) $(most execute)" "2 2" "what was under way was done twice, and nothing three times"

# ---- killed around each record of a command ----

bad='' twice=0
for n in 1 2 3 4 5 6 7; do # two for a command, the last one leaves the loop before its second
	for when in before after; do
		: >"$STANDIN_LOG"
		new_task "$task"
		kill_at="action.json $n $when"
		attempt "${mini[@]}" run_task
		kill_at=
		[ "$status" = 137 ] || bad="$bad $n$when:not-killed"
		checkpoint
		runs=$(jq -r .runs "$W/.raser-mini/action.json" 2>"$scratch/null")
		attempt "${mini[@]}" run_task
		[ "$status" = 0 ] && [ "$(outcome)" = "$unbroken" ] || bad="$bad $n$when:other"
		[ "$(happened query)" = "$queries" ] || bad="$bad $n$when:queries"
		[ "$(most execute)" -le 2 ] && [ "${runs:-1}" = 1 ] || bad="$bad $n$when:runs"
		if [ "$(most execute)" = 2 ]; then
			twice=$((twice + 1))
			grep -q 'was under way when attempt 1 ended: it runs again' "$L" || bad="$bad $n$when:silent"
		fi
	done
done
is "$bad" "" "killed around each record of a command: the same, and no reply was asked for twice"
is "$twice" 3 "what had ended but was not recorded ran twice, and the log says so"

# in the middle of a command, again and again
mortal=$(replies "$(says 1 'one: echo 1 >one; ls')" \
	"$(says 1 'two: echo 2 >two' 'deadly: [ -e $SCRATCH/off ] || kill -9 $PPID; echo survived')" "$submit")
: >"$scratch/off"
run "$mortal"
deathless=$(outcome)
rm "$scratch/off"
run "$mortal"
is "$status" 137 "killed in a command"
is "$(jq -c '[.started, .runs, (.outputs | length)]' "$W/.raser-mini/action.json")" "[1,1,1]" \
	"its record says that it had started, after one that had ended"
checkpoint
attempt "${mini[@]}" run_task
is "$status $(jq .runs "$W/.raser-mini/action.json")" "137 2" "killed in its second run"
checkpoint
: >"$scratch/off"
attempt "${mini[@]}" run_task
is "$status" 0 "and done"
is "$(outcome)" "$deathless" "the same messages"
is "$(happened 'execute deadly') $(happened 'execute two') $(happened query)" "3 1 3" \
	"only what was under way has run again"

# an end whose results were not written
run "$task"
kill_at="result.json 1 before"
new_task "$task"
attempt "${mini[@]}" run_task
kill_at=
checkpoint
: >"$STANDIN_LOG"
attempt "${mini[@]}" run_task
is "$status $(outcome)" "0 $unbroken" "killed while the results were written: they are, next time"
is "$(wc -l <"$STANDIN_LOG")" 0 "without any call or command"

# SIGTERM
new_task "$(replies "$(says 1 'one: echo 1 >one')" "$(says 1 'stop: echo $$ >pid; kill -TERM $PPID; exec sleep 60')")"
attempt "${mini[@]}" run_task
is "$status" 99 "SIGTERM: 99, state saved"
is "$(jq '.messages | length' "$W/.raser-mini/state.json")" 5 "with the reply whose command was under way"
kill -KILL "$(cat "$W/work/pid")" # raser-agentd kills what is left

# ---- files that were in a container ----

more+=(CONTAINER="$scratch/container")
boxed=$(jq -c --arg cwd "$scratch/container" '.environment =
	{environment_class: "minisweagent.environments.local.LocalEnvironment", cwd: $cwd}' <<<"$task")
mkdir "$scratch/container"
run "$boxed"
is "$status $(outcome)" "0 $unbroken" "another environment"
new_task "$boxed"
rm -f "$scratch/container"/*
kill_at="action.json 5 after"
attempt "${mini[@]}" run_task
kill_at=
checkpoint
rm -f "$scratch/container"/* # it is gone with its node
attempt "${mini[@]}" run_task
like "$status $(cat "$L")" "0 .*2 commands run again in a new environment" "its commands are run again"
is "$(outcome)" "$unbroken" "with the same messages"

# ---- ends ----

run "$(jq -c '.agent.step_limit = 2' <<<"$task")"
is "$status $(jq -r .exit_status "$R/result.json")" "65 LimitsExceeded" "a limit is a final verdict"
is "$(jq -r '.messages | length' "$R/t.traj.json")" 6 "with its trajectory"
is "$(files "$R")" "result.json t.traj.json" "and without a submission"
run "$(replies "$wrong" "$wrong" "$wrong")"
is "$status $(jq -r .exit_status "$R/result.json")" "65 RepeatedFormatError" "three replies without a command"
chained=$(replies "$wrong" "$wrong" "$(says 1 'one: echo 1 >one; ls')" "$wrong" "$wrong" "$submit")
run "$chained"
unbroken2=$(outcome)
task=$chained
chain 1 after
is "$status $(outcome)" "0 $unbroken2" "wrong replies are counted as if it had never been killed"

fails() { # fails TYPE TEXT: the model raises that at its second reply
	run "$(replies "$(says 1 'one: echo 1 >one')" \
		"$(jq -cn --arg t "$1" --arg m "$2" '{extra: {actions: [{raise: [$t, $m]}]}}')" "$submit")"
}
for e in "ConnectionError refused" "TimeoutError timed out" "RateLimitError slow down" \
	"InternalServerError oops" "OpenRouterAPIError HTTP 503: busy" "AuthenticationError key expired"; do
	fails "${e%% *}" "${e#* }"
	is "$status $(files "$R")" "75 " "${e%% *}: given back, and no answer"
done
like "$(tail -n 1 "$L")" "not the task's fault, given back: AuthenticationError: key expired" "the last line says why"
is "$(jq -r '.messages[-1].role' "$W/.raser-mini/state.json")" user "its state is that of the step before"
is "$(told '^checkpoint')" 1 "which is worth keeping"
checkpoint
jq -c '.model.outputs[1] = .model.outputs[2]' "$scratch/task" >"$scratch/task2"
for e in "ValueError odd" "OpenRouterAPIError HTTP 400: bad request" "ContextWindowExceededError too long"; do
	fails "${e%% *}" "${e#* }"
	is "$status $(tail -n 1 "$L")" "1 ${e%% *}: ${e#* }" "${e%% *}: a failure"
done
is "$(files "$R")" "failed.traj.json" "with its trajectory as evidence, and no answer"
run "$(jq -c '.environment = {environment_class: "minisweagent.environments.local.LostEnvironment"}' <<<"$task")"
like "$status $(tail -n 1 "$L")" "75 not the task's fault.*Infrastructure: no environment" "no container: given back"
run '{"id": "t"}'
is "$status" 65 "no task of its kind"

# waiting for the model is said to be waiting
run "$(replies "$(says 1 'one: echo 1 >one')" "$(says 1 'z: /sleep 1.2')" "$submit")"
is "$(grep -c '^parked +2 ' "$C")" 1 "a model that waits: parked"
like "$(grep '"model"' "$C" | tail -n 1)" '"parked": 1.2' "and told apart in its step"

# ---- a mini-SWE-agent that is not as expected ----

# other SED FILE: the stand-in, changed
other() {
	rm -rf "$scratch/other"
	cp -r "$standin" "$scratch/other"
	chmod -R u+w "$scratch/other"
	sed -i "$1" "$scratch/other/minisweagent/$2"
	more=(PYTHONPATH="$scratch/other" SCRATCH="$scratch")
	run "$task"
	PYTHONPATH=$scratch/other "${mini[@]}" setup >"$scratch/null" 2>&1
	echo "$status $? $(tail -n 1 "$L")"
}
for name in execute_actions query add_messages run; do
	is "$(other "s/\\b$name\\b/${name}_now/" agents/default.py)" \
		"1 1 Unsupported: this mini-SWE-agent has no DefaultAgent.$name: not supported" "no $name"
done
like "$(other 's/def query/def complete/; s/self.query/self.complete/' models/test_models.py)" \
	"^1 .*has no Model.query: not supported" "no query of the model"
like "$(other 's/def execute/def perform/' environments/local.py)" \
	"^1 .*has no Environment.execute: not supported" "no execute of the environment"
like "$(other 's/self.execute_actions(self.query())/self.apply(self.query())/; s/^    def execute_actions/    def apply(self, message):\n        return DefaultAgent.execute_actions(self, message)\n\n&/' agents/default.py)" \
	"^1 .*runs commands outside of DefaultAgent.execute_actions" "a hook that is not called: commands"
like "$(other 's/self.execute_actions(self.query())/self.execute_actions(DefaultAgent.query(self))/' agents/default.py)" \
	"^1 .*asks its model outside of DefaultAgent.query" "queries"
like "$(other 's/self.add_messages(/DefaultAgent.add_messages(self, /' agents/default.py)" \
	"^1 .*did not call DefaultAgent.add_messages" "messages"
rm -r "$scratch/other/minisweagent"
is "$(PYTHONPATH=$scratch/other "${mini[@]}" setup 2>&1 | tail -n 1)" \
	"raser-mini: ModuleNotFoundError: No module named 'minisweagent'" "none at all: the node's fault, in setup"

# ---- version 1, and the real one where it is installed ----

# real PYTHONPATH: with the package that is found there, if any; only what all of them have
real() {
	local real_path=$1 version standin_task calm unbroken how bad kills n when
	version=$(PYTHONPATH=$real_path "$python" -c 'import minisweagent, os
os.environ["MSWEA_SILENT_STARTUP"] = "1"
import minisweagent.models.test_models
print(minisweagent.__version__)' 2>"$scratch/null" | tail -n 1)
	[ -n "$version" ] || return
	diag "mini-SWE-agent $version"
	standin_task=$task
	mini=("$python" "$src/plugins/mini-swe/raser-mini")
	more=(PYTHONPATH="$real_path" MSWEA_GLOBAL_CONFIG_DIR="$scratch/mswea" MSWEA_SILENT_STARTUP=1)
	calm='del(.. | .timestamp?)' # nothing else of it may differ
	real_outcome() {
		jq -c '[.exit_status, .submission, .cost, .calls]' "$R/result.json"
		jq -c "$calm | [.messages, .info.model_stats]" "$R/t.traj.json"
	}
	case $version in
	1.*) # one command a reply, in its text
		task=$(jq -cn '{id: "t", instance_id: "a__b-1", problem_statement: "mend it",
			agent: {cost_limit: 100}, model: {model_class: "deterministic", model_name: "scripted",
			outputs: (["echo 1 >one; ls", "two", "echo 2 >two; ls", "cat one two | wc -l",
				"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat *"]
				| map(if . == "two" then "no command" else "do\n```bash\n\(.)\n```" end))}}')
		;;
	*) task=$(replies "$(says 1 'one: echo 1 >one; ls')" "$(says 0 'slow: /sleep 0.01')" \
		"$(says 0.5 'two: echo 2 >two; ls' 'count: cat one two | wc -l')" "$submit") ;;
	esac
	new_task "$task"
	attempt "${mini[@]}" run_task
	is "$status $(jq -r .exit_status "$R/result.json")" "0 Submitted" "$version, unbroken"
	unbroken=$(real_outcome)
	for how in "1 after" "2 before"; do
		# shellcheck disable=SC2086 # two words
		chain $how
		is "$status" 0 "$version, killed $how: $lives times"
		is "$(real_outcome)" "$unbroken" "the same calls, cost and messages"
	done
	bad='' kills=0
	for n in 1 2 3 4 5 6 7; do
		for when in before after; do
			case $version-$n in *standin-[1257]) continue ;; esac # enough of it
			new_task "$task"
			kill_at="action.json $n $when"
			attempt "${mini[@]}" run_task
			kill_at=
			[ "$status" = 137 ] && kills=$((kills + 1))
			checkpoint
			attempt "${mini[@]}" run_task
			[ "$status" = 0 ] && [ "$(real_outcome)" = "$unbroken" ] || bad="$bad $n$when"
		done
	done
	is "$bad" "" "$version, killed around each record of a command, $kills times"
	mini=("$python" -S "$src/plugins/mini-swe/raser-mini")
	task=$standin_task
}
real "$src/tests/standin1"
real "${RASER_MINI-}"

# ---- tasks, setup and the answers of a run ----

more=(PYTHONPATH="$standin" SCRATCH="$scratch")
mkdir "$scratch/in"
echo '{"problem_statement": "p1"}' >"$scratch/in/a__b-1.json"
printf '{"instance_id": "a__b-2", "problem_statement": "é"}\n\n{"id": "x", "task": "p3"}\n' >"$scratch/in/more.jsonl"
is "$("${mini[@]}" "$scratch/in" get_tasks | jq -r .id | xargs)" "a__b-1 a__b-2 x" "get_tasks of a folder"
is "$("${mini[@]}" "$scratch/in/more.jsonl" get_tasks | jq -r .id | xargs)" "a__b-2 x" "and of a file"
printf '{"id": "x"}\n[]\n' >"$scratch/in/more.jsonl"
out=$("${mini[@]}" "$scratch/in" get_tasks 2>&1)
like "$? $out" "more.jsonl, line 1: neither problem_statement.*line 2: no object" "what is none is named"
is "$(PYTHONPATH=$standin "${mini[@]}" -c environment.environment_class=local setup)" \
	"raser-mini: mini-SWE-agent 2.4.standin, environment local" "setup"
out=$(PYTHONPATH=$standin "${mini[@]}" --environment-class docker -c environment.executable=no-such setup 2>&1)
is "$? $out" "1 raser-mini: no-such is not on this node" "a node without containers"
out=$(PYTHONPATH=$standin "${mini[@]}" --environment-class docker -c environment.executable=/bin/false setup 2>&1)
is "$? $out" "1 raser-mini: /bin/false info: " "or with some that do not answer"
printf '{"agent": {"step_limit": 1}, "environment": {"timeout": 5}}' >"$scratch/c.json"
new_task "$task"
attempt "${mini[@]}" -c "$scratch/c.json" -c agent.cost_limit=50 run_task
is "$status $(jq -r .calls "$R/result.json")" "65 1" "a configuration file"
"${mini[@]}" frobnicate 2>"$scratch/null"
is $? 64 "an unknown verb: usage"

results=$scratch/run/results
for t in a b c; do
	mkdir -p "$results/$t@1.x/out"
	jq -n --arg t "$t" '{instance_id: $t, model_name_or_path: "m", submission: "patch of \($t)",
		exit_status: (if $t == "c" then "LimitsExceeded" else "Submitted" end)}' >"$results/$t@1.x/out/result.json"
	[ "$t" = c ] || ln -s "$t@1.x" "$results/$t"
done
mkdir -p "$results/b@0.x/out" # an attempt that lost
cp "$results/a@1.x/out/result.json" "$results/b@0.x/out/"
is "$("${mini[@]}" merge "$scratch/run" "$scratch/preds.json")" \
	"2 accepted, 1 ended at a limit (left out), 0 without a result of raser-mini" "merge"
is "$(jq -c 'map_values(.model_patch)' "$scratch/preds.json")" '{"a":"patch of a","b":"patch of b"}' "the accepted ones"
like "$("${mini[@]}" merge "$scratch" 2>&1)" "is no run directory" "no run"
"${mini[@]}" merge --limits "$scratch/run" "$scratch/preds.json" >"$scratch/null"
is "$(jq 'length' "$scratch/preds.json")" 3 "and those that ended at a limit, if asked for"

plan
