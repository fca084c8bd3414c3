# The server as a daemon, which it is by default: it binds, forks, and the parent exits.
. "$PROGRAMS/services/dnsmasq.bash"
(serve)
until_served
for i in {1..20}; do peer dig "@$SELF" "n$i.name.test" +short +tries=1 +timeout=10; done
peer dig "@$SELF" name.test +tcp +short; peer dig "@$SELF" absent.invalid | grep -o 'status: [A-Z]*'
for i in {1..200}; do echo "m$i.name.test"; done >names; peer dig "@$SELF" -f names +short | sort | uniq -c
daemon=$(<dnsmasq.pid); kill "$daemon"
has_ended() { ! kill -0 "$daemon"; }
until_true has_ended
