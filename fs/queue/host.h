/*
 * host.h - what this node is called, and which job we are part of.
 *
 * In a job of Slurm the node has Slurm's name for it: gethostname(2) may say another, such as that of
 * the machine on which several of Slurm's nodes run.
 */
#ifndef RASER_HOST_H
#define RASER_HOST_H

enum { HOST_TEXT = 72, JOB_TEXT = 48 };

void
host_name(char out[HOST_TEXT]);

/* The job as people name it, ARRAY_TASK in an array, and how often it was started again; "" and 0
 * outside of Slurm. */
void
host_job(char out[JOB_TEXT], int *restarts);

#endif
