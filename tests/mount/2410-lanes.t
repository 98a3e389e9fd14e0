#!/bin/bash
# 2410-lanes.t - tiers off the ladder, on real mounts: agents of each see and take only what is theirs,
# failures lead nobody out of a lane or into one, and each is drained for itself.
beside=yes
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"

start_watchdog 120
RUN=$scratch/run
mkdir "$RUN"
cat >"$RUN/raser.ini" <<-INI
	[run]
	steal_after = 60
	[tier low]
	memory = 1G
	failures = 0
	[tier high]
	memory = 4G
	[tier gpu]
	memory = 2G
	ladder = no
INI
"$top/raser" init "$RUN" >/dev/null || exit
mount_run a || exit
mount_run b || exit
one c1
one g1 '"tier":"gpu"'
is "$(names "$M/queue/low") / $(names "$M/queue/high") / $(names "$M/queue/gpu")" \
	"c1@1 / c1@1 / g1@1" "each tier shows what it may take"
M=$scratch/a
is "$(names "$M/queue/gpu") $(ready gpu) $(ready high)" "g1@1 1 1" "another mount agrees"
is "$(chk open rw "$M/queue/high/g1@1")" ENOENT "by name it cannot be had from elsewhere either"
like "$(printf '{"id":"x","tier":"gpu","memory":"3G"}\n' | "$top/raser" submit "$RUN" - 2>&1)" \
	"memory: tier gpu, which is off the ladder, has less than" "what a lane cannot hold is refused"

# a failure in the lane, seen through the other mount
take g "$M/queue/gpu/next"
is "$(ask g line 1)" "leases/g1@1" "next of gpu gives a task of gpu"
is "$(ask g write "retry oom")" ok "which fails"
end_holder g
for m in a b; do
	M=$scratch/$m
	wait_until 10 exists "$M/queue/gpu/g1@2"
	is "$(names "$M/queue/gpu") / $(names "$M/queue/high") / $(xattr "$M/tasks/g1" tier)" \
		"g1@2 / c1@1 / gpu" "it stays in its lane"
done

# drained, each for itself
one g2 '"tier":"gpu"'
take c "$M/queue/low/next"
is "$(ask c write "done")" ok "the ladder's only task is done"
end_holder c
for tier in low high; do
	is "$(timeout 30 cat "$M/queue/$tier/next" 2>&1)" "cat: $M/queue/$tier/next: No data available" \
		"$tier is drained while gpu has tasks"
done
take g "$M/queue/gpu/g1@2"
is "$(chk open rw,nonblock "$M/queue/high/next")" ENODATA "a claim of gpu keeps nobody else waiting"
wait_until 10 exists "$scratch/a/queue/gpu/g2@1"
is "$(chk open rw,nonblock "$scratch/a/queue/gpu/g2@1")" ok "nor does one that ended by close"
is "$(ask g write "done")" ok "gpu works on"
end_holder g
wait_until 10 exists "$M/queue/gpu/g2@2"
take g "$M/queue/gpu/g2@2"
ask g write "done" >/dev/null
end_holder g
is "$(timeout 30 cat "$M/queue/gpu/next" 2>&1)" "cat: $M/queue/gpu/next: No data available" "and is drained in the end"
unmount a
unmount b
plan
