# Servers and their clients on one host, over 127.0.0.1 and ::1, by connections that stay.
asks() { /usr/bin/python3 "$PROGRAMS/within_host.py" "$@"; }
seq 1 40000 >numbers

for address in 127.0.0.1 ::1; do
    redis-server --bind "$address" --port 6379 --dir "$HOME" --save '' --appendonly no --logfile log & server=$!
    until_listening tcp 6379
    asks redis "$address" 6379
    redis-benchmark -h "$address" -n 20000 -c 20 -t get,set,lpush --csv | cut -d , -f 1
    redis-benchmark -h "$address" -n 20000 -c 5 -P 16 -d 2000 -t get,set --csv | cut -d , -f 1
    redis-cli -h "$address" shutdown nosave; wait $server

    memcached -u root -l "$address" -p 11211 -U 0 -t 4 & server=$!
    until_listening tcp 11211; asks memcached "$address" 11211; end $server

    iperf3 --server --one-off --bind "$address" >/dev/null & server=$!
    until_listening tcp 5201; iperf3 -c "$address" -n 300M --bidir >/dev/null && echo 'iperf3: there and back'; wait $server

    /usr/bin/python3 -m http.server --protocol HTTP/1.1 --bind "$address" 8003 >/dev/null 2>&1 & server=$!
    until_listening tcp 8003; asks http "$address" 8003; end $server
done

# A proxy, its back end, a client.
mkdir temporary
printf 'daemon off; master_process off; pid %s/pid; error_log stderr crit; events {}\nhttp { access_log off; client_body_temp_path temporary; proxy_temp_path temporary; fastcgi_temp_path temporary; uwsgi_temp_path temporary; scgi_temp_path temporary;\n server { listen 127.0.0.1:8001; keepalive_requests 100000; root %s; } }\n' "$HOME" "$HOME" >nginx.conf
printf 'defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\nfrontend f\n bind 127.0.0.1:8002\n default_backend b\nbackend b\n server one 127.0.0.1:8001\n' >haproxy.conf
nginx -p "$HOME" -c "$HOME/nginx.conf" & server=$!
haproxy -f haproxy.conf -db & proxy=$!
until_listening tcp 8001; until_listening tcp 8002
asks http 127.0.0.1 8002
curl -s 'http://127.0.0.1:8002/numbers?[1-60]' | md5sum
end $proxy; end $server

mosquitto -p 1883 2>/dev/null & server=$!
until_listening tcp 1883
mosquitto_sub -h 127.0.0.1 -q 1 -t t -C 3000 >heard & subscriber=$!
until_true eval 'ss -Htn "sport = :1883" | grep -q ESTAB'; sleep 0.5
head -n 3000 numbers | mosquitto_pub -h 127.0.0.1 -q 1 -t t -l
wait $subscriber; md5sum heard; end $server
