# A server with persistence, the client, and the benchmark.
redis-server --bind "$SELF" --port 6379 --dir "$HOME" --save '' --appendonly yes --protected-mode no --logfile log & server=$!
until_listening tcp 6379
cli() { redis-cli -h "$SELF" "$@"; }
cli set a 1; cli incr a; cli rpush list x y z; cli lrange list 0 -1
seq 1 1000 | sed 's/.*/SET k& &/' | cli --pipe | tail -n 1
cli dbsize; cli bgrewriteaof; cli eval 'return redis.call("get", "k7")' 0
(cli --csv subscribe news | head -n 2) >heard & subscriber=$!
until_true eval 'cli pubsub numsub news | grep -qx 1'; cli publish news hello; wait $subscriber || :; cat heard
until_true eval 'cli info persistence | grep -q aof_rewrite_in_progress:0'; cli bgsave; until_true grep -q 'DB saved on disk' log
redis-benchmark -h "$SELF" -q -n 2000 -c 20 -t get,set --csv | cut -d , -f 1
peer redis-cli -h "$SELF" get k999
cli shutdown nosave; wait $server
