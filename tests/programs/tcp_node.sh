# A server of an event loop, over both families, that takes and gives long bodies.
. "$PROGRAMS/tcp.bash"
cat >server.js <<'END'
require('http').createServer((request, response) => {
    let count = 0;
    request.on('data', data => count += data.length);
    request.on('end', () => response.end('got ' + count + 'x'.repeat(300000)));
}).listen(8000);
END
serve node server.js & server=$!
until_listening tcp 8000; seq 1 50000 >body
for i in {1..3}; do client curl -s --data-binary "@$HOME/body" "http://$SELF:8000/" | md5sum; done
end $server
