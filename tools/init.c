/*
 * init.c - raser init DIR
 */
#include <config.h>

#include "raser.h"

int
verb_init(int argc, char **argv)
{
	struct err err = { 0 };

	if (argc != 2 || argv[1][0] == '-')
		return usage_error();
	if (queue_init(argv[1], "", &err))
		return complain(1, "%s", err.text);
	printf("%s is a run directory now; %s/raser.ini says how it works\n", argv[1], argv[1]);
	return 0;
}
