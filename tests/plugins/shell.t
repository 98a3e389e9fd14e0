#!/bin/bash
# shell.t - shell commands as tasks: every line is run as it was written, or refused.
# shellcheck source=tests/plugins/plugin.sh disable=SC2016
. "$(dirname "$0")/plugin.sh"

plugin=$top/plugins/shell/raser-shell
[ -x "$plugin" ] || skip_all "$plugin is not built"
command -v jq >/dev/null || skip_all "jq is not installed"

# ---- one line is one task ----

cat >"$scratch/commands" <<'EOF'
# a comment

echo "quo'ted" \\ $HOME | tr a-z A-Z
   	# an indented comment
	echo	tab; printf '\033[1m\n'; echo 'é ☃ {"json": [1]}'
   
-x
true
true
EOF
printf 'printf "no newline at the end"' >>"$scratch/commands"
out=$("$plugin" "$scratch/commands" get_tasks)
is $? 0 "get_tasks"
is "$(wc -l <<<"$out")" 6 "a task for each line but comments and blank ones"
is "$(jq -r .line <<<"$out" | tr '\n' ' ')" "3 5 7 8 9 10 " "which tells its number"
is "$(jq -j .command <<<"$out" | cksum)" \
	"$(sed -e '1,2d;4d;6d' "$scratch/commands" | tr -d '\n' | cksum)" "and is the line byte for byte"
is "$(jq -r .id <<<"$out" | sort -u | wc -l)" 6 "equal lines have ids of their own"
like "$(jq -r .id <<<"$out" | head -n 1)" '^000003-[0-9a-f]{8}$' "ids: line number and a hash"
is "$("$plugin" "$scratch/commands" get_tasks | cksum)" "$(cksum <<<"$out")" "that do not change"
is "$("$plugin" - get_tasks <"$scratch/commands" | cksum)" "$(cksum <<<"$out")" "the file may be -"
awk 'BEGIN { printf "echo "; for (i = 0; i < 100000; i++) printf "x"; print "" }' >"$scratch/long"
is "$("$plugin" "$scratch/long" get_tasks | jq -j .command | wc -c)" 100005 "a long line"
: >"$scratch/empty"
out=$("$plugin" "$scratch/empty" get_tasks)
is "$? $out" "0 " "an empty file has no tasks"

# ---- what cannot be a task ----

printf 'true\n\377echo\ntrue\r\nfal\0se\n' >"$scratch/bad"
out=$("$plugin" "$scratch/bad" get_tasks 2>&1)
is $? 1 "lines that JSON cannot hold: an error"
like "$out" "bad, line 2 is not UTF-8" "invalid UTF-8"
like "$out" "bad, line 3 ends in a carriage return" "a foreign text file"
like "$out" "bad, line 4 holds a NUL byte" "a NUL"
like "$("$plugin" "$scratch/nosuch" get_tasks 2>&1)" "nosuch: No such file" "no such file"
"$plugin" "$scratch/long" get_tasks >/dev/full 2>"$scratch/err"
like "$? $(cat "$scratch/err")" "1 raser-shell: standard output.*: No space left on device" \
	"a full disk is no success"
"$plugin" "$scratch/commands" frobnicate 2>/dev/null
is $? 64 "an unknown verb: usage"
"$plugin" "$scratch/commands" setup
is $? 0 "setup has nothing to do"

# ---- running them ----

# run LINE: get_tasks and run_task of a file with that line
run() {
	printf '%s\n' "$1" >"$scratch/one"
	new_task "$("$plugin" "$scratch/one" get_tasks)"
	rm "$scratch/one" # the nodes need not have it
	attempt "$plugin" "$scratch/one" run_task
}

odd='printf %s "a\"b'\''c\\d$((1+1))" `echo x`; echo " ☃	"'
run "$odd"
is "$status $(cat "$L")" "0 $(sh -c "$odd")" "odd characters come through"
run 'cat'
is "$(cat "$L")" "$(cat "$scratch/task")" "stdin is the payload"
run 'pwd; [ "$PWD" = "$RASER_WORKSPACE" ] && echo "$RASER_TASK_ID $RASER_ATTEMPT"; echo r >"$RASER_RESULTS/r"'
is "$(tail -n 1 "$L") $(cat "$R/r")" "t 1 r" "in the workspace, with all of the environment"
for code in 0 1 65 75 99; do
	run "exit $code"
	is "$status" "$code" "exit $code passes"
done
run 'kill -SEGV $$'
is "$status" 139 "a signal, too: nobody is in between"
run '-x'
like "$status $(cat "$L")" "127 .*not found" "a line with a dash is a command, not an option"
new_task '{"id": "x"}'
attempt "$plugin" "$scratch/one" run_task
is "$status" 65 "a task without a command will not get better"
like "$(cat "$L")" "the task has no command" "and says why"
new_task 'nonsense'
attempt "$plugin" "$scratch/one" run_task
is "$status" 65 "nor one that is no JSON"
awk 'BEGIN { printf "true "; for (i = 0; i < 300000; i++) printf "x" }' >"$scratch/long"
run "$(cat "$scratch/long")"
like "$status $(cat "$L")" "65 .*Argument list too long" "nor one that is too long for a shell"

plan
