# node's own http module; with two workers of its cluster module. As www-data, with the rights that docs/deployment.md gives.
prepare() { cp "$PROGRAMS/everyday/server.js" /run/everyday/; }
serve() { start_as www-data node /run/everyday/server.js "$SELF" "$VARIANT"; }
until_served() { until_listening tcp 8000; }
load() { web_load "$1" "http://$SELF:8000/" 32; }
