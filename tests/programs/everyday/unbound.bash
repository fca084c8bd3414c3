# Changed: the address, who may ask, data of its own. It gives up root's rights itself.
prepare() {
    cover unbound:unbound /var/lib/unbound
    cp -r /etc/unbound/unbound.conf.d /run/everyday/
    if [ -e /usr/share/dns/root.key ]; then
        install -o unbound -g unbound /usr/share/dns/root.key /var/lib/unbound/
    else
        # The package starts without its key no more than this.
        rm /run/everyday/unbound.conf.d/root-auto-trust-anchor-file.conf
    fi
    cat >/run/everyday/unbound.conf.d/everyday.conf <<END
server:
    interface: $SELF
    access-control: 10.77.0.0/24 allow
    local-zone: "name.test." redirect
    local-data: "name.test. A 192.0.2.1"
END
    mount --bind /run/everyday/unbound.conf.d /etc/unbound/unbound.conf.d
}
serve() { start unbound -d -p; }
until_served() { until_names_answered; }
load() { name_load "$1"; }
