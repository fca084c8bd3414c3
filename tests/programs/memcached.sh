# A server with threads, over UDP and TCP.
memcached -u root -l "$SELF" -p 11211 -U 11211 -t 4 & server=$!
until_listening tcp 11211; until_listening udp 11211
peer /usr/bin/python3 "$PROGRAMS/memcached.py"
end $server
