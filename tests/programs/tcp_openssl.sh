# TLS.
. "$PROGRAMS/tcp.bash"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key -out cert -days 3 -subj /CN=x 2>/dev/null
seq 1 100000 >file
serve openssl s_server -accept "$SELF:4433" -key key -cert cert -WWW -quiet >/dev/null 2>&1 & server=$!
until_listening tcp 4433
client curl -sk "https://$SELF:4433/file" | md5sum
(printf "GET /file HTTP/1.0\r\n\r\n"; sleep 0.5) | client openssl s_client -connect "$SELF:4433" -quiet -no_ign_eof 2>/dev/null | md5sum
end $server
