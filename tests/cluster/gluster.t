#!/bin/bash
# gluster.t - GlusterFS as it comes: a brick and three mounts of this machine, under the faults that
# need no second machine.
export rig=gluster
# shellcheck source=tests/cluster/faults.sh
. "$(dirname "$0")/faults.sh"

start_rig
storm 400 calm kills stops beats leases
plan
