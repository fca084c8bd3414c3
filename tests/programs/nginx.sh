# Worker processes, reload, and a proxy for datagrams.
mkdir www logs; chmod 777 logs; seq 1 30000 >www/numbers; echo hello >www/index.html; chmod 755 . www
cat >conf <<END
daemon off; pid $HOME/pid; error_log $HOME/logs/error; user nobody nogroup; worker_processes 2;
events { worker_connections 64; }
http {
    access_log $HOME/logs/access; client_body_temp_path $HOME/logs/b; proxy_temp_path $HOME/logs/p;
    fastcgi_temp_path $HOME/logs/f; uwsgi_temp_path $HOME/logs/u; scgi_temp_path $HOME/logs/s;
    sendfile on; gzip on; gzip_types text/plain;
    server { listen $SELF:80; root $HOME/www; location /proxy/ { proxy_pass http://$SELF:80/; } }
}
END
nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error" & server=$!
until_listening tcp 80
curl -s "http://$SELF/"; curl -s "http://$SELF/numbers" | md5sum; curl -s "http://$SELF/proxy/numbers" | md5sum
peer curl -s "http://$SELF/numbers" | md5sum
curl -s -o /dev/null -w '%{http_code}\n' "http://$SELF/absent"
curl -s --compressed "http://$SELF/index.html" -r 0-2; echo
nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error" -s reload; sleep 0.3 # Old and new workers answer alike.
for i in {1..40}; do curl -s "http://$SELF/"; done | sort | uniq -c | tr -s ' '
nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error" -s quit; wait $server
wc -l <logs/access; grep -c '\[alert\]\|\[crit\]\|\[emerg\]' logs/error || :
