# The server is at this end: packet information, several interfaces, a fork for each TCP query.
dnsmasq --keep-in-foreground --no-resolv --no-hosts --conf-file=/dev/null --user=root --pid-file= --log-facility="$HOME/log" \
    --address=/name.test/192.0.2.1 --mx-host=name.test,mail.test,10 & server=$!
until_true peer dig "@$SELF" a.name.test +tries=1 +timeout=2
for i in {1..5}; do peer dig "@$SELF" "a$i.name.test" +short; done
peer dig "@$SELF" name.test MX +short; peer dig "@$SELF" name.test +tcp +short; dig @127.0.0.1 name.test +short
peer dig "@$SELF" version.bind CH TXT | grep -o 'status: [A-Z]*'
kill -HUP $server; peer dig "@$SELF" again.name.test +short; kill -USR1 $server; end $server
