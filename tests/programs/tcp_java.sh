# A virtual machine, whose sockets are of AF_INET6: a server with threads, and its client.
. "$PROGRAMS/tcp.bash"
machine=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto "$PROGRAMS/Pages.java")
serve "${machine[@]}" & server=$!
until_listening tcp 8000; seq 1 50000 >body
client curl -s --data-binary "@$HOME/body" "http://$SELF:8000/" | md5sum
client "${machine[@]}" "http://$SELF:8000/"
end $server
