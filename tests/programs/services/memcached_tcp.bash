# Four threads, over TCP.
. "$PROGRAMS/services/memcached.bash"
until_served() { until_listening tcp 11211; }
load() { peer_load tcp "$SELF" 11211 "$1" 8 1 'get a\x0d\x0a' 5; }
