# Streams both ways at once, neither of which starves. The kernel's packets have no flow label.
. "$PROGRAMS/tcp.bash"
for side in "" peer; do
    $side sh -c 'echo 0 >/proc/sys/net/ipv6/auto_flowlabels'
done
both_ways() {
    serve iperf3 --server --bind "$SELF" --one-off >/dev/null & server=$!
    until_listening tcp 5201
    client iperf3 --client "$SELF" --bidir --time 2 --json >report; wait $server
    /usr/bin/python3 -c '
import json
end = json.load(open("report"))["end"]
ways = [end[way]["bytes"] for way in ("sum_received", "sum_received_bidir_reverse")]
good = min(ways) > 5e6
print("both ways" if good else ways)
exit(not good)'
}
measure both_ways
