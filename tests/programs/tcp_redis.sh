# A server that forks while it serves.
. "$PROGRAMS/tcp.bash"
serve redis-server --bind "$SELF" --port 6379 --dir "$HOME" --save '' --appendonly no --protected-mode no --logfile log & server=$!
until_listening tcp 6379
cli() { client redis-cli -h "$SELF" "$@"; }
cli set a 1; cli incr a; cli rpush list x y z; cli lrange list 0 -1
seq 1 1000 | sed 's/.*/SET k& &/' | cli --pipe | tail -n 1
cli bgsave; until_true grep -q 'DB saved on disk' log; cli dbsize
for c in 1 50; do client redis-benchmark -h "$SELF" -n 5000 -c $c -t get,set --csv | cut -d , -f 1; done
cli get k999; cli shutdown nosave; wait $server
# Its port is free at once.
serve redis-server --bind "$SELF" --port 6379 --dir "$HOME" --save '' --protected-mode no --logfile log & server=$!
until_listening tcp 6379; cli get k7; cli shutdown nosave; wait $server
