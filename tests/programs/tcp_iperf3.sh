# Streams as fast as they go: one, in both directions, and several.
. "$PROGRAMS/tcp.bash"
for options in "" --reverse "--parallel 4" "--parallel 4 --reverse" --bidir; do
    serve iperf3 --server --bind "$SELF" --one-off >/dev/null & server=$!
    until_listening tcp 5201
    client iperf3 --client "$SELF" --bytes 20M $options --json >report || :
    wait $server
    /usr/bin/python3 -c '
import json
report = json.load(open("report"))
end = report["end"]
print(report.get("error", "no error"), end["sum_received"]["bytes"] > 1e6, end["sum_sent"]["bytes"] >= end["sum_received"]["bytes"])'
done
