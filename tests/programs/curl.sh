# HTTP from a server at the other end, and TFTP, which is UDP.
mkdir served; seq 1 5000 >served/numbers; echo small >served/small
(cd served; exec ip netns exec "$PEER_NETNS" /usr/bin/python3 -m http.server 8000 >/dev/null 2>&1) & http=$!
peer dnsmasq --no-daemon --port=0 --enable-tftp --tftp-root="$HOME/served" --user=root --conf-file=/dev/null \
    >/dev/null 2>&1 & tftp=$!
until_peer_listening tcp 8000
until_peer_listening udp 69
curl --silent "http://$PEER:8000/numbers" | md5sum
curl --silent "http://$PEER:8000/[1-3]" --output '#1' --write-out '%{http_code}\n'
curl --silent --no-progress-meter --parallel "http://$PEER:8000/small" "http://$PEER:8000/small"
curl --silent --head "http://$PEER:8000/small" | head -n 1
curl --silent "tftp://$PEER/small"
curl --silent "tftp://$PEER/numbers" | md5sum
curl --silent "tftp://$PEER/absent" || echo "curl: $?"
curl --silent --max-time 30 "http://127.0.0.1:1/" || echo "curl: $?"
curl --silent "file://$HOME/served/small"
end $http $tftp
