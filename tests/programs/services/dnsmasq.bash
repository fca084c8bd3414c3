# A daemon: it binds, forks, and the parent exits.
serve() {
    exec dnsmasq --no-resolv --no-hosts --conf-file=/dev/null --user=root --pid-file="$HOME/dnsmasq.pid" --log-facility="$HOME/dnsmasq.log" \
        --address=/name.test/192.0.2.1
}
until_served() { until_peer_answers dig "@$SELF" a.name.test +tries=1 +timeout=1; }
load() { dns_load "$1"; }
