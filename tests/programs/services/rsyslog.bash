# Messages from the network into a file.
serve() {
    printf 'module(load="imudp")\ninput(type="imudp" address="%s" port="514")\n$WorkDirectory %s\n*.* %s/messages\n' "$SELF" "$HOME" "$HOME" >rsyslog.conf
    exec rsyslogd -n -f "$HOME/rsyslog.conf" -i "$HOME/rsyslog.pid"
}
until_served() { until_listening udp 514; }
# Messages that reached the file, each second.
load() {
    local before=$(wc -l <messages)
    peer_load sink "$SELF" 514 "$1" 1 300 '<13>Jan  1 00:00:00 host load: a message of some length, as they are' 1 >/dev/null
    sleep 0.3
    echo $((($(wc -l <messages) - before) / $1))
}
