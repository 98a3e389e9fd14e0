# shellcheck shell=bash disable=SC2016,SC2034,SC2317
# faults.sh - what can happen to a cluster, one function each, and `storm`, which lets it happen
# while tasks are worked on, and then takes the account.
# shellcheck source=tests/cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

calm() { :; }

kills() {
	local i
	for i in 1 2 3; do
		tell 1 KILL && up 1 || return
		sleep 1
	done
}

stops() {
	tell 2 STOP && sleep 3 && tell 2 CONT && tell 3 STOP || return
	sleep $((steal_after + 4))
	tell 3 CONT
}

cuts() {
	rig cut 3 && sleep $((steal_after + 4)) && rig join 3
}

service() { node 0 'rpc.nfsd 0 && sleep 5 && rpc.nfsd 4'; }

power() { rig off 0 && rig on 0; }

reboot() { rig off 3 && rig on 3 && up 3 && start_agents 3; }

beats() {
	local i
	for i in 1 2 3; do unlink_beats $i && sleep 1 || return; done
}

leases() { # what has ended in between cannot be removed any more
	local i
	for i in 1 2 3 1 2 3; do
		node $i 'rm -f $OWN/q/leases/* 2>&1 | grep -v -e "Stale file handle" -e "No such file"'
		sleep 0.5
	done
	true
}

clocks() {
	node 1 'date -s -2hours' && node 2 'date -s +1day' && node 0 'date -s -1hour' && sleep 2 &&
		node 3 'date -s -1day' && node 0 'date -s +3hours'
} >/dev/null

declare -A saying=(
	[calm]="nothing happens"
	[kills]="a daemon is killed and mounted again, three times"
	[stops]="a daemon is stopped for less than steal_after, one for more"
	[cuts]="a client is cut off from the server for more than steal_after"
	[service]="the service of the server is stopped for 5 s"
	[power]="the server loses its power"
	[reboot]="a client loses its power"
	[beats]="all of nodes/ is deleted, three times"
	[leases]="all of leases/ is deleted, six times"
	[clocks]="clocks jump by hours, the server's too"
)

# storm TASKS FAULT...: one after the other, each with so many tasks
storm() {
	local k fault n=$1 before=$nfailed
	shift
	shared_run storm
	for ((k = 1; k <= clients; k++)); do ok "client $k mounts" up "$k"; done
	[ "$nfailed" = "$before" ] || give_up
	for ((k = 1; k <= clients; k++)); do start_agents "$k"; done
	for fault in "$@"; do
		wave "${saying[$fault]}" "$n" "$fault"
		[ "$fault" != calm ] || is "$(cat "$logs"/raserfs.? | grep 'task t[0-9]*@[0-9]*: lost')" "" "no claim was lost meanwhile"
	done
	agents_leave
	judge_answers
	for ((k = 1; k <= clients; k++)); do ok "the daemon of client $k ends" down "$k"; done
	is "$(node 1 "ls \$SHARED/$run/nodes")" "" "no beat is left"
	audit
}
