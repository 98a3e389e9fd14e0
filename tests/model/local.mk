# The models of the protocol, included by tests/local.mk: `make check-model` checks them all.

dist_noinst_DATA += \
	tests/model/batch.pml \
	tests/model/chain.pml \
	tests/model/lease.pml \
	tests/model/seal.pml \
	tests/model/table \
	# end of models
dist_noinst_SCRIPTS += tests/model/run
EXTRA_DIST += tests/model/README

check-model:
	@$(srcdir)/tests/model/run
.PHONY: check-model
