# Changed: the address, protected-mode no. As the unit's user, with the rights that docs/deployment.md gives.
prepare() {
    cover redis:redis /var/lib/redis
    mkdir /run/redis /var/log/redis
    chown redis:redis /run/redis /var/log/redis
}
serve() { start_as redis redis-server /etc/redis/redis.conf --bind "$SELF" --protected-mode no --daemonize no; }
until_served() { until_true client redis-cli -h "$SELF" ping; }
ask() {
    case $VARIANT in
    1) client redis-benchmark -h "$SELF" -t get -c 1 -n "$1" --csv ;;
    50) client redis-benchmark -h "$SELF" -t get -c 50 -n "$1" --csv ;;
    pipeline) client redis-benchmark -h "$SELF" -t get -c 50 -P 16 -n "$1" --csv ;;
    esac
}
# It is told how many requests to make, not for how long.
warm_up() {
    ask 3000 >warm.csv
    requests_per_sec=$(awk -F'"' '$2 == "GET" { print int($4) }' warm.csv)
}
load() {
    local count=$((requests_per_sec * $1))
    ask $((count > 3000 ? count : 3000)) | awk -F'"' '$2 == "GET" { print "rate", $4; print "p99_us", $14 * 1000 }'
}
