# A resolver that answers from data of its own. It asks for SO_REUSEPORT.
serve() {
    cat >unbound.conf <<END
server:
    interface: $SELF
    access-control: 10.77.0.0/24 allow
    access-control: fd77::/64 allow
    do-daemonize: no
    username: ""
    chroot: ""
    directory: "$HOME"
    pidfile: ""
    use-syslog: no
    logfile: "$HOME/unbound.log"
    module-config: iterator
    local-zone: "name.test." redirect
    local-data: "name.test. A 192.0.2.1"
    local-data: "name.test. TXT '$(printf 'x%.0s' {1..200})'"
remote-control:
    control-enable: no
END
    exec unbound -d -p -c unbound.conf
}
until_served() { until_peer_answers dig "@$SELF" a.name.test +tries=1 +timeout=1; }
load() { dns_load "$1"; }
