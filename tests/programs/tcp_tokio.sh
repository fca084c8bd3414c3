# tokio's usual runtime: several threads sleep in an epoll set, under another number than sockets come into it. HTTP by hyper, UDP, QUIC.
. "$PROGRAMS/tcp.bash"
for what in http udp quic; do
    serve "$OWN_PROGRAM" $what "$SELF:8000" & server=$!
    case $what in http) until_listening tcp 8000;; *) until_listening udp 8000;; esac
    for i in {1..3}; do client "$OWN_PROGRAM" $what-clients "$SELF:8000"; done
    case $what in http) client curl -s "http://$SELF:8000/" "http://$SELF:8000/again";; esac
    end $server
done
