# The tests on shared file systems, as root: `make check-cluster` in minutes, and `make check-deep` on
# what is weak or slow as well. Their programs are built with the others, so that they do not rot.

cluster_tests = \
	tests/cluster/nfs4.t \
	tests/cluster/nfs3.t \
	tests/cluster/moosefs.t \
	# end of cluster tests
deep_tests = \
	tests/cluster/gluster.t \
	# end of deep tests
# on a real Slurm of one machine: `make check-slurm`, as root, in a quarter of an hour
slurm_tests = \
	tests/cluster/slurm/0100-rig.t \
	tests/cluster/slurm/0200-launch.t \
	tests/cluster/slurm/0300-signals.t \
	tests/cluster/slurm/0310-ways.t \
	tests/cluster/slurm/0600-makespan.t \
	# end of slurm tests
check_PROGRAMS += \
	tests/cluster/agents \
	tests/cluster/fresh \
	tests/cluster/remote \
	# end of cluster programs
tests_cluster_agents_SOURCES = tests/cluster/agents.c tests/errname.c tests/chk.h
tests_cluster_fresh_SOURCES = tests/cluster/fresh.c
tests_cluster_fresh_LDADD = $(QUEUE_LIBS)
tests_cluster_remote_SOURCES = tests/cluster/remote.c

# what guests of the rig `nfs` are started with; elsewhere than on x86-64 there are none
tests/cluster/xstate.so: $(srcdir)/tests/cluster/xstate.c
	$(AM_V_CC)$(MKDIR_P) tests/cluster && case `uname -m` in x86_64) \
		$(CC) -std=gnu11 $(WARN_CFLAGS) -O2 -shared -fPIC -fno-stack-protector \
			-mgeneral-regs-only -o $@ $(srcdir)/tests/cluster/xstate.c ;; esac
CLEANFILES += tests/cluster/xstate.so

check-cluster: programs tests/cluster/xstate.so
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(cluster_tests)"
check-deep: programs tests/cluster/xstate.so
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(cluster_tests) $(deep_tests)"
check-slurm: programs
	@$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(slurm_tests)"
.PHONY: check-cluster check-deep check-slurm

EXTRA_DIST += \
	$(cluster_tests) \
	$(deep_tests) \
	$(slurm_tests) \
	tests/bench/cluster \
	tests/cluster/README \
	tests/cluster/faults.sh \
	tests/cluster/gluster \
	tests/cluster/guest-init \
	tests/cluster/lib.sh \
	tests/cluster/moosefs \
	tests/cluster/nfs \
	tests/cluster/nfs.sh \
	tests/cluster/rig.sh \
	tests/cluster/slurm/jobs.sh \
	tests/cluster/slurm/lib.sh \
	tests/cluster/slurm/node \
	tests/cluster/slurm/start \
	tests/cluster/slurm/stop \
	tests/cluster/times.sh \
	tests/cluster/xstate.c \
	# end of cluster files
