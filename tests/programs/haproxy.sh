# A proxy with threads, before two servers.
mkdir one two; echo one >one/f; echo two >two/f
for name in one two; do
    (cd $name; exec /usr/bin/python3 -m http.server --bind 127.0.0.1 $([ $name = one ] && echo 8001 || echo 8002) >/dev/null 2>&1) & pids+=" $!"
done
printf 'global\n maxconn 100\ndefaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\nfrontend f\n bind %s:80\n default_backend b\nbackend b\n balance roundrobin\n server one 127.0.0.1:8001\n server two 127.0.0.1:8002\n' "$SELF" >conf
until_listening tcp 8001; until_listening tcp 8002
haproxy -db -q -f conf & proxy=$!; until_listening tcp 80
for i in {1..6}; do curl -s "http://$SELF/f"; done | sort | uniq -c | tr -s ' '
end $proxy $pids
