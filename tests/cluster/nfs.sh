# shellcheck shell=bash disable=SC2034
# nfs.sh - what nfs3.t and nfs4.t do: three client hosts and a server, all of the faults, and two
# hours between the clocks of two clients from the beginning.
export rig=nfs
# shellcheck source=tests/cluster/faults.sh
. "$(dirname "${BASH_SOURCE[0]}")/faults.sh"

start_rig
node 1 'date -s +1hour' >/dev/null
node 2 'date -s -1hour' >/dev/null
storm 400 calm kills stops cuts service power beats leases clocks reboot
plan
