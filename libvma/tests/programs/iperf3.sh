# Datagrams at a rate, both ways, and a stream.
peer iperf3 --server --one-off >/dev/null & until_peer_listening tcp 5201
iperf3 --client "$PEER" --udp --bitrate 20M --time 1 --length 1000 --json >up; wait $!
peer iperf3 --server --one-off >/dev/null & until_peer_listening tcp 5201
iperf3 --client "$PEER" --udp --bitrate 20M --time 1 --length 1000 --json --reverse >down; wait $!
peer iperf3 --server --one-off >/dev/null & until_peer_listening tcp 5201
iperf3 --client "$PEER" --bytes 20M --json >stream; wait $!
/usr/bin/python3 -c '
import json
for name in "up", "down":
    end = json.load(open(name))["end"]["sum"]
    print(name, "all sent" if end["packets"] > 1000 else end, "most arrived" if end["lost_percent"] < 50 else end)
print(json.load(open("stream"))["end"]["sum_sent"]["bytes"] > 19e6)'
