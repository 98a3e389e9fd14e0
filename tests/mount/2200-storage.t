#!/bin/bash
# 2200-storage.t - real storage that fails under living daemons: full to the last byte and inode, over
# quota, read-only, forbidden, unmounted, replaced, without an answer. Each time: what a shell is
# told, that nothing acknowledged is lost and nothing is written elsewhere, what log and status say,
# and that service goes on by itself when the storage does.
RASER_TIMEOUT=${RASER_TIMEOUT:-300}
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

S=$scratch
[ "$(id -u)" = 0 ] || skip_all "not root: nothing can be mounted"
[ -f "$top/tests/slowdisk.so" ] || skip_all "tests/slowdisk.so is not built"
mkdir "$S/disk"
mount -t tmpfs -o size=4m,nr_inodes=900 small "$S/disk" || skip_all "no tmpfs can be mounted"
restore+=("umount -l $S/disk")

# disk_run: a new run on the small disk
disk_run() {
	new_run steal_after=6 max_failures=0
	mv "$RUN" "$S/disk/run$nruns"
	RUN=$S/disk/run$nruns
}
# shell COMMAND...: what a person sees of it
shell() { LC_ALL=C "$@" 2>&1; }
# what is held at the mount of the moment is heartbeaten
echo "$S/none" >"$S/mount"
while sleep 0.5; do touch "$(cat "$S/mount")"/leases/*; done 2>/dev/null &
extra_pids+=($!)
# claim NAME...: new tasks, each with a holder of its name
claim() {
	local name
	for name in "$@"; do
		one "$name"
		take "$name" "$M/queue/low/$name@1"
	done
}
# ms_until COMMAND...: how long until it succeeds
ms_until() {
	local from
	from=$(now_ms)
	wait_until 20 "$@" || return 1
	echo $(($(now_ms) - from))
}
lines() { grep -c "$1" "$S/$2.log"; }
status_says() { grep -q "$1" "$M/status"; }
# granted: next gives something, and it is done
granted() {
	local task
	task=$(head -n 1 "$M/queue/low/next" 2>/dev/null) && [ -n "$task" ] && echo "done" 2>/dev/null >"$M/$task"
}
# refused NAME ERRNO TEXT: everything that changes something is told so, and nothing has changed
refused() {
	local name=$1 error=$2 text=$3
	is "$(shell mv "$M/leases/$name@1" "$M/done/")" \
		"mv: cannot move '$M/leases/$name@1' to '$M/done/$name@1': $text" "$error: mv tells it"
	is "$(chk write "$M/leases/$name@1" "done")" "$error" "$error: so does a verb"
	is "$(chk open rw "$M/queue/low/p$name@1")" "$error" "$error: and a claim"
	is "$(tasks 3 "new$name" | chk put "$M/new/new$name")" "close $error" "$error: and a submission"
	is "$(chk unlink "$M/leases/$name@1")" "$error" "$error: and revoking"
	is "$(chk rename 0 "$M/pending/p$name@1" "$M/cancelled/p$name@1")" "$error" "$error: and cancelling"
	is "$(chk touch "$M/leases/$name@1")" ok "$error: its heartbeat is taken"
	is "$(xattr "$M/tasks/$name" state) $(xattr "$M/tasks/p$name" state)" "claimed pending" "$error: nothing has changed"
	is "$(chk list 0 "$M/tasks" | grep -c "^new$name")" 0 "$error: and nothing is new"
}
# served NAME: the same calls, answered
served() {
	is "$(shell mv "$M/leases/$1@1" "$M/done/") $(xattr "$M/tasks/$1" state)" " done" "then mv succeeds"
	is "$(tasks 3 "new$1" | chk put "$M/new/new$1")" ok "and the submission"
	is "$(chk rename 0 "$M/pending/p$1@1" "$M/cancelled/p$1@1")" ok "and cancelling"
	end_holder "$1"
}

# ---- full ----

disk_run
mount_run a || exit
echo "$M" >"$S/mount"
submit 3 s
i=0
for what in bytes inodes; do
	one "p$what"
	claim $what
	if [ $what = bytes ]; then
		dd if=/dev/zero of="$S/disk/fill" bs=4k 2>/dev/null
		while echo x 2>/dev/null >"$S/disk/fill$i"; do i=$((i + 1)); done
	else
		while : 2>/dev/null >"$S/disk/fill$i"; do i=$((i + 1)); done
	fi
	is "$(df --output=avail "$S/disk" | tail -n 1 | tr -d ' ')$(df --output=iavail "$S/disk" | tail -n 1 | tr -d ' ')" \
		"$([ $what = bytes ] && echo "0$(df --output=iavail "$S/disk" | tail -n 1 | tr -d ' ')" || echo "$(df --output=avail "$S/disk" | tail -n 1 | tr -d ' ')0")" \
		"the disk has no more $what"
	if [ $what = inodes ]; then
		refused $what ENOSPC "No space left on device"
		is "$(chk open r "$M/queue/low/next")" ENOSPC "ENOSPC: and next"
		ok "status tells" wait_until 5 status_says "the storage fails: making a.*: No space left on device (since "
		like "$(cat "$M/report.html")" "<pre>the storage fails: making a.*: No space left on device" "and the report"
	else
		is "$(tasks 300 big '"pad":"'"$(printf '%400s' x)"'"' | chk put "$M/new/big")" "close ENOSPC" "ENOSPC: of a submission"
		is "$(chk list 0 "$M/tasks" | grep -c ^big)" 0 "of which nothing is there"
	fi
	rm -f "$S/disk/fill"*
	diag "$what: served again after $(ms_until granted) ms"
	served $what
done
is "$(find "$RUN/batches" -name '*.sqlite' | wc -l)" "$(find "$RUN/batches" -type l | wc -l)" "no torn batch is left"
ok "status has no complaint" wait_until 5 eval '! status_says storage'
is "$(jq -r .storage.state "$M/status.json")" well "in JSON neither"
below "$(lines 'the storage' a)" 12 "a line for each change, not for each call"

# ---- read-only, under load ----

submit 200 load
load() { while [ ! -e "$S/enough" ]; do granted || sleep 0.02; done; }
one pro
claim ro
load &
extra_pids+=($!)
load=$!
sleep 0.3
ok "remounted read-only" wait_until 5 mount -o remount,ro "$S/disk"
refused ro EROFS "Read-only file system"
ok "status tells" wait_until 5 status_says "the storage fails: .*: Read-only file system (since "
n=$(count "$M/done")
mount -o remount,rw "$S/disk"
went_on() { [ "$(count "$M/done")" -gt "$n" ]; }
diag "read-only: the next end after $(ms_until went_on) ms"
touch "$S/enough"
wait $load
served ro
is "$(find "$RUN/chain" -name '*@*.end' -printf '%f\n' | sed 's/@.*//' | sort | uniq -d)" "" "nothing is done twice"
unmount a

# ---- unmounted, and mounted again ----

disk_run
mkdir "$S/at"
mount --bind "$RUN" "$S/at"
restore+=("umount -l $S/at")
home=$RUN
RUN=$S/at
mount_run b || exit
echo "$M" >"$S/mount"
claim away
remote w "$top/tests/crowd" waiters 1 "$M/queue/medium/next"
answer w >/dev/null
umount -l "$S/at"
ok "umount -l: status tells" wait_until 5 status_says "$S/at: the run is not there any more; nothing is done until it is back (since "
one2() { tasks 1 "$1" | chk put "$M/new/$1"; }
before=$(find "$home" -printf '%p %T@ %l\n' | sort | md5sum)
is "$(shell mv "$M/leases/away@1" "$M/done/")" \
	"mv: cannot move '$M/leases/away@1' to '$M/done/away@1': Input/output error" "mv tells it"
is "$(chk write "$M/leases/away@1" "done") $(chk unlink "$M/leases/away@1") $(one2 n1)" "EIO EIO close EIO" "verbs, rm, submissions"
is "$(chk touch "$M/leases/away@1") $(chk open r,nonblock "$M/queue/low/next")" "ok EAGAIN" "a heartbeat is taken; there is nothing to claim"
sleep 2.5
is "$(find "$home" -printf '%p %T@ %l\n' | sort | md5sum)" "$before" "nothing is touched, not even the beat"
is "$(names "$S/at")" "" "and nothing is written where the mount was"
like "$(ask w tell)" "^answered=0 " "who waits in next waits on"
ask w mark >/dev/null
mount --bind "$home" "$S/at"
diag "mounted again: heard after $(ms_until eval '! status_says "not there"') ms"
is "$(one2 n2)" ok "then a submission is taken"
like "$(ask w wait 20000)" "got=1" "and who waited has it"
diag "mounted again: $(ask w tell)"
is "$(ask away write "done") $(xattr "$M/tasks/away" state)" "ok done" "and what was held is done"
end_holder w
end_holder away
is "$(lines "is not there any more" b) $(lines "is well again" b)" "1 1" "one line when it went, one when it came"

# ---- replaced by another run, and by a copy ----

umount -l "$S/at"
ok "gone once more" wait_until 5 status_says "not there"
stranger=$S/disk/stranger
"$top/raser" init "$stranger" >/dev/null
tasks 2 x >"$S/x" && "$top/raser" submit "$stranger" "$S/x" >/dev/null
before=$(find "$stranger" -printf '%p %T@ %l\n' | sort | md5sum)
mount --bind "$stranger" "$S/at"
ok "another run in its place: status tells" wait_until 5 status_says "$S/at: another run is there now; nothing is done until"
is "$(one2 n3) $(chk open r,nonblock "$M/queue/low/next")" "close EIO EAGAIN" "nothing is done"
sleep 2.5
is "$(find "$stranger" -printf '%p %T@ %l\n' | sort | md5sum)" "$before" "and nothing in the stranger is touched"
umount -l "$S/at"
cp -a "$home" "$home.copy"
mount --bind "$home.copy" "$S/at"
ok "the same run on another disk: taken up" wait_until 5 eval '! status_says "nothing is done"'
is "$(one2 n4)" ok "a submission is taken"
is "$(find "$home.copy/batches" -type l | wc -l) $(find "$home/batches" -type l | wc -l)" "$(($(find "$home/batches" -type l | wc -l) + 1)) $(find "$home/batches" -type l | wc -l)" "by the new one"
chk unlink "$M/leases/n21@1" >/dev/null # the daemon would wait for its end, as long as its grace
unmount b
umount "$S/at"
is $? 0 "the daemon has left nothing open"

# ---- moved away, and back ----

disk_run
mount_run c || exit
echo "$M" >"$S/mount"
submit 3 s
claim mv
mv "$RUN" "$RUN.away"
ok "moved away: status tells" wait_until 5 status_says "the run is not there any more"
is "$(chk write "$M/leases/mv@1" "done")" EIO "an end is refused"
mkdir "$RUN"
sleep 1.5
is "$(chk write "$M/leases/mv@1" "done") $(names "$RUN")" "EIO " "in an empty directory as well"
rmdir "$RUN"
mv "$RUN.away" "$RUN"
ok "moved back: served" wait_until 5 granted
is "$(ask mv write "done")" ok "and the end is taken"
end_holder mv
unmount c

# ---- forbidden ----

wrap=(setpriv "--bounding-set=-dac_override,-dac_read_search")
disk_run
mount_run d || exit
echo "$M" >"$S/mount"
wrap=()
one pacc
claim acc
chmod 000 "$RUN/chain" "$RUN/batches"
refused acc EACCES "Permission denied"
ok "status tells" wait_until 5 status_says "Permission denied (since "
chmod 755 "$RUN/chain" "$RUN/batches"
diag "chmod 000 chain: served again after $(ms_until granted) ms"
claim acc2
chmod 000 "$RUN/nodes"
sleep 2
chmod 755 "$RUN/nodes"
ok "a beat that could not be given is given later" wait_until 5 eval '! status_says storage'
is "$(ask acc2 write "done")" ok "and costs nothing"
end_holder acc
end_holder acc2
unmount d

# ---- over quota ----

truncate -s 160M "$S/disk.img"
mkdir "$S/quota"
if mkfs.btrfs -q "$S/disk.img" 2>/dev/null >&2 && mount -o loop "$S/disk.img" "$S/quota" 2>/dev/null; then
	restore+=("umount -l $S/quota")
	btrfs quota enable "$S/quota"
	new_run steal_after=6 max_failures=0
	mv "$RUN" "$S/quota/run"
	RUN=$S/quota/run
	mount_run e || exit
echo "$M" >"$S/mount"
	submit 3 s
	one pquota
	claim quota
	btrfs qgroup limit 1M "$S/quota"
	dd if=/dev/zero of="$S/quota/fill" bs=64k 2>/dev/null
	refused quota EDQUOT "Disk quota exceeded"
	ok "status tells" wait_until 5 status_says "Disk quota exceeded (since "
	btrfs qgroup limit none "$S/quota"
	diag "quota: served again after $(ms_until granted) ms"
	served quota
	unmount e
else
	skip 15 "no btrfs can be made and mounted here"
fi

# ---- no answers ----

rules() { printf '%s\n' "$@" >"$S/rules.new" && mv "$S/rules.new" "$S/rules"; }
rules
wrap=(env "LD_PRELOAD=$top/tests/slowdisk.so" "SLOWDISK=$S/rules"
	"ASAN_OPTIONS=verify_asan_link_order=0:${ASAN_OPTIONS-}")
disk_run
mount_run f || exit
echo "$M" >"$S/mount"
wrap=()
for error in EIO ESTALE ETIMEDOUT; do
	submit 3 "s$error"
	claim "a$error" "b$error" "c$error"
	touch "$M/leases/a$error@1" "$M/leases/b$error@1" "$M/leases/c$error@1"
	rules "* chain/* 0 $error" "* nodes* 0 $error" "* batches/* 0 $error"
	chk -t rename 0 "$M/leases/a$error@1" "$M/done/a$error@1" >"$S/mv" &
	p1=$!
	chk -t write "$M/leases/c$error@1" "failed bad" >"$S/verb" &
	p2=$!
	extra_pids+=("$p1" "$p2")
	is "$(chk touch "$M/leases/b$error@1")" ok "$error: a heartbeat"
	like "$(tasks 1 "n$error" | chk put "$M/new/n$error")" "close EIO" "$error: EIO of a submission"
	wait $p1 $p2
	like "$(cat "$S/mv")" '^EIO (49|5[0-9])[0-9][0-9]$' "$error: of an mv, after 5 s, and never that the claim is lost"
	like "$(cat "$S/verb")" '^EIO (49|5[0-9])[0-9][0-9]$' "$error: of a verb"
	ok "$error: status tells" status_says "the storage fails: "
	is "$(xattr "$M/tasks/a$error" state)" claimed "$error: nobody says that it is done"
	from=$(now_ms)
	rules
	ok "$error: what was asked for is done when it can be" wait_until 5 exists "$M/done/a$error@1"
	diag "$error: after $(($(now_ms) - from)) ms; a claim after $(ms_until granted) ms"
	is "$(ask "b$error" write "done")" ok "$error: others go on"
	for name in a b c; do end_holder "$name$error"; done
done
below "$(lines 'the storage' f)" 20 "a line for each change, not for each call"
rules 'symlinkat *.claim 8000 -'
chk open r,nonblock "$M/queue/low/next" >/dev/null &
extra_pids+=($!)
ok "a call that is not answered: status tells" wait_until 8 status_says "the storage does not answer: making a link (since "
rules
unmount f

# ---- nobody reads the log ----

mkfifo "$S/pipe"
exec {reader}<>"$S/pipe"
new_run steal_after=60 || exit
M=$S/g
mkdir "$M"
"$top/raserfs" -f "$RUN" "$M" 2>"$S/pipe" </dev/null &
daemon[g]=$!
ok "a daemon whose messages go into a pipe" wait_until 10 exists "$M/README"
n=900 # lines of 200 bytes: more than a pipe of 64 KiB and 256 lines that may wait
submit $n log
words=$(printf '%150s' x | tr ' ' x)
ended=0
while [ $ended -lt $n ] && task=$(head -n 1 "$M/queue/low/next" 2>/dev/null) && [ -n "$task" ]; do
	echo "failed $words" >"$M/$task"
	ended=$((ended + 1))
done
is $ended $n "goes on when the pipe is full"
timeout 5 cat <&"$reader" >"$S/g.log"
like "$(grep -c 'failed verdict' "$S/g.log") $(grep -o '[0-9]* lines were left out: nobody took them' "$S/g.log" | tail -n 1)" \
	'^[0-9]+ [1-9][0-9]* lines were left out' "and says later how many lines nobody took"
cat <&"$reader" >/dev/null &
extra_pids+=($!)
unmount g

plan
