#!/bin/bash
# 1300-sandbox.t - agents in sandboxes, for real: exit codes, signals, that nothing is left, what
# cannot be reached and what can when it is asked for. Apptainer is stood in for.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

agentd=$top/raser-agentd
mkdir "$scratch/plugin" "$scratch/home" "$scratch/shown"
need_sandboxes

new_run steal_after=30 max_failures=2 retry_delay=0.2 low.memory=0 medium.memory=0 high.memory=0 \
	grace=2 || exit
mount_run m || exit
results=$RUN/results
export HOME=$scratch/home SECRET_TOKEN=secret
echo planted >"$HOME/planted"
echo seen >"$scratch/shown/file"
echo sibling >"$scratch/plugin/sibling"

listen_here || exit

# ---- somebody else's workspace ----

# shellcheck disable=SC2016 # the agent's shell expands it
remote holder "$top/tests/boxed" none "$TMPDIR" /bin/sh -c \
	'echo mine >mine; while :; do sleep 0.05; done'
other=$(answer holder)
other=${other#ok }
ok "another agent is at work" wait_until 20 test -s "$other/mine"

# the agents: one script, that the task's id tells what to do
cat >"$scratch/plugin/agent" <<EOS
#!/bin/sh
here=\${0%/*}
port=$port
other="$other" run="$RUN" mount="$M" home="$HOME"
EOS
cat >>"$scratch/plugin/agent" <<'EOS'
ask() { # what is sent by the listener, by what there is
	if [ -x /bin/bash ]; then
		/bin/bash -c "exec 3<>/dev/tcp/127.0.0.1/$port && cat <&3" 2>/dev/null
	else
		nc 127.0.0.1 "$port" </dev/null 2>/dev/null
	fi
}
try() { # NAME COMMAND...
	name=$1
	shift
	if "$@" >/dev/null 2>&1; then echo "$name yes"; else echo "$name no"; fi
}
append() { echo x >>"$1"; }
case ${RASER_TASK_ID#*.}@$RASER_ATTEMPT in
code*@1) exit "${RASER_TASK_ID##*.code}" ;;
signal*@1) kill -"${RASER_TASK_ID##*.signal}" $$ ;;
reach@*)
	cat
	echo
	cat "$RASER_TASK_FILE"
	echo
	[ "$(readlink -f .)" = "$(readlink -f "$RASER_WORKSPACE")" ] && echo "workspace current"
	try sibling cat "$here/sibling"
	try other cat "$other/mine"
	try run cat "$run/raser.ini"
	try mount cat "$mount/status"
	try planted cat "$home/planted"
	try shown cat "$SHOWN/file"
	echo "network $(ask)"
	echo "secret $SECRET_TOKEN"
	echo "home $HOME"
	try write_root touch /x
	try write_usr touch /usr/x
	try write_plugin append "$here/sibling"
	try write_work touch file
	try write_home touch "$HOME/kept"
	try write_tmp touch /tmp/file
	try write_results append "$RASER_RESULTS/file"
	try write_task append "$RASER_TASK_FILE"
	echo "said" >>"$RASER_CONTROL"
	;;
key@*) python3 "$here/key.py" ;;
term@1)
	trap 'echo agent >>"$RASER_RESULTS/term"; wait; exit 99' TERM
	setsid sh -c 'trap "echo child >>\"\$RASER_RESULTS/term\"; exit" TERM
		touch "$RASER_RESULTS/up"; while :; do sleep 0.05; done' &
	while :; do sleep 0.05; done
	;;
stubborn@*)
	trap '' TERM
	setsid sh -c 'trap "" TERM; touch "$RASER_RESULTS/up"; while :; do sleep 0.05; done' &
	while :; do sleep 0.05; done
	;;
esac
exit 0
EOS
chmod 755 "$scratch/plugin/agent"
# the session's key, by keyctl(2): 10 is KEYCTL_SEARCH, -3 the session's keyring
cat >"$scratch/plugin/key.py" <<'EOS'
import ctypes, os, platform, sys
keyctl, add_key = {"x86_64": (250, 248), "aarch64": (219, 217)}.get(platform.machine(), (-1, -1))
libc = ctypes.CDLL(None)
if len(sys.argv) > 1:
    libc.syscall(keyctl, 1, None)
    libc.syscall(add_key, b"user", b"raser-test", b"ticket", 6, -3)
    os.execv(sys.argv[1], sys.argv[1:])
print("found" if libc.syscall(keyctl, 10, -3, b"user", b"raser-test", 0) > 0 else "hidden")
EOS
printf '#!/no/such/interpreter\n' >"$scratch/plugin/broken"
chmod 755 "$scratch/plugin/broken"

kind=
options=()
as=() # who runs it

# boxes OPTION... : an agentd until the queue is drained
boxes() {
	"${as[@]}" "$agentd" --tier low --sandbox "$kind" "${options[@]}" "$@" "$M" -- \
		"$scratch/plugin/agent" 2>>"$scratch/agentd.log"
}
start_box() {
	"${as[@]}" "$agentd" --tier low --sandbox "$kind" "${options[@]}" "$M" -- \
		"$scratch/plugin/agent" 2>>"$scratch/agentd.log" &
	agent=$!
	extra_pids+=("$agent")
}
record() { jq -r "$2" "$results/$kind.$1"@1.*/attempt.json; }
out() { cat "$results/$kind.$1@$2".*/output.log; }
said() { out reach "$1" | sed -n "s/^$2 //p"; }
up() { ls "$results/$kind.$1@$2".*/out/up >/dev/null 2>&1; }
none_left() {
	# shellcheck disable=SC2086 # words are meant to be split
	tree_dead $tree && [ "$(pgrep -cf "$TMPDIR/raser-agent|$scratch/plugin/agent")" = 0 ]
}

try_kind() {
	local mark=$kind home=/raser/home what c
	[ "$kind" = none ] && home=$HOME

	# exit codes and signals
	for c in code0 code3 code65 code75 code99 signal11 signal9; do one "$kind.$c"; done
	boxes
	is $? 0 "$mark: drained"
	is "$(record code0 .verb) $(record code3 .verb | cut -c 1-19)" "done retry exit status 3" "$mark: 0 and 3"
	is "$(record code65 .exit) $(xattr "$M/tasks/$kind.code65" state)" "65 failed" "$mark: 65"
	is "$(record code75 .exit) $(xattr "$M/tasks/$kind.code75" failures)" "75 0" "$mark: 75"
	is "$(record code99 .exit) $(xattr "$M/tasks/$kind.code99" failures)" "99 0" "$mark: 99"
	is "$(record signal11 .signal) $(record signal9 .signal)" "11 9" "$mark: signals 11 and 9"

	# what it sees
	one "$kind.reach" '"x":1'
	boxes
	is "$(out reach 1 | head -n 2 | uniq)" "{\"id\":\"$kind.reach\",\"x\":1}" "$mark: the payload is there twice"
	is "$(said 1 workspace)" current "$mark: it begins in its workspace"
	is "$(said 1 home)" "$home" "$mark: its home"
	is "$(said 1 sibling)" yes "$mark: what lies beside the program is there"
	for what in write_work write_home write_tmp write_results; do
		is "$(said 1 $what)" yes "$mark: $what"
	done
	is "$(cat "$results/$kind.reach"/out/file)" x "$mark: its results are kept"
	if [ "$kind" = none ]; then
		for what in other run mount planted; do
			is "$(said 1 $what)" yes "$mark hides nothing: $what"
		done
		is "$(said 1 network) $(said 1 secret)" "reached secret" "$mark hides nothing: network, environment"
		return
	fi
	for what in other run mount planted write_root write_usr write_plugin write_task; do
		is "$(said 1 $what)" no "$mark: $what"
	done
	is "$(said 1 network)" "" "$mark: no network"
	is "$(said 1 secret)" "" "$mark: no secret of the environment"

	# what it sees when that is asked for; the folder that is bound has all secrets in it
	one "$kind.reach2"
	sed -i 's/^reach@\*)/reach*@*)/' "$scratch/plugin/agent"
	SHOWN=$scratch/shown boxes --network --pass SECRET_TOKEN --pass 'SHO*' --bind "$scratch"
	said() { out reach2 "$1" | sed -n "s/^$2 //p"; }
	is "$(said 1 shown)" yes "$mark: --bind shows a folder"
	for what in other run mount planted write_plugin; do
		is "$(said 1 $what)" no "$mark: and no secret in it: $what"
	done
	is "$(said 1 network)" reached "$mark: --network"
	is "$(said 1 secret)" secret "$mark: --pass"
	said() { out reach "$1" | sed -n "s/^$2 //p"; }
}

# what the session holds in the kernel: tickets
try_keys() {
	local holder=("${as[@]}" python3 "$scratch/plugin/key.py") wanted=hidden
	if [ "$("${holder[@]}" /usr/bin/env python3 "$scratch/plugin/key.py" 2>&1)" != found ]; then
		skip 1 "no keyctl(2) here"
		return
	fi
	[ "$kind" = none ] && wanted=found
	one "$kind.key"
	local as=("${holder[@]}")
	boxes
	is "$(out key 1)" $wanted "$kind: the session's keys"
}

try_signals() {
	local mark=$kind

	one "$kind.term"
	start_box
	ok "$mark: it works" wait_until 20 up term 1
	tree=$(tree_of "$agent")
	kill -TERM "$agent"
	wait "$agent"
	is $? 99 "$mark: SIGTERM: exit 99"
	is "$(sort "$results/$kind.term"@1.*/out/term | tr '\n' ' ')" "agent child " \
		"$mark: SIGTERM has reached the agent and its child in another session"
	is "$(record term .exit)" 99 "$mark: and its exit is its own"
	ok "$mark: nothing is left" wait_until 10 none_left

	one "$kind.stubborn"
	start_box
	ok "$mark: one that does not listen" wait_until 20 up stubborn 1
	tree=$(tree_of "$agent")
	kill -TERM "$agent"
	wait "$agent"
	is $? 99 "$mark: is killed after its grace"
	ok "$mark: nothing is left" wait_until 10 none_left

	start_box
	ok "$mark: again" wait_until 20 up stubborn 2
	tree=$(tree_of "$agent")
	kill -KILL "$agent"
	wait "$agent" 2>/dev/null
	ok "$mark: kill -9 of agentd leaves nothing" wait_until 10 none_left
	ok "$mark: and no workspace" wait_until 10 eval '[ "$(find "$TMPDIR" -maxdepth 1 -name "raser-agent.*" | wc -l)" = 0 ]'
	ok "$mark: cancelled" wait_until 10 mv "$M/pending/$kind.stubborn" "$M/cancelled/$kind.stubborn"
}

# a program that cannot be started is the node's fault
try_broken() {
	local program=$scratch/plugin/broken
	[ "$kind" = apptainer ] && program=/nowhere/in/the/image
	one "$kind.broken"
	"$agentd" --tier low --sandbox "$kind" "${options[@]}" "$M" -- "$program" \
		2>>"$scratch/agentd.log" &
	agent=$!
	extra_pids+=("$agent")
	ok "$kind: what cannot be started is tried again" wait_until 20 \
		eval '[ "$(xattr "$M/tasks/$kind.broken" attempt)" -ge 2 ]'
	is "$(xattr "$M/tasks/$kind.broken" failures)" 0 "$kind: and counts nothing"
	kill -TERM "$agent"
	wait "$agent"
	mv "$M/pending/$kind.broken" "$M/cancelled/$kind.broken"
}

# bubblewrap that fails at its N-th start
fail_at() {
	: >"$scratch/calls"
	cat >"$scratch/bin/bwrap" <<-EOS
		#!/bin/sh
		echo x >>"$scratch/calls"
		if [ "\$(wc -l <"$scratch/calls")" -$1 ]; then
			echo "bwrap: No permissions to create a new namespace" >&2
			exit 1
		fi
		exec $(command -v bwrap) "\$@"
	EOS
	chmod 755 "$scratch/bin/bwrap"
}

for kind in none bwrap gvisor apptainer; do
	options=()
	[ "$kind" = apptainer ] && options=(--image "$scratch/image")
	try_kind
	[ "$kind" = apptainer ] || try_keys # the image has no Python
	try_signals
	try_broken
done

# a word that gVisor's configuration cannot hold must not be left out
one gvisor.word
"$agentd" --tier low --sandbox gvisor "$M" -- /bin/sh -c 'exit 0' $'\377' 2>>"$scratch/agentd.log" &
agent=$!
extra_pids+=("$agent")
ok "gvisor: an argument that is no UTF-8" wait_until 20 eval '[ "$(xattr "$M/tasks/gvisor.word" attempt)" -ge 2 ]'
like "$(kind=gvisor record word .verb)" "free not-its-fault .*config.json: Invalid argument" "is refused"
kill -TERM "$agent"
wait "$agent"
mv "$M/pending/gvisor.word" "$M/cancelled/gvisor.word"

# ---- a sandbox that does not work is the node's fault ----

kind=bwrap options=()
fail_at "eq 2" # the first is the trial
one bwrap.code0
one bwrap.again
boxes
is "$(xattr "$M/tasks/bwrap.again" state) $(xattr "$M/tasks/bwrap.again" attempt)" "done 2" \
	"a sandbox that fails: the task is given back"
is "$(xattr "$M/tasks/bwrap.again" failures)" 0 "and counts nothing"
like "$(record again .verb)" "not-its-fault the node cannot start it: sandbox bwrap: bwrap: No permissions" "the record says why"
fail_at "ge 1"
out=$("$agentd" --tier low --sandbox bwrap "$M" -- /bin/true 2>&1)
is $? 3 "one that never works: agentd does not begin"
like "$out" "sandbox bwrap: bwrap: No permissions to create a new namespace" "and says why"
one auto.code0
"$agentd" --tier low --sandbox auto "$M" -- /bin/true 2>"$scratch/auto.log"
is $? 0 "auto: without one it works, too"
like "$(cat "$scratch/auto.log")" "agents run without a sandbox: sandbox bwrap: bwrap: No permissions" "and says so"
rm "$scratch/bin/bwrap"
like "$(PATH=$scratch/bin "$agentd" --tier low --sandbox gvisor "$M" -- /bin/true 2>&1)" \
	"sandbox gvisor: runsc is not installed here" "one that is not installed"
like "$("$agentd" --tier low --sandbox apptainer "$M" -- /bin/true 2>&1)" \
	"sandbox apptainer: it needs an image" "Apptainer needs an image"
like "$("$agentd" --tier low --sandbox jail "$M" -- /bin/true 2>&1)" "none, bwrap, apptainer and gvisor" \
	"an unknown kind"

plan
