# The measuring program, both ends with the library.
peer sockperf server -i "$PEER" -p 11111 >server.log 2>&1 & server=$!
until_peer_listening udp 11111
sockperf ping-pong -i "$PEER" -p 11111 -t 1 2>/dev/null | grep -o 'Summary: Latency\|# dropped messages = 0\|duplicated messages = 0\|out-of-order messages = 0'
sockperf under-load -i "$PEER" -p 11111 -t 1 --mps 5000 2>/dev/null | grep -o 'duplicated messages = 0'
sockperf throughput -i "$PEER" -p 11111 -t 1 --mps 5000 2>/dev/null | grep -o 'Total of [0-9]* messages sent' | sed 's/[0-9]\{4\}/some/'
{ kill -KILL $server; wait $server; } 2>/dev/null || : # bash may say "Killed" with either
