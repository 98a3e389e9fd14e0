/*
 * make.c - making a run directory.
 */
#include <config.h>

#include "queue_impl.h"

#include "selftest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const run_dirs[] = {
	"batches", "chain", "nodes", "checkpoints", "results", "logs",
};

static int
is_occupied(struct disk *disk)
{
	struct disk_stat st;

	return disk_stat(disk, "FORMAT", &st) != -ENOENT;
}

int
conf_read(struct disk *disk, const char *path, struct conf *conf, struct err *err)
{
	char *text = malloc(INI_LIMIT);

	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	int n = disk_read(disk, "raser.ini", text, INI_LIMIT - 1);
	int rc = n < 0 ? err_set(err, n, "%s/raser.ini: %s", path, strerror(-n)) : 0;
	if (!rc) {
		text[n] = '\0';
		rc = conf_parse(conf, text, err);
	}
	free(text);
	return rc;
}

/* A raser.ini that somebody brought along says how often daemons will beat, and may insist. */
static int
brought_conf(struct disk *disk, const char *path, struct conf *conf, struct err *err)
{
	struct disk_stat st;

	if (disk_stat(disk, "raser.ini", &st) == -ENOENT) {
		char *ini = conf_template("");
		int rc = ini ? conf_parse(conf, ini, err) : err_set(err, -ENOMEM, "out of memory");

		free(ini);
		return rc;
	}
	return conf_read(disk, path, conf, err);
}

int
queue_make(const char *path, const struct init_options *options, struct err *err)
{
	char uuid[UUID_TEXT];
	char text[128];
	struct conf conf = { 0 };
	struct disk disk;

	bool made = mkdir(path, 0777) == 0;
	if (!made && errno != EEXIST)
		return err_set(err, -errno, "%s: cannot be made: %s", path, strerror(errno));
	int rc = disk_open(&disk, path, err);
	if (rc)
		return rc;
	if (is_occupied(&disk)) {
		disk_close(&disk);
		return err_set(err, -EEXIST, "%s: there is a run here already", path);
	}
	rc = brought_conf(&disk, path, &conf, err);
	if (!rc)
		rc = selftest_admit(&disk, path, conf_beat_ms(&conf), options->force || conf.force,
				    err);
	if (rc) {
		disk_close(&disk);
		if (made)
			rmdir(path);
		return rc;
	}
	char *ini = conf_template_force(options->plugin ? options->plugin : "", options->force);
	for (size_t i = 0; !rc && i < sizeof(run_dirs) / sizeof(run_dirs[0]); i++) {
		rc = disk_mkdir(&disk, run_dirs[i]);
		if (rc == -EEXIST)
			rc = 0;
	}
	if (!rc && ini)
		rc = disk_create(&disk, "raser.ini", ini, strlen(ini));
	if (rc == -EEXIST)
		rc = 0; /* somebody brought a configuration along */
	/* last and exclusive: a run exists from here on, and of two that race one wins */
	random_text(uuid, UUID_TEXT - 1);
	format_text(text, sizeof(text), uuid);
	if (!rc)
		rc = ini ? disk_create(&disk, "FORMAT", text, strlen(text)) : -ENOMEM;
	if (!rc)
		rc = disk_sync(&disk, ".");
	free(ini);
	disk_close(&disk);
	return rc ? err_set(err, rc, "%s: no run can be made here: %s", path, strerror(-rc)) : 0;
}

int
queue_init(const char *path, const char *plugin, struct err *err)
{
	return queue_make(path, &(const struct init_options){ .plugin = plugin }, err);
}
