# Changed: a site for TLS and the proxy beside the default one; files of 100 kB and 1 MB.
prepare() {
    cover www-data:www-data /var/lib/nginx /var/www/html
    cover /etc/nginx/conf.d
    mkdir /var/log/nginx
    echo hello >/var/www/html/small
    head -c 100000 /dev/urandom >/var/www/html/100k
    head -c 1000000 /dev/urandom >/var/www/html/1m
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -days 2 -keyout /run/everyday/key -out /run/everyday/cert 2>/dev/null
    cat >/etc/nginx/conf.d/everyday.conf <<END
server { listen 443 ssl; ssl_certificate /run/everyday/cert; ssl_certificate_key /run/everyday/key; root /var/www/html; }
server { listen 81; location / { proxy_pass http://127.0.0.1:8080; } }
END
    if [ "$VARIANT" = proxy ]; then
        printf 'pid /run/upstream.pid; user www-data; events {}\nhttp { access_log off; server { listen 127.0.0.1:8080; root /var/www/html; } }\n' >/run/everyday/upstream
        taskset -c "$SERVER_CPUS" setsid nginx -c /run/everyday/upstream
    fi
}
serve() { start nginx -g 'daemon off; master_process on;'; }
until_served() { until_listening tcp 443; }
load() {
    case $VARIANT in
    small) web_load "$1" "http://$SELF/small" 32 ;;
    100k) web_load "$1" "http://$SELF/100k" 32 ;;
    1m) web_load "$1" "http://$SELF/1m" 8 ;;
    short) web_load "$1" "http://$SELF/small" 32 -H 'Connection: close' ;;
    tls) web_load "$1" "https://$SELF/small" 32 ;;
    proxy) web_load "$1" "http://$SELF:81/small" 32 ;;
    esac
}
