#!/bin/bash
# python.t - an unchanged Python module as a plugin: what it yields comes back, what it returns or
# raises is what becomes of the task.
# shellcheck source=tests/plugins/plugin.sh disable=SC2016
. "$(dirname "$0")/plugin.sh"

need_python
command -v jq >/dev/null || skip_all "jq is not installed"
plugin=("$python" -S "$src/plugins/python/raser-python") # -S: it starts faster, and needs no packages
M=$scratch/bench
mkdir "$M"

# ---- a module as users write them: it knows nothing of raserfs ----

cat >"$M/bench.py" <<'EOF'
import os, sys
import sibling

def get_tasks():
    print("loading")                   # not a task
    yield {"id": "a/1", "n": 1, "deep": {"é": [1, 2.5, None, True, "☃"]}}
    yield {"n": 2}
    yield "plain"
    yield {"n": 2}                     # the same once more
    yield "a long one, " * 20
    yield {"id": 7}
    yield {"id": None, "n": 3}
    yield {"pair": (1, 2)}

def run_task(task):
    print(repr(task), sibling.value, sys.argv[1:], os.path.basename(sys.argv[0]))
EOF
echo 'value = "sibling"' >"$M/sibling.py"
out=$("${plugin[@]}" "$M/bench.py" x get_tasks 2>"$scratch/err")
is $? 0 "get_tasks"
is "$(cat "$scratch/err")" "loading" "what the module prints is no task"
is "$(wc -l <<<"$out")" 8 "all of them are there"
is "$(jq -r .id <<<"$out" | sort -u | wc -l)" 8 "each with an id of its own"
is "$(jq -r .id <<<"$out" | sed -n '1p;3p;6p' | tr '\n' ' ')" "a/1 plain 7 " "its own, if it has one"
like "$(jq -r .id <<<"$out" | sed -n 2p)" '^[0-9a-f]{16}$' "or one out of its content"
is "$(jq -r .id <<<"$out" | sed -n 4p)" "$(jq -r .id <<<"$out" | sed -n 2p)~2" "the second of two equal ones"
is "$("${plugin[@]}" "$M/bench.py" x get_tasks 2>/dev/null | cksum)" "$(cksum <<<"$out")" "ids do not change"

# back LINE: what run_task gets for the task of that line
back() {
	new_task "$(sed -n "$1p" <<<"$out")"
	attempt "${plugin[@]}" "$M/bench.py" x --y run_task
	echo "$status $(cat "$L")"
}
rest="sibling ['x', '--y'] bench.py"
is "$(back 1)" "0 {'id': 'a/1', 'n': 1, 'deep': {'é': [1, 2.5, None, True, '☃']}} $rest" "a dict comes back"
is "$(back 2)" "0 {'n': 2} $rest" "without the id that it never had"
is "$(back 3)" "0 'plain' $rest" "a string is a string"
is "$(back 4)" "0 {'n': 2} $rest" "also the second of two equal ones"
is "$(back 5)" "0 '$(printf 'a long one, %.0s' {1..20})' $rest" "also a long one"
is "$(back 6)" "0 {'id': 7} $rest" "an id that is a number"
is "$(back 7)" "0 {'id': None, 'n': 3} $rest" "an id that is None"
is "$(back 8)" "0 {'pair': [1, 2]} $rest" "a tuple is a list"

# ---- what cannot be a task ----

# tasks EXPRESSION: what get_tasks says of a list
tasks() {
	printf 'def get_tasks():\n    return %s\n' "$1" >"$M/m.py"
	local status
	"${plugin[@]}" "$M/m.py" get_tasks >/dev/null 2>"$scratch/err"
	status=$?
	cat "$scratch/err"
	echo "=$status"
}
like "$(tasks '["ok", {"id": "x", "f": open}]')" "task 2 \(id x\) cannot be written as JSON.*=1" "no JSON"
like "$(tasks '[{"x": float("nan")}]')" "task 1 cannot be written as JSON.*=1" "NaN"
like "$(tasks '[{"id": "k", "d": {1: 2}}]')" "task 1 \(id k\): d: the key 1 is no string.*=1" "a key that is no string"
like "$(tasks '["\ud800"]')" "task 1 cannot be written as JSON.*=1" "half a surrogate"
like "$(tasks '[3]')" "task 1 is a int: get_tasks\(\) must yield dicts or strings.*=1" "a number"
like "$(tasks '[{"id": "x"}, {"id": "x"}]')" "task 2 \(id x\): another task has that id.*=1" "an id twice"
like "$(tasks '"oops"')" "must yield tasks.*=1" "a string for a list"
like "$(tasks '[1/0]')" "m.py\", line 2.*ZeroDivisionError: division by zero.*=1" "an exception"
like "$(tasks '[]')" "^=0" "no tasks at all"
printf 'x = 1\n' >"$M/m.py"
like "$("${plugin[@]}" "$M/m.py" get_tasks 2>&1)" "m.py has no get_tasks\(\)" "no get_tasks"

# ---- what it returns or raises ----

# run BODY: run_task with that body
run() {
	{
		echo 'import sys, os'
		echo 'def run_task(task):'
		sed 's/^/    /' <<<"$1"
	} >"$M/m.py"
	new_task '{"id": "t"}'
	attempt "${plugin[@]}" "$M/m.py" run_task
	last=$(tail -n 1 "$L")
}
while read -r wanted body; do
	run "$body"
	is "$status" "$wanted" "$body: $wanted"
done <<'EOF'
0 pass
0 return None
0 return True
0 return 0
1 return False
3 return 3
65 return 65
75 return 75
99 return 99
0 sys.exit()
0 sys.exit(0)
75 sys.exit(75)
1 sys.exit("went wrong")
1 raise ValueError("bad")
1 return 256
EOF
is "$last" "raser-python: run_task() returned 256, which is no exit status" "and why"
run 'return False'
is "$last" "run_task() returned False" "False says so"
run 'return {"score": 0.5}'
is "$status $(cat "$R/result.json")" '0 {"score": 0.5}' "a value is kept as a result"
run 'def inner(): return {}["key"]
print("before"); inner()'
is "$status $last" "1 KeyError: 'key'" "an exception: its last line"
like "$(cat "$L")" "before.Traceback .*in run_task.*in inner" "after a traceback of the module's own"
is "$(grep -c raser-python "$L")" 0 "and nobody else's"
run 'raise ValueError("first\nsecond")'
is "$last" "ValueError: first" "a message of two lines"
run 'raise RuntimeError'
is "$last" "RuntimeError" "no message at all"
run 'import asyncio
class Odd(Exception):
    def __str__(self): return ""
raise Odd'
like "$last" "Odd" "nor one of its own"
sed -i 's/^def/async def/' "$M/m.py"
run 'os.kill(os.getpid(), 15)'
is "$status" 143 "SIGTERM ends it"
run 'import signal
signal.signal(15, lambda *_: sys.exit(99)); os.kill(os.getpid(), 15)'
is "$status" 99 "unless the module handles it"
printf 'async def run_task(task):\n    return 7\n' >"$M/m.py"
attempt "${plugin[@]}" "$M/m.py" run_task
is "$status" 7 "an async function"

# ---- setup, and modules that cannot be imported ----

"${plugin[@]}" "$M/m.py" setup
is $? 0 "no setup: nothing to do"
printf 'def setup():\n    return False\n' >"$M/m.py"
"${plugin[@]}" "$M/m.py" setup 2>/dev/null
is $? 1 "a setup that fails"
printf 'import no_such_module\n' >"$M/m.py"
out=$("${plugin[@]}" "$M/m.py" setup 2>&1)
like "$? $out" "1 .*ModuleNotFoundError: No module named 'no_such_module'" "an import that fails, in setup"
new_task '{"id": "t"}'
attempt "${plugin[@]}" "$M/m.py" run_task
is "$status $(tail -n 1 "$L")" "1 ModuleNotFoundError: No module named 'no_such_module'" "and in run_task"
printf 'def f(:\n' >"$M/m.py"
attempt "${plugin[@]}" "$M/m.py" run_task
like "$status $(tail -n 1 "$L")" "1 SyntaxError: " "a syntax error"
attempt "${plugin[@]}" "$M/nosuch.py" run_task
like "$status $(tail -n 1 "$L")" "1 FileNotFoundError: .*nosuch.py" "no such module"
"${plugin[@]}" "$M/m.py" 2>/dev/null
is $? 64 "no verb: usage"
new_task 'nonsense'
printf 'def run_task(task): pass\n' >"$M/m.py"
attempt "${plugin[@]}" "$M/m.py" run_task
is $status 65 "a payload that is no JSON will not get better"

# ---- the module raser ----

cat >"$M/m.py" <<'EOF'
import raser
def run_task(task):
    raser.parked(seconds=1.2, text="rate\nlimit")
    raser.parked(1796033367.5)
    raser.progress("half")
    raser.step("model", tokens=812, ok=True)
    raser.set_max_steps(50); raser.set_progress_after(600); raser.set_hang_after(90)
    raser.checkpoint()
    state = raser.load("state.json", {"n": 0})
    state["n"] += 1
    raser.save("state.json", state)
    print(raser.resumed, state["n"], raser.attempt, raser.remaining(), raser.task_id)
EOF
new_task '{"id": "t"}'
attempt "${plugin[@]}" "$M/m.py" run_task
is "$status $(cat "$L")" "0 False 1 1 None t" "it knows where it is"
is "$(cat "$C")" 'parked +2 rate limit
parked 1796033368
progress half
step {"kind": "model", "tokens": 812, "ok": true}
set max_steps 50
set progress_after 600
set hang_after 90
checkpoint' "and tells what it does, a line each"
checkpoint
attempt "${plugin[@]}" "$M/m.py" run_task
is "$status $(cat "$L")" "0 True 2 2 None t" "resumed: its state is there"
is "$(ls -A "$W")" state.json "and nothing else"
is "$(cd "$scratch" && PYTHONPATH=$src/plugins/python python3 -c '
import raser
raser.parked(seconds=5); raser.step("x"); raser.checkpoint(); print(raser.resumed, raser.results)')" \
	"False None" "outside of a run it does nothing"
printf 'value = "mine"\n' >"$M/raser.py"
printf 'import raser\ndef run_task(task): print(raser.value)\n' >"$M/m.py"
attempt "${plugin[@]}" "$M/m.py" run_task
is "$(cat "$L")" "mine" "a module of the user's of that name is the user's"

plan
