/*
 * plugin.h - a plugin's command, and its verbs beside run_task: raser-plugin(7). Used by agentd
 * and by raser.
 */
#ifndef RASER_PLUGIN_H
#define RASER_PLUGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "log.h"

enum { PLUGIN_TEXT = 2048, PLUGIN_WORD = 180 /* a line of raser.ini is at most 199 bytes long */ };

/* A command as the value of "plugin" in raser.ini: plugin_split() gives the same words back.
 * False when it is too long, a word is, or one holds a line's end. */
bool
plugin_quote(char *const *argv, char *text, size_t size);

/* The words of that value and one more (may be NULL), allocated; free it with plugin_free().
 * NULL and a sentence in err when it cannot be split. */
char **
plugin_split(const char *text, const char *more, struct err *err);
/* The same of any text that is written so; what: how err begins, such as "--command". */
char **
plugin_words(const char *text, const char *more, const char *what, struct err *err);
void
plugin_free(char **argv);

/* Run "... get_tasks"; what it prints, in a file that is closed by the caller. NULL and a
 * sentence in err when it fails. */
FILE *
plugin_tasks(char *const *argv, struct err *err);

/* Run a command and wait for it; its wait status, or -1 with errno. out: a descriptor for its
 * stdout, -1 = ours. It is told to end when we die. */
int
plugin_run(char *const *argv, int out);
/* What such a status means: "ended with status 3". */
void
plugin_how(int status, char *text, size_t size);

#endif
