# A clock's client, with time stamps from the kernel.
printf 'local stratum 5\nallow\ncmdport 0\npidfile %s/server.pid\nbindaddress %s\n' "$HOME" "$PEER" >server.conf
peer_server chronyd -d -x -u root -f server.conf >/dev/null 2>&1; until_peer_listening udp 123
chronyd -Q -x -u root -t 60 "server $PEER iburst maxsamples 1" 'cmdport 0' "pidfile $HOME/pid" 2>&1 | grep -o 'System clock wrong by'
end $server
