# The tests, included by Makefile.am.

TAP = tests/tap.c tests/tap.h

# C tests of the library
unit_tests = \
	tests/unit/names.t \
	tests/unit/chain.t \
	# end of unit tests
tests_unit_names_t_SOURCES = tests/unit/names.c $(TAP)
tests_unit_names_t_LDADD = $(QUEUE_LIBS)
tests_unit_chain_t_SOURCES = tests/unit/chain.c $(TAP)
tests_unit_chain_t_LDADD = $(QUEUE_LIBS)

# shell tests of the mount
mount_tests = \
	# end of mount tests

check_PROGRAMS = \
	$(unit_tests) \
	# end of check programs
dist_check_SCRIPTS = $(mount_tests)
TESTS = $(unit_tests) $(mount_tests)
