# Changed: the address, a zone, rrl-ratelimit 0, for one client asks for all. It gives up root's rights itself.
prepare() {
    mkdir /run/nsd
    chown nsd:nsd /run/nsd
    cover nsd:nsd /var/lib/nsd
    cover /etc/nsd/nsd.conf.d
    name_zone >/run/everyday/name.test.zone
    cat >/etc/nsd/nsd.conf.d/everyday.conf <<END
server:
    ip-address: $SELF
    rrl-ratelimit: 0
zone:
    name: name.test
    zonefile: /run/everyday/name.test.zone
END
}
serve() { start nsd -d -P ''; }
until_served() { until_names_answered; }
load() { name_load "$1"; }
