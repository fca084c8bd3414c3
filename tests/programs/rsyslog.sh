# Messages from the other end, into a file.
. "$PROGRAMS/services/rsyslog.bash"
(serve) >/dev/null 2>&1 & server=$!
until_served
for i in {1..20}; do peer logger --server "$SELF" --port 514 --udp --rfc3164 --tag test "message $i"; until_true grep -q "message $i\$" messages; done
grep -o 'test: message.*' messages
end $server
