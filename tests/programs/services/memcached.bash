# Four threads, over UDP. Each has a descriptor of the same socket.
serve() { exec memcached -u root -l "$SELF" -p 11211 -U 11211 -t 4; }
until_served() { until_listening udp 11211; }
load() { peer_load udp "$SELF" 11211 "$1" 8 8 '\x00\x01\x00\x00\x00\x01\x00\x00get a\x0d\x0a' 13; }
