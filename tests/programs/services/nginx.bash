# One worker, over TCP, connections kept alive.
serve() {
    mkdir -p www logs; chmod 777 logs; echo hello >www/index.html; chmod 755 . www
    cat >conf <<END
daemon off; pid $HOME/pid; error_log $HOME/logs/error; user nobody nogroup; worker_processes 1;
events { worker_connections 64; }
http {
    access_log off; keepalive_requests 1000000000; client_body_temp_path $HOME/logs/b; proxy_temp_path $HOME/logs/p;
    fastcgi_temp_path $HOME/logs/f; uwsgi_temp_path $HOME/logs/u; scgi_temp_path $HOME/logs/s;
    sendfile on; server { listen $SELF:80; root $HOME/www; }
}
END
    exec nginx -p "$HOME" -c "$HOME/conf" -e "$HOME/logs/error"
}
until_served() { until_listening tcp 80; }
load() {
    local answer
    answer=$(peer curl -si -H User-Agent: -H Accept: "http://$SELF/" | wc -c)
    peer_load tcp "$SELF" 80 "$1" 8 1 "GET / HTTP/1.1\\x0d\\x0aHost: $SELF\\x0d\\x0a\\x0d\\x0a" "$answer"
}
