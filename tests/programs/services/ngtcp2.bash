# HTTP/3 with ECN, IP_PKTINFO and UDP_SEGMENT.
serve() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -keyout key -out certificate -days 2 2>/dev/null
    mkdir -p htdocs; head -c 20000000 /dev/zero >htdocs/big; seq 1 20000 >htdocs/numbers
    exec gtlsserver -q -d htdocs "$SELF" 4433 key certificate
}
until_served() { until_listening udp 4433; }
# Bytes downloaded each second.
load() {
    local begun=$EPOCHREALTIME bytes=0
    mkdir -p got
    for (( end = SECONDS + $1; SECONDS < end; )); do
        load_from_peer gtlsclient -q --exit-on-all-streams-close --download got "$SELF" 4433 "https://$SELF/big" >client.log 2>&1
        bytes=$((bytes + $(stat -c %s got/big))); rm got/big
    done
    awk -v a="$begun" -v b="$EPOCHREALTIME" -v n="$bytes" 'BEGIN { print int(n / (b - a)) }'
}
