# dnsmasq serves names at the other end; dig, host, getent and python ask for them.
peer_server dnsmasq --no-daemon --no-resolv --no-hosts --conf-file=/dev/null --user=root --listen-address="$PEER" --bind-interfaces \
    --address=/name.test/192.0.2.1 --address=/name.test/2001:db8::1 --txt-record="big.test,$(printf '%0200d,' 1 2 3 4 5 6 | sed 's/,$//')" \
    >/dev/null 2>&1
until_peer_listening udp 53
echo "nameserver $PEER" >resolv.conf; mount --bind resolv.conf /etc/resolv.conf
dig "@$PEER" name.test A +short; dig "@$PEER" name.test AAAA +short; dig "@$PEER" absent.invalid | grep -o 'status: [A-Z]*'
dig "@$PEER" +tcp name.test +short; dig "@$PEER" big.test TXT +noedns +short | md5sum
for i in 1 2 3 4 5; do echo "name$i.name.test"; done >names; dig "@$PEER" -f names +short
host -t A name.test; host absent.invalid || echo "host: $?"
getent ahosts name.test; getent hosts absent.invalid || echo "getent: $?"
/usr/bin/python3 -c 'import socket; print(sorted(a[4][0] for a in socket.getaddrinfo("name.test", 80, type=socket.SOCK_STREAM)))'
/usr/bin/python3 -c '
import concurrent.futures, socket
names = [f"n{i}.name.test" for i in range(50)]
print(set(concurrent.futures.ThreadPoolExecutor(10).map(socket.gethostbyname, names)))'
end $server
