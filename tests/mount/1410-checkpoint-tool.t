#!/bin/bash
# raser checkpoint: what people see of saved workspaces, and how they get at them
# shellcheck source=tests/lib.sh disable=SC2317,SC2016,SC2010
. "$(dirname "$0")/../lib.sh"

new_run
store=$RUN/checkpoints
archive() { "$top/tests/bench/archiver" save "$store/$1" "$2" | cut -d ' ' -f 1; }
checkpoint() { "$top/raser" checkpoint "$@" 2>&1; }

is "$(checkpoint ls "$RUN")" "" "nothing was saved yet"
is "$(checkpoint verify "$RUN")" "0 checkpoints read, 0 bad" "nor is there anything to verify"
like "$(checkpoint ls "$RUN" nobody)" "nobody: there is no checkpoint" "and none of a task"

mkdir -p "$scratch/w/sub"
echo first >"$scratch/w/file"
ln -s file "$scratch/w/link"
printf x >"$scratch/w/sub/"$'odd\n\377name'
one=$(archive 'a%2Fb' "$scratch/w")
echo second >"$scratch/w/file"
two=$(archive 'a%2Fb' "$scratch/w")
other=$(archive plain "$scratch/w/sub")
is "$(stat -c %a "$store/a%2Fb" "$store/a%2Fb/$one" "$store/plain/$other" | tr '\n' ' ')" "700 600 600 " \
	"they are their owner's alone"
is "$(checkpoint ls "$RUN" | awk 'NR > 1 { print $1, $2, $7, $8 }' | LC_ALL=C sort -s -k 1,1 | tr '\n' '|')" \
	"a%2Fb 1 good $two|a%2Fb 1 good $one|plain 1 good $other|" "all tasks, the newest first"
is "$(checkpoint ls "$RUN" a/b | wc -l)" 3 "one task, by its id"
is "$(checkpoint ls "$RUN" a%2Fb@7 | wc -l)" 3 "or by a name with a number"
is "$(checkpoint verify "$RUN")" "3 checkpoints read, 0 bad" "all are whole"

quietly() { "$@" >/dev/null; }
ok "unpack the newest" quietly checkpoint extract "$RUN" a/b "$scratch/new"
ok "it is the same" diff -r --no-dereference "$scratch/w" "$scratch/new"
mkdir "$scratch/old"
ok "into an empty directory, by name" quietly checkpoint extract "$RUN" a/b "$scratch/old" --name "$one"
is "$(cat "$scratch/old/file")" first "which is the older one"
nok "not into one with something in it" quietly checkpoint extract "$RUN" a/b "$scratch/old"
is "$(cat "$scratch/old/file")" first "that is as before"
like "$(checkpoint extract "$RUN" a/b "$scratch/none" --attempt 2)" "there is no such checkpoint" "another attempt"
ok "and no directory is left" gone "$scratch/none"
if command -v zstd >/dev/null; then
	mkdir "$scratch/tar"
	ok "tar reads it as well" tar --zstd --warning=no-unknown-keyword -xf "$store/a%2Fb/$two" -C "$scratch/tar"
	ok "with the same content" diff -r --no-dereference "$scratch/w" "$scratch/tar"
else
	skip 2 "zstd is not installed"
fi

printf XX | dd of="$store/a%2Fb/$two" bs=1 seek=60 conv=notrunc status=none
got=$(checkpoint verify "$RUN")
is "$?" 1 "a changed byte makes verify fail"
like "$got" "a%2Fb: $two: it is damaged: its checksum is wrong" "which says which"
like "$got" "3 checkpoints read, 1 bad" "and counts"
ok "the others are still whole" quietly checkpoint verify "$RUN" plain
got=$(checkpoint extract "$RUN" a/b "$scratch/fallback")
like "$got" "$one: [0-9]+ entries" "the older one is unpacked instead"
is "$(cat "$scratch/fallback/file")" first "it really is"

ok "mount it" mount_run m
is "$(checkpoint ls "$M" a/b | wc -l)" 3 "through a mount, too"
ok "unpack" quietly checkpoint extract "$M" plain "$scratch/mounted"
unmount m

checkpoint ls >/dev/null
is "$?" 2 "wrong use"
checkpoint ls "$RUN" plain --name "$other" >/dev/null
is "$?" 2 "an option of another verb"
plan
