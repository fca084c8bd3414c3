# Datagrams at a rate, both ways, and a stream.
run() {
    local server
    peer_server iperf3 --server --one-off >/dev/null
    until_peer_listening tcp 5201
    iperf3 --client "$PEER" "$@" --json; wait $server
}
datagrams() {
    run --udp --bitrate 20M --time 1 --length 1000 "$@" >report
    /usr/bin/python3 -c '
import json
end = json.load(open("report"))["end"]["sum"]
good = end["packets"] > 1000 and end["lost_percent"] < 50
print("all sent, most arrived" if good else end)
exit(not good)'
}
measure datagrams; measure datagrams --reverse
run --bytes 20M >stream
/usr/bin/python3 -c 'import json; print(json.load(open("stream"))["end"]["sum_sent"]["bytes"] > 19e6)'
