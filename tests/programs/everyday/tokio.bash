# crates/testkit/examples/tokio_http.rs: tokio's runtime of many threads. As www-data, with the rights that docs/deployment.md gives.
prepare() {
    cp "$TOKIO_HTTP" /run/everyday/tokio_http
    chmod 755 /run/everyday
}
serve() { start_as www-data /run/everyday/tokio_http "$SELF:8000"; }
until_served() { until_true client curl -s --max-time 1 "http://$SELF:8000/"; }
load() { web_load "$1" "http://$SELF:8000/" 32; }
