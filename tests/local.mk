# The tests, included by Makefile.am.

TAP = tests/tap.c tests/tap.h

# C tests of the library
unit_tests = \
	tests/unit/agent.t \
	tests/unit/audit.t \
	tests/unit/conf.t \
	tests/unit/names.t \
	tests/unit/lanes.t \
	tests/unit/deadline.t \
	tests/unit/chain.t \
	tests/unit/fault.t \
	tests/unit/ingest.t \
	tests/unit/proc.t \
	tests/unit/queue.t \
	tests/unit/checkpoint.t \
	tests/unit/store.t \
	tests/unit/crash.t \
	tests/unit/storage.t \
	tests/unit/selftest.t \
	tests/unit/digest.t \
	tests/unit/seal.t \
	tests/unit/frozen.t \
	tests/unit/forgotten.t \
	tests/unit/slurm.t \
	tests/unit/schedule.t \
	# end of unit tests
RUNS = tests/runs.c tests/runs.h
tests_unit_digest_t_SOURCES = tests/unit/digest.c $(TAP) $(RUNS)
tests_unit_digest_t_LDADD = $(QUEUE_LIBS)
tests_unit_seal_t_SOURCES = tests/unit/seal.c $(TAP) $(RUNS)
tests_unit_seal_t_LDADD = $(QUEUE_LIBS)
tests_unit_frozen_t_SOURCES = tests/unit/frozen.c $(TAP) $(RUNS)
tests_unit_frozen_t_LDADD = $(QUEUE_LIBS)
tests_unit_forgotten_t_SOURCES = tests/unit/forgotten.c $(TAP) $(RUNS)
tests_unit_forgotten_t_LDADD = $(QUEUE_LIBS)
tests_unit_schedule_t_SOURCES = tests/unit/schedule.c tools/schedule.c tools/trace.c $(TAP)
tests_unit_schedule_t_LDADD = $(QUEUE_LIBS)
dist_noinst_DATA = \
	tests/makespan/SOURCE \
	tests/makespan/acr-lite.tsv \
	tests/makespan/terminal-bench.tsv \
	# end of recorded runs
tests_unit_lanes_t_SOURCES = tests/unit/lanes.c $(TAP) $(RUNS)
tests_unit_lanes_t_LDADD = $(QUEUE_LIBS)
tests_unit_deadline_t_SOURCES = tests/unit/deadline.c $(TAP) $(RUNS)
tests_unit_deadline_t_LDADD = $(QUEUE_LIBS)
tests_unit_agent_t_SOURCES = tests/unit/agent.c $(TAP) agentd/activity.c agentd/control.c agentd/process/job.c \
	agentd/plugin.c agentd/trajectory.c
tests_unit_agent_t_LDADD = $(QUEUE_LIBS)
tests_unit_audit_t_SOURCES = tests/unit/audit.c $(TAP)
tests_unit_audit_t_LDADD = libaudit.a $(QUEUE_LIBS)
tests_unit_names_t_SOURCES = tests/unit/names.c $(TAP)
tests_unit_names_t_LDADD = $(QUEUE_LIBS)
tests_unit_conf_t_SOURCES = tests/unit/conf.c $(TAP)
tests_unit_conf_t_LDADD = $(QUEUE_LIBS)
tests_unit_chain_t_SOURCES = tests/unit/chain.c $(TAP)
tests_unit_chain_t_LDADD = $(QUEUE_LIBS)
FAULTS = tests/faults.c tests/faults.h
tests_unit_fault_t_SOURCES = tests/unit/fault.c $(TAP) $(FAULTS)
tests_unit_fault_t_LDADD = $(QUEUE_LIBS)
tests_unit_ingest_t_SOURCES = tests/unit/ingest.c $(TAP)
tests_unit_ingest_t_LDADD = $(QUEUE_LIBS)
tests_unit_proc_t_SOURCES = tests/unit/proc.c $(TREE_SOURCES) $(BOX_SOURCES) \
	agentd/program.c agentd/program.h $(TAP)
tests_unit_proc_t_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)
tests_unit_queue_t_SOURCES = tests/unit/queue.c $(TAP)
tests_unit_queue_t_LDADD = $(QUEUE_LIBS)
TREES = tests/trees.c tests/trees.h
tests_unit_checkpoint_t_SOURCES = tests/unit/checkpoint.c $(TAP) $(TREES)
tests_unit_checkpoint_t_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)
tests_unit_store_t_SOURCES = tests/unit/store.c $(TAP) $(TREES)
tests_unit_store_t_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)
tests_unit_storage_t_SOURCES = tests/unit/storage.c $(TAP) $(FAULTS)
tests_unit_storage_t_LDADD = $(QUEUE_LIBS)
tests_unit_crash_t_SOURCES = tests/unit/crash.c $(TAP) $(TREES)
tests_unit_crash_t_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)
tests_unit_crash_t_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=write,--wrap=fsync,--wrap=renameat,--wrap=futimens,--wrap=pread
tests_unit_selftest_t_SOURCES = tests/unit/selftest.c tools/slurm.c tools/slurm.h tools/slurmcheck.c tools/slurmcheck.h \
	agentd/program.c agentd/program.h $(TAP)
tests_unit_selftest_t_LDADD = $(QUEUE_LIBS)
tests_unit_slurm_t_SOURCES = tests/unit/slurm.c tools/brakes.c tools/brakes.h tools/slurm.c tools/slurm.h $(TAP)
tests_unit_slurm_t_LDADD = $(QUEUE_LIBS)

# shell tests of the mount; those with beside=yes are the last, the longest of them first
mount_tests = \
	tests/mount/0100-tree.t \
	tests/mount/0200-claim.t \
	tests/mount/0300-lease.t \
	tests/mount/0400-nodes.t \
	tests/mount/0500-submit.t \
	tests/mount/0600-tools.t \
	tests/mount/0700-life.t \
	tests/mount/0800-race.t \
	tests/mount/0900-slow.t \
	tests/mount/1000-agentd.t \
	tests/mount/1100-run.t \
	tests/mount/1200-million.t \
	tests/mount/1300-sandbox.t \
	tests/mount/1305-boxed.t \
	tests/mount/1310-memory.t \
	tests/mount/1400-checkpoint.t \
	tests/mount/1410-checkpoint-tool.t \
	tests/mount/1450-large.t \
	tests/mount/1500-limits.t \
	tests/mount/1600-remount.t \
	tests/mount/1620-supervise.t \
	tests/mount/1630-run-supervise.t \
	tests/mount/1650-plugins.t \
	tests/mount/2210-idle.t \
	tests/mount/2600-bridges.t \
	tests/mount/2100-seal.t \
	tests/mount/1900-chaos-tool.t \
	tests/mount/2500-job.t \
	tests/mount/1700-chaos.t \
	tests/mount/2200-storage.t \
	tests/mount/2420-direct.t \
	tests/mount/2300-fsck.t \
	tests/mount/2000-doctor.t \
	tests/mount/2415-until.t \
	tests/mount/2400-site.t \
	tests/mount/2410-lanes.t \
	tests/mount/2420-launch.t \
	tests/mount/2500-makespan.t \
	tests/mount/2510-durations.t \
	tests/mount/2520-contest.t \
	# end of mount tests

# shell tests of the plugins, which need no mount
plugin_tests = \
	tests/plugins/mini.t \
	tests/plugins/page.t \
	tests/plugins/python.t \
	tests/plugins/replay.t \
	tests/plugins/shell.t \
	# end of plugin tests
dist_noinst_DATA += \
	tests/plugins/plugin.sh \
	tests/standin/minisweagent/__init__.py \
	tests/standin/minisweagent/agents/__init__.py \
	tests/standin/minisweagent/agents/default.py \
	tests/standin/minisweagent/environments/__init__.py \
	tests/standin/minisweagent/environments/local.py \
	tests/standin/minisweagent/exceptions.py \
	tests/standin/minisweagent/models/__init__.py \
	tests/standin/minisweagent/models/test_models.py \
	tests/standin1/minisweagent/__init__.py \
	tests/standin1/minisweagent/agents/__init__.py \
	tests/standin1/minisweagent/agents/default.py \
	tests/standin1/minisweagent/environments/__init__.py \
	tests/standin1/minisweagent/models/__init__.py \
	tests/standin1/minisweagent/models/test_models.py \
	# end of what the tests of plugins need

# what distcheck runs (configure --enable-quick-check): that everything needed was shipped
quick_tests = \
	tests/mount/0100-tree.t \
	tests/mount/1100-run.t \
	# end of quick tests

# what drives the threads of a daemon against each other
thread_tests = \
	tests/unit/checkpoint.t \
	tests/unit/queue.t \
	tests/mount/0200-claim.t \
	tests/mount/0300-lease.t \
	tests/mount/0400-nodes.t \
	tests/mount/0500-submit.t \
	# end of thread tests
dist_noinst_DATA += tests/lib.sh tests/tap.sh tests/unit/scontrol.txt

# stands in for what is not packaged; on PATH under this name
dist_noinst_SCRIPTS = tests/apptainer

# what shell tests cannot do themselves
helpers = \
	tests/boxed \
	tests/chk \
	tests/crowd \
	tests/finish \
	# end of helpers
tests_finish_SOURCES = tests/finish.c
tests_finish_LDADD = $(QUEUE_LIBS)
tests_boxed_SOURCES = tests/boxed.c $(TREE_SOURCES) $(BOX_SOURCES) agentd/program.c agentd/program.h
tests_boxed_LDADD = $(CHECKPOINT_LIBS) $(QUEUE_LIBS)
tests_chk_SOURCES = tests/chk.c tests/hold.c tests/errname.c tests/chk.h
tests_crowd_SOURCES = tests/crowd.c tests/errname.c tests/chk.h

# a store that is slow or refuses, for LD_PRELOAD
check_DATA = tests/slowdisk.so
dist_noinst_DATA += tests/slowdisk.c tests/chaos.py
tests/slowdisk.so: $(srcdir)/tests/slowdisk.c
	$(AM_V_CC)$(MKDIR_P) tests && $(CC) -std=gnu11 -I. $(WARN_CFLAGS) -O1 -g -shared -fPIC \
		-o $@ $(srcdir)/tests/slowdisk.c
CLEANFILES = tests/slowdisk.so

# a program that is killed at a chosen moment, for LD_PRELOAD
check_DATA += tests/killat.so
dist_noinst_DATA += tests/plugins/killat.c
tests/killat.so: $(srcdir)/tests/plugins/killat.c
	$(AM_V_CC)$(MKDIR_P) tests && $(CC) -std=gnu11 -I. $(WARN_CFLAGS) -O1 -g -shared -fPIC \
		-o $@ $(srcdir)/tests/plugins/killat.c
CLEANFILES += tests/killat.so

check_PROGRAMS = \
	$(unit_tests) \
	$(helpers) \
	tests/sim/sim \
	# end of check programs
dist_check_SCRIPTS = $(mount_tests) $(plugin_tests)
include $(srcdir)/tests/sim/local.mk
include $(srcdir)/tests/model/local.mk

if QUICK
TESTS = $(unit_tests) $(plugin_tests) $(quick_tests)
else
TESTS = $(unit_tests) $(sim_tests) $(plugin_tests) $(mount_tests)
endif

# this machine's site.ini is none of the tests' business
AM_TESTS_ENVIRONMENT = RASER_SITE_INI=; export RASER_SITE_INI;
if SANITIZED
AM_TESTS_ENVIRONMENT += RASER_SANITIZED=1; export RASER_SANITIZED;
endif

include tests/cluster/local.mk
