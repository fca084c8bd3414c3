# One process that serves files, and the clients that ask for them; sendfile, compression, a proxy to itself.
. "$PROGRAMS/tcp.bash"
mkdir www logs; chmod 777 logs; seq 1 100000 >www/numbers; echo hello >www/index.html; chmod 755 . www
cat >conf <<END
daemon ${DAEMON:-off}; ${MASTER:-master_process off;} pid $HOME/pid; error_log $HOME/logs/error crit; user ${WORKERS_USER:-nobody nogroup}; worker_processes ${WORKERS:-1};
events { worker_connections 256; }
http {
    access_log off; client_body_temp_path $HOME/logs/b; proxy_temp_path $HOME/logs/p;
    fastcgi_temp_path $HOME/logs/f; uwsgi_temp_path $HOME/logs/u; scgi_temp_path $HOME/logs/s;
    sendfile on; gzip on; gzip_types text/plain;
    server { listen ${LISTEN-[::]:80 ipv6only=off}; root $HOME/www; location /proxy/ { proxy_pass http://$HOST:80/; } }
}
END
serve nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error" & server=$!
until_listening tcp 80
if [ "${DAEMON:-}" ]; then until_true test -s pid; server=$(cat pid); fi
client curl -s "http://$HOST/numbers" "http://$HOST/proxy/numbers" "http://$HOST/" | md5sum
client curl -s --compressed "http://$HOST/numbers" | md5sum
client curl -s -o /dev/null -w '%{http_code} %{num_connects}\n' "http://$HOST/" -o /dev/null "http://$HOST/absent"
client curl -s --data-binary "@$HOME/www/numbers" -o /dev/null -w '%{http_code}\n' "http://$HOST/"
client wget -q -O - "http://$HOST/numbers" | md5sum
if [ "${MASTER:-}" ]; then
    nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error" -s reload; sleep 0.2 # Old and new workers answer alike.
    for i in {1..10}; do client curl -s "http://$HOST/"; done | sort | uniq -c
fi
client wrk -t1 -c16 -d0.3s "http://$HOST/" | grep -c 'Socket errors\|Non-2xx' || :
end $server; until_true has_ended $server; grep -v notice logs/error || :
