#!/bin/bash
# 0700-life.t - a daemon from its start to its end: options and errors, ways to mount, who gets in,
# waking by poll(2), signals, death.
# shellcheck source=tests/lib.sh disable=SC2317,SC2016
. "$(dirname "$0")/../lib.sh"

S=$scratch
new_run steal_after=60 || exit
mkdir "$S/mnt"
touch "$S/file"
mkdir "$S/bin"
cp "$top/raserfs" "$top/raser" "$top/tests/chk" "$S/bin/" # where any user can run them
raserfs() { "$top/raserfs" "$@"; }

# ---- options and errors ----

# fails WANTED TEXT ARGUMENT...: status 1, and what stderr says
fails() {
	local wanted=$1 text=$2 got
	shift 2
	got=$(timeout 20 "$top/raserfs" "$@" 2>&1 >/dev/null)
	is $? 1 "$text: status 1"
	like "$got" "$wanted" "$text: it says why"
	nok "$text: nothing is mounted" is_mounted "$S/mnt"
}
like "$(raserfs -V)" "^raserfs [0-9.]+" "-V"
is "$(raserfs -V >/dev/null; echo $?)" 0 "succeeds"
like "$(raserfs -h)" "^usage: raserfs " "-h"
is "$(raserfs --help >/dev/null; echo $?)" 0 "succeeds"
for back in -f ''; do
	# shellcheck disable=SC2086 # nothing or one word
	{
		fails 'usage' "no arguments $back" $back
		fails 'usage' "no mount point $back" $back "$RUN"
		fails 'not also' "too many arguments $back" $back "$RUN" "$S/mnt" "$S"
		fails 'nosuch: No such file' "no run directory $back" $back "$S/nosuch" "$S/mnt"
		fails 'no run directory.*raser init' "a directory that is none $back" $back "$S/bin" "$S/mnt"
		fails 'file: ' "a file instead $back" $back "$S/file" "$S/mnt"
		fails 'nosuch: No such file' "no directory to mount at $back" $back "$RUN" "$S/nosuch"
		fails 'not a directory' "a file to mount at $back" $back "$RUN" "$S/file"
		fails 'would hide .*; mount it elsewhere' "over the run itself $back" $back "$RUN" "$RUN"
		fails 'would hide .*; mount it elsewhere' "above the run $back" $back "$RUN" "${RUN%/*}"
		fails 'nosuch|unknown|invalid' "an unknown option $back" $back -o nosuch "$RUN" "$S/mnt"
		fails 'allow_other is not supported' "allow_other $back" $back -o allow_other "$RUN" "$S/mnt"
		fails 'log' "a log that cannot be written $back" $back -o log="$S/nosuch/log" "$RUN" "$S/mnt"
	}
done
cp "$RUN/raser.ini" "$S/ini"
echo 'nonsense' >>"$RUN/raser.ini"
fails "raser.ini line $(wc -l <"$RUN/raser.ini"): ." "a bad raser.ini" "$RUN" "$S/mnt"
sed 's/^steal_after.*/steal_after = 0.1/' "$S/ini" >"$RUN/raser.ini"
fails "raser.ini line [0-9]+: steal_after must be" "a value that cannot be" "$RUN" "$S/mnt"
cp "$S/ini" "$RUN/raser.ini"
mv "$RUN/FORMAT" "$S/FORMAT"
echo 'raserfs 99 x' >"$RUN/FORMAT"
fails 'FORMAT: not a version' "another version" "$RUN" "$S/mnt"
mv "$S/FORMAT" "$RUN/FORMAT"
is "$(count "$RUN/nodes")" 0 "whoever failed to start has left no beat"

# ---- in the background ----

raserfs -o log="$S/log" "$RUN" "$S/mnt" >"$S/out" 2>&1 </dev/null
is "$? $(cat "$S/out")" "0 " "in the background: it returns when it is mounted"
M=$S/mnt
pid=$(background_pid) || diag "no background daemon"
adopt "$pid"
ok "it serves" [ -s "$S/mnt/status" ]
is "$(readlink "/proc/$pid/cwd") $(ps -o sid= -p "$pid" | tr -d ' ')" "/ $pid" "away from its terminal and directory"
is "$(readlink "/proc/$pid/fd/0" "/proc/$pid/fd/1" | sort -u)" /dev/null "with nothing open of its starter's"
one x
like "$(cat "$S/log")" "batch 1: 1 tasks" "-o log=FILE tells what happens"
fusermount3 -u "$M" 2>/dev/null || umount "$M"
ok "fusermount3 -u ends it" wait_until 5 dead "$pid"
is "$(count "$RUN/nodes")" 0 "in order"

# nodes/ is right from the first look on, whoever is faster: the beat or the look
right=0
tells() { grep -qx "pid ${daemon[f]}" "$M/nodes/$(awk '/^owner/ { print $2 }' "$M/status")"; }
for i in 1 2 3 4 5 6 7 8; do
	mount_run f || exit
	if wait_until 1 tells 2>/dev/null; then right=$((right + 1)); fi
	unmount f
done
is $right 8 "nodes/ tells of a daemon that has just started, 8 times of 8"

mount_run f || exit
kill -0 "${daemon[f]}"
is $? 0 "-f stays in the foreground"
umount "$M"
wait "${daemon[f]}"
is $? 0 "umount ends it with status 0"
unset "daemon[f]"

# ---- raser ----

is "$("$top/raser" -V | cut -d ' ' -f 1)" raser "raser -V"
like "$("$top/raser" --help)" "usage: raser VERB" "raser --help"
"$top/raser" nosuch 2>/dev/null
is $? 2 "an unknown verb: status 2"
"$top/raser" 2>/dev/null
is $? 2 "no verb: status 2"
like "$("$top/raser" init "$RUN" 2>&1; echo $?)" "there is a run here already.*1" "raser init twice"
mount_run f || exit
is "$("$top/raser" status "$M" | grep -c '^pending 1$') $("$top/raser" status "$RUN" | grep -c '^pending 1$')" \
	"1 1" "raser status of a mount and of a run directory"
like "$("$top/raser" status "$S" 2>&1; echo $?)" "neither a run directory nor a mount.*1" "and of neither"

# ---- poll ----

low=$M/queue/low
hold p r "$low/ready"
hold s r "$M/status"
is "$(answer p) $(answer s)" "ok ok" "ready and status are open"
is "$(ask p poll 0) $(ask s poll 0)" "in in" "nothing is read yet: readable"
is "$(ask p again) $(ask s again | cut -d ' ' -f 1)" "1 run" "their text"
is "$(ask p poll 300) $(ask s poll 0)" "timeout timeout" "read: no news"
best=9999
for i in 1 2 3; do
	echo "poll 5000" >&"${hin[p]}"
	echo "poll 5000" >&"${hin[s]}"
	sleep 0.2
	from=$(now_ms)
	one "poll$i"
	is "$(answer p)" in "a new task wakes a poller of ready"
	ms=$(($(now_ms) - from))
	[ $ms -ge $best ] || best=$ms
	is "$(answer s)" in "and of status"
	is "$(ask p poll 0) $(ask p again) $(ask p poll 300)" "in $((i + 1)) timeout" "until it has read the news"
	ask s again >/dev/null
	is "$(ask s poll 0)" timeout "each for itself"
done
below $best 100 "so soon, ms"
hold q r "$M/README"
answer q >/dev/null
is "$(ask q poll 0)" in "a file of which there is no news is readable"
end_holder q
for name in x poll1 poll2 poll3; do mv "$M/pending/$name@1" "$M/cancelled/"; done
is "$(ask p poll 5000) $(ask p again)" "in 0" "a drained queue is news as well"
end_holder p
end_holder s
one sync
take h "$low/sync@1"
is "$(ask h fsync)" ok "fsync of a claim"
ok "fsync of a directory" sync "$M/done"
is "$(ask h write "done")" ok "and its end"
end_holder h

# ---- signals ----

# term_ms SIGNAL: from the signal to the end of the daemon of M, which is $mortal
term_ms() {
	local from end
	from=$(now_ms)
	end=$((from + 5000))
	kill "-$1" "$mortal"
	while [ -d "/proc/$mortal" ] && alive "$mortal" && [ "$(now_ms)" -lt $end ]; do :; done
	ms=$(($(now_ms) - from))
}
unmount f
for clients in 0 50; do
	for signal in TERM INT; do
		best=9999
		for i in 1 2 3 4; do
			mount_run g || exit
			mortal=${daemon[g]}
			if [ $clients != 0 ]; then
				one "busy$signal$i" # a queue with a claim is not drained
				take h "$M/queue/low/busy$signal$i@1"
				remote w "$top/tests/crowd" waiters $clients "$M/queue/low/next"
				answer w >/dev/null
				wait_until 10 is_waiting $clients || diag "only $(waiting) wait"
				ask h write "done" >/dev/null
				# they are told that it is drained, unless the signal is faster
			fi
			term_ms $signal
			[ $ms -ge $best ] || best=$ms
			wait "$mortal"
			status=$?
			unset "daemon[g]"
			if [ $clients != 0 ]; then
				end_holder h
				out=$(ask w wait 1000)
				like "$out" "^answered=$clients got=0 distinct=0 ms=[0-9]+( EAGAIN=[0-9]+)?( ENODATA=[0-9]+)?$" \
					"SIG$signal: all $clients waiters are answered"
				end_holder w
			fi
			nok "SIG$signal, $clients clients: the mount is gone" is_mounted "$M"
			[ $status = 0 ] || diag "status $status"
		done
		below $best 200 "SIG$signal with $clients blocked clients: the daemon ends in ms"
	done
done
mount_run g || exit
one hold
take h "$M/queue/low/hold@1"
remote w "$top/tests/crowd" waiters 20 "$M/queue/low/next"
answer w >/dev/null
wait_until 10 is_waiting 20
nok "umount with a waiter: busy" umount "$M" 2>/dev/null
from=$(now_ms)
kill -TERM "${daemon[g]}"
out=$(ask w wait 2000)
like "$out" "^answered=20 got=0 .* EAGAIN=20$" "SIGTERM: waiters are answered EAGAIN while claims are held"
is "$(ask h write "done")" ok "the last claim ends"
ok "then the daemon" wait_until 2 dead "${daemon[g]}"
end_holder h
end_holder w
wait "${daemon[g]}"
is $? 0 "with status 0"
unset "daemon[g]"

# ---- death ----

mount_run k || exit
one dying
take h "$M/queue/low/dying@1"
"$top/tests/chk" open r "$M/queue/low/next" >"$S/blocked" &
waiter=$!
extra_pids+=("$waiter")
wait_until 5 is_waiting 1
exec 7<"$M/README"
crash k
wait_until 5 dead "$waiter"
is "$(cat "$S/blocked")" ECONNABORTED "a waiter of a daemon that dies"
is "$(chk stat "$M/queue/low/next") $(chk open r "$M/queue/low/next")" "ENOTCONN ENOTCONN" "every call after that"
is "$(ask h touch) $(ask h write "done")" "ENOTCONN ENOTCONN" "also on descriptors"
exec 7<&-
end_holder h
mount_run k || exit
is "$(grep -c " $M " /proc/self/mountinfo)" 1 "a new start takes the dead mount away"
ok "and its claims come back at once" wait_until 2 exists "$M/queue/low/dying@2"
unmount k
nok "nothing is left mounted" is_mounted "$M"

# ---- a stopped daemon: the limit, and the way out ----

new_run steal_after=60 || exit
mount_run t || exit
one stop
take h "$M/queue/low/stop@1"
"$top/tests/chk" open r "$M/queue/low/next" >"$S/blocked" &
waiter=$!
extra_pids+=("$waiter")
wait_until 5 is_waiting 1
kill -STOP "${daemon[t]}"
kill -KILL "$waiter"
sleep 0.5
ok "a client whose request a stopped daemon has read cannot be killed" alive "$waiter"
mkdir "$S/ctl"
if mount -t fusectl none "$S/ctl" 2>/dev/null; then
	echo 1 >"$S/ctl/$(connection "$M")/abort"
	ok "fusectl frees it" wait_until 5 dead "$waiter"
	umount "$S/ctl"
else
	umount -f "$M"
	ok "umount -f frees it" wait_until 5 dead "$waiter"
fi
wait "$waiter" 2>/dev/null
end_holder h
kill -KILL "${daemon[t]}"
wait "${daemon[t]}" 2>/dev/null
unset "daemon[t]"
detach "$M"

# ---- ways to mount ----

# inside: what is asked of a mount MNT by those who are in its namespace
cat >"$S/bin/inside" <<'END'
#!/bin/bash
# inside MNT NAME: whoever is here can see, claim, keep and end
bin=$(dirname "$0")
echo "uid $(id -u)"
[ -s "$1/status" ] && echo "status"
echo "{\"id\":\"$2\"}" >"$1/new/$2" && [ -e "$1/queue/low/$2@1" ] && echo "submit"
head -n 1 "$1/queue/low/next"
"$bin/chk" touch "$1/leases/$2@1"
if command -v bwrap >/dev/null && bwrap --dev-bind / / --unshare-pid true 2>/dev/null; then
	bwrap --dev-bind / / --unshare-pid "$bin/chk" touch "$1/leases/$2@1"
else
	echo ok
fi
mv "$1/leases/$2@1" "$1/done/" && [ -e "$1/done/$2@1" ] && echo "done"
END
chmod +x "$S/bin/inside"
# works NAME UID TEXT: what inside printed
works() {
	local wanted="uid $2 status submit leases/$1@1 ok ok done "
	is "$(tr '\n' ' ' <"$S/$1.out")" "$wanted" "$3"
	[ "$(tr '\n' ' ' <"$S/$1.out")" = "$wanted" ] || diag "$(cat "$S/$1.err")"
}
new_run steal_after=60 || exit
"$S/bin/chk" fuse plain "$S/mnt" "$S/bin/raserfs" -f "$RUN" '{}' -- "$S/bin/inside" "$S/mnt" fd >"$S/fd.out" 2>"$S/fd.err"
is $? 0 "/dev/fd/N: somebody else has mounted, and the daemon ends with 0"
works fd "$(id -u)" "/dev/fd/N works"
nok "its mount is gone" is_mounted "$S/mnt"
"$S/bin/chk" fuse plain "$S/mnt" "$S/bin/raserfs" "$RUN" '{}' -- "$S/bin/inside" "$S/mnt" bg >"$S/bg.out" 2>"$S/bg.err"
is $? 0 "/dev/fd/N with a daemon that goes to the background"
works bg "$(id -u)" "works as well"
while is_mounted "$S/mnt"; do umount -l "$S/mnt" || break; done
# left: daemons of our own copy of raserfs
left() {
	local f
	for f in /proc/[0-9]*; do
		[ "$(readlink "$f/exe" 2>/dev/null)" = "$S/bin/raserfs" ] && echo "${f#/proc/}"
	done
}
nobody_left() { [ -z "$(left)" ]; }
ok "whose daemon ends with its mount" wait_until 5 nobody_left
# shellcheck disable=SC2046 # words are meant to be split
kill_hard $(left)

other=65534
as_other() { setpriv --reuid=$other --regid=$other --clear-groups env HOME=/ "$@"; }
if [ "$(id -u)" != 0 ] || ! as_other true 2>/dev/null; then
	skip 18 "only root can become another user"
elif ! as_other "$S/bin/chk" open rw /dev/fuse | grep -qx ok; then
	skip 18 "/dev/fuse is not for everybody"
else
	chown $other:$other "$S/mnt"
	mkdir "$S/theirs"
	chown $other:$other "$S/theirs"
	as_other "$S/bin/raser" init "$S/theirs/run" >/dev/null
	theirs=$S/theirs/run
	if as_other unshare -Ur true 2>/dev/null; then
		as_other "$S/bin/chk" fuse own "$S/mnt" "$S/bin/raserfs" -f "$theirs" '{}' -- \
			"$S/bin/inside" "$S/mnt" own >"$S/own.out" 2>"$S/own.err"
		is $? 0 "an own namespace, the user's number unchanged"
		works own $other "works, also from a bwrap in it"
		as_other unshare -Urm bash -c '"$0/raserfs" "$1" "$2" && "$0/inside" "$2" urm; umount "$2"' \
			"$S/bin" "$theirs" "$S/mnt" >"$S/urm.out" 2>"$S/urm.err"
		is $? 0 "unshare -Urm"
		works urm 0 "works"
	else
		skip 4 "no user namespaces"
	fi
	if [ -u "$(command -v fusermount3)" ]; then
		as_other "$S/bin/raserfs" -o nosupervise,log="$S/theirs/log" "$theirs" "$S/mnt" 2>"$S/fum.err" </dev/null
		is $? 0 "fusermount3, as uid $other, in the background"
		M=$S/mnt
		pid=$(background_pid as_other) || diag "no background daemon"
		adopt "$pid"
		as_other "$S/bin/inside" "$S/mnt" fum >"$S/fum.out" 2>"$S/fum.err"
		works fum $other "works"
		is "$(chk stat "$S/mnt/status") $(chk open r "$S/mnt/queue")" "EACCES EACCES" "root is refused"
		is "$(chk unlink "$S/mnt/README") $(chk rename 0 "$S/mnt/done" "$S/mnt/x")" "EACCES EACCES" "whatever it tries"
		is "$(setpriv --reuid=65533 --regid=65533 --clear-groups "$S/bin/chk" open r "$S/mnt/status")" EACCES \
			"so is another user"
		is "$(as_other stat -c '%u %g' "$S/mnt/done/fum@1")" "$other $other" "everything is theirs"
		is "$(as_other "$S/bin/chk" getxattr "$S/mnt/tasks/fum" user.raser.submitter | cut -d ' ' -f 1,2)" \
			"uid $other" "and says who has submitted"
		kill_hard "$pid"
		wait_until 5 dead "$pid"
		is "$(as_other "$S/bin/chk" stat "$S/mnt/status")" ENOTCONN "it dies"
		as_other "$S/bin/raserfs" "$theirs" "$S/mnt" 2>"$S/fum.err" </dev/null
		is $? 0 "a new one takes the dead mount away, without being root"
		is "$(grep -c " $S/mnt " /proc/self/mountinfo)" 1 "and only one is there"
		pid=$(background_pid as_other) || diag "no background daemon"
		adopt "$pid"
		as_other fusermount3 -u "$S/mnt"
		is $? 0 "fusermount3 -u"
		ok "ends it" wait_until 5 dead "$pid"
		while is_mounted "$S/mnt"; do umount -l "$S/mnt" || break; done
	else
		skip 12 "fusermount3 is not setuid"
	fi
	mount_run r || exit
	is "$(as_other "$S/bin/chk" stat "$M/status")" EACCES "root's mount is closed to others"
	unmount r
fi

# ---- a kernel that has no patience ----

sysctl=/proc/sys/fs/fuse/max_request_timeout
if [ -w $sysctl ]; then
	new_run steal_after=60 || exit
	before=$(cat $sysctl)
	restore+=("echo $before >$sysctl")
	echo 2 >$sysctl
	mount_run p
	status=$?
	echo "$before" >$sysctl # for others at once: kernel and daemon have read it
	is "$status $(cat $sysctl)" "0 $before" "max_request_timeout 2, for this mount only"
	one patience
	take h "$M/queue/low/patience@1"
	from=$(now_ms)
	is "$(chk open r "$M/queue/low/next")" EAGAIN "a blocked open ends with EAGAIN"
	ms=$(($(now_ms) - from))
	[ $ms -ge 800 ] && [ $ms -lt 1900 ]
	is $? 0 "after half of that ($ms ms)"
	rounds=0
	while [ $(($(now_ms) - from)) -lt 17500 ] && [ "$(chk open r "$M/queue/low/next")" = EAGAIN ]; do
		rounds=$((rounds + 1))
	done
	[ $rounds -ge 10 ]
	is $? 0 "again and again, past the kernel's next look ($rounds times)"
	is "$(ask h touch) $(chk stat "$M/status")" "ok ok" "and the mount lives"
	end_holder h
	unmount p
	is $? 0 "to its end"
else
	skip 6 "no $sysctl that can be written"
fi
plan
