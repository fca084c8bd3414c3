# Moving pictures over RTP, to this end and then from it. A receiver learns from the first packet what comes, and opens its socket anew: with
# which picture it begins differs, not which there are.
source="testsrc=size=160x120:rate=25"
send() { ffmpeg -nostdin -loglevel error -readrate 5 -f lavfi -i $source -threads 1 -bitexact -c:v mpeg2video -g 5 -b:v 500k -f rtp_mpegts "rtp://$1:5004"; }
receive() { exec ffmpeg -nostdin -loglevel error -i "rtp://$1:5004" -frames:v 30 -f framemd5 "$2"; }
export -f send receive; export source
hashes() { sed -n 's/^0,.*, *//p' "$1"; }
ffmpeg -nostdin -loglevel error -f lavfi -i $source -frames:v 1000 -threads 1 -bitexact -c:v mpeg2video -g 5 -b:v 500k -f mpegts sent
ffmpeg -nostdin -loglevel error -i sent -f framemd5 expected
known() { hashes "$1" | grep -cFf <(hashes expected); }
receive "$SELF" here 2>/dev/null & receiver=$!
until_listening udp 5004; peer bash -c "send $SELF" 2>/dev/null & sender=$!
wait $receiver; end $sender; known here
peer bash -c "receive $PEER there" 2>/dev/null & receiver=$!
until_peer_listening udp 5004; send "$PEER" 2>/dev/null & sender=$!
wait $receiver; end $sender; known there
