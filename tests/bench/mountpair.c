/* mountpair.c - the same clients as emptyfs's, against a real raserfs on a real run directory.
 *
 *   mountpair --dir D --raserfs PATH --raser PATH [--procs P] [--tasks N] [--seconds T]
 *   mountpair --dir D --mnt MNT [--procs P] [--tasks N] [--seconds T]
 *
 * Sets up a run, submits N tasks of 200 bytes, mounts it with one daemon and lets the clients take
 * and end tasks of tier `high`, which sees all of them. The daemon leaves on SIGTERM.
 * With --mnt the mount is there already, and its tasks are t000001 to tN.
 */
#include <config.h>

#include "pairclient.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char *
path_in(const char *dir, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		err(1, "%s", name);
	return path;
}

static void
write_tasks(const char *file, long tasks)
{
	FILE *f = fopen(file, "we");

	if (!f)
		err(1, "%s", file);
	for (long t = 1; t <= tasks; t++)
		fprintf(f, "{\"id\":\"t%06ld\",\"prompt\":\"%0171d\"}\n", t, 0);
	if (ferror(f) || fclose(f))
		err(1, "%s", file);
}

int
main(int argc, char **argv)
{
	const char *raserfs = NULL, *raser = NULL, *given = NULL;
	const struct crew_option more[] = {
		{ "raserfs", &raserfs }, { "raser", &raser }, { "mnt", &given }, { NULL, NULL },
	};
	struct crew c;

	crew_init(&c, argc, argv, more);
	if (given) {
		if (crew_run(&c, pair_client, (void *)given))
			return 1;
		crew_report(&c);
		return 0;
	}
	if (!raserfs || !raser)
		errx(1, "--raserfs and --raser are needed");
	char *run = path_in(c.dir, "run"), *mnt = path_in(c.dir, "mnt");
	char *file = path_in(c.dir, "tasks.jsonl");

	write_tasks(file, c.tasks);
	if (mkdir(mnt, 0700))
		err(1, "%s", mnt);
	command((const char *[]){ raser, "init", run, NULL });
	command((const char *[]){ raser, "submit", run, file, NULL });

	pid_t server = server_fork();
	if (server == 0) {
		execl(raserfs, raserfs, "-f", run, mnt, (char *)NULL);
		err(127, "%s", raserfs);
	}
	mount_wait(mnt, server);
	int failed = crew_run(&c, pair_client, mnt);
	kill(server, SIGTERM);
	failed += server_wait(server, mnt) != 0;
	free(file);
	free(mnt);
	free(run);
	if (failed)
		return 1;
	crew_report(&c);
	return 0;
}
