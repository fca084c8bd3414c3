# A tunnel with threads before an echo service.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -keyout key -out certificate -days 2 2>/dev/null
cat certificate key >both
printf 'foreground = yes\npid =\ndebug = err\n[in]\naccept = %s:5000\nconnect = %s:7\ncert = both\n' "$SELF" "$PEER" >server.conf
printf 'foreground = yes\npid =\ndebug = err\n[out]\nclient = yes\naccept = 127.0.0.1:5001\nconnect = %s:5000\n' "$SELF" >client.conf
stunnel server.conf 2>/dev/null & server=$!; stunnel client.conf 2>/dev/null & client=$!
until_listening tcp 5000; until_listening tcp 5001
for i in 1 2 3; do exec 5<>/dev/tcp/127.0.0.1/5001; echo "tunnelled $i" >&5; read -r line <&5; echo "$line"; exec 5>&-; done
end $client $server
