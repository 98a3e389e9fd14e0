#!/bin/bash
# nfs4.t - NFS 4.2 over ext4, exported sync, under every fault.
export EXPORT=ext4 OPTIONS=vers=4.2
# shellcheck source=tests/cluster/nfs.sh
. "$(dirname "$0")/nfs.sh"
