# Datagrams and streams in both directions.
for i in 1 2 3 4; do echo "datagram $i" | nc -u -w 1 -q 0 "$PEER" 7 & done; wait
for i in {1..30}; do echo "$i"; sleep 0.02; done | nc -u -w 1 "$PEER" 7
nc -u -l -W 1 "$SELF" 6000 & until_listening udp 6000; echo received | peer nc -u -q 0 "$SELF" 6000; wait $!
nc -N -l "$SELF" 6001 >got & until_listening tcp 6001; seq 1 50000 | peer nc -N "$SELF" 6001; wait $!; md5sum got
nc -z -w 1 "$PEER" 7 && echo open; nc -z -w 1 "$PEER" 8 || echo closed
nc -lU unix >got & until_true test -S unix; echo local | nc -NU unix; wait $!; cat got
