# A proxy that becomes another user in another root directory once it listens, as its package configures it: its connections are the
# kernel's from then on.
. "$PROGRAMS/tcp.bash"
mkdir www; seq 1 100000 >www/numbers
env -u LD_PRELOAD /usr/bin/python3 -m http.server --bind 127.0.0.1 --directory www 8000 2>log & origin=$!
cat >conf <<END
global
    chroot /var/lib/haproxy
    user haproxy
    group haproxy
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
listen all
    bind $SELF:80
    server one 127.0.0.1:8000
END
until_listening tcp 8000
serve haproxy -db -f conf 2>/dev/null & server=$!
until_listening tcp 80
for i in {1..5}; do client curl -s "http://$SELF/numbers" | md5sum; done
grep ^Uid: /proc/$server/status | cut -f 2 | sed "s/^$(id -u haproxy)$/its own user/"
end $server $origin
