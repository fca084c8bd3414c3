# TLS over TCP, and over UDP.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=test -keyout key -out certificate -days 2 2>/dev/null
seq 1 100000 | openssl dgst -sha256; openssl enc -aes-128-cbc -pass pass:x -pbkdf2 -S 00 -iv 00 -in certificate 2>/dev/null | wc -c | grep -c .
openssl s_server -accept "$SELF:4433" -key key -cert certificate -quiet -rev >/dev/null 2>&1 & server=$!
until_listening tcp 4433
(echo reversed; until_true test -s answer) | openssl s_client -connect "$SELF:4433" -quiet -no_ign_eof -CAfile certificate 2>/dev/null >answer
cat answer
end $server
mkfifo input; exec 9<>input
openssl s_server -dtls -accept "$SELF:4434" -4 -key key -cert certificate -quiet >server.out 2>server.err <&9 & server=$!
until_listening udp 4434
(for i in 1 2 3 4 5; do echo "over dtls $i"; sleep 0.1; done) | peer openssl s_client -dtls -connect "$SELF:4434" -CAfile certificate >/dev/null 2>&1 || :
until_true grep -q 'dtls 5' server.out; cat server.out
end $server
