# A clock's client, with time stamps from the kernel.
printf 'local stratum 5\nallow\ncmdport 0\npidfile %s/server.pid\nbindaddress %s\n' "$HOME" "$PEER" >server.conf
peer_server chronyd -d -x -u root -f server.conf >/dev/null 2>&1; until_peer_listening udp 123
chronyd -Q -x -u root -t 60 "server $PEER iburst maxsamples 1" 'cmdport 0' "pidfile $HOME/pid" 2>&1 | grep -o 'System clock wrong by'
end $server
# A server as its package runs it: its own user, and a filter of system calls that kills.
mkdir state; chown _chrony state; chmod 755 "$HOME"
printf 'local stratum 5\nallow\ncmdport 0\npidfile %s/state/pid\nbindaddress %s\n' "$HOME" "$SELF" >filtered.conf
chronyd -d -x -F 1 -u _chrony -f filtered.conf >/dev/null 2>&1 & server=$!
until_listening udp 123
peer env -u LD_PRELOAD chronyd -Q -x -t 60 "server $SELF iburst maxsamples 1" 'cmdport 0' "pidfile $HOME/pid2" 2>&1 | grep -o 'System clock wrong by'
end $server
