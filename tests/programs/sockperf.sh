# The measuring program, both ends with the library.
peer_server sockperf server -i "$PEER" -p 11111 >server.log 2>&1
until_peer_listening udp 11111
# report <lines> <pattern> <arguments>: the parts of the report that match, as many as there must be.
report() {
    sockperf "${@:3}" -i "$PEER" -p 11111 -t 1 2>/dev/null | grep -o "$2" | tee lines
    [ "$(wc -l <lines)" = "$1" ]
}
measure report 4 'Summary: Latency\|# dropped messages = 0\|duplicated messages = 0\|out-of-order messages = 0' ping-pong
measure report 1 'duplicated messages = 0' under-load --mps 5000
measure report 1 'Total of [0-9]* messages sent' throughput --mps 5000 | sed 's/[0-9]\+/some/'
{ kill -KILL $server; wait $server; } 2>/dev/null || : # bash may say "Killed" with either
