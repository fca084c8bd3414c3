# Changed: the address; for datagrams also -U 11211, which is off.
prepare() { mkdir -p /run/memcached; chown memcache /run/memcached; }
serve() {
    local options
    options=($(grep -E '^-[a-z] ' /etc/memcached.conf | grep -v -e '^-l'))
    [ "$VARIANT" != udp ] || options+=(-U 11211)
    start memcached "${options[@]}" -l "$SELF"
}
until_served() { until_listening tcp 11211; }
load() {
    case $VARIANT in
    tcp) sample_load tcp 11211 "$1" 32 1 'get a\x0d\x0a' 5 ;;
    udp) sample_load udp 11211 "$1" 8 8 '\x00\x01\x00\x00\x00\x01\x00\x00get a\x0d\x0a' 13 ;;
    esac
}
