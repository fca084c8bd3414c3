# A clock's server.
serve() {
    printf 'local stratum 5\nallow\ncmdport 0\npidfile %s/chronyd.pid\nbindaddress %s\n' "$HOME" "$SELF" >chrony.conf
    exec chronyd -d -x -u root -f chrony.conf
}
until_served() { until_listening udp 123; }
load() { peer_load udp "$SELF" 123 "$1" 8 8 "\\x23$(printf '\\x00%.0s' {1..47})" 48; }
