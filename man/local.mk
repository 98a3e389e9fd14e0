# The manual pages, included by Makefile.am.

dist_man_MANS = \
	man/raser-agentd.8 \
	man/raser-bridges.7 \
	man/raser-plugin.7 \
	man/raser-runbook.7 \
	man/raser-tree.5 \
	man/raser.1 \
	man/raser.ini.5 \
	man/raserfs.8 \
	# end of manual pages
