# Changed: the address. Mbit/s of four streams.
prepare() { :; }
serve() { start_as iperf3 iperf3 --server --interval 0 --bind "$SELF"; }
until_served() { until_listening tcp 5201; }
load() {
    client iperf3 --client "$SELF" --parallel 4 --time "$1" --json >iperf3.json
    awk '/"sum_received"/ { sum = 1 } sum && /"bits_per_second"/ { gsub(/[^0-9.e+]/, "", $2); print "rate", $2 / 1e6; exit }' iperf3.json
}
