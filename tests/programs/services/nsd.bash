# An authoritative server: the parent opens the sockets, children serve.
serve() {
    mkdir -p zones xfr
    printf '$ORIGIN name.test.\n@ 3600 SOA ns admin 1 2 3 4 5\n@ NS ns\nns A %s\n* A 192.0.2.1\n' "$SELF" >zones/name.test.zone
    cat >nsd.conf <<END
server:
    ip-address: $SELF
    username: ""
    chroot: ""
    zonesdir: "$HOME/zones"
    database: ""
    pidfile: ""
    logfile: "$HOME/nsd.log"
    xfrdir: "$HOME/xfr"
    xfrdfile: "$HOME/xfr/state"
    zonelistfile: "$HOME/zones/list"
    cookie-secret-file: ""
    rrl-ratelimit: 0
remote-control:
    control-enable: no
zone:
    name: name.test
    zonefile: name.test.zone
END
    exec nsd -d -c nsd.conf
}
until_served() { until_peer_answers dig "@$SELF" a.name.test +tries=1 +timeout=1; }
load() { dns_load "$1"; }
