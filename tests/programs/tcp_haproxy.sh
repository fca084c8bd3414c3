# A proxy with threads, whose other side is the kernel's.
. "$PROGRAMS/tcp.bash"
mkdir www; seq 1 100000 >www/numbers
env -u LD_PRELOAD /usr/bin/python3 -m http.server --bind 127.0.0.1 --directory www 8000 2>log & origin=$!
cat >conf <<END
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
listen all
    bind :::80 v4v6
    server one 127.0.0.1:8000
END
until_listening tcp 8000
serve haproxy -db -f conf 2>/dev/null & server=$!
until_listening tcp 80
for i in {1..3}; do client curl -s "http://$SELF/numbers" | md5sum; done
client curl -s -o /dev/null -w '%{http_code}\n' "http://$SELF/absent"
end $server $origin
