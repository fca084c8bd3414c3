# What run.bash asks the services whose answers are compared: answers_<service> prints what may not differ between two runs.

has_ended() { ! kill -0 "$1"; }

# As a unit is stopped.
end_service() {
    kill -TERM "$service"
    for i in {1..400}; do
        has_ended "$service" && break
        sleep 0.05
    done 2>/dev/null
    if has_ended "$service" 2>/dev/null; then
        wait "$service"
        echo "ended with $?"
    else
        echo "does not end"
        kill -KILL "$service"
    fi
}

# answers_of_web URL: connections that are kept, connections of one request each, several at once.
answers_of_web() {
    client curl -s "$1" "$1" "$1"
    for i in {1..5}; do client curl -s -o /dev/null -w '%{http_code} %{size_download}\n' "$1"; done
    for i in {1..20}; do echo "$1"; done | client xargs -P 10 -n 1 curl -s --max-time 20 | sort | uniq -c
}

answers_nginx() {
    seq 1 300000 >/var/www/html/numbers
    answers_of_web "http://$SELF/small"
    client curl -s "http://$SELF/numbers" "http://$SELF/small" "http://$SELF/numbers" | md5sum
    client curl -s --compressed "http://$SELF/numbers" | md5sum
    client curl -s -r 1000-200000 "http://$SELF/numbers" | md5sum
    client curl -s -o /dev/null -w '%{http_code}\n' "http://$SELF/absent"
    client curl -sk "https://$SELF/numbers" | md5sum
    nginx -s reload; sleep 0.3 # Old and new workers answer alike.
    answers_of_web "http://$SELF/small"
}

answers_haproxy() { answers_of_web "http://$SELF/"; }

answers_mosquitto() {
    client mosquitto_sub -h "$SELF" -t news -q 1 -C 500 -W 20 >received & local receiver=$!
    until_true grep -q 'subscribe\|as .*(p2, c1' /var/log/mosquitto/mosquitto.log
    sleep 0.2
    seq 500 | client mosquitto_pub -h "$SELF" -t news -q 1 -l
    wait $receiver; md5sum <received
    client mosquitto_pub -h "$SELF" -t kept -r -m retained
    client mosquitto_sub -h "$SELF" -t kept -C 1 -W 10
}

answers_redis() {
    cli() { client redis-cli -h "$SELF" "$@"; }
    cli set a 1; cli incr a; cli rpush list x y z; cli lrange list 0 -1
    seq 1 1000 | sed 's/.*/SET k& &/' | cli --pipe | tail -n 1
    cli bgsave >/dev/null; until_true eval 'cli info persistence | grep -q rdb_bgsave_in_progress:0'; cli dbsize; cli get k999
    for c in 1 50; do client redis-benchmark -h "$SELF" -n 3000 -c $c -t get,set --csv | cut -d , -f 1; done
}

answers_memcached() {
    client /usr/bin/python3 -c '
import socket, sys, threading
def run(n):
    s = socket.create_connection((sys.argv[1], 11211)); s.settimeout(20); f = s.makefile("rb")
    for i in range(100):
        v = b"%d-%d" % (n, i) * 50
        s.sendall(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (n, len(v), v, n))
        said = [f.readline() for _ in range(4)]
        assert (said[0], said[2], said[3]) == (b"STORED\r\n", v + b"\r\n", b"END\r\n"), said
    print("all")
threads = [threading.Thread(target=run, args=(n,)) for n in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]' "$SELF"
}

answers_postgres() {
    sql() { client "$bin/psql" -h "$SELF" -U postgres -At postgres "$@"; }
    sql -c 'create table t as select n, md5(n::text) m from generate_series(1, 20000) n' -c 'select count(*), max(m) from t'
    sql -c 'select * from t order by n' | md5sum
    client "$bin/pgbench" -h "$SELF" -U postgres -n -c 4 -j 2 -t 20 postgres 2>/dev/null | grep processed
    client "$bin/pgbench" -h "$SELF" -U postgres -n -c 4 -j 2 -t 5 -C -S postgres 2>/dev/null | grep processed
}

answers_ssh() {
    client ssh "${options[@]}" "$SELF" 'echo remote; exit 3'; echo "status $?"
    seq 1 200000 | client ssh "${options[@]}" "$SELF" md5sum
    client ssh "${options[@]}" "$SELF" seq 1 200000 | md5sum
    seq 1 1000000 >/run/everyday/numbers
    client scp "${options[@]}" /run/everyday/numbers "$SELF:/run/everyday/there"; md5sum </run/everyday/there
    client scp "${options[@]}" "$SELF:/run/everyday/numbers" /run/everyday/back; md5sum </run/everyday/back
}

answers_unbound() {
    for i in {1..20}; do client dig "@$SELF" "n$i.name.test" +short +tries=1 +timeout=10; done
    client dig "@$SELF" a.name.test +tcp +short
    for i in {1..200}; do echo "m$i.name.test"; done >names
    client dig "@$SELF" -f names +short | sort | uniq -c
}

answers_chrony() {
    for i in 1 2 3; do
        client chronyd -Q -x -u root -t 60 "server $SELF iburst maxsamples 1" 'cmdport 0' 'pidfile /run/everyday/client' 2>&1 | grep -o 'System clock wrong by'
    done
}

answers_node() { answers_of_web "http://$SELF:8000/"; }
answers_python() { answers_of_web "http://$SELF:8000/"; }
answers_tokio() { answers_of_web "http://$SELF:8000/"; }
answers_java() { answers_of_web "http://$SELF:8000/"; }
answers_threads() { answers_of_web "http://$SELF:8000/"; }
