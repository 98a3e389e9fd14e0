#!/bin/bash
# nfs3.t - NFS 3 over ext4 with nolock, where every byte-range lock is granted to everybody, under
# every fault.
export EXPORT=ext4 OPTIONS=vers=3,nolock
# shellcheck source=tests/cluster/nfs.sh
. "$(dirname "$0")/nfs.sh"
