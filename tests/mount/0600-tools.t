#!/bin/bash
# 0600-tools.t - what people and programs do to a directory: looking claims nothing, sizes are
# true, listings are whole while tasks come and go, and ls -l is cheap.
# shellcheck source=tests/lib.sh disable=SC2317,SC2016,SC2010
. "$(dirname "$0")/../lib.sh"

new_run steal_after=60 max_failures=0 || exit
mount_run m || exit
S=$scratch
submit 20 t '"text":"needle"'
take keep "$M/queue/low/t20@1" # something for leases/
one fin
take fin "$M/queue/low/fin@1"
ask fin write "done" >/dev/null
end_holder fin
mkdir "$S/out"

# ---- looking ----

claims() { json .claims; }
is "$(claims)" 2 "two claims so far"
# look PROGRAM COMMAND...: it may fail, but it must claim nothing. COMMAND runs in the mount.
looks=0
look() {
	local program=$1 command=$2
	if ! command -v "$program" >/dev/null; then
		skip 1 "no $program"
		return
	fi
	looks=$((looks + 1))
	rm -rf "$S/out" && mkdir "$S/out"
	(cd "$M" && PATH=$PATH OUT=$S/out timeout 60 bash -c "$command") >"$S/out.log" 2>&1 </dev/null
	[ $? != 124 ] || diag "it hangs: $command"
	is "$(claims) $(names "$M/leases")" "2 t20@1" "${command//$'\n'/ }"
}
look ls 'ls'
look ls 'ls -laR'
look stat 'stat queue/low/* leases/* tasks/*'
look find 'find .'
look find 'find . -size +1 -mmin -5'
look find 'find . -type f -newer README'
look find 'find . -type f -exec cat {} +'
look du 'du -a'
look du 'du -sh --apparent-size'
look df 'df . ; df -i .'
look tree 'tree'
look test 'for f in queue/*/* queue/low/next; do test -r $f; test -s $f; test -w $f; done'
look cat 'cat queue/low/*'
look cat 'cat queue/*/* pending/* tasks/* leases/* done/* nodes/* status* metrics'
look head 'head queue/low/*'
look head 'head -c 5 queue/low/t1@1'
look tail 'tail -n 1 queue/low/*'
look wc 'wc queue/low/*'
look less 'less -FX queue/low/t1@1'
look more 'more queue/low/t1@1'
look vim 'vim -es -c q queue/low/t1@1'
look vim 'vim -es -c "set noswapfile" -c "w! $OUT/x" -c q! queue/low/t1@1'
look view 'view -es -c q queue/low/t1@1'
look nano 'nano -v queue/low/t1@1'
look sed 'sed -n 1p queue/low/*'
look awk 'awk 1 queue/low/*'
look grep 'grep needle queue/low/*'
look grep 'grep -r needle .'
look grep 'grep -R needle queue pending tasks leases'
look grep 'grep -rlZ needle .'
look rg 'rg needle'
look rg 'rg -uuu needle'
look ag 'ag needle'
look git 'git grep --no-index needle'
look git 'git status'
look git 'git init -q $OUT/r && git --git-dir=$OUT/r/.git --work-tree=. add queue/low/t1@1'
look git 'git hash-object queue/low/*'
look file 'file queue/low/* leases/*'
look md5sum 'md5sum queue/low/*'
look sha256sum 'find . -type f -print0 | xargs -0 sha256sum'
look cksum 'cksum queue/low/*'
look cmp 'cmp queue/low/t1@1 queue/low/t2@1'
look diff 'diff queue/low/t1@1 queue/low/t2@1'
look diff 'diff -r queue/low queue/medium'
look sort 'sort queue/low/*'
look cut 'cut -c 1-3 queue/low/*'
look od 'od -c queue/low/t1@1'
look xxd 'xxd queue/low/t1@1'
look strings 'strings queue/low/*'
look base64 'base64 queue/low/t1@1'
look cp 'cp queue/low/t1@1 $OUT/'
look cp 'cp -r queue pending tasks $OUT/'
look cp 'cp -a . $OUT/all'
look cp 'cp --reflink=auto queue/low/* $OUT/'
look tar 'tar -cf $OUT/x.tar .'
look tar 'tar -czf /dev/null queue'
look zip 'zip -qr $OUT/x.zip queue tasks'
look cpio 'find . | cpio -o >$OUT/x.cpio'
look rsync 'rsync -n -a . $OUT/'
look rsync 'rsync -a . $OUT/'
look rsync 'rsync -ac queue/ $OUT/'
look scp 'scp -q queue/low/t1@1 $OUT/'
look dd 'dd if=queue/low/t1@1 of=/dev/null'
look dd 'dd if=queue/low/t1@1 of=/dev/null iflag=direct'
look flock 'flock -n queue/low/t1@1 true'
look flock 'flock -s -n leases/t20@1 true'
look bash 'source queue/low/t1@1'
look bash 'read -r line <queue/low/t1@1'
look bash 'exec 5<queue/low/t1@1; exec 5<&-'
look bash 'x=(queue/*/*); echo "${x[@]}"; compgen -f queue/low/'
look python3 'python3 -c "
import os
for d, ds, fs in os.walk(\".\"):
    for f in fs:
        open(os.path.join(d, f), \"rb\").read()"'
look python3 'python3 -c "import shutil; shutil.copytree(\"queue\", \"$OUT/q\")"'
look python3 'python3 -c "
import mmap
with open(\"queue/low/t1@1\") as f: mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]"'
look perl 'perl -ne "print" queue/low/*'
look node 'node -e "const fs = require(\"fs\"); for (const f of fs.readdirSync(\"queue/low\")) fs.readFileSync(\"queue/low/\" + f)"'
look jq 'jq . queue/low/* tasks/*'
look busybox 'busybox grep -r needle . ; busybox cat queue/low/* ; busybox tar cf /dev/null .'
look updatedb 'updatedb -l 0 -U . -o $OUT/db'
look rsync 'rsync -a --remove-source-files queue/ $OUT/'
look mv 'mv queue/low/t1@1 $OUT/'
look rm 'rm -f queue/low/t1@1 pending/t1@1 tasks/t1'
look ln 'ln -s "$PWD/queue/low/t1@1" $OUT/l && cat $OUT/l'
look sed 'sed -i s/needle/x/ queue/low/*'
look perl 'perl -pi -e s/needle/x/ queue/low/t1@1'
look touch 'touch queue/low/* queue/low/next'
look chmod 'chmod -R u+w queue'
look truncate 'truncate -s 0 queue/low/*'
look bash 'for f in queue/low/*; do echo x >$f; echo x >>$f; done'
is "$(names "$M/queue/low" | wc -w)" 19 "after $looks ways of looking every task is there"
is "$(xattr "$M/tasks/t1" attempt) $(cat "$M/tasks/t1")" '1 {"id":"t1","text":"needle"}' "as it was"
hold one rw "$M/queue/low/t1@1"
is "$(answer one) $(claims)" "ok 3" "opening one read-write claims"
is "$(names "$M/leases")" "t1@1 t20@1" "exactly that one"
ask one read >/dev/null
ask one write "done" >/dev/null
end_holder one

# ---- true sizes ----

printf '{"id":"z1","x":"%0100000d"}\n{"id":"z2"}\n' 0 >"$M/new/z"
for dir in queue/low pending tasks "done" leases nodes; do
	first=$(chk list 0 "$M/$dir" | tail -n 2 | head -n 1)
	f=$M/$dir/$first
	is "$(wc -c <"$f") $(base64 -w 0 "$f" | base64 -d | wc -c)" "$(stat -c '%s %s' "$f")" "wc -c of $dir/$first"
done
(cd "$M" && tar -cf "$S/x.tar" queue pending tasks README results) && mkdir "$S/tar" && tar -xf "$S/x.tar" -C "$S/tar"
is $? 0 "tar, and back"
ok "tar: queue/ whole" diff -r "$M/queue" "$S/tar/queue"
ok "tar: tasks/ whole" diff -r "$M/tasks" "$S/tar/tasks"
ok "tar: README whole" cmp "$M/README" "$S/tar/README"
if command -v rsync >/dev/null; then
	rsync -a "$M/queue" "$M/tasks" "$M/README" "$S/rsync/"
	is $? 0 "rsync -a"
	ok "rsync: queue/ whole" diff -r "$M/queue" "$S/rsync/queue"
	ok "rsync: tasks/ whole" diff -r "$M/tasks" "$S/rsync/tasks"
	is "$(rsync -an --itemize-changes "$M/tasks" "$S/rsync/")" "" "rsync: nothing to do the second time"
else
	skip 4 "no rsync"
fi
if command -v file >/dev/null; then
	like "$(file -b "$M/tasks/z1")" "JSON|ASCII" "file knows what it is"
else
	skip 1 "no file"
fi
is "$(du -b "$M/tasks/z1" | cut -f 1)" "$(wc -c <"$M/tasks/z1")" "du -b"
is "$(du -k "$M/tasks/z1" | cut -f 1)" 98 "du -k: blocks as the size has it"
is "$(tail -c 3 "$M/tasks/z1")" '0"}' "seeking to its end"
is "$(dd if="$M/tasks/z1" bs=1 skip=99990 count=5 2>/dev/null)" 00000 "and into its middle"
end_holder keep
unmount m

# ---- listings under churn ----

n=20000
[ -z "${RASER_QUICK-}${RASER_SANITIZED-}" ] || n=4000
new_run steal_after=60 || exit
mount_run c || exit
M=$S/c
submit $n stay
submit $n go
is "$(ready low)" $((2 * n)) "$((2 * n)) tasks"
from=$(now_ms)
is "$(ls -f "$M/queue/low" | grep -c @)" $((2 * n)) "ls -f"
below $(($(now_ms) - from)) $((1000 * tries_slow)) "is done in ms"
tasks $n stay | jq -r '.id + "@1"' | sort >"$S/untouched"
crowd race 2 $n go "$M/queue/low" >"$S/race" &
race=$!
extra_pids+=("$race")
twice=0
missing=0
rounds=0
while [ $rounds -lt 12 ] && alive $race; do
	chk list 100 "$M/queue/low" | sort >"$S/list"
	twice=$((twice + $(uniq -d "$S/list" | wc -l)))
	missing=$((missing + $(comm -13 "$S/list" "$S/untouched" | wc -l)))
	rounds=$((rounds + 1))
done
[ $rounds -ge 3 ]
is $? 0 "$rounds listings while tasks are claimed away"
is "$twice $missing" "0 0" "no name twice, no untouched name missing"
wait $race
like "$(cat "$S/race")" "^once=$n more=0 none=0 failed=0" "what was claimed meanwhile was claimed once"
is "$(count "$M/done") $(count "$M/queue/low")" "$n $n" "and is done"
unmount c

# ---- the cost of ls -l ----

n=10000
new_run steal_after=60 || exit
mount_run d -d || exit
M=$S/d
submit $n l
: >"$S/d.log"
is "$(ls -l "$M/queue/low" | grep -c @)" $n "ls -l of $n"
like "$(grep -c 'opcode: ' "$S/d.log")" '^[1-9]' "the daemon prints its requests with -d"
below "$(grep -c 'opcode: GETXATTR' "$S/d.log")" 20 "GETXATTR requests"
below "$(grep -c 'opcode: LOOKUP' "$S/d.log")" $((n / 5)) "LOOKUP requests"
unmount d
plan
