# smol (async-io, polling, rustix) waits by instructions of its own: what it waits for becomes the kernel's, and it goes on. Streams and
# datagrams, served by one thread and by several, for clients on tokio and on smol.
. "$PROGRAMS/tcp.bash"
for what in smol smol-threads; do
    serve "$OWN_PROGRAM" $what "$SELF:8000" & server=$!
    until_listening tcp 8000
    until_listening udp 8000
    for clients in tcp udp smol; do client "$OWN_PROGRAM" $clients-clients "$SELF:8000"; done
    end $server
done
