# Changed: a file to ask for.
prepare() {
    cover www-data:www-data /var/www/html
    mkdir /var/log/apache2 /run/lock
    echo hello >/var/www/html/small
}
serve() {
    . /etc/apache2/envvars
    mkdir -p "$APACHE_RUN_DIR" "$APACHE_LOCK_DIR"
    start apache2 -D FOREGROUND
}
until_served() { until_listening tcp 80; }
load() { web_load "$1" "http://$SELF/small" 32; }
