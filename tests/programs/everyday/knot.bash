# Changed: the address, a zone. As the unit's user, with the rights that docs/deployment.md gives and those of the unit.
prepare() {
    mkdir /run/knot
    cover knot:knot /var/lib/knot
    chown knot:knot /run/knot
    name_zone >/var/lib/knot/name.test.zone
    (cat /etc/knot/knot.conf; printf '\nserver:\n    listen: %s@53\nzone:\n  - domain: name.test\n' "$SELF") >/run/everyday/knot.conf
    chmod 644 /run/everyday/knot.conf
}
serve() {
    start_with_rights knot +net_bind_service,+setpcap knotd -c /run/everyday/knot.conf
}
until_served() { until_names_answered; }
load() { name_load "$1"; }
