# A thread for each of so many connections, which sleeps in recv(2). As www-data, with the rights that docs/deployment.md gives.
prepare() {
    cc -O2 -o /run/everyday/threads "$PROGRAMS/everyday/threads.c" -pthread
    chmod 755 /run/everyday
}
serve() {
    ulimit -n 8192
    start_as www-data /run/everyday/threads "$SELF" 8000
}
until_served() { until_listening tcp 8000; }
load() {
    ulimit -n 8192
    web_load "$1" "http://$SELF:8000/" "$VARIANT"
}
