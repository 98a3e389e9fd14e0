#!/bin/bash
# 1310-memory.t - an agent's memory: its limit holds, and that it was too much is known, however
# the agent takes it, and told apart from other ends; by a cgroup of its own and by polling.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"
need_sandboxes

python=$(command -v python3)
cat >"$scratch/mem.py" <<'EOS'
import mmap, os, sys, time
what = sys.argv[1]
if what == "eat":  # so many MB, and keep them
    x = bytearray(int(sys.argv[2]) << 20)
    time.sleep(60)
elif what == "reserve":  # address space that is not used
    m = mmap.mmap(-1, 100 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)
    print("reserved")
elif what == "share":  # pages that twenty processes share
    x = bytearray(b"x") * (30 << 20)
    kids = []
    for i in range(20):
        pid = os.fork()
        if pid == 0:
            time.sleep(1)
            os._exit(sum(x[::4096]) == 0)
        kids.append(pid)
    sys.exit(any(os.waitpid(k, 0)[1] for k in kids))
EOS
eater="$python $scratch/mem.py"
mb=1048576
limit=$((150 * mb))
own=$(awk -F: '$2 == "memory" { print "/sys/fs/cgroup/memory" $3 }' /proc/self/cgroup)
cgroups() { find "$own" -maxdepth 1 -name 'raser.*' 2>/dev/null | wc -l; }
before=$(cgroups)

# ended OPTION... KIND COMMAND...: how an agent ended
ended() {
	local line
	remote a "${as[@]}" "$top/tests/boxed" -b "$scratch/mem.py" -m "$limit" "${@:1:$#-2}" "${@: -2:1}" "$dir" \
		/bin/sh -c "${@: -1}"
	line=$(answer a)
	[ "${line%% *}" = ok ] || diag "$line"
	ask a wait
	wait "${held[a]}" 2>/dev/null
	forget a
}
as=() dir=$TMPDIR

try_memory() { # OPTION WORD
	local out kind
	for kind in none bwrap; do
		out=$(ended "$1" "$kind" "$eater eat 300; exit 0")
		like "$out" 'oom=1 ' "$2, $kind: a child is killed for its memory, and its parent exits 0: seen"
		if [ "$1" = -c ]; then
			like "$out" 'status=0 signal=0 .*kills=[1-9][0-9]* own=1 .*by=cgroup v[12] ' \
				"$2, $kind: the parent's exit is its own"
		else
			like "$out" 'status=-1 signal=9 .*polled=1 .*by=poll ' "$2, $kind: all of it is killed"
		fi
		like "$(ended "$1" "$kind" "exec $eater eat 300")" 'signal=9 oom=1 .*failed=0' \
			"$2, $kind: its first process is"
		like "$(ended "$1" "$kind" 'kill -SEGV $$')" 'signal=11 oom=0 ' "$2, $kind: a crash is none"
		like "$(ended "$1" "$kind" 'kill -KILL $$')" 'signal=9 oom=0 ' "$2, $kind: kill -9 is none"
		like "$(ended "$1" "$kind" "exec $eater reserve")" 'status=0 .*oom=0' \
			"$2, $kind: 100 GB of address space are no memory"
		like "$(ended "$1" "$kind" "exec $eater share")" 'status=0 .*oom=0' \
			"$2, $kind: pages that are shared count once"
	done
	like "$(ended "$1" gvisor "exec $eater eat 300")" 'signal=9 oom=1 .*failed=0' \
		"$2, gvisor: its kernel is killed for the agent's memory"
	like "$(ended "$1" gvisor "exec $eater reserve")" 'status=0 .*oom=0' \
		"$2, gvisor: 100 GB of address space are no memory"
}

try_memory -p poll
out=$(ended none true)
if [[ $out == *by=cgroup* ]]; then
	try_memory -c cgroup
	is "$(cgroups)" "$before" "no cgroup is left"

	remote a "$top/tests/boxed" -m "$limit" -c none "$TMPDIR" /bin/sh -c 'while :; do sleep 0.05; done'
	answer a >/dev/null
	tree=$(tree_of "${held[a]}")
	is "$(cgroups)" $((before + 1)) "one while it works"
	kill -KILL "${held[a]}"
	wait "${held[a]}" 2>/dev/null
	forget a
	is_before() { [ "$(cgroups)" = "$before" ]; }
	ok "kill -9 of agentd: its guard removes it" wait_until 10 is_before
	# shellcheck disable=SC2086 # words are meant to be split
	ok "with all that was in it" wait_until 10 tree_dead $tree

	# shellcheck disable=SC2016 # the agent's shell expands it
	remote a "$top/tests/boxed" -m "$limit" -c none "$TMPDIR" /bin/sh -c \
		'setsid sh -c "echo \$\$ >n; exec sleep 100" & wait'
	work=$(answer a)
	work=${work#ok }
	ok "a child in another session" wait_until 10 test -s "$work/n"
	deep=$(cat "$work/n")
	adopt "$deep"
	guard=$(ask a guard)
	kill -KILL "${held[a]}" "$guard"
	wait "${held[a]}" 2>/dev/null
	forget a
	ended -p none true >/dev/null
	is "$(cgroups)" "$before" "kill -9 of both: the next agentd here removes it"
	ok "and what was in it" wait_until 10 dead "$deep"
else
	diag "$out"
	skip 21 "no memory cgroup can be made here"
fi

# one without any right has no cgroup here, and says so
if [ "$(id -u)" = 0 ]; then
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups) dir=$scratch/nobody
	mkdir "$dir"
	chown 65534:65534 "$dir"
	like "$("${as[@]}" "$top/tests/boxed" -m "$limit" -t 1 bwrap "$dir" /bin/true 2>&1)" \
		'memory: no cgroup of its own .*; it is polled' "no cgroup: it is polled, and that is said"
	like "$(ended bwrap "$eater eat 300; exit 0")" 'oom=1 polled=1 .*by=poll ' "and found"
	as=() dir=$TMPDIR
else
	skip 2 "not root: that is the other user"
fi

# ---- a task moves up ----

new_run steal_after=30 retry_delay=0.2 low.memory=100M medium.memory=100M high.memory=600M \
	medium.failures=1 || exit
mount_run m || exit
for by in poll auto; do
	one "grows_$by"
	"$top/raser-agentd" --tier low --memory-by "$by" --sandbox bwrap "$M" -- "$python" "$scratch/mem.py" \
		eat 200 2>>"$scratch/agentd.log"
	is "$(xattr "$M/tasks/grows_$by" failures) $(xattr "$M/tasks/grows_$by" reason)" "1 oom" \
		"$by: too much for the lowest tier: out of memory"
	sed 's/time.sleep(60)/pass/' "$scratch/mem.py" >"$scratch/short.py"
	"$top/raser-agentd" --tier high --memory-by "$by" --sandbox bwrap "$M" -- "$python" \
		"$scratch/short.py" eat 200 2>>"$scratch/agentd.log"
	is "$(xattr "$M/tasks/grows_$by" state)" "done" "$by: and done in the highest"
	is "$(jq -r .verb "$RUN/results/grows_$by"@1.*/attempt.json | cut -c 1-9)" "retry oom" "$by: the record"
done

plan
