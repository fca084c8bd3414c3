# Relays between kinds of sockets.
(for i in 1 2 3; do echo "datagram $i"; until_true grep -q "datagram $i" answers; done) | socat -t 1 - "UDP4:$PEER:7" >answers; cat answers
socat "UDP4-RECVFROM:5000,fork,bind=$SELF" EXEC:'tr a-z A-Z' & first=$!
socat "UDP4-LISTEN:5001,fork,bind=$SELF" "UDP4:$PEER:7" & second=$!
socat -t 2 TCP4-LISTEN:5002,fork,reuseaddr,bind=127.0.0.1 "UDP4:$PEER:7" & third=$!
socat UNIX-LISTEN:unix,fork SYSTEM:'cat; echo more' & fourth=$!
until_listening udp 5000; until_listening udp 5001; until_listening tcp 5002; until_true test -S unix
echo upper | peer socat -t 30 - "UDP4:$SELF:5000,readbytes=6"
echo relayed | peer socat -t 30 - "UDP4:$SELF:5001,readbytes=8"
echo from tcp | socat -t 30 - TCP4:127.0.0.1:5002,readbytes=9
echo from unix | socat - UNIX-CONNECT:unix
echo pty | socat - EXEC:cat,pty,raw,echo=0
kill $first $second $third $fourth; wait $first $second $third $fourth || echo "socat: $?"
