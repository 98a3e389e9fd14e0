#include <config.h>
#include "raser.h"
int
verb_run(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return complain(1, "not yet");
}
