# One thread, over TCP.
serve() { exec redis-server --bind "$SELF" --port 6379 --dir "$HOME" --save '' --appendonly no --protected-mode no; }
until_served() { until_listening tcp 6379; }
load() { peer_load tcp "$SELF" 6379 "$1" 8 1 'get a\x0d\x0a' 5; }
