# A pool of threads that read and write, and one thread with a selector. As www-data, with the rights that docs/deployment.md gives.
prepare() { javac -d /run/everyday "$PROGRAMS/everyday/Server.java"; chmod 755 /run/everyday; }
serve() { start_as www-data java -cp /run/everyday Server "$SELF" "$VARIANT"; }
until_served() { until_listening tcp 8000; }
warm_up() { web_load 1 "http://$SELF:8000/" 32; }
load() { web_load "$1" "http://$SELF:8000/" 32; }
