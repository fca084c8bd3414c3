# Changed: a frontend and a backend, which the package leaves to the user.
prepare() {
    mkdir /run/haproxy
    printf 'pid /run/upstream.pid; user www-data; events {}\nhttp { access_log off; server { listen 127.0.0.1:8080; location / { return 200 hello; } } }\n' >/run/everyday/upstream
    mkdir /var/log/nginx
    taskset -c "$SERVER_CPUS" setsid nginx -c /run/everyday/upstream
    printf 'frontend web\n    bind %s:80\n    default_backend web\nbackend web\n    server one 127.0.0.1:8080\n' "$SELF" >/run/everyday/web.cfg
}
serve() { start haproxy -Ws -f /etc/haproxy/haproxy.cfg -f /run/everyday/web.cfg -p /run/haproxy.pid; }
until_served() { until_listening tcp 80; }
load() { web_load "$1" "http://$SELF/" 32; }
