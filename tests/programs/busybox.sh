# A static program, which no library can be preloaded into, between others.
busybox sh -c 'echo static; cat /etc/hostname >/dev/null; seq 3 | busybox sort -r; exit 3' || echo "busybox: $?"
busybox sh -c 'echo from busybox | /usr/bin/tr a-z A-Z'
echo stream | busybox nc -w 20 "$PEER" 7
busybox httpd -f -p 127.0.0.1:8080 -h . & server=$!; echo page >index.html; until_listening tcp 8080
curl -s http://127.0.0.1:8080/; busybox wget -qO- http://127.0.0.1:8080/
busybox tar -c index.html | tar -x -O; end $server
