# Changed: the address, data of its own, no servers to ask. It gives up root's rights itself.
prepare() { mkdir /run/dnsmasq; chown dnsmasq /run/dnsmasq; }
# As its package's script starts it, but not into the background.
serve() {
    start dnsmasq --keep-in-foreground --pid-file=/run/dnsmasq/dnsmasq.pid --user=dnsmasq --local-service --no-resolv --no-hosts \
        --listen-address="$SELF" --address=/name.test/192.0.2.1
}
until_served() { until_names_answered; }
load() { name_load "$1"; }
