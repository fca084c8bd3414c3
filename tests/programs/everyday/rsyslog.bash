# Changed: messages come from the network, not from this machine (no imuxsock, imklog).
prepare() {
    cover /var/spool/rsyslog /etc/rsyslog.d
    (grep -v -e imuxsock -e imklog /etc/rsyslog.conf; printf 'module(load="imudp")\ninput(type="imudp" address="%s" port="514")\n' "$SELF") >/run/everyday/rsyslog.conf
}
serve() { start rsyslogd -n -iNONE -f /run/everyday/rsyslog.conf; }
until_served() { until_listening udp 514; }
# Messages that reached the file, each second.
load() {
    local before=$(cat /var/log/user.log 2>/dev/null | wc -l)
    client "$LOAD" sink "$SELF" 514 "$1" 1 150 '<13>Jan  1 00:00:00 host load: a message of some length, as they are' 1 >sent
    sleep 0.3
    awk -v count=$(($(wc -l </var/log/user.log) - before)) -v sec="$1" '{ print "rate", count / sec }' sent
}
