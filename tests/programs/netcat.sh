# Datagrams and streams in both directions.
for i in 1 2 3 4; do echo "datagram $i" | nc.openbsd -u -W 1 "$PEER" 7 >answer$i & done; wait; cat answer?
(for i in {1..30}; do echo "$i"; until_true grep -qx "$i" answers; done) | nc.openbsd -u -W 30 "$PEER" 7 >answers; cat answers
nc.openbsd -u -l -W 1 "$SELF" 6000 & server=$!; until_listening udp 6000; echo received | peer nc.openbsd -u -q 0 "$SELF" 6000; wait $server
nc.openbsd -N -l "$SELF" 6001 >got & server=$!; until_listening tcp 6001; seq 1 50000 | peer nc.openbsd -N "$SELF" 6001; wait $server; md5sum got
nc.openbsd -z -w 20 "$PEER" 7 && echo open; nc.openbsd -z -w 20 "$PEER" 8 || echo closed
nc.openbsd -lU unix >got & server=$!; until_true test -S unix; echo local | nc.openbsd -NU unix; wait $server; cat got
