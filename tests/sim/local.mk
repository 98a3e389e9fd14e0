# The simulator of many nodes, included by tests/local.mk.

sim_sources = \
	tests/sim/agents.c \
	tests/sim/client.c \
	tests/sim/faults.c \
	tests/sim/fs.c tests/sim/fs.h \
	tests/sim/histories.c \
	tests/sim/nodes.c \
	tests/sim/rng.h \
	tests/sim/rules.c \
	tests/sim/sched.c tests/sim/sched.h \
	tests/sim/sealing.c \
	tests/sim/truth.c \
	tests/sim/world.c tests/sim/world.h \
	tests/sim/wrap.c \
	# end of the simulator
# the world answers what the queue asks of libc
sim_wraps = \
	-Wl,--wrap=pthread_mutex_init,--wrap=pthread_mutex_destroy,--wrap=pthread_mutex_lock \
	-Wl,--wrap=pthread_mutex_trylock,--wrap=pthread_mutex_unlock \
	-Wl,--wrap=pthread_cond_init,--wrap=pthread_cond_destroy \
	-Wl,--wrap=pthread_cond_wait,--wrap=pthread_cond_broadcast,--wrap=getrandom \
	-Wl,--wrap=gethostname,--wrap=getpid,--wrap=kill,--wrap=fopen,--wrap=time \
	-Wl,--wrap=eventfd,--wrap=write,--wrap=read,--wrap=close
tests_sim_sim_SOURCES = $(sim_sources) tests/sim/main.c
tests_sim_sim_LDADD = libaudit.a $(QUEUE_LIBS) -lm
tests_sim_sim_LDFLAGS = $(AM_LDFLAGS) $(sim_wraps)

# the same queue, but its rules can be switched off
EXTRA_LIBRARIES = libmutable.a
libmutable_a_SOURCES = $(libraser_a_SOURCES)
libmutable_a_CPPFLAGS = $(AM_CPPFLAGS) -DRASER_MUTANTS
EXTRA_PROGRAMS = tests/sim/mutants
tests_sim_mutants_SOURCES = $(sim_sources) tests/sim/mutants.c
tests_sim_mutants_CPPFLAGS = $(AM_CPPFLAGS) -DRASER_MUTANTS
tests_sim_mutants_LDADD = libaudit.a libmutable.a $(SQLITE_LIBS) $(INIH_LIBS) $(JANSSON_LIBS) $(XXHASH_LIBS) -lm
tests_sim_mutants_LDFLAGS = $(AM_LDFLAGS) $(sim_wraps)

MUTANT_SEEDS = 1-1000
check-mutants: tests/sim/mutants
	tests/sim/mutants $(MUTANT_SEEDS)
.PHONY: check-mutants

sim_tests = tests/sim/seeds.t
dist_check_SCRIPTS += $(sim_tests)
dist_noinst_SCRIPTS += tests/sim/soak
EXTRA_DIST += tests/sim/README
