#!/bin/bash
# 0500-submit.t - tasks in, by every tool: all or nothing, each once, byte for byte, and told why
# when not.
# shellcheck source=tests/lib.sh disable=SC2317
. "$(dirname "$0")/../lib.sh"

new_run steal_after=60 || exit
mount_run m || exit
new=$M/new
S=$scratch

# taken PREFIX: how many tasks whose name begins so
taken() { chk list 0 "$M/tasks" | grep -c "^$1"; }
# way NAME WANTED TEXT: the status of what was just run, and the tasks that came
way() {
	local status=$?
	is "$status $(taken "$1")" "0 $2" "$3"
}
put() { printf '%s' "$2" | chk put "$new/$1"; }

# ---- tools ----

for n in cp cpa cpp inst rs rsa rsi tee dd cat mv py jq shuf; do tasks 3 "$n." >"$S/$n"; done
cp "$S/cp" "$new/"
way cp. 3 "cp"
cp -a "$S/cpa" "$new/"
way cpa. 3 "cp -a"
cp -p "$S/cpp" "$new/other-name"
way cpp. 3 "cp -p to another name"
install -m 600 "$S/inst" "$new/inst"
way inst. 3 "install"
if command -v rsync >/dev/null; then
	rsync "$S/rs" "$new/"
	way rs. 3 "rsync"
	rsync -a "$S/rsa" "$new/"
	way rsa. 3 "rsync -a"
	rsync --inplace "$S/rsi" "$new/"
	way rsi. 3 "rsync --inplace"
else
	skip 3 "no rsync"
fi
tee "$new/tee" <"$S/tee" >/dev/null
way tee. 3 "tee"
cat "$S/cat" >"$new/cat"
way cat. 3 "cat >"
dd if="$S/dd" of="$new/dd" bs=7 2>/dev/null
way dd. 3 "dd bs=7"
mv "$S/mv" "$new/"
way mv. 3 "mv from another file system"
(tasks 2 sub.; tasks 1 sub.x) >"$new/sub"
way sub. 3 "(a; b) >"
for i in 1 2 3; do /usr/bin/env printf '{"id":"kid.%d"}\n' $i; done >"$new/kids"
way kid. 3 "a loop of programs"
for i in 1 2 3; do echo "{\"id\":\"loop.$i\"}" >"$new/loop.$i"; done
way loop. 3 "a loop of echo >"
again() { # NAME REDIRECTION: one after the other into one name; how many fail, how many come
	local i failed=0
	for i in $(seq 1 60); do
		bash -c "echo '{\"id\":\"$1.$i\"}' $2'$new/$1'" 2>/dev/null || failed=$((failed + 1))
	done
	echo "$failed $(taken "$1\.")"
}
is "$(again same '>')" "0 60" "echo > the same name again and again"
is "$(again app '>>')" "0 60" "echo >> it"
if command -v python3 >/dev/null; then
	python3 -c 'import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])' "$S/py" "$new/"
	way py. 3 "shutil.copy"
else
	skip 1 "no python3"
fi
jq -c . "$S/jq" >"$new/jq"
way jq. 3 "jq >"
if command -v sponge >/dev/null || command -v shuf >/dev/null; then
	shuf "$S/shuf" -o "$new/shuf"
	way shuf. 3 "shuf -o"
else
	skip 1 "no shuf"
fi
is "$("$top/raser" submit "$RUN" - < <(tasks 3 tool.))" "3 tasks taken, 0 were there already" \
	"raser submit of a run directory, standard input"
tasks 3 file. >"$S/file"
is "$("$top/raser" submit "$RUN" "$S/file")" "3 tasks taken, 0 were there already" "and a file"
ls "$M/pending" >/dev/null
arrived() { [ "$(taken "$1")" = "$2" ]; }
ok "the mount learns of both" wait_until 5 arrived 'tool\.\|file\.' 6
is "$("$top/raser" submit "$M" - < <(tasks 3 via.))" "3 tasks taken, 0 were there already" \
	"raser submit of a mount"
is "$(taken via.)" 3 "takes them"
is "$(json .total)" "$(count "$M/tasks")" "no task more or less"

# ---- staged names ----

is "$(put st.tmp '{"id":"st.1"}')" ok "a name that ends in .tmp"
is "$(taken st.)" 0 "is not taken"
is "$(chk rename 0 "$new/st.tmp" "$new/st") $(taken st.)" "ok 1" "until it is renamed"
is "$(put .hid '{"id":"hid.1"}') $(put 'tilde~' '{"id":"til.1"}') $(taken 'hid\|til')" "ok ok 0" ".x and x~ as well"
is "$(chk rename 0 "$new/.hid" "$new/hid") $(chk rename 0 "$new/tilde~" "$new/til") $(taken 'hid\|til')" \
	"ok ok 2" "until they are renamed"
is "$(put bad.tmp '{"id":"bad.1"')" ok "a staged one is not judged"
is "$(chk rename 0 "$new/bad.tmp" "$new/bad")" EINVAL "until it is renamed"
is "$(put away.tmp '{"id":"away.1"}') $(chk unlink "$new/away.tmp") $(taken away)" "ok ok 0" "one that is removed is nothing"

# ---- what is bad ----

# bad NAME TEXT CALL REASON: a refusal, where the call that told it, and what the receipt says
bad() {
	local before
	before=$(json .total)
	is "$(put "$1" "$2")" "$3 EINVAL" "$1: $3 says EINVAL"
	like "$(cat "$new/$1")" "$4" "$1: the receipt says why"
	is "$(json .total)" "$before" "$1: nothing is taken"
}
nl=$'\n'
bad line "{\"id\":\"b1\"}$nl{\"id\":\"b2\",}$nl{\"id\":\"b3\"}$nl" write 'line 2, column [0-9]+: .'
bad word "{\"id\":\"b1\"}${nl}nonsense$nl" write 'line 2, column [0-9]+: .'
bad cut '{"id":"b1"' close 'line 1, column [0-9]+: .'
bad cutlater "{\"id\":\"b1\"}$nl{\"id\":\"b" close 'line 2, column [0-9]+: .'
bad two '{"id":"b1"} {"id":"b2"}'"$nl" write 'line 1, column 13: something follows'
bad scalar "5$nl" write 'line 1, column 1: a task must be a JSON object'
bad string "\"x\"$nl" write 'a task must be a JSON object'
bad list '[{"id":"b1"},[1]]' write 'a task must be a JSON object'
bad open '[{"id":"b1"},{"id":"b2"}' close 'the array of tasks is not closed'
bad comma '[{"id":"b1"} {"id":"b2"}]' write 'a comma or \] is missing'
bad behind '[{"id":"b1"}] {"id":"b2"}' write 'something follows the array'
bad empty '{"id":""}'"$nl" write 'the id is empty'
bad bool '{"id":true}'"$nl" write 'an id must be a string or a number'
bad object '{"id":{"x":1}}'"$nl" write 'an id must be a string or a number'
bad long "{\"id\":\"$(printf '%0231d' 0)\"}$nl" write 'more than 230 bytes'
bad long2 "{\"id\":\"$(printf '%077d' 0 | tr 0 /)\"}$nl" write 'more than 230 bytes'
bad tier '{"id":"b1","tier":"huge"}'"$nl" write 'tier must name a tier of raser.ini.*huge'
bad tier2 '{"id":"b1","tier":3}'"$nl" write 'tier must name a tier'
bad memory '{"id":"b1","memory":"lots"}'"$nl" write 'memory must be bytes or a size'
bad memory2 '{"id":"b1","memory":"1000T"}'"$nl" write 'memory: no tier of raser.ini has'
bad memory3 '{"id":"b1","memory":-1}'"$nl" write 'memory must be'
bad priority '{"id":"b1","priority":"high"}'"$nl" write 'priority must be a number'
bad expected '{"id":"b1","expected":-1}'"$nl" write 'expected must be a number'
bad failures '{"id":"b1","max_failures":-1}'"$nl" write 'max_failures must be a number'
bad failures2 '{"id":"b1","max_failures":[]}'"$nl" write 'max_failures must be a number'
bad utf8 $'{"id":"b\xff"}'"$nl" write 'line 1, column [0-9]+: .'
is "$(taken 'b[123]')" 0 "no task of a bad submission exists"
nok "echo bad > fails, by write" bash -c "echo '{bad' >'$new/x1'" 2>/dev/null
echo '{bad' >"$S/x2"
like "$(cp "$S/x2" "$new/" 2>&1)" "Invalid argument" "cp of a bad file says Invalid argument"
printf '{"id":"cut' >"$S/x3"
like "$(cp "$S/x3" "$new/" 2>&1)" "Invalid argument" "also when only close can tell"
"$top/raser" submit "$RUN" "$S/x2" 2>"$S/err"
is $? 1 "raser submit of it fails"
like "$(cat "$S/err")" 'line 1, column [0-9]+: .' "and says where and why"
"$top/raser" submit "$M" "$S/x3" 2>"$S/err"
is $? 1 "also by the mount"
like "$(cat "$S/err")" 'line 1, column [0-9]+: .' "saying the same"
"$top/raser" submit "$RUN" "$S/nosuch" 2>/dev/null
is $? 1 "raser submit of what is not there fails"
"$top/raser" submit "$RUN" 2>/dev/null
is $? 2 "raser submit of nothing is a wrong use"
is "$(chk open w,creat "$new/void") $(taken void)" "ok 0" "an empty file is no submission, and no error"
is "$(put blank "$nl $nl")" ok "nor are blanks"
nok "a hole is refused" dd if="$S/cp" of="$new/hole" bs=1 seek=5 conv=notrunc 2>/dev/null

# ---- what is good ----

# good NAME TEXT IDS TEXT: and the tasks that come of it
good() {
	is "$(put "$1" "$2") $(tr '\n' ' ' <"$new/$1" | sed 's/ $//')" "ok $3" "$4"
}
good one '{"id":"g1"}' g1 "one object without a newline"
good crlf $'{"id":"g2"}\r\n\r\n{"id":"g3"}\r\n' "g2 g3" "CRLF and blank lines"
good bom $'\xef\xbb\xbf{"id":"g4"}\n' g4 "a byte order mark"
good array '[{"id":"g5"},{"id":"g6"}]' "g5 g6" "an array"
good pretty "$(printf '[{"id":"g7","a":[1,{"b":"}"}]},{"id":"g8"}]' | jq .)" "g7 g8" "a pretty array"
good object "$(printf '{"id":"g9","a":{"b":1}}' | jq .)" g9 "a pretty object"
good objects "$(printf '{"id":"g10","a":1}{"id":"g11","b":2}' | jq .)" "g10 g11" "several of them"
good noarray '[]' "" "an empty array"
is "$(cat "$M/tasks/g7")" "$(printf '[{"id":"g7","a":[1,{"b":"}"}]}]' | jq . | sed -n '2,$p' | sed '$d' | sed '1s/^ *//')" \
	"the payload of a pretty one is its text"
is "$(cat "$M/tasks/g2")" '{"id":"g2"}' "that of a line has no line end"
line='{ "id" : "g12" , "x":1e300, "y": 123456789012345678901234567890, "z":"\u00e9\ud83d\ude00" }'
good bytes "$line$nl" g12 "numbers beyond 64 bits, and escapes"
is "$(cat "$M/tasks/g12")" "$line" "stay as they are written"
head -c 140000 /dev/urandom | base64 -w 0 | head -c 140000 >"$S/blob"
(printf '{"id":"big1","x":"'; cat "$S/blob"; echo '"}'; printf '{"id":"big2","x":"'; cat "$S/blob" "$S/blob"; echo '"}') >"$S/big"
cp "$S/big" "$new/"
way big 2 "lines of 140 and 280 kB"
ok "are there byte for byte" cmp -s <(cat "$M/tasks/big1"; echo; cat "$M/tasks/big2"; echo) "$S/big"
is "$(stat -c %s "$M/tasks/big1")" "$(head -n 1 "$S/big" | tr -d '\n' | wc -c)" "in their true size"
is "$("$top/raser" submit "$RUN" "$S/big")" "0 tasks taken, 2 were there already" "and are known again"

# ---- ids ----

# id JSON NAME TEXT
id() {
	is "$(printf '{"id":%s}\n' "$1" | chk put "$new/id") $(cat "$new/id")" "ok $2" "$3"
	is "$(cat "$M/queue/low/$2@1")" "{\"id\":$1}" "$2 can be read"
}
id '"i/a/b"' i%2Fa%2Fb "a slash"
id '"i a  b "' "i a  b " "spaces"
id '"i\"q\"'\''"' "i\"q\"'" "quotes"
id '"i@1"' i%401 "an @"
id '"i@1@2"' i%401%402 "two"
id '"i!$`;&*?~#"' 'i!$`;&*?~#' "what shells eat"
id '"i[]|:\\<>"' 'i[]|:\<>' "brackets and bars"
id '"i%41"' i%2541 "a percent sign"
id '".i"' %2Ei "a leading dot"
id '"i."' i. "a trailing dot"
id '"i\u0001\n\t\u007f"' i%01%0A%09%7F "control bytes"
id '"i\u0000i"' i%00i "NUL"
id '"ié€"' ié€ "letters of others"
id '"-rf"' -rf "an option"
id '"next"' next "next"
id "\"$(printf '%0215d' 0)\"" "$(printf '%0215d' 0)" "215 bytes"
id "\"$(printf '%0230d' 1)\"" "$(printf '%0230d' 1)" "230 bytes"
id 7 7 "a number"
id 1.5 1.5 "a fraction"
id 1152921504606846977 1152921504606846977 "a large number"
is "$(put pre '{"id":"pre"}
{"id":"pre1"}
{"id":"pr"}
{"id":"pre@1"}
{"id":"p"}') $(tr '\n' ' ' <"$new/pre")" "ok pre pre1 pr pre%401 p " "prefixes of each other"
is "$(put names '{"instance_id":"n1"}
{"task_id":"n2"}
{"id":"n3","instance_id":"x","task_id":"y"}') $(tr '\n' ' ' <"$new/names")" "ok n1 n2 n3 " \
	"instance_id and task_id stand for id"
is "$(put anon '{"x":1}
{"x":1}
{"id":null,"x":1}') $(sort -u "$new/anon" | wc -l)" "ok 3" "without one, each gets a name of its own"
# every name can be claimed and ended by it
failed=0
for f in "$M"/queue/low/*i* "$M/queue/low/-rf@1" "$M/queue/low/next@1" "$M/queue/low/7@1" "$M"/queue/low/pr*; do
	f=${f##*/}
	hold h rw "$M/queue/low/$f"
	[ "$(answer h) $(ask h read)" = "ok ok" ] || { failed=1; diag "cannot claim $f"; }
	mv -- "$M/leases/$f" "$M/done/" || failed=1
	[ -e "$M/done/$f" ] || failed=1
	end_holder h
done
is $failed 0 "each of them can be claimed and moved to done/"

# ---- the same again ----

is "$(put d1 '{"id":"d1"}
{"id":"d2"}
{"id":"d1"}
') $(taken d[12])" "ok 2" "the same twice in a submission is taken once"
like "$(cat "$new/d1")" 'd1[[:space:]]twice in this submission' "and the receipt tells"
is "$(put d2 '{"id":"d2"}
{"id":"d4"}
') $(taken d[124])" "ok 3" "what is there already is skipped"
like "$(cat "$new/d2")" 'd2[[:space:]]already there' "and the receipt tells"
is "$(put d3 '{"id":"d5"}
{"id":"d5","x":1}
') $(taken d5)" "write EEXIST 0" "an id with two payloads in a submission"
is "$(put d6 '{"id":"d6"}
{"id":"d2","x":1}
') $(taken d6)" "close EEXIST 0" "an id that is taken by another payload: EEXIST, nothing is taken"
like "$(cat "$new/d6")" 'd2[[:space:]]exists already with another payload' "the receipt tells which"
echo '{"id":"d2","y":2}' >"$S/d7"
cp "$S/d7" "$new/" 2>"$S/err"
is $? 1 "cp exits 1"
like "$(cat "$S/err")" "File exists" "with File exists"
is "$(put num '{"id":2}') $(put num2 '{"id":"2"}')" "ok close EEXIST" "2 and \"2\" are one id"
like "$(put num3 '{"id":2}') $(cat "$new/num3")" "^ok 2[[:space:]]already there$" "2 and 2 one task"
"$top/raser" submit "$RUN" "$S/d7" 2>"$S/err"
is $? 1 "raser submit fails as well"
like "$(cat "$S/err")" "d2[[:space:]]exists already with another payload" "and says which"
is "$(cat "$M/tasks/d2")" '{"id":"d2"}' "what was there is as it was"
chk rename 0 "$M/pending/d4@1" "$M/cancelled/d4@1" >/dev/null
is "$(put d8 '{"id":"d4"}') $(xattr "$M/tasks/d4" state)" "ok cancelled" "a known id is not reopened by it"

# ---- another field for the id ----

is "$("$top/raser" submit --id-field key "$RUN" - <<<'{"id":"x","key":"k/1"}')" \
	"1 tasks taken, 0 were there already" "raser submit --id-field"
ls "$M/pending" >/dev/null
ok "takes the id from there" wait_until 5 exists "$M/tasks/k%2F1"
is "$("$top/raser" submit --id-field key "$M" - <<<'{"id":"x","key":"k2"}')" \
	"1 tasks taken, 0 were there already" "also by the mount"
ok "which shows it" wait_until 5 exists "$M/tasks/k2"
"$top/raser" submit --id-field key "$RUN" - <<<'{"id":"x"}' 2>"$S/err"
is $? 1 "without the field it fails"
like "$(cat "$S/err")" "line 1, column 1: no field key" "and says so"

# ---- several at once ----

mount_run m2 || exit
for i in 1 2 3 4; do
	tasks 50 "par$i." >"$S/par$i"
	tasks 50 both. >"$S/both$i"
done
pids=()
for i in 1 2 3 4; do
	cp "$S/par$i" "$S/both$i" "$S/m/new/" &
	pids+=($!)
	cp "$S/par$i" "$S/m2/new/" &
	pids+=($!)
	"$top/raser" submit "$RUN" "$S/both$i" >/dev/null &
	pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
is $status 0 "twelve submitters at three places, each file by at least two"
for n in m m2; do
	M=$S/$n
	ls "$M/pending" >/dev/null
	ok "$n: every task is there once" wait_until 10 arrived 'par\|both' 250
done
is "$(chk list 0 "$S/m/tasks" | sort | cksum)" "$(chk list 0 "$S/m2/tasks" | sort | cksum)" "both mounts show the same"
is "$(chk list 0 "$S/m/tasks" | sort | uniq -d | wc -l)" 0 "no name twice"
is "$("$top/raser" status "$RUN" | grep '^tasks ')" "$(grep '^tasks ' "$S/m/status")" "raser status counts the same"
unmount m2
unmount m
is $? 0 "the daemon ends"

# ---- receipts do not stay for ever ----

new_run steal_after=2 receipts=1 || exit
mount_run r || exit
submit 1 x
is "$(count "$M/new")" 1 "a receipt"
ok "vanishes in time" wait_until 10 has_count "$M/new" 0
is "$(names "$M/tasks")" x1 "the task does not"
plan
