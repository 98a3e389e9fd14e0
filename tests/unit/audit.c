/*
 * audit.c - the audit is honest: a clean story passes, and for each of its twelve promises a story
 * that differs in one place is found out, by that promise.
 */
#include <config.h>

#include "audit.h"
#include "clock.h"
#include "queue.h"
#include "tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A "a.aaaaaaaaaaaa"
#define B "b.bbbbbbbbbbbb"
#define H "hand.hhhhhhhhhhhh"

enum { TEXT = 16384, TASKS = 6 };

/*
 * The story. steal_after is 60 s, a beat 10 s, a window 40 s. $ is the bay. A does t1, takes t2 and
 * is killed at 20 s; B finds it silent and does t2. Of t3 the first attempt fails; t4 is cancelled,
 * reopened and done; the agent of t5@1 falls silent; t6@1 is revoked.
 */
struct story {
	char links[TEXT], a[TEXT], b[TEXT], hand[TEXT], faults[TEXT];
};

static const struct story clean = {
	.links = "t1@1.claim " A ":1:100\n"
		 "t1@1.end " A ":2:100:d:-:0:0:0\n"
		 "t2@1.claim " A ":3:100\n"
		 "t2@1.end " B ":5:100:l:D:0:1:0\n"
		 "t2@2.claim " B ":6:100\n"
		 "t2@2.end " B ":7:100:d:-:0:0:0\n"
		 "t3@1.claim " B ":1:100\n"
		 "t3@1.end " B ":2:100:r:E:1:0:1\n"
		 "t3@2.claim " B ":3:100\n"
		 "t3@2.end " B ":4:100:d:-:1:0:1\n"
		 "t4@1.claim " H ":1:100:cancelled:0\n"
		 "t4@1.end " H ":4:100:c:-:0:0:0\n"
		 "t4@2.claim " H ":2:100:reopened:0\n"
		 "t4@3.claim " B ":8:100\n"
		 "t4@3.end " B ":9:100:d:-:0:0:0\n"
		 "t5@1.claim " B ":10:100\n"
		 "t5@1.end " B ":11:100:l:S:0:1:0\n"
		 "t5@2.claim " B ":12:100\n"
		 "t5@2.end " B ":13:100:d:-:0:0:0\n"
		 "t6@1.claim " B ":14:100\n"
		 "t6@1.end " H ":3:100:f:X:0:0:0\n"
		 "t6@2.claim " B ":15:100\n"
		 "t6@2.end " B ":16:100:d:-:0:0:0\n",
	.a = "1000 start raserfs 11 boot1 n1 100\n"
	     "1000 run UUID 60000\n"
	     "1000 owner " A "\n"
	     "2000 beat " A " 2000 0\n"
	     "3000 cas $/t1@1.claim " A ":1:100\n"
	     "3001 won $/t1@1.claim " A ":1:100\n"
	     "3001 told t1 1 claim 0 " A " 1 3000\n"
	     "5000 told t1 1 touch 0 " A " 1 5000\n"
	     "6000 cas $/t1@1.end " A ":2:100:d:-:0:0:0\n"
	     "6001 won $/t1@1.end " A ":2:100:d:-:0:0:0\n"
	     "6002 told t1 1 done 0 " A " 1 6000\n"
	     "7000 cas $/t2@1.claim " A ":3:100\n"
	     "7001 won $/t2@1.claim " A ":3:100\n"
	     "7001 told t2 1 claim 0 " A " 3 7000\n"
	     "8000 cas $/t3@1.claim " A ":4:100\n"
	     "8001 lost $/t3@1.claim " A ":4:100 " B ":1:100\n"
	     "12000 beat " A " 12000 0\n",
	.b = "1000 start raserfs 12 boot1 n2 100\n"
	     "1000 run UUID 60000\n"
	     "1000 owner " B "\n"
	     "2000 beat " B " 2000 0\n"
	     "7990 cas $/t3@1.claim " B ":1:100\n"
	     "7991 won $/t3@1.claim " B ":1:100\n"
	     "7991 told t3 1 claim 0 " B " 1 7990\n"
	     "9000 cas $/t3@1.end " B ":2:100:r:E:1:0:1\n"
	     "9001 won $/t3@1.end " B ":2:100:r:E:1:0:1\n"
	     "9002 told t3 1 retry 0 " B " 1 9000\n"
	     "9100 cas $/t3@2.claim " B ":3:100\n"
	     "9101 won $/t3@2.claim " B ":3:100\n"
	     "9101 told t3 2 claim 0 " B " 3 9100\n"
	     "9500 cas $/t3@2.end " B ":4:100:d:-:1:0:1\n"
	     "9501 won $/t3@2.end " B ":4:100:d:-:1:0:1\n"
	     "9502 told t3 2 done 0 " B " 3 9500\n"
	     "70000 verdict " A " silent\n"
	     "70001 unlink " A " 0\n"
	     "71000 cas $/t2@1.end " B ":5:100:l:D:0:1:0\n"
	     "71001 won $/t2@1.end " B ":5:100:l:D:0:1:0\n"
	     "72000 cas $/t2@2.claim " B ":6:100\n"
	     "72001 won $/t2@2.claim " B ":6:100\n"
	     "72001 told t2 2 claim 0 " B " 6 72000\n"
	     "73000 cas $/t2@2.end " B ":7:100:d:-:0:0:0\n"
	     "73001 won $/t2@2.end " B ":7:100:d:-:0:0:0\n"
	     "73002 told t2 2 done 0 " B " 6 73000\n"
	     "74000 cas $/t4@3.claim " B ":8:100\n"
	     "74001 won $/t4@3.claim " B ":8:100\n"
	     "74001 told t4 3 claim 0 " B " 8 74000\n"
	     "74500 cas $/t4@3.end " B ":9:100:d:-:0:0:0\n"
	     "74501 won $/t4@3.end " B ":9:100:d:-:0:0:0\n"
	     "74502 told t4 3 done 0 " B " 8 74500\n"
	     "75000 cas $/t5@1.claim " B ":10:100\n"
	     "75001 won $/t5@1.claim " B ":10:100\n"
	     "75001 told t5 1 claim 0 " B " 10 75000\n"
	     "135100 cas $/t5@1.end " B ":11:100:l:S:0:1:0\n"
	     "135101 won $/t5@1.end " B ":11:100:l:S:0:1:0\n"
	     "136000 cas $/t5@2.claim " B ":12:100\n"
	     "136001 won $/t5@2.claim " B ":12:100\n"
	     "136001 told t5 2 claim 0 " B " 12 136000\n"
	     "137000 cas $/t5@2.end " B ":13:100:d:-:0:0:0\n"
	     "137001 won $/t5@2.end " B ":13:100:d:-:0:0:0\n"
	     "137002 told t5 2 done 0 " B " 12 137000\n"
	     "138000 cas $/t6@1.claim " B ":14:100\n"
	     "138001 won $/t6@1.claim " B ":14:100\n"
	     "138001 told t6 1 claim 0 " B " 14 138000\n"
	     "141000 told t6 1 touch -116 " B " 14 141000\n"
	     "142000 cas $/t6@2.claim " B ":15:100\n"
	     "142001 won $/t6@2.claim " B ":15:100\n"
	     "142001 told t6 2 claim 0 " B " 15 142000\n"
	     "143000 cas $/t6@2.end " B ":16:100:d:-:0:0:0\n"
	     "143001 won $/t6@2.end " B ":16:100:d:-:0:0:0\n"
	     "143002 told t6 2 done 0 " B " 15 143000\n"
	     "150000 leave " B "\n"
	     "150000 stop\n",
	.hand = "1000 start raser 13 boot1 n2 100\n"
		"1000 run UUID 60000\n"
		"1000 submitted 1 BATCH COUNT\n"
		"1001 cas $/t4@1.claim " H ":1:100:cancelled:0\n"
		"1002 won $/t4@1.claim " H ":1:100:cancelled:0\n"
		"1003 hand cancel t4 1 0\n"
		"1004 cas $/t4@1.end " H ":4:100:c:-:0:0:0\n"
		"1004 won $/t4@1.end " H ":4:100:c:-:0:0:0\n"
		"1004 cas $/t4@2.claim " H ":2:100:reopened:0\n"
		"1005 won $/t4@2.claim " H ":2:100:reopened:0\n"
		"1006 hand reopen t4 1 0\n"
		"140000 cas $/t6@1.end " H ":3:100:f:X:0:0:0\n"
		"140001 won $/t6@1.end " H ":3:100:f:X:0:0:0\n"
		"140002 hand revoke t6 1 0\n"
		"140003 stop\n",
	.faults = "1000 start chaos 14 boot1 n1 100\n"
		  "20000 fault kill " A "\n",
};

/* ---- one run of a story ---- */

static char run[DISK_PATH - 300];
static char bay[DISK_PATH], batch[64];
static char uuid[UUID_TEXT];

static void
bail(const char *why)
{
	printf("Bail out! %s\n", why);
	exit(1);
}

static int
on_name(void *arg, const char *name)
{
	if (!strncmp(name, "b.", 2))
		snprintf(arg, sizeof(batch), "%s", name);
	return 0;
}

/* A new run with tasks t1 to tn. */
static void
new_run(int ntasks)
{
	static const char ini[] = "[run]\nsteal_after = 60\n[tier low]\nfailures = 0\n"
				  "[tier medium]\nfailures = 1\n[tier high]\nfailures = all\n";
	static int runs;
	const struct queue_options o = { 0 };
	struct err e = { 0 };
	struct disk d;
	char line[64];

	snprintf(run, sizeof(run), "%s/run%d", scratch_dir(), ++runs);
	/* a configuration that somebody brought along stays */
	if (mkdir(run, 0777) || disk_open(&d, run, &e) ||
	    disk_create(&d, "raser.ini", ini, strlen(ini)) || queue_init(run, "", &e))
		bail(e.text);
	disk_close(&d);
	struct queue *q = queue_open(run, &o, now_read(), &e);
	struct submission *s = q ? submission_new(q, NULL, &e) : NULL;
	for (int i = 1; s && i <= ntasks; i++) {
		int len = snprintf(line, sizeof(line), "{\"id\":\"t%d\"}\n", i);

		submission_feed(s, line, (size_t)len, &e);
	}
	if (!s || submission_finish(s, "test", now_read(), &e))
		bail(e.text);
	submission_free(s);
	queue_bay(q, 1, bay);
	queue_close(q, now_read());
	disk_open(&d, run, &e);
	disk_list(&d, "batches", on_name, batch);
	format_read(&d, uuid);
	disk_mkdir(&d, bay);
	disk_close(&d);
}

/* Copy text with the placeholders filled in, and tabs between the fields. */
static void
fill_in(char out[TEXT], const char *text, int ntasks)
{
	size_t n = 0;

	while (*text && n < TEXT - 128) {
		if (*text == '$')
			n += (size_t)snprintf(out + n, 128, "%.100s", bay);
		else if (!strncmp(text, "UUID", 4))
			n += (size_t)snprintf(out + n, 128, "%s", uuid), text += 3;
		else if (!strncmp(text, "BATCH", 5))
			n += (size_t)snprintf(out + n, 128, "%s", batch), text += 4;
		else if (!strncmp(text, "COUNT", 5))
			n += (size_t)snprintf(out + n, 128, "%d", ntasks), text += 4;
		else
			out[n++] = *text == ' ' ? '\t' : *text;
		text++;
	}
	out[n] = '\0';
}

static void
feed(struct audit *a, const char *name, const char *text, int ntasks)
{
	char out[TEXT];
	int source = audit_source(a, name);

	fill_in(out, text, ntasks);
	for (char *p = out; *p;) {
		size_t len = strcspn(p, "\n") + 1;

		audit_line(a, source, p, len);
		p += len;
	}
}

static void
plant_links(const char *text)
{
	char copy[TEXT];
	char *save;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char path[2 * DISK_PATH];
		char *blank = strchr(line, ' ');

		*blank = '\0';
		/* results and beats stand elsewhere */
		if (strchr(line, '/'))
			snprintf(path, sizeof(path), "%s/%s", run, line);
		else
			snprintf(path, sizeof(path), "%s/%.100s/%.300s", run, bay, line);
		/* "." stands for a folder */
		if (strcmp(blank + 1, ".") ? symlink(blank + 1, path) : mkdir(path, 0777))
			bail(path);
	}
}

static char sentence[1024]; /* the first that was found */

static void
on_found(void *arg, int invariant, const char *text)
{
	if (invariant == *(int *)arg && !sentence[0])
		snprintf(sentence, sizeof(sentence), "I%d: %s", invariant, text);
	else
		diag("also I%d: %s", invariant, text);
}

static struct audit_totals
tell(const struct story *s, int ntasks, const struct audit_options *o, int expected)
{
	struct audit *a = audit_new();
	struct audit_totals t = { 0 };
	struct err e = { 0 };
	struct disk d;

	new_run(ntasks);
	plant_links(s->links);
	feed(a, "A", s->a, ntasks);
	feed(a, "B", s->b, ntasks);
	feed(a, "H", s->hand, ntasks);
	feed(a, "F", s->faults, ntasks);
	sentence[0] = '\0';
	if (disk_open(&d, run, &e) || audit_run(a, &d, o, on_found, &expected, &t, &e) < 0)
		bail(e.text);
	disk_close(&d);
	audit_free(a);
	return t;
}

static const struct audit_options strict = { .complete = true, .settled = true, .timed = true,
					     .claim_ms = 500 };

/* ---- the lies ---- */

enum text { LINKS, HA, HB, HAND, FAULTS };

/* In one text `from` becomes `to` (all of the first place), or `to` is added at the end. */
struct change {
	enum text where;
	const char *from, *to;
};

static const struct lie {
	int invariant; /* 0: all is well */
	const char *what;
	struct change changes[5];
} lies[] = {
	{ 1, "an end is missing in the middle", { { LINKS, "t3@1.end " B ":2:100:r:E:1:0:1\n", "" } } },
	{ 1, "a text is garbled", { { LINKS, "t3@1.claim " B ":1:100", "t3@1.claim nonsense" } } },
	{ 1, "links of an unknown task", { { LINKS, NULL, "x@1.claim " B ":1:100\n" } } },
	{ 2, "a claim above a cancelled task", { { LINKS, "reopened", "cancelled" } } },
	{ 2, "counters that do not follow", { { LINKS, "r:E:1:0:1", "r:E:2:0:1" } } },
	{ 2, "an end without a claim",
	  { { LINKS, NULL, "t4@2.end " B ":9:100:f:R:0:0:0\n" } } },
	{ 2, "a cancelled attempt is ended as something else",
	  { { LINKS, "c:-:0:0:0", "f:X:0:0:0" }, { HAND, "c:-:0:0:0", "f:X:0:0:0" },
	    { HAND, "c:-:0:0:0", "f:X:0:0:0" } } },
	{ 2, "done by one who does not hold it",
	  { { LINKS, "t1@1.end " A ":2", "t1@1.end " B ":2" } } },
	{ 3, "a claim above done", { { LINKS, NULL, "t1@2.claim " B ":99:100\n" } } },
	{ 4, "told done, but lost", { { HA, NULL, "80000 told t2 1 done 0 " A " 3 80000\n" } } },
	{ 4, "done, but nobody was told", { { HB, "143002 told t6 2 done", "143002 told t6 2 touch" } } },
	{ 5, "a link that nobody wrote",
	  { { HB, "9100 cas $/t3@2.claim", "9100 x" }, { HB, "9101 won $/t3@2.claim", "9101 x" } } },
	{ 5, "a link whose writer was told that it lost",
	  { { HB, "9101 won $/t3@2.claim " B ":3:100", "9101 lost $/t3@2.claim " B ":3:100 x" } } },
	{ 5, "won, but another link stands",
	  { { HB, NULL, "149000 cas $/t1@1.end " B ":88:100:d:-:0:0:0\n"
			"149001 won $/t1@1.end " B ":88:100:d:-:0:0:0\n" } } },
	{ 5, "two writers of one link",
	  { { HA, NULL, "9000 cas $/t3@1.claim " B ":1:100\n" } } },
	{ 6, "the old holder is served on", { { HA, NULL, "90000 told t2 1 touch 0 " A " 3 90000\n" } } },
	{ 6, "the same, seen on another machine's clock an hour ahead",
	  { { HA, "boot1", "boot2" }, { HA, "8001 lost", "3608001 lost" },
	    { HA, NULL, "3690000 told t2 1 touch 0 " A " 3 3690000\n" } } },
	{ 6, "a daemon serves on what it ended itself",
	  { { HB, NULL, "135500 told t5 1 touch 0 " B " 10 135500\n" } } },
	{ 6, "told that it is free, but it is not its own end",
	  { { HB, "141000 told t6 1 touch -116", "141000 told t6 1 freed 0" } } },
	{ 7, "fewer tasks than were acknowledged", { { HAND, "BATCH COUNT", "BATCH 7" } } },
	{ 7, "an acknowledged batch is gone", { { HAND, "submitted 1", "submitted 2" } } },
	{ 7, "a task is still pending at rest",
	  { { LINKS, "t1@1.claim " A ":1:100\nt1@1.end " A ":2:100:d:-:0:0:0\n", "" } } },
	{ 8, "a result of another attempt",
	  { { LINKS, NULL, "results/t2@1.aaaaaaaaaaaa .\nresults/t2 t2@1.aaaaaaaaaaaa\n" } } },
	{ 8, "a result that is not there", { { LINKS, NULL, "results/t1 t1@1.aaaaaaaaaaaa\n" } } },
	{ 9, "the holder's beat never stopped",
	  { { HA, NULL, "22000 beat " A " 22000 0\n32000 beat " A " 32000 0\n42000 beat " A
			" 42000 0\n52000 beat " A " 52000 0\n62000 beat " A " 62000 0\n72000 dead " A
			"\n73000 stop\n" },
	    { FAULTS, "fault kill", "fault other" } } },
	{ 9, "the holder's beat was made just before",
	  { { HA, "1000 owner " A "\n", "" },
	    { HA, NULL, "61000 owner " A "\n62000 beat " A " 62000 0\n72000 dead " A "\n73000 stop\n" } } },
	{ 9, "nobody had judged it", { { HB, "verdict " A " silent", "verdict " A " missing" } } },
	{ 9, "called gone, but its process spoke on",
	  { { LINKS, "l:D:0:1:0", "f:B:0:0:0" }, { HB, "l:D:0:1:0", "f:B:0:0:0" },
	    { HB, "l:D:0:1:0", "f:B:0:0:0" }, { HA, NULL, "80000 beat " A " 80000 -5\n" } } },
	{ 9, "an agent that touched in time",
	  { { HB, NULL, "100000 told t5 1 touch 0 " B " 10 100000\n" } } },
	{ 9, "nobody asked to revoke it", { { HAND, "hand revoke", "hand cancel" } } },
	{ 10, "an older attempt is granted later",
	  { { HB, NULL, "149000 told t3 1 claim 0 " B " 1 1\n" } } },
	{ 11, "a dead daemon's beat is left", { { LINKS, NULL, "nodes/" A " .\nnodes/c.cccccccccccc .\n" } } },
	{ 11, "a claim without an end is left",
	  { { LINKS, "t6@2.end " B ":16:100:d:-:0:0:0\n", "" } } },
	{ 12, "what the killed one held is taken late", { { HB, "72001 won", "172001 won" } } },
	{ 12, "somebody waits for a stopped one",
	  { { FAULTS, NULL, "70500 fault stop " A "\n74000 fault cont " A "\n" },
	    { HB, "71001 won", "71901 won" } } },
	/* and what only looks like one */
	{ 0, "a touch before the theft could be known",
	  { { HA, NULL, "75000 told t2 1 touch 0 " A " 3 75000\n" } } },
	{ 0, "a holder that cannot know yet that a hand on another machine revoked it",
	  { { HB, "141000 told t6 1 touch -116", "141000 told t6 1 touch 0" } } },
	{ 0, "another machine's clock an hour ahead",
	  { { HA, "boot1", "boot2" }, { HA, "8001 lost", "3608001 lost" },
	    { HA, NULL, "3675000 told t2 1 touch 0 " A " 3 3675000\n" } } },
	{ 0, "a link removed by a hand that said so",
	  { { LINKS, "t3@1.end " B ":2:100:r:E:1:0:1\n", "" },
	    { FAULTS, NULL, "60000 fault remove $/t3@1.end\n" } } },
	{ 0, "an answer that a crash cut off", { { HB, "150000 stop\n", "" },
	    { HB, "143002 told t6 2 done 0 " B " 15 143000\n", "" } } },
	{ 0, "a beat removed by hand, and a holder that lived",
	  { { HA, NULL, "22000 beat " A " 22000 0\n32000 beat " A " 32000 0\n42000 beat " A
			" 42000 0\n52000 beat " A " 52000 0\n62000 beat " A " 62000 0\n72000 dead " A
			"\n" },
	    { FAULTS, "fault kill " A, "fault remove nodes/" A },
	    { HB, "verdict " A " silent", "verdict " A " missing" } } },
	{ 0, "a beat whose first touch took that long",
	  { { HA, "1000 owner " A "\n", "" },
	    { HA, NULL, "61000 owner " A " 2000\n62000 beat " A " 62000 0\n72000 dead " A "\n73000 stop\n" } } },
	{ 0, "a dead daemon's beat, where nobody lives", { { LINKS, NULL, "nodes/" A " .\n" } } },
	{ 0, "a good result",
	  { { LINKS, NULL, "results/t1@1.aaaaaaaaaaaa .\nresults/t1 t1@1.aaaaaaaaaaaa\n" } } },
	{ 0, "a result of an agent that was kept over two attempts",
	  { { LINKS, NULL, "results/t2@1.aaaaaaaaaaaa .\nresults/t2@2.bbbbbbbbbbbb t2@1.aaaaaaaaaaaa\n"
			   "results/t2 t2@1.aaaaaaaaaaaa\n" } } },
	{ 0, "a create that was given up and stands",
	  { { HB, "9101 won", "9101 unknown" } } },
	{ 0, "a line that is cut", { { HB, NULL, "160000 to" } } },
};

static bool
apply(char text[TEXT], const struct change *c)
{
	char copy[TEXT];
	char *at = c->from ? strstr(text, c->from) : text + strlen(text);

	if (!at)
		return false;
	snprintf(copy, sizeof(copy), "%.*s%s%s", (int)(at - text), text, c->to,
		 at + (c->from ? strlen(c->from) : 0));
	snprintf(text, TEXT, "%s", copy);
	return true;
}

static void
lie(const struct lie *x)
{
	static struct story s;
	char *const texts[] = { [LINKS] = s.links, [HA] = s.a, [HB] = s.b, [HAND] = s.hand,
				[FAULTS] = s.faults };

	s = clean;
	for (int i = 0; i < 5 && x->changes[i].to; i++)
		if (!apply(texts[x->changes[i].where], &x->changes[i]))
			bail(x->changes[i].from);
	struct audit_totals t = tell(&s, TASKS, &strict, x->invariant);
	if (x->invariant)
		ok(t.broken[x->invariant] > 0, "I%d: %s", x->invariant, x->what);
	else
		ok(!t.violations, "no violation: %s", x->what);
	if (sentence[0])
		diag("%s", sentence);
}

int
main(void)
{
	struct audit_options calm = strict;

	log_init("audit", LOG_WARN);
	struct audit_totals t = tell(&clean, TASKS, &strict, 0);
	ok(t.violations == 0, "a clean story has no violation");
	ok(t.tasks == TASKS && t.done == TASKS && t.attempts == 10 && t.stolen == 2 &&
		   t.lives == 3 && t.owners == 2 && t.faults == 1 && !t.torn && !t.unlogged,
	   "and its sum is right (%lld tasks, %lld done, %lld attempts, %lld stolen, %lld lives)",
	   (long long)t.tasks, (long long)t.done, (long long)t.attempts, (long long)t.stolen,
	   (long long)t.lives);
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		lie(&lies[i]);
	calm.undisturbed = true;
	t = tell(&clean, TASKS, &calm, 9);
	ok(t.broken[9] == 3, "undisturbed, no claim may be taken at all (%lld were)",
	   (long long)t.broken[9]);
	t = tell(&clean, TASKS + 1, &strict, 7);
	ok(t.broken[7] == 1, "a seventh task that nobody took is told of at rest");
	calm = (struct audit_options){ 0 };
	t = tell(&clean, TASKS + 1, &calm, 7);
	ok(!t.violations && t.pending == 1, "and is no violation before");
	return done_testing();
}
