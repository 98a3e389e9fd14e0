#!/bin/sh
# demo.sh - 60 tasks shaped like real ones, 15 agents in three tiers, and faults all the while.
#
#   demo.sh BUILD-DIRECTORY SOURCE-DIRECTORY
#
# Time passes 60 times faster than in the trace, memory is 16 times smaller, and so are the
# tiers' limits.
set -eu
build=$1
here=$2/plugins/replay
dir=$(mktemp -d "${TMPDIR:-/tmp}/raser-demo.XXXXXX")
trap 'rm -rf "$dir"' EXIT
run=$dir/run

"$build/raser" init "$run" --plugin "$build/plugins/replay/replay" 60 16 "$here/lite60.tsv"
# steal after 2 seconds of silence, a checkpoint a second; 64, 128 and 256 MB for the tiers
sed -i -e 's/^steal_after = .*/steal_after = 2/' -e 's/^checkpoint_every = .*/checkpoint_every = 1/' \
	-e 's/^memory = 1G/memory = 64M/' -e 's/^memory = 2G/memory = 128M/' \
	-e 's/^memory = 4G/memory = 256M/' "$run/raser.ini"
status=0
"$build/raser" run "$run" --agents low=5,medium=5,high=5 --beside "sh $here/faults.sh" || status=$?

# what the same spans would have taken otherwise
awk -F'\t' 'NR > 1 {
	part[int((NR - 2) / 4)] += $2; total += $2; if ($2 > longest) longest = $2
} END {
	for (p in part) if (part[p] > worst) worst = part[p]
	bound = total / 15 > longest ? total / 15 : longest
	printf "\nwithout any fault, from the same spans:\n"
	printf "  static partitioning, 4 tasks an agent   %.1f s\n", worst / 60
	printf "  no schedule can be faster than          %.1f s\n", bound / 60
}' "$here/lite60.tsv"
exit $status
