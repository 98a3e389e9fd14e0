#!/bin/bash
# moosefs.t - MooseFS: a master, a chunk server and three mounts of this machine, under the faults
# that need no second machine.
export rig=moosefs
# shellcheck source=tests/cluster/faults.sh
. "$(dirname "$0")/faults.sh"

start_rig
storm 400 calm kills stops beats leases
plan
