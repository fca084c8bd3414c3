# Changed: a listener that others reach, without passwords; no limit of its queues (5 to 10 % of this load was dropped now and then). It gives up root's rights itself.
prepare() {
    cover mosquitto:mosquitto /var/lib/mosquitto
    cover /etc/mosquitto/conf.d
    mkdir /run/mosquitto /var/log/mosquitto
    chown mosquitto:mosquitto /run/mosquitto /var/log/mosquitto
    printf 'listener 1883 %s\nallow_anonymous true\nmax_queued_messages 0\n' "$SELF" >/etc/mosquitto/conf.d/everyday.conf
}
serve() { start mosquitto -c /etc/mosquitto/mosquitto.conf; }
until_served() { until_listening tcp 1883; }
# Messages from one client through the broker to another, each second.
load() {
    local count=$((70000 * $1)) begun ended
    client mosquitto_sub -h "$SELF" -t topic -C "$count" -W 20 >received &
    local receiver=$!
    sleep 0.2
    begun=$EPOCHREALTIME
    seq "$count" | client mosquitto_pub -h "$SELF" -t topic -l
    wait $receiver
    ended=$EPOCHREALTIME
    awk -v count="$(wc -l <received)" -v sec="$(awk "BEGIN { print $ended - $begun }")" -v sent="$count" \
        'BEGIN { print "rate", count / sec; print "errors", sent - count }'
}
