#!/bin/bash
# 2000-doctor.t - raser doctor says what a directory and a node are good for, and raser init and
# mounts refuse what it fails; nothing that was tried is left behind.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

S=$scratch
raser=$top/raser
[ -f "$top/tests/slowdisk.so" ] || skip_all "tests/slowdisk.so is not built"
shim=(env "LD_PRELOAD=$top/tests/slowdisk.so" "SLOWDISK=$S/rules"
	"ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0")
: >"$S/rules"
shopt -s dotglob nullglob

# doctor DIR [OPTION...]: its findings in $S/found, a line each; prints its status
doctor() {
	"$raser" doctor "$@" --json >"$S/json" 2>"$S/told"
	local status=$?
	jq -r '.findings[] | "\(.verdict) \(.topic): \(.found)"' "$S/json" >"$S/found" 2>/dev/null
	echo $status
}
verdict() { jq -r .verdict "$S/json"; }
# found PATTERN: how many of them
found() { grep -c -E -- "$1" "$S/found"; }
left() { local all=("$1"/*); echo "${#all[@]}"; }

# ---- a directory that may become a run ----

mkdir "$S/plain"
status=$(doctor "$S/plain" --load 2 --seconds 0.5)
below "$status" 2 "nothing fails on a directory of this machine"
is "$(found '^ok (read-back|files|exclusive creation|times|listings|removal):')" 7 "what every mount tries is told"
is "$(found '^ok race: (1 process x 64|4 processes x 16) threads, 200 names: one winner each')" 2 "so are races"
is "$(found '^ok time of calls: a claim ')" 1 "the time of calls"
is "$(found ' room: .* free$')" 1 "room"
is "$(found '^(ok|warning) load: 2 processes: [1-9][0-9]* durable claims and ends a second, p50 .*, p99 .* races lost of')" \
	1 "claims and ends under load"
is "$(found '^ok FUSE: a mount in a namespace of its own works')" 1 "a mount, tried for real"
is "$(found ' sandbox: ')$(found ' memory: ')$(found ' local files: ')$(found ' kernel: ')$(found ' clock: ')" \
	"$(found ' sandbox: ')1111" "the node"
is "$(found ' Slurm: ' | sed 's/[1-9][0-9]*/some/')" some "and Slurm, or that there is none"
is "$(left "$S/plain")" 0 "nothing is left in it"
is "$(own_mounts 5)" "" "nothing is left mounted"
like "$("$raser" doctor "$S/plain")" "ok      race                 1 process x 64 threads, 200 names" \
	"for people it is a table"

# ---- a run, and a mount of it ----

new_run steal_after=60 || exit
mount_run m || exit
submit 7 t
below "$(doctor "$RUN")" 2 "a run at work may be tried"
is "$(found '^ok FORMAT: run [a-z2-7]{32}, by path as well')" 1 "its FORMAT is looked at"
below "$(doctor "$M")" 2 "and so may its mount"
is "$(jq -r .directory "$S/json")" "$RUN" "which is to say, its run"
wait_until 5 has_count "$M/pending" 7
is "$(names "$M/pending")" "t1@1 t2@1 t3@1 t4@1 t5@1 t6@1 t7@1" "the run has noticed nothing"
mkdir "$RUN/selftest.aaaaaaaaaaaa"
doctor "$RUN" >/dev/null
is "$(found '^note leftovers: 1 directories selftest')" 1 "what a killed one left is told"
rmdir "$RUN"/selftest.*
unmount m
cp "$RUN/raser.ini" "$S/ini"
echo "nonsense" >>"$RUN/raser.ini"
is "$(doctor "$RUN") $(found '^FAILS raser.ini: ')" "2 1" "a raser.ini that is wrong fails"
cp "$S/ini" "$RUN/raser.ini"

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	mkdir -m 1777 "$S/shared"
	user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	"${user[@]}" "$raser" init "$S/shared/run" >/dev/null
	chmod a-w "$S/shared/run"
	"${user[@]}" "$raser" doctor "$S/shared/run" >"$S/table" # that user may have no /dev/fuse
	like "$(cat "$S/table")" "ok +exclusive creation .*ok +race .*ok +time of calls" \
		"a user may try a run whose FORMAT and raser.ini are protected"
	is "$(left "$S/shared/run/results")" 0 "and leaves nothing there"
else
	skip 2 "needs root and setpriv"
fi

# ---- wrong use ----

doctor_says() { "$raser" doctor "$@" 2>&1; echo $?; }
like "$(doctor_says)" "usage: raser doctor .*2$" "no directory"
like "$(doctor_says "$S/plain" --load 0)" "usage: .*2$" "no processes"
like "$(doctor_says "$S/plain" --seconds x)" "usage: .*2$" "no seconds"
like "$(doctor_says "$S/none")" "none: No such file or directory.*2$" "a directory that is not there"

# ---- storage that will not do ----

echo 'symlinkat * 0 EOPNOTSUPP' >"$S/rules"
like "$("${shim[@]}" "$raser" init "$S/refused" 2>&1; echo $?)" \
	"refused: no run here: symbolic links: no symbolic link .* Operation not supported: .*use another file system.*1$" \
	"init refuses storage without symbolic links"
nok "and leaves nothing behind" exists "$S/refused"
mkdir "$S/mine"
echo '[run]' >"$S/mine/raser.ini"
"${shim[@]}" "$raser" init "$S/mine" >/dev/null 2>&1
is "$? $(left "$S/mine")" "1 1" "nor in a directory that was there"
mkdir "$S/m2"
like "$("${shim[@]}" "$top/raserfs" -f "$RUN" "$S/m2" 2>&1; echo $?)" "no run here: symbolic links: .*1$" \
	"a mount refuses as well"
is "$(left "$RUN/nodes")" 0 "before it has made a beat"
is "$("${shim[@]}" "$raser" doctor "$S/plain" >"$S/table"; echo $?)" 2 "doctor fails it"
like "$(cat "$S/table")" "FAILS   symbolic links" "with the same words"
echo 'utimensat * 0 ENOSPC' >"$S/rules"
like "$("${shim[@]}" "$raser" init "$S/refused" 2>&1)" "refused cannot be written: No space left on device" \
	"trouble is told as such"
nok "and leaves nothing behind, too" exists "$S/refused"
: >"$S/rules"
ok "init --force makes a run" "$raser" init "$S/forced" --force
is "$(grep -c '^force = yes$' "$S/forced/raser.ini")" 1 "and says so in its raser.ini"

# ---- read-only, full, a local disk ----

if [ "$(id -u)" = 0 ] && mkdir "$S/ro" "$S/full" && mount -t tmpfs -o size=1m,nr_inodes=12 none "$S/full"; then
	mount -t tmpfs -o ro none "$S/ro"
	is "$(doctor "$S/ro") $(verdict)" "2 FAILS" "a read-only directory"
	is "$(found '^FAILS mount options: ro')$(found '^FAILS writing: nothing can be made here: Read-only file system')" 11 \
		"and why"
	like "$("$raser" init "$S/ro" 2>&1; echo $?)" "no run here: mount options: ro: mounted read-only.*1$" "no run"
	for i in 1 2 3 4 5 6 7 8 9; do : >"$S/full/$i"; done
	is "$(doctor "$S/full") $(found '^FAILS writing: nothing can be made here: No space left on device')" "2 1" \
		"a full one"
	like "$("$raser" init "$S/full/run" 2>&1; echo $?)" "run cannot be written: No space left on device.*1$" "no run"
	is "$(left "$S/full")" 9 "nor a rest of one"
	umount "$S/full" "$S/ro"
else
	skip 6 "needs root"
fi
if [ "$(id -u)" = 0 ] && command -v mkfs.ext4 >/dev/null && mkdir "$S/ext4" && truncate -s 64M "$S/image" &&
	mkfs.ext4 -q "$S/image" 2>/dev/null && mount -o loop "$S/image" "$S/ext4" 2>/dev/null; then
	doctor "$S/ext4" >/dev/null
	is "$(found '^note file system: ext4: a local disk')$(found '^FAILS')" 10 "ext4 is known, and nothing fails"
	is "$(found 'room: the file system has room for [0-9]+ more files')" 1 "its inodes are counted"
	umount "$S/ext4"
else
	skip 2 "no loop device"
fi

# ---- ended in the middle ----

"$raser" doctor "$S/plain" --load 4 --seconds 30 >"$S/load" 2>&1 &
extra_pids+=($!)
working() { compgen -G "$S/plain/selftest.*/run/chain/*/*" >/dev/null; }
ok "a load is under way" wait_until 60 working
kill -TERM $!
wait $!
is "$? $(left "$S/plain")" "130 0" "ended by a signal it removes what it has made"
like "$(cat "$S/load")" "ended by a signal; what it had made is removed" "and says so"

# ---- two nodes ----

# peer NAME: a doctor that looks for another one, its pid in $pid
peer() {
	"${shim[@]}" "$raser" doctor "$S/plain" --peer >"$S/$1.table" 2>"$S/$1.told" &
	pid=$!
	extra_pids+=("$pid")
}
told() { grep -q "$2" "$S/$1.told"; }

peer a
a=$pid
ok "the first tells what to run on the other" wait_until 10 told a "raser doctor $S/plain --peer"
peer b
b=$pid
wait "$a"
sa=$?
wait "$b"
is "$sa $?" "0 0" "two meet, and nothing fails"
for side in a b; do
	is "$(grep -c 'ok      we see of .* a new name, by trying to create it: after [0-9]* ms' "$S/$side.table") \
$(grep -c -E '^ok .* sees of us .* a (new name, by a listing|beat, by statx): after [0-9]+ ms' "$S/$side.table")" "1 2" \
		"$side: delays in both directions"
	like "$(cat "$S/$side.table")" "(ok|note) +race of two nodes +1000 names: one winner each, and both agree" "$side: the race"
done
is "$(left "$S/plain")" 0 "nothing is left"

echo 'symlinkat *race* 20 -' >"$S/rules" # so that there is a middle
peer a
a=$pid
wait_until 10 told a "on another node"
peer b
b=$pid
racing() { compgen -G "$S/plain/selftest.*/race0/*" >/dev/null; }
ok "two race" wait_until 20 racing
kill -KILL "$b"
wait "$b" 2>/dev/null
wait "$a"
is "$?" 2 "the one whose other was killed ends and fails"
like "$(cat "$S/a.table")" "FAILS   peer .* was ended, or gives no sign of life" "and says why"
is "$(left "$S/plain")" 0 "it removes what both have made"

peer a
a=$pid
wait_until 10 told a "on another node"
peer b
b=$pid
ok "two race again" wait_until 20 racing
kill -TERM "$a"
wait "$a"
sa=$?
wait "$b"
is "$sa $?" "130 2" "one that is ended in order tells the other"
is "$(left "$S/plain")" 0 "and nothing is left"
: >"$S/rules"

peer a
a=$pid
wait_until 10 told a "on another node"
kill -KILL "$a"
wait "$a" 2>/dev/null
peer b
b=$pid
ok "a meeting that died is noticed" wait_until 20 told b "it is dead; what it left is removed"
kill -TERM "$b"
wait "$b"
is "$? $(left "$S/plain")" "130 0" "one that waits in vain can be ended, too"

plan
