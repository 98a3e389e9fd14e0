/*
 * bench.c - raser bench WHAT ...: what raserfs is worth, measured. One benchmark a file.
 */
#include <config.h>

#include "bench.h"

#include <string.h>

static const struct bench {
	const char *name;
	int (*run)(int argc, char **argv);
} benches[] = {
	{ "makespan", bench_makespan },
};

int
verb_bench(int argc, char **argv)
{
	if (argc < 2)
		return usage_error();
	for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
		if (!strcmp(benches[i].name, argv[1]))
			return benches[i].run(argc - 1, argv + 1);
	complain(0, "there is no benchmark %s", argv[1]);
	return usage_error();
}
