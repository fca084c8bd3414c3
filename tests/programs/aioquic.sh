# QUIC by asyncio: streams of text and of a megabyte, to a server at this end and then to one at the other.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -keyout key -out certificate -days 2 2>/dev/null
python3 "$PROGRAMS/aioquic_echo.py" server "$SELF" >/dev/null & server=$!
until_listening udp 4433
peer python3 "$PROGRAMS/aioquic_echo.py" client "$SELF"
end $server
peer_server python3 "$PROGRAMS/aioquic_echo.py" server "$PEER" >/dev/null
until_peer_listening udp 4433
python3 "$PROGRAMS/aioquic_echo.py" client "$PEER"
end $server
