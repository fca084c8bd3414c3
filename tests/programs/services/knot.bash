# An authoritative server: a thread for UDP on each CPU, all on sockets of SO_REUSEPORT, and IP_PKTINFO.
serve() {
    mkdir -p run zones
    printf '$ORIGIN name.test.\n@ 3600 SOA ns admin 1 2 3 4 5\n@ NS ns\nns A 192.0.2.53\n* A 192.0.2.1\n' >zones/name.test.zone
    cat >knot.conf <<END
server:
    rundir: $HOME/run
    listen: $SELF@53
database:
    storage: $HOME/run
log:
  - target: $HOME/knot.log
    any: info
zone:
  - domain: name.test
    storage: $HOME/zones
    file: name.test.zone
END
    exec knotd -c knot.conf
}
until_served() { until_peer_answers dig "@$SELF" a.name.test +tries=1 +timeout=1; }
load() { dns_load "$1"; }
