#!/bin/bash
# 0100-tree.t - every row of the table in DESIGN 4: what is listed, what opens, what is refused,
# and with which error.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

new_run steal_after=60 || exit
mount_run m || exit

# every state: p* pending, a claimed, b claimed twice, d done, f failed, c cancelled, r retried
cat >"$scratch/tasks" <<'END'
{"id":"p1","text":"first"}
{"id": "p2",  "n": [1, 2, 3],"text":"second \u00e9"}
{"id":"a"}
{"id":"b","priority":7,"expected":90}
{"id":"d"}
{"id":"f"}
{"id":"c"}
{"id":"r"}
{"id":"p3","tier":"medium"}
END
cp "$scratch/tasks" "$M/new/tasks"
take a "$M/queue/low/a@1" || diag "a is not claimed"
take b1 "$M/queue/low/b@1" && is "$(ask b1 write free)" ok "b@1 is given back"
take b2 "$M/queue/low/b@2" || diag "b@2 is not claimed"
take d "$M/queue/low/d@1" && is "$(ask d write "done")" ok "d@1 is done"
take f "$M/queue/low/f@1" && is "$(ask f write failed because)" ok "f@1 has failed"
take r "$M/queue/low/r@1" && is "$(ask r write retry)" ok "r@1 is to be tried again"
is "$(chk rename 0 "$M/pending/c@1" "$M/cancelled/c@1")" ok "c@1 is cancelled"
for h in b1 d f r; do end_holder $h; done

# ---- the root ----

is "$(find "$M" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ')" \
	"README cancelled checkpoints done events failed leases logs metrics new nodes pending queue report.html results status status.json tasks " \
	"the root shows what the table names"
is "$(names "$M/queue")" "low medium high" "queue/ shows the tiers in their order"
for dir in . queue queue/low leases pending "done" failed cancelled tasks nodes; do
	is "$(chk mkdir "$M/$dir/x")" EPERM "mkdir $dir/x"
	is "$(chk open w,creat "$M/$dir/x")" EPERM "create $dir/x"
	is "$(chk mknod "$M/$dir/x")" EPERM "mknod $dir/x"
	is "$(chk symlink y "$M/$dir/x")" EPERM "symlink $dir/x"
done
is "$(chk link "$M/README" "$M/x")" EPERM "ln README"
is "$(chk unlink "$M/README")" EPERM "rm README"
is "$(chk rmdir "$M/done")" EPERM "rmdir done"
is "$(chk rename 0 "$M/README" "$M/x")" EPERM "mv README"
is "$(chk rename 0 "$M/done" "$M/x")" EPERM "mv done"
is "$(chk stat "$M/nosuch")" ENOENT "a name that is not there"
is "$(stat -f -c %c "$M")" 9 "statfs: as many files as tasks"
is "$(stat -c '%u %g' "$M/done" "$M/pending/p1@1" | sort -u)" "$(id -u) $(id -g)" \
	"everything is the mounter's"

# ---- queue/<tier>/T@k ----

q=$M/queue/low
is "$(names "$q")" "p1@1 p2@1" "queue/low: what low may take, in the order of submission"
is "$(names "$M/queue/medium")" "p1@1 p2@1 r@2 p3@1" "queue/medium: and what has failed once"
is "$(names "$M/queue/high")" "p1@1 p2@1 r@2 p3@1" "queue/high: everything"
is "$(cat "$q/p1@1")" '{"id":"p1","text":"first"}' "the payload, byte for byte"
is "$(cat "$q/p2@1")" "$(sed -n 2p "$scratch/tasks")" "blanks and escapes stay"
is "$(stat -c %s "$q/p2@1")" "$(sed -n 2p "$scratch/tasks" | tr -d '\n' | wc -c)" "its true size"
is "$(stat -c '%F %a %h' "$q/p1@1")" "regular file 644 1" "a regular file"
is "$(chk open r "$q/p1@1")" ok "O_RDONLY"
is "$(chk open w "$q/p1@1")" ok "O_WRONLY"
is "$(names "$M/leases")" "a@1 b@2" "neither claims"
is "$(chk open rw "$q/a@1")" EBUSY "O_RDWR of what is held: EBUSY"
is "$(chk stat "$q/a@1")" ok "a claimed name resolves, unlisted"
is "$(chk open rw "$q/a@2")" ENOENT "the attempt behind it is not there"
is "$(chk open rw "$q/b@1")" ENOENT "an attempt that is over: ENOENT"
is "$(chk stat "$q/d@1")" ENOENT "nothing done in queue/"
is "$(chk stat "$q/r@2")" ENOENT "low does not see what has failed"
is "$(chk open rw "$q/r@2")" ENOENT "nor may it take it"
is "$(chk stat "$q/p3@1")" ENOENT "nor what names a higher tier"
is "$(chk stat "$q/p1@2")" ENOENT "p1@2 is not there yet"
is "$(chk stat "$q/p1")" ENOENT "nor is p1 without a number"
is "$(chk stat "$q/p1@01")" ENOENT "nor p1@01"
is "$(chk stat "$q/nosuch@1")" ENOENT "nor an unknown task"
is "$(chk touch "$q/p1@1")" EPERM "touch of what nobody holds"
is "$(chk touch "$q/a@1")" ok "touch of a claimed name is a heartbeat"
is "$(chk utime 5 "$q/a@1")" EINVAL "touch -d is none"
is "$(chk open w,trunc "$q/p1@1")" EPERM "O_TRUNC"
is "$(chk open rw,trunc "$q/p1@1")" EPERM "O_RDWR and O_TRUNC"
is "$(chk truncate 0 "$q/p1@1")" EPERM "truncate"
like "$(chk write "$q/p1@1" "done")" '^(EPERM|ENOENT)$' "a verb for what nobody holds"
is "$(chk unlink "$q/p1@1")" EPERM "rm"
is "$(chk link "$q/p1@1" "$q/x")" EPERM "ln"
is "$(chk rename 0 "$q/p1@1" "$M/done/p1@1")" EPERM "mv of what nobody holds"
is "$(chk rename 0 "$q/p1@1" "$q/x@1")" EPERM "mv within the tier"
is "$(chk chmod 600 "$q/p1@1")" EPERM "chmod"
is "$(chk chown 1 "$q/p1@1")" EPERM "chown"
is "$(chk open w,creat "$q/b@1")" ESTALE "touch of an attempt that is over says so"
nok "sed -i fails" sed -i s/first/other/ "$q/p1@1" 2>/dev/null
nok "echo > fails" bash -c "echo x >'$q/p1@1'" 2>/dev/null
nok "cp over it fails" cp "$scratch/tasks" "$q/p1@1" 2>/dev/null
is "$(cat "$q/p1@1")" '{"id":"p1","text":"first"}' "nothing of that changed it"
is "$(names "$q")" "p1@1 p2@1" "nor took it"

# ---- next and ready ----

is "$(stat -c '%f %a' "$q/next") $(stat -c '%f %a' "$q/ready")" "81a4 644 8124 444" \
	"next and ready resolve"
is "$(find "$M" -name next -o -name ready)" "" "but are never listed"
is "$(chk open w "$q/next")" EPERM "O_WRONLY of next"
is "$(chk open rw,trunc "$q/next")" EPERM "O_TRUNC of next"
is "$(chk touch "$q/next")" EPERM "touch next"
is "$(chk unlink "$q/next")" EPERM "rm next"
is "$(cat "$q/ready") $(cat "$M/queue/medium/ready")" "2 4" "ready: how many could be had"
is "$(stat -c %s "$q/ready")" 2 "its true size"
is "$(chk open w "$q/ready")" EPERM "O_WRONLY of ready"
is "$(chk touch "$q/ready")" EPERM "touch ready"

# ---- leases ----

l=$M/leases
is "$(names "$l")" "a@1 b@2" "leases/: the claims"
like "$(cat "$l/a@1")" "owner $(awk '/^owner/ { print $2 }' "$M/status")" "a lease says who holds it"
like "$(cat "$l/a@1")" 'since [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}' "and since when"
like "$(cat "$l/a@1")" "agent chk\[${held[a]}\]" "and which program"
is "$(stat -c %s "$l/a@1")" "$(wc -c <"$l/a@1")" "its true size"
is "$(chk open rw "$l/a@1")" ok "O_RDWR of a lease claims nothing"
is "$(chk open w,trunc "$l/a@1")" ok "O_TRUNC of a lease is ignored"
is "$(chk truncate 0 "$l/a@1")" ok "so is truncate"
is "$(chk touch "$l/a@1")" ok "touch"
is "$(chk utime 5 "$l/a@1")" EINVAL "touch -d"
is "$(chk chmod 600 "$l/a@1")" EPERM "chmod"
is "$(chk write "$l/a@1" nonsense)" EINVAL "a verb that is none"
is "$(chk write "$l/a@1" "parked never")" EINVAL "parked without a time"
is "$(chk write "$l/a@1" "parked 9999999999")" ok "parked UNTIL"
like "$(cat "$l/a@1")" 'parked until ' "a lease says so"
is "$(chk write "$l/a@1" "done
failed")" EINVAL "one verb only"
is "$(chk stat "$l/p1@1")" ENOENT "no lease of a pending task"
is "$(chk stat "$l/a@2")" ENOENT "nor of an attempt to come"
is "$(chk stat "$l/nosuch@1")" ENOENT "nor of an unknown task"
is "$(chk stat "$l/a")" ENOENT "nor without its number"
is "$(chk rename 0 "$l/a@1" "$l/a@2")" EPERM "mv within leases/"
is "$(chk rename 0 "$l/a@1" "$M/done/other@1")" EPERM "mv to another name"
is "$(chk rename 0 "$l/a@1" "$M/done/p1@1")" EPERM "mv to another task's"
is "$(chk rename 0 "$l/a@1" "$q/a@1")" EPERM "mv back to queue/"
is "$(chk rename 0 "$l/a@1" "$M/tasks/a@1")" EPERM "mv to tasks/"
is "$(chk rename exchange "$l/a@1" "$l/b@2")" EINVAL "RENAME_EXCHANGE"
is "$(chk link "$l/a@1" "$l/x@1")" EPERM "ln"
is "$(names "$l")" "a@1 b@2" "none of that ended one"
before=$(stat -c %Y "$l/a@1")
later() { touch "$l/a@1" && [ "$(stat -c %Y "$l/a@1")" -gt "$before" ]; }
ok "its time is that of the last heartbeat" wait_until 5 later

# ---- pending, done, failed, cancelled ----

is "$(names "$M/pending")" "p1@1 p2@1 r@2 p3@1" "pending/"
is "$(names "$M/done") $(names "$M/failed") $(names "$M/cancelled")" "d@1 f@1 c@1" \
	"done/, failed/, cancelled/"
is "$(cat "$M/done/d@1" "$M/failed/f@1" "$M/cancelled/c@1" | tr -d '\n')" \
	'{"id":"d"}{"id":"f"}{"id":"c"}' "they show the payload"
is "$(stat -c %a "$M/done/d@1")" 444 "to be read"
for name in pending/p1@1 done/d@1 failed/f@1 cancelled/c@1 tasks/p1; do
	is "$(chk open w "$M/$name")" EPERM "O_WRONLY of $name"
	is "$(chk open rw "$M/$name")" EPERM "O_RDWR of $name"
	is "$(chk touch "$M/$name")" EPERM "touch $name"
	is "$(chk utime 5 "$M/$name")" EINVAL "touch -d $name"
	is "$(chk truncate 0 "$M/$name")" EPERM "truncate $name"
	is "$(chk unlink "$M/$name")" EPERM "rm $name"
	is "$(chk link "$M/$name" "$M/x")" EPERM "ln $name"
done
is "$(chk stat "$M/pending/r@1")" ok "an older number resolves, so that mv finds what it moved"
is "$(chk stat "$M/pending/r@3")" ENOENT "a later one does not"
is "$(chk stat "$M/pending/d@1")" ENOENT "a task is in one state only"
is "$(chk stat "$M/done/a@1")" ENOENT "a claimed one in none of these"
is "$(chk stat "$M/done/nosuch@1")" ENOENT "an unknown one neither"
is "$(chk rename 0 "$M/done/d@1" "$M/pending/d@1")" EPERM "done stays done"
is "$(chk rename 0 "$M/done/d@1" "$M/cancelled/d@1")" EPERM "and cannot be cancelled"
is "$(chk rename 0 "$M/pending/p1@1" "$M/done/p1@1")" EPERM "pending is not done by mv"
is "$(chk rename 0 "$M/failed/f@1" "$M/done/f@1")" EPERM "nor is failed"
is "$(chk rename 0 "$M/tasks/p1" "$M/cancelled/p1")" EPERM "tasks/ is for looking"

# ---- tasks ----

is "$(names "$M/tasks")" "p1 p2 a b d f c r p3" "tasks/: every task, without a number"
is "$(cat "$M/tasks/d")" '{"id":"d"}' "its payload"
x=
for t in p1 a b d f c r p3; do x="$x $(xattr "$M/tasks/$t" state)"; done
is "$x" " pending claimed claimed done failed cancelled pending pending" "user.raser.state"
is "$(xattr "$M/tasks/b" attempt) $(xattr "$M/tasks/r" attempt)" "2 2" "user.raser.attempt"
is "$(xattr "$M/tasks/r" failures) $(xattr "$M/tasks/b" failures)" "1 0" "user.raser.failures"
is "$(xattr "$M/tasks/r" losses)" 0 "user.raser.losses"
is "$(xattr "$M/tasks/r" tier) $(xattr "$M/tasks/p1" tier) $(xattr "$M/tasks/p3" tier)" \
	"medium low medium" "user.raser.tier"
is "$(xattr "$M/tasks/b" priority) $(xattr "$M/tasks/b" expected)" "7 90" "priority and expected"
like "$(xattr "$M/tasks/a" submitter)" "^uid $(id -u) at ." "user.raser.submitter"
owner=$(awk '/^owner/ { print $2 }' "$M/status")
is "$(xattr "$M/tasks/a" claimer)" "$owner" "user.raser.claimer"
is "$(xattr "$M/tasks/a" node)" "${owner%.*}" "user.raser.node"
is "$(xattr "$M/tasks/a" agent)" "chk[${held[a]}]" "user.raser.agent"
is "$(xattr "$M/tasks/p1" claimer)" "" "a pending task has no claimer"
is "$(xattr "$M/tasks/r" reason) $(xattr "$M/tasks/f" reason)" "crash verdict" "user.raser.reason"
is "$(chk listxattr "$M/tasks/a" | tr ' ' '\n' | sed 's/user.raser.//' | sort | tr '\n' ' ')" \
	"agent attempt claimer evidence expected failures losses node priority reason state submitter tier " \
	"a listing of them"
is "$(xattr "$q/p1@1" state) $(xattr "$l/a@1" state) $(xattr "$M/done/d@1" state)" \
	"pending claimed done" "every file of a task has them"
is "$(chk getxattr "$M/tasks/a" user.raser.nosuch)" ENODATA "an attribute that is not there"
is "$(chk getxattr "$M/tasks/a" user.other)" ENODATA "nor is this"
is "$(chk getxattr "$M/tasks/a" security.selinux)" EOPNOTSUPP "other kinds are not supported"
is "$(chk getxattr "$M/tasks/a" system.posix_acl_access)" EOPNOTSUPP "ACLs neither"
is "$(chk getxattr-into 2 "$M/tasks/a" user.raser.state)" ERANGE "a buffer too small"
is "$(chk setxattr "$M/tasks/a" user.raser.state "done")" EPERM "they are not for setting"
is "$(chk setxattr "$M/tasks/a" security.x y)" EOPNOTSUPP "nor are others"
is "$(chk removexattr "$M/tasks/a" user.raser.state)" EPERM "nor for removing"

# ---- new ----

is "$(names "$M/new")" tasks "new/ shows the receipt"
is "$(tr '\n' ' ' <"$M/new/tasks")" "p1 p2 a b d f c r p3 " "a line for each task: its id"
is "$(stat -c %s "$M/new/tasks")" "$(wc -c <"$M/new/tasks")" "its true size"
is "$(chk touch "$M/new/tasks")" ok "touch is accepted"
is "$(chk utime 5 "$M/new/tasks")" ok "so is touch -d"
is "$(chk chmod 600 "$M/new/tasks")" ok "and chmod"
is "$(chk mkdir "$M/new/x")" EPERM "mkdir is not"
is "$(chk rename 0 "$M/new/tasks" "$M/done/tasks")" EPERM "nor is mv elsewhere"
is "$(chk rename 0 "$M/done/d@1" "$M/new/d@1")" EPERM "nor mv of a task into it"

# ---- nodes ----

is "$(names "$M/nodes")" "$owner" "nodes/: the daemons that live"
for word in "owner $owner" "host $(hostname)" "pid ${daemon[m]}" "version [0-9]" "agents"; do
	like "$(cat "$M/nodes/$owner")" "$word" "a node tells its ${word%% *}"
done
is "$(stat -c %s "$M/nodes/$owner")" "$(wc -c <"$M/nodes/$owner")" "its true size"
is "$(chk open w "$M/nodes/$owner")" EPERM "O_WRONLY of a node"
is "$(chk touch "$M/nodes/$owner")" EPERM "touch of a node"
is "$(chk unlink "$M/nodes/$owner")" EPERM "rm of a node"
is "$(chk rename 0 "$M/nodes/$owner" "$M/nodes/x.y")" EPERM "mv of a node"
is "$(chk stat "$M/nodes/no.such")" ENOENT "an unknown node"

# ---- files of words ----

like "$(cat "$M/status")" "run $RUN" "status: the run"
for line in "pending 4" "claimed 2" "done 1" "failed 1" "cancelled 1" "moved up 1"; do
	like "$(cat "$M/status")" $'\n'"$line"$'\n' "status: $line"
done
is "$(jq -e type "$M/status.json")" '"object"' "status.json is JSON"
is "$(json '[.tasks.pending, .tasks.claimed, .tasks.done, .tasks.failed, .tasks.cancelled, .total] | join(" ")')" \
	"4 2 1 1 1 9" "status.json: the counts"
is "$(json '.tiers | map("\(.name) \(.ready)") | join(", ")')" "low 2, medium 4, high 4" \
	"status.json: the tiers"
is "$(json '[.ends.done, .ends.failed, .ends.retry, .ends.freed] | join(" ")')" "1 1 1 1" \
	"status.json: how attempts ended"
is "$(json '.owner')" "$owner" "status.json: the owner"
is "$(grep -cvE '^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+)$' "$M/metrics")" \
	0 "metrics: every line is Prometheus text"
like "$(cat "$M/metrics")" $'\nraser_tasks\\{state="pending"\\} 4\n' "metrics: the counts"
is "$(grep -c '^raser_' "$M/metrics")" \
	"$(grep '^raser_' "$M/metrics" | sed 's/ .*//' | sort -u | wc -l)" "metrics: no sample twice"
like "$(cat "$M/report.html")" '<html.*</html>' "report.html: a page"
is "$(grep -ciE 'src=|href=|@import|url\(' "$M/report.html")" 0 "report.html: needs nothing else"
like "$(cat "$M/events")" 'a@1 claimed by chk' "events: a claim"
like "$(cat "$M/events")" 'f@1 failed verdict: because' "events: an end and its reason"
like "$(cat "$M/README")" 'mv leases/' "README: how it works"
is "$(stat -c %s "$M/README")" "$(wc -c <"$M/README")" "README: its true size"
for name in status status.json metrics report.html events README; do
	is "$(chk open w "$M/$name")" EPERM "O_WRONLY of $name"
	is "$(chk touch "$M/$name")" EPERM "touch $name"
	is "$(chk truncate 0 "$M/$name")" EPERM "truncate $name"
	like "$(stat -c %s "$M/$name")" '^[1-9]' "$name has a size"
done

# ---- links to the data ----

for name in checkpoints results logs; do
	is "$(readlink "$M/$name")" "$RUN/$name" "$name points into the run directory"
	is "$(stat -c %s "$M/$name")" "$(printf %s "$RUN/$name" | wc -c)" "a link's size"
	is "$(chk unlink "$M/$name")" EPERM "rm $name"
done
echo data >"$M/results/kept"
is "$(cat "$RUN/results/kept")" data "what is written there is in the run directory"
is "$(stat -c %d "$M/results/")" "$(stat -c %d "$RUN")" "and does not pass through the mount"

# ---- attempts that are over ----

is "$(chk stat "$l/d@1")" ok "an attempt ended here resolves in leases/ for a while"
like "$(cat "$l/d@1")" '(^|'$'\n'')over' "and says that it is over"
is "$(chk touch "$l/d@1")" ESTALE "but cannot be kept"
is "$(chk write "$l/d@1" failed)" ESTALE "nor ended otherwise"
is "$(chk write "$l/d@1" "done")" ok "the same verb again is success"
is "$(chk rename 0 "$l/d@1" "$M/done/d@1")" ok "so is the same mv"
is "$(chk rename 0 "$l/d@1" "$M/pending/d@1")" ESTALE "another mv is not"
is "$(names "$l")" "a@1 b@2" "it is not listed"
end_holder a
end_holder b2
ok "dead holders are noticed" wait_until 10 has_count "$l" 0
unmount m
is $? 0 "the daemon ends"
mount_run m || exit # a new daemon has seen none of it
is "$(names "$M/done") $(names "$M/failed") $(names "$M/cancelled")" "d@1 f@1 c@1" \
	"a new daemon finds what was done"
for name in d@1 f@1 a@1 b@1 b@2 r@1 c@1; do
	is "$(chk stat "$l/$name")" ESTALE "leases/$name: over"
done
is "$(chk touch "$l/d@1")" ESTALE "touch"
is "$(chk read r "$l/d@1")" ESTALE "cat"
is "$(chk write "$l/d@1" "done")" ESTALE "a verb"
is "$(chk unlink "$l/d@1")" ESTALE "rm"
is "$(chk rename 0 "$l/d@1" "$M/done/d@1")" ESTALE "mv"
like "$(touch "$l/d@1" 2>&1)" "Stale file handle" "touch says Stale file handle"
like "$(mv "$l/d@1" "$M/done/" 2>&1)" "Stale file handle" "so does mv"
like "$(cat "$l/d@1" 2>&1)" "Stale file handle" "and cat"
is "$(chk stat "$l/p1@1")" ENOENT "leases/p1@1 never was"
is "$(chk stat "$l/a@2")" ENOENT "leases/a@2 is not there yet"
is "$(chk stat "$q/a@1")" ENOENT "elsewhere it is ENOENT"

# ---- rm -rf ----

take p1 "$q/p1@1" || diag "p1 is not claimed"
before=$(json '.total')
rm -rf "$M" 2>/dev/null
is $? 1 "rm -rf of the mount fails"
is "$(json '.total') $(json '[.tasks.done, .tasks.failed, .tasks.cancelled] | join(" ")')" \
	"$before 1 1 1" "no task is lost by it"
is "$(names "$M/tasks")" "p1 p2 a b d f c r p3" "all of them are there"
is "$(cat "$RUN/results/kept")" data "nor any result"
is "$(chk write "$l/p1@1" "done")" ESTALE "leases/ is for removing: that revoked the claims"
is "$(names "$M/queue/low")" "p1@2 p2@1" "whose tasks are there again"
end_holder p1
plan
