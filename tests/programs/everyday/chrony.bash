# Changed: it answers others, has a stratum of its own, and leaves the clock alone (-x). It gives up root's rights itself.
prepare() {
    cover _chrony:_chrony /var/lib/chrony
    mkdir /var/log/chrony
    chown _chrony:_chrony /var/log/chrony
    cover /etc/chrony/conf.d /etc/chrony/sources.d
    printf 'allow\nlocal stratum 8\nbindaddress %s\n' "$SELF" >/etc/chrony/conf.d/everyday.conf
}
serve() {
    local DAEMON_OPTS=
    . /etc/default/chrony
    start chronyd -d -x $DAEMON_OPTS
}
until_served() { until_listening udp 123; }
load() { sample_load udp 123 "$1" 8 8 "\\x23$(printf '\\x00%.0s' {1..47})" 48; }
