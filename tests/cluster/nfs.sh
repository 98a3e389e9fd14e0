# shellcheck shell=bash disable=SC2034
# nfs.sh - what nfs3.t and nfs4.t do: three client hosts and a server, two hours between the clocks of
# two clients from the beginning; how soon others know, and then all of the faults.
export rig=nfs
# shellcheck source=tests/cluster/faults.sh
. "$(dirname "${BASH_SOURCE[0]}")/faults.sh"
# shellcheck source=tests/cluster/times.sh
. "$cluster/times.sh"

start_rig
node 1 'date -s +1hour' >/dev/null
node 2 'date -s -1hour' >/dev/null

# NFS 3 tells changes of a directory by a time with ticks of 4 or 10 ms
node 1 'mkdir $SHARED/fresh'
node 2 '$TOOLS/fresh make $SHARED/fresh $LOGS/fresh' &
extra_pids+=($!)
wait_until 20 test -s "$logs/fresh"
is "$(node 1 '$TOOLS/fresh look $SHARED/fresh $LOGS/fresh')" 0 \
	"no listing misses for good what was made in the same tick as the last one"

# promises 3 and 4, with two seconds for a busy machine to reach its clients
told=$((beat_ms + 2000))
shared_run times
up 1 && up 2 || give_up
below "$(revoked_after revoked)" $told "rm of a lease on another client: the holder is told within a beat, in ms"
below "$(cancelled_after cancelled)" $told "a cancel on another client: the same"
below "$(told_after_theft stolen)" $told "a theft: the same"
below "$(told_after_stop stopped)" $told "a daemon that was stopped meanwhile: the same, from when it goes on"
below "$(stolen_after killed kill_daemon)" $((steal_after * 1000 + told)) \
	"kill -9 of a daemon: another client has the task within steal_after and a beat"
down 2

storm 400 calm kills stops cuts service power beats leases clocks reboot
plan
