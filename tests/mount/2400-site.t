#!/bin/bash
# 2400-site.t - site.ini: what a site sets for every run, and who tells when a run asks for more.
beside=yes
# shellcheck source=tests/lib.sh
. "$(dirname "$0")/../lib.sh"

start_watchdog 120
export RASER_SITE_INI=$scratch/site.ini
cat >"$RASER_SITE_INI" <<-EOF
	[run]
	steal_after = 70
	[agent]
	network = no
	[limits]
	end = 2037-01-01
EOF
new_run max_failures=7 agent.network=yes limits.end=2038-01-01 || exit
like "$(grep -c '^;steal_after = ' "$RUN/raser.ini")" 1 "raser init leaves to the site what it sets"
mount_run m || exit
is "$(json .steal_after)" 70 "the site's value counts"
wanted='raser.ini asks for more than site.ini allows: [agent] network, [limits] end'
is "$(grep '^raser.ini asks' "$M/status")" "$wanted" "the mount tells what the site holds back"
is "$(grep -o 'raser.ini asks.*' "$M/report.html")" "$wanted" "so does its page"
is "$(json .clamped)" "[agent] network, [limits] end" "and status.json"
is "$("$top/raser" status "$M" | grep '^raser.ini asks')" "$wanted" "raser status shows it"
unmount m
is "$("$top/raser" status "$RUN" | grep '^raser.ini asks')" "$wanted" "without a mount, too"

# options of raser-agentd are held like raser.ini
if command -v bwrap >/dev/null; then
	echo 'sandbox = bwrap' | sed -i '/^network/r /dev/stdin' "$RASER_SITE_INI"
	got=$("$top/raser-agentd" --direct --check --tier low --sandbox none --network "$RUN" -- true 2>&1)
	like "$got" "site.ini asks for sandbox bwrap; none does not count" "--sandbox none is not enough"
	like "$got" "site.ini lets no agent use the network" "--network is too much"
	like "$got" "in the sandbox bwrap.*, without network" "agents run as the site wants it"
	sed -i '/^sandbox/d' "$RASER_SITE_INI"
else
	skip 3 "no bwrap"
fi

sed -i 's/^network.*/network = perhaps/' "$RASER_SITE_INI"
mkdir -p "$scratch/n"
got=$("$top/raserfs" -f "$RUN" "$scratch/n" 2>&1)
is $? 1 "a bad site.ini: nothing is mounted"
like "$got" "$RASER_SITE_INI line 4: network must be yes or no" "its line is told"
got=$("$top/raser" init "$scratch/other" 2>&1)
is $? 1 "raser init fails"
like "$got" "$RASER_SITE_INI line 4" "for that reason"
nok "and leaves nothing" exists "$scratch/other"
got=$("$top/raser" doctor "$scratch" 2>&1)
like "$got" "$RASER_SITE_INI line 4" "raser doctor says so"
RASER_SITE_INI=
new_run || exit
mount_run o || exit
is "$(json .steal_after) $(json .clamped)" "180 " "without a site nothing is held back"
unmount o
plan
