#!/bin/bash
# page.t - the examples of raser-plugin(7) are run as they are shown there.
# shellcheck source=tests/plugins/plugin.sh disable=SC2154
. "$(dirname "$0")/plugin.sh"

need_python
need_killat
page=$src/man/raser-plugin.7
bin=$scratch/bin
mkdir "$bin"

# example NAME: the text between its marks, as a reader sees it
example() {
	awk -v name="$1" '
		$0 == ".\\\" example: " name { on = 1; next }
		$0 == ".\\\" end" { on = 0 }
		on && !/^\.(Bd|Ed)/ { gsub(/\\e/, "\\"); sub(/^\\&/, ""); print }' "$page" >"$bin/$1"
	chmod +x "$bin/$1"
	[ -s "$bin/$1" ]
}
for name in count ask count.py; do
	ok "there is an example $name" example $name
done
if command -v mandoc >/dev/null; then
	is "$(mandoc -Tutf8 "$page" | col -b -x | sed 's/^ *//' | grep -cxF -f <(sed -e 's/^[ 	]*//' -e '/^.\{8\}/!d' "$bin/count"))" \
		"$(sed -e 's/^[ 	]*//' -e '/^.\{8\}/!d' "$bin/count" | wc -l)" "every line of it is what a reader sees"
else
	result 0 "mandoc is not installed # SKIP"
fi

# task N COMMAND...: the N-th task that it has
task() {
	local n=$1
	shift
	new_task "$("$@" get_tasks | sed -n "${n}p")"
}

# ---- in shell ----

task 2 "$bin/count"
attempt "$bin/count" run_task
is "$status $(cat "$L") $(cat "$R/counted")" "0 counted to 5 5" "count"
is "$(told '^step {"kind": "tool", "ok": true}$')" 5 "tells its steps"
echo 3 >"$W/n"
echo 4 >"$W/n.new" # as a kill before the rename leaves it
checkpoint
attempt "$bin/count" run_task
is "$status $(cat "$R/counted") $(told ^step)" "0 5 2" "resumed where it was"
"$bin/count" setup
is $? 64 "there is nothing to set up"

# by hand, as shown
mkdir "$scratch/hand"
(
	cd "$scratch/hand" || exit
	"$bin/count" get_tasks | head -n 1 >task
	mkdir results
	RASER_RESULTS=results RASER_CONTROL=control "$bin/count" run_task <task
) >"$scratch/out" 2>&1
is "$(cat "$scratch/out")" "counted to 3" "tried by hand"

# ---- in Python ----

mkfifo "$scratch/ready"
"$python" - "$scratch/ready" 429 "" "" 500 >"$scratch/served" <<'EOF' &
import http.server, socketserver, sys, threading
faults = [None] + sys.argv[2:]          # of the first request, the second, ...
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        fault = faults.pop(0) if faults else ""
        self.send_response(int(fault or 200))
        self.end_headers()
        if not fault:
            print(text.decode(), flush=True)
            self.wfile.write(text.upper())
        if text == b"stop":
            threading.Thread(target=self.server.shutdown).start()
server = socketserver.TCPServer(("127.0.0.1", 0), Handler) # HTTPServer would ask for its name
with open(sys.argv[1], "w") as f: print(server.server_address[1], file=f)
server.serve_forever()
EOF
server=$!
helpers+=("$server")
read -r port <"$scratch/ready"
more=(ASK_URL="http://127.0.0.1:$port/")
task 1 "$bin/ask"
attempt "$python" "$bin/ask" run_task
is "$status $(tr '\n' ';' <"$R/answers")" "0 TIDES, QUESTION 1;TIDES, QUESTION 2;TIDES, QUESTION 3;" "ask"
is "$(grep parked "$C")" "parked +2 too many requests" "waiting, it says so"
is "$(told '^step {"kind": "model"')" 3 "and tells its steps"
task 2 "$bin/ask"
attempt "$python" "$bin/ask" run_task
like "$status $(tail -n 1 "$L")" "1 .*HTTP Error 500" "a failure"
attempt "$python" "$bin/ask" run_task
is "$status" 0 "and the next attempt"
checkpoint
rm "$scratch/checkpoint/answers"
echo '["kept"]' >"$scratch/checkpoint/answers"
: >"$scratch/served"
attempt "$python" "$bin/ask" run_task
is "$status $(tr '\n' ';' <"$R/answers")" "0 kept;COMETS, QUESTION 2;COMETS, QUESTION 3;" \
	"resumed: what was answered is not asked again"
"$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], b"stop")' "http://127.0.0.1:$port/"
wait "$server"
helpers=()
attempt "$python" "$bin/ask" run_task
like "$status $(tail -n 1 "$L")" "75 the service is down" "no service: not its fault"

# ---- as a module ----

adapter=("$python" "$src/plugins/python/raser-python" "$bin/count.py")
more=()
task 2 "${adapter[@]}"
attempt "${adapter[@]}" run_task
is "$status $(cat "$L") $(cat "$R/result.json") $(told ^step)" '0 counted to 5 {"counted": 5} 5' "count.py"
kill_at="n 3 after"
attempt "${adapter[@]}" run_task
kill_at=
checkpoint
attempt "${adapter[@]}" run_task
is "$status $(told ^step)" "0 2" "killed after its third step: two are left"

# ---- what the runbook names ----

runbook=$src/man/raser-runbook.7
for file in $(grep -oE 'tests/[a-z]+(/[a-z0-9.-]+)*' "$runbook" | sort -u); do
	[ -e "$src/$file" ] || missing="${missing-} $file"
done
is "${missing-}" "" "the tests that raser-runbook(7) names are there"
for verb in $(grep -ohE '(raser|Ic raser) [a-z]+' "$runbook" | awk '{ print $NF }' | sort -u); do
	grep -qE "^\.It Cm $verb( |\$)" "$src/man/raser.1" || unknown="${unknown-} $verb"
done
is "${unknown-}" "" "raser(1) knows the verbs of raser-runbook(7)"

plan
