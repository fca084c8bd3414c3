# Changed: nothing; it has no configuration. With $SPINS its calls poll the kernel's sockets.
options() {
    options=(-i "$SELF" -p 11111)
    [ "$VARIANT" != tcp ] || options+=(--tcp)
    [ -z "${SPINS:-}" ] || options+=(--nonblocked)
}
prepare() { :; }
serve() { options; start sockperf server "${options[@]}"; }
until_served() { until_listening "$VARIANT" 11111; }
# It is silent for its first messages, and counts for so long.
load() {
    options
    client sockperf ping-pong "${options[@]}" --msg-size 64 --time "$1" --full-rtt >sockperf.log
    awk -F'[= ;]+' '/Valid Duration/ { for (i = 1; i < NF; i++) { if ($i == "RunTime") seconds = $(i + 1); if ($i == "ReceivedMessages") count = $(i + 1) } }
        /percentile 99.000/ { p99 = $NF } /dropped messages/ { for (i = 1; i < NF; i++) if ($i == "messages") lost = $(i + 1) }
        END { if (seconds) print "rate", count / seconds; print "p99_us", p99; print "errors", lost + 0 }' sockperf.log
}
