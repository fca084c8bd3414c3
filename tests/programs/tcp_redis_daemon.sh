# The process that was started ends at once, and its child serves.
. "$PROGRAMS/tcp.bash"
serve redis-server --bind "$SELF" --port 6379 --dir "$HOME" --save '' --daemonize yes --pidfile "$HOME/pid" --protected-mode no --logfile log & wait $!
until_listening tcp 6379; until_true test -s pid; server=$(cat pid)
cli() { client redis-cli -h "$SELF" "$@"; }
cli set a 1; cli incr a
client redis-benchmark -h "$SELF" -n 5000 -c 10 -t get,set --csv | cut -d , -f 1
cli shutdown nosave; until_true has_ended $server
