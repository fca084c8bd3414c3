# ping, ip, ss and tc: raw sockets and netlink.
ping -c 3 -i 0.1 "$PEER" | grep -o '3 packets transmitted, 3 received'
ping -c 1 -W 20 127.0.0.1 | grep -o '1 received'; ping -c 1 -W 0.2 "${PEER%.*}.99" >/dev/null 2>&1 || echo "ping: $?"
ip -brief address show vb; ip route get "$PEER" | head -n 1 | tr -s ' '; ip -j link show lo | grep -o '"LOOPBACK"'
ip link add dummy0 type veth peer name dummy1; ip address add 192.0.2.1/24 dev dummy0; ip link set dummy0 up; ip -4 -brief address show dummy0 | awk '{ print $1, $3 }' # Its state follows later.
tc qdisc add dev dummy0 root handle 1: pfifo limit 10; tc qdisc show dev dummy0; ip link delete dummy0
ip monitor link >events & monitor=$!
seen() { ip link add dummy2 type bridge; ip link delete dummy2; grep -q 'Deleted.*dummy2' events; }
until_true seen; end $monitor; echo monitored
(exec 5<>"/dev/udp/$PEER/7"; echo x >&5; ss -Hun dst "$PEER" | awk '{ print $4 }')
ip netns list | grep -c "^$PEER_NETNS"; ip -n "$PEER_NETNS" -brief address show va
