#!/bin/bash
# 2300-fsck.t - raser fsck: a run is damaged in every way, each is told in its sentence, what is safe is
# repaired, and nothing that was acknowledged is lost.
beside=yes
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

raser=$top/raser
for helper in finish killat.so; do
	[ -e "$top/tests/$helper" ] || skip_all "$top/tests/$helper is not built"
done

out=$scratch/out
check() { "$raser" fsck "$RUN" "$@" >"$out" 2>&1; }
tells() { # tells LINE: it says this line
	grep -qxF -- "$1" "$out"
	result $? "$1"
	grep -qxF -- "$1" "$out" || diag "$(head -n 60 "$out")"
}
left() { tail -n 1 "$out"; }
old() { touch -h -d '2 hours ago' "$@"; }
told() {
	"$raser" status "$RUN"
	"$raser" export "$RUN" | sort
	"$raser" export "$RUN" --steps | sort
}
files() { find "$RUN" -printf '%P %l %s\n' | sort; }
bay() { (cd "$RUN" && echo "chain/$(readlink "batches/${1:-1}" | cut -d . -f 2).0"); }

# ---- an agentd that is killed between its task's end and its link ----

keys=(steal_after=1.2 max_failures=1 low.memory=0 medium.memory=0 high.memory=0 low.failures=all
	agent.sandbox=none agent.checkpoint_every=0)
# shellcheck disable=SC2016 # the agent's shell expands it
printf '#!/bin/sh\ncase $RASER_TASK_ID in bad*) exit 1 ;; esac\n%s\n' \
	'echo "$RASER_TASK_ID" >"$RASER_RESULTS/answer"; echo "{\"step\":1}" >>trajectory.jsonl' >"$scratch/agent"
chmod +x "$scratch/agent"
new_run "${keys[@]}"
mount_run m || exit
one killed
env ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" LD_PRELOAD="$top/tests/killat.so" \
	KILLAT="killed 1 before" "$top/raser-agentd" --quiet --tier high "$M" -- "$scratch/agent" \
	2>>"$scratch/agentd.log" &
pid=$!
extra_pids+=("$pid")
wait "$pid" 2>/dev/null
is $? 137 "an agentd is killed at the moment that it links its result"
is "$(names "$M/done")" killed@1 "its task is done"
nok "and its result has no link" exists "$RUN/results/killed"
folder=$(cd "$RUN/results" && echo killed@1.*)
before=$(files)
check
is $? 1 "fsck while a daemon lives"
is "$(files)" "$before" "changes nothing"
tells "results/killed is missing, but killed@1 is done and its result is in results/$folder"
tells "    raser-agentd was killed between its task's end and the link. --repair makes it, as raser-agentd would have."
temporary=$(cd "$RUN/results" && echo .[0-9]*)
tells "note: results/$temporary is a link that was being made"
old "$RUN/results/$temporary"
check --repair
is $? 1 "while somebody lives not all is repaired"
tells "repaired: results/killed"
tells "results/$temporary is a link that was being made"
like "$(cat "$out")" "not repaired, as the run is in use: [^ ]* on .*, process ${daemon[m]} lives" "and who that is"
is "$(left)" "fsck: 2 oddities, 1 repaired, 1 left" "it counts"
is "$(readlink "$RUN/results/killed")" "$folder" "the link is as agentd would have made it"
is "$(cat "$M/results/killed/out/answer")" killed "and shows the result"
submit 12 t
submit 1 bad
"$top/raser-agentd" --quiet --tier high "$M" -- "$scratch/agent" 2>>"$scratch/agentd.log"
is $? 0 "the others are worked off"
unmount m
ok "when nobody lives" check --repair
tells "repaired: results/$temporary"
is "$(left)" "fsck: 1 oddities, 1 repaired, 0 left" "nothing is left"
ok "a second fsck" check
is "$(left)" "fsck: nothing is odd" "is clean"
tells "tasks 14 in 3 batches: done 13, failed 1, cancelled 0, pending 0, claimed 0"
before=$(told)

# ---- data ----

r=$RUN/results
accepted() { readlink "$r/$1"; }
t1=$(accepted t1) t2=$(accepted t2) t3=$(accepted t3) t4=$(accepted t4)
rm "$r/t1"
ln -sfn "$t1" "$r/t2"
rm -rf "$r/t4" "${r:?}/$t4" # as if it had never been published: an agent without agentd
mv "$r/$t3" "$scratch/t3"
mkdir -p "$RUN/checkpoints/t5" "$RUN/checkpoints/gone" "$RUN/checkpoints/bad1" "$r/gone@1.abcdefghijkl" \
	"$RUN/selftest.abc" "$r/selftest.abc" "$RUN/sealed"
touch "$RUN/checkpoints/t5/1.abc-1.0123456789abcdef.tar.zst" "$RUN/checkpoints/bad1/tmp.1.abc-1.99" \
	"$RUN/raser-batch.abc" "$RUN/sealed/tmp.abc" "$RUN/mine" "$r/@" "$RUN/checkpoints/.x"
ln -s nowhere "$r/.1.abc"
old "$RUN/selftest.abc" "$r/selftest.abc" "$RUN/checkpoints/bad1/tmp.1.abc-1.99" "$RUN/raser-batch.abc" \
	"$RUN/sealed/tmp.abc" "$r/.1.abc"
rmdir "$RUN/logs"
check
is $? 1 "damaged data"
tells "logs is missing"
tells "note: mine is not of raserfs"
tells "results/t1 is missing, but t1@1 is done and its result is in results/$t1"
tells "results/t2 points to $t1, but t2@1 was accepted, whose result is in results/$t2"
tells "results/t3 points to $t3, but results/$t3, which was accepted, is not there"
nok "no word of one that was never published" grep -q t4 "$out"
tells "results/gone@1.abcdefghijkl is of task gone, which no batch has"
tells "note: results/@ is not of raserfs"
tells "checkpoints/t5 is left, but the task is done"
tells "checkpoints/gone is of a task that no batch has"
tells "note: checkpoints/.x is not of raserfs"
tells "checkpoints/bad1/tmp.1.abc-1.99 is a checkpoint that was being written"
tells "raser-batch.abc is a submission that was being read"
tells "sealed/tmp.abc is an archive that was being written"
tells "results/.1.abc is a link that was being made"
tells "selftest.abc is a scratch directory of raser doctor, raser init or a mount"
tells "results/selftest.abc is a scratch directory of raser doctor, raser init or a mount"
mv "$scratch/t3" "$r/$t3"
check --repair
is $? 1 "what only people can judge is left"
is "$(left)" "fsck: 12 oddities, 10 repaired, 2 left" "all else is repaired"
rm -r "$RUN/checkpoints/gone" "$r/gone@1.abcdefghijkl" "$RUN/checkpoints/.x" "$r/@" "$RUN/mine"
ok "and when they have" check
is "$(left)" "fsck: nothing is odd" "it is clean"
is "$(told | grep -v '"t4"')" "$(grep -v '"t4"' <<<"$before")" "export and status say what they said"

# ---- links ----

b=$(bay 2)
cp -a "$RUN/$b/digest" "$scratch/digest"
rm "$RUN/$b/t4@1.claim"
ln -s a.bcdefghijklm:1:2 "$RUN/$(bay 3)/bad1@3.claim"
touch "$RUN/$b/notes" "$RUN/$b/t5@2.claim" "$RUN/chain/notes"
ln -s nonsense "$RUN/$b/t6@2.end"
ln -s a.bcdefghijklm:1:2 "$RUN/$b/nn@1.claim"
mkdir "$RUN/chain/aaaaaaaaaaaa.0"
check
is $? 1 "damaged links"
tells "note: $b/t4@1.end has no claim beside it"
tells "note: $(bay 3)/bad1@2 has neither claim nor end, but bad1@3 has"
tells "note: $(bay 3)/bad1@3.claim is held by a.bcdefghijklm, which has no beat"
tells "$b/notes is neither a link of a task, nor a digest, nor a seal"
tells "$b/t5@2.claim is no symbolic link"
tells "$b/t5@2.claim stands above the end of a finished task: t5@1"
tells "$b/t6@2.end says what no daemon writes: nonsense"
tells "$b/nn@1.claim is of no task of this bay"
tells "chain/notes is no bay"
tells "chain/aaaaaaaaaaaa.0 belongs to no batch that can be read"
rm -r "$RUN/$b/notes" "$RUN/$b/t5@2.claim" "$RUN/chain/notes" "$RUN/$b/t6@2.end" "$RUN/$b/nn@1.claim" \
	"$RUN/chain/aaaaaaaaaaaa.0"
ok "notes alone are clean" check
mount_run m || exit
ended() { [ "$(names "$M/failed")" = bad1@3 ]; }
ok "the next daemon ends the claim" wait_until 20 ended
submit 2 more
"$top/raser-agentd" --quiet --tier high "$M" -- "$scratch/agent" 2>>"$scratch/agentd.log"
is "$? $(count "$M/done") $(count "$M/pending")" "0 15 0" "and the run drains"
unmount m
rm "$RUN/$b/t7@1.end"
check
is $? 1 "an end that was deleted below a digest"
tells "$b/digest says what no links say: t7@1 is done"
ln -s "$(readlink "$RUN/$b/t8@1.end")" "$RUN/$b/t7@1.end"
head -c 100 "$scratch/digest" >"$RUN/$b/digest"
check
tells "$b/digest is torn, or not of this bay"
ok "a torn digest is removed" check --repair
tells "repaired: $b/digest"
ok "and then it is clean" check
records() { grep -E '"task":"(t[^4]|killed)' | sort; }
is "$(told | records)" "$(records <<<"$before")" "no record was lost"

# ---- submissions ----

new_run "${keys[@]}"
for p in a b c; do tasks 3 "$p" | "$raser" submit "$RUN" - >/dev/null; done
file() { readlink "$RUN/batches/$1"; }
one=$(file 1) two=$(file 2) three=$(file 3)
cp "$RUN/batches/$three" "$scratch/three"
cp "$RUN/batches/$one" "$RUN/batches/b.aaaaaaaaaaaa.sqlite"
head -c 5000 "$RUN/batches/$one" >"$RUN/batches/b.bbbbbbbbbbbb.sqlite"
cp "$RUN/batches/$one" "$RUN/batches/b.cccccccccccc.sqlite"
old "$RUN/batches/b.aaaaaaaaaaaa.sqlite" "$RUN/batches/b.bbbbbbbbbbbb.sqlite"
ln -s "$one" "$RUN/batches/5"
ln -s elsewhere "$RUN/batches/6"
ln -s b.dddddddddddd.sqlite "$RUN/batches/7"
touch "$RUN/batches/notes"
truncate -s 9000 "$RUN/batches/$three"
check
is $? 1 "damaged submissions"
tells "batches/4 is missing, but batches/5 is there"
tells "batches/5 points to $one, as another number does"
tells "batches/6 points to elsewhere, which is not the name of a batch"
tells "batches/7 points to b.dddddddddddd.sqlite, which is not there"
tells "batches/notes is neither a number nor b.<random>.sqlite"
like "$(cat "$out")" "batches/3 points to $three, which is torn or damaged: " "a damaged batch"
tells "note: batches/b.aaaaaaaaaaaa.sqlite holds 3 tasks and has no number, and a number is missing"
tells "note: batches/b.cccccccccccc.sqlite has no number, and is younger than an hour"
like "$(cat "$out")" "batches/b.bbbbbbbbbbbb.sqlite has no number, and is torn: " "a torn one"
rm "$RUN/batches/"[5-7] "$RUN/batches/notes"
cp "$scratch/three" "$RUN/batches/$three"
ok "repaired" check --repair
tells "repaired: batches/b.bbbbbbbbbbbb.sqlite"
ok "one that may have been acknowledged stays" exists "$RUN/batches/b.aaaaaaaaaaaa.sqlite"
rm "$RUN/batches/2"
check
tells "batches/2 is missing, but batches/3 is there"
old "$RUN/batches/$two"
check
tells "note: batches/$two holds 3 tasks and has no number, and a number is missing"
ln -s "$two" "$RUN/batches/2"
ok "as it says, ln -s brings it back" check
tells "tasks 9 in 3 batches: done 0, failed 0, cancelled 0, pending 9, claimed 0"

# ---- beats ----

mount_run m || exit
owner=$(mount_owner)
take h "$M/queue/low/a1@1" || exit
crash m
end_holder h
touch "$RUN/nodes/notes"
echo nonsense >"$RUN/nodes/n07.aaaaaaaaaaaa"
sed "s/^boot .*/boot other/; s/^owner .*/owner n08.aaaaaaaaaaaa/" "$RUN/nodes/$owner" >"$RUN/nodes/n08.aaaaaaaaaaaa"
check
is $? 1 "odd beats"
like "$(cat "$out")" "note: nodes/$owner is of process [0-9]* on .*, last beat .* by that clock" "of a daemon that was killed"
like "$(cat "$out")" "Its process is gone" "which is seen here"
tells "nodes/notes is no beat"
tells "nodes/n07.aaaaaaaaaaaa cannot be parsed"
like "$(cat "$out")" "note: nodes/n08.aaaaaaaaaaaa is of process" "of one elsewhere"
like "$(cat "$out")" "Whether it lives cannot be judged at once" "nothing is said"
rm "$RUN/nodes/notes" "$RUN/nodes/n07.aaaaaaaaaaaa"
mkdir "$RUN/selftest.x"
old "$RUN/selftest.x"
ok "repair waits until they are silent" check --repair
tells "repaired: selftest.x"
is "$(ls "$RUN/nodes")" "" "nobody is left"
detach "$M"

# ---- seals ----

new_run "${keys[@]}"
tasks 3000 s | "$raser" submit "$RUN" - >/dev/null
"$top/tests/finish" "$RUN"
before=$(told)
b=$(bay 1)
uuid=$(awk '{ print $3 }' "$RUN/FORMAT")
check
tells "links 6000, of which raser seal would remove 6000, and the records of their attempts: worth it, once nobody works on the run"
head -c 3000 "$RUN/$b/digest" | sed '1s/.*/raser seal 1/' >"$RUN/$b/seal.1"
check
tells "$b/seal.1 is torn"
cp -a "$RUN/$b" "$scratch/links"
ok "a sealer that was cut is gone on with" check --repair
tells "repaired: $b"
is "$(find "$RUN/$b" -type l | wc -l)" 0 "its links are in a seal"
cp -a "$scratch/links"/s1@* "$RUN/$b/"
touch "$RUN/$b/seal.9"
check
tells "$b has 2 links that seal.2 covers"
tells "$b/seal.9 is torn or damaged. Tasks that nothing else tells of: 0"
rm "$RUN/$b/seal.9"
ok "links that a seal covers are removed" check --repair
is "$(find "$RUN/$b" -type l | wc -l)" 0 "all of them"
ok "and then it is clean" check
is "$(told)" "$before" "and says what it said"
cp -a "$RUN/$b/seal.2" "$scratch/seal"
: >"$RUN/$b/seal.2"
rm "$RUN/$b/digest"
check --repair
is $? 1 "a seal that was all there was"
tells "$b/seal.2 is torn or damaged. Tasks that nothing else tells of: 1024"
cp -a "$scratch/seal" "$RUN/$b/seal.2"
ok "is brought back" check
is "$(told)" "$before" "with all that it said"

# ---- what everybody needs ----

rm "$RUN/FORMAT"
check
is $? 1 "without FORMAT"
tells "FORMAT is missing"
ok "it is written again" check --repair
is "$(cat "$RUN/FORMAT")" "raserfs 1 $uuid" "with the name that seals have"
is "$(told)" "$before" "so that they count"
echo garbage >"$RUN/FORMAT"
check
tells "FORMAT is of no version that this raserfs can read"
printf 'raserfs 1 %s\n' "$uuid" >"$RUN/FORMAT"
cp "$RUN/raser.ini" "$scratch/ini"
echo 'steal_after = soon' >>"$RUN/raser.ini"
check
like "$(cat "$out")" "raser.ini cannot be used: .*line" "a wrong raser.ini"
tells "tasks 3000 in 1 batches: done 3000, failed 0, cancelled 0, pending 0, claimed 0"
cp "$scratch/ini" "$RUN/raser.ini"
mv "$RUN/chain" "$scratch/chain"
check
tells "chain is missing"
mv "$scratch/chain" "$RUN/chain"
ok "clean again" check
mkdir "$scratch/empty"
"$raser" fsck "$scratch/empty" >"$out" 2>&1
is $? 2 "no run directory"
like "$(cat "$out")" "is no run directory" "it says so"
"$raser" fsck "$scratch/none" >"$out" 2>&1
is $? 2 "nothing there"
"$raser" fsck --unknown "$RUN" >/dev/null 2>&1
is $? 2 "wrong usage"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	chown 65534 "$RUN/nodes"
	setpriv --reuid 65534 --regid 65534 --clear-groups "$raser" fsck "$RUN" >"$out" 2>&1
	is $? 1 "as somebody else"
	tells "results cannot be written to by this user: Permission denied"
	nok "but for what is theirs" grep -q '^nodes cannot' "$out"
	like "$(cat "$out")" "note: . has files of several users: .*65534" "and that there are several"
else
	skip 4 "not root"
fi

# ---- many ----

if [ -z "${RASER_SANITIZED-}" ]; then
	new_run "${keys[@]}"
	tasks 100000 t | "$raser" submit "$RUN" - >/dev/null
	"$top/tests/finish" "$RUN"
	peak=()
	type -P time >/dev/null && peak=(env time -f %M -o "$scratch/peak")
	t0=$(now_ms)
	"${peak[@]}" "$raser" fsck "$RUN" >"$out" 2>&1
	is $? 0 "100,000 tasks"
	diag "$(($(now_ms) - t0)) ms, $(cat "$scratch/peak" 2>/dev/null) kB at most"
	below "$(($(now_ms) - t0))" 60000 "milliseconds for them"
else
	skip 2 "runs once, without sanitizers"
fi
plan
