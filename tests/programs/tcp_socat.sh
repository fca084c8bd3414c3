# Relays: the process that listens, and children that inherit connections.
. "$PROGRAMS/tcp.bash"
for options in "" ,fork; do
    serve socat "TCP-LISTEN:7000,bind=$SELF,reuseaddr$options" EXEC:/bin/cat & server=$!
    until_listening tcp 7000
    seq 1 100000 | client socat -t5 - "TCP:$SELF:7000" | md5sum
    if [ "$options" ]; then
        seq 1 50000 | client socat -t5 - "TCP:$SELF:7000" | md5sum; end $server
    else
        wait $server
    fi
done
serve nc.openbsd -l "$SELF" 7001 >received & server=$!
until_listening tcp 7001; seq 1 200000 | client nc.openbsd -N "$SELF" 7001; wait $server; md5sum <received
