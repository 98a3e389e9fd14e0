#!/bin/bash
# seeds.t - some hundred worlds of many daemons under every fault, and the ones that found bugs.
# shellcheck source=tests/tap.sh
. "$(dirname "$0")/../tap.sh"

seeds=${SIM_SEEDS:-1-150}
[ -z "${RASER_SANITIZED-}" ] || seeds=1-20 # ten times slower
# worlds that broke a promise once
found=(850 1210 6005 240 362 602 1413 6714 5043 3915 395 1120 4000 4388)

out=$("$top/tests/sim/sim" --seeds "$seeds" 2>&1)
is $? 0 "seeds $seeds keep every promise"
diag "$out"
for seed in "${found[@]}"; do
	out=$("$top/tests/sim/sim" --seed "$seed" 2>&1)
	is $? 0 "seed $seed, which found a bug, keeps every promise"
done
one=$("$top/tests/sim/sim" --seed 17 --trace | grep -v ' seeds, ' | cksum)
two=$("$top/tests/sim/sim" --seed 17 --trace | grep -v ' seeds, ' | cksum)
is "$one" "$two" "a seed is one run, for ever the same"
one=$("$top/tests/sim/sim" --seed 17 --verbose | grep '^seed 17:')
two=$("$top/tests/sim/sim" --seed 17 --verbose --trace 2>&1 | grep '^seed 17:')
is "${two%,*}" "${one%,*}" "and the same when somebody watches"
plan
