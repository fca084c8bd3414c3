# HTTP/3: QUIC with ECN and packet information, from a server at this end and then from one at the other.
. "$PROGRAMS/services/ngtcp2.bash"
(serve) & server=$!
until_served
mkdir got
for file in numbers big numbers; do
    peer gtlsclient -q --exit-on-all-streams-close --download got "$SELF" 4433 "https://$SELF/$file" >/dev/null 2>&1; md5sum got/*; rm got/*
done
end $server
