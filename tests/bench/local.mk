# The benchmark: `make bench`. Its programs are built with `make check` too, so that they do not rot.

CREW = tests/bench/crew.c tests/bench/crew.h tools/gang.c tools/gang.h
PAIRCLIENT = tests/bench/pairclient.c tests/bench/pairclient.h
bench_programs = \
	tests/bench/rawpair \
	tests/bench/emptyfs \
	tests/bench/mountpair \
	tests/bench/sqliteq \
	tests/bench/libpair \
	tests/bench/archiver \
	# end of bench programs
check_PROGRAMS += $(bench_programs)
tests_bench_rawpair_SOURCES = tests/bench/rawpair.c $(CREW)
tests_bench_emptyfs_SOURCES = tests/bench/emptyfs.c $(CREW) $(PAIRCLIENT)
tests_bench_emptyfs_LDADD = $(FUSE_LIBS)
tests_bench_mountpair_SOURCES = tests/bench/mountpair.c $(CREW) $(PAIRCLIENT)
tests_bench_sqliteq_SOURCES = tests/bench/sqliteq.c $(CREW)
tests_bench_sqliteq_LDADD = $(SQLITE_LIBS)
tests_bench_libpair_SOURCES = tests/bench/libpair.c $(CREW) tools/load.c tools/load.h
tests_bench_libpair_LDADD = $(QUEUE_LIBS)
tests_bench_archiver_SOURCES = tests/bench/archiver.c
tests_bench_archiver_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)

bench: programs
	RASER_BUILD="$(abs_builddir)" $(srcdir)/tests/bench/claims
	RASER_BUILD="$(abs_builddir)" $(srcdir)/tests/bench/checkpoint
.PHONY: bench

EXTRA_DIST += tests/bench/README tests/bench/claims tests/bench/jsonq.py
EXTRA_DIST += tests/bench/checkpoint tests/bench/workspace.py
