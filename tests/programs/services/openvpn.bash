# A tunnel over UDP with a static key; the kernel answers through it.
serve() {
    openvpn --genkey secret key >/dev/null
    peer openvpn --writepid client.pid --dev tun --proto udp --secret key --cipher AES-256-CBC --ifconfig 10.99.0.1 10.99.0.2 \
        --lport 1194 --local "$PEER" --remote "$SELF" --data-ciphers-fallback AES-256-CBC --verb 1 >client.log 2>&1 &
    exec openvpn --dev tun --proto udp --secret key --cipher AES-256-CBC --ifconfig 10.99.0.2 10.99.0.1 \
        --lport 1194 --local "$SELF" --remote "$PEER" --verb 1 >server.log 2>&1
}
until_served() { until_peer_answers ping -c 1 -W 1 10.99.0.2; }
# Echoes through the tunnel.
load() { load_from_peer timeout --signal=INT "$1" ping -q -f -l 64 -s 400 10.99.0.2 | awk -v s="$1" '/received/ { print int($4 / s) }'; }
