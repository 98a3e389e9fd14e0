/*
 * slurmcheck.h - Slurm's rights and habits, for `raser doctor`.
 */
#ifndef RASER_SLURMCHECK_H
#define RASER_SLURMCHECK_H

#include <stdint.h>

#include "finding.h"

/* Ask this cluster's Slurm, for 15 s at most. grace_ms: what agents get from SIGTERM on. */
void
slurm_check(int64_t grace_ms, struct findings *f);

/* The same of a text that `scontrol show config` has printed. Pure. */
void
slurm_judge(const char *text, int64_t grace_ms, struct findings *f);

#endif
