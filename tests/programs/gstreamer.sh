# Sound over RTP, to this end and then from it.
sound="application/x-rtp,media=audio,clock-rate=44100,encoding-name=L16,channels=1"
receive() { exec gst-launch-1.0 -q udpsrc address="$1" port=5004 caps="$sound" ! rtpL16depay ! filesink buffer-mode=2 location="$HOME/$2"; }
send() {
    gst-launch-1.0 -q audiotestsrc num-buffers=100 is-live=true samplesperbuffer=441 ! audio/x-raw,format=S16BE,rate=44100,channels=1 \
        ! rtpL16pay ! udpsink host="$1" port=5004
}
export -f send; export sound
has_all() { [ "$(stat -c %s "$1")" = 88200 ]; }
receive "$SELF" here >/dev/null 2>&1 & receiver=$!
until_listening udp 5004; peer bash -c "send $SELF" >/dev/null 2>&1; until_true has_all here; end $receiver; md5sum <here
(peer bash -c "$(declare -f receive); receive $PEER there") >/dev/null 2>&1 & receiver=$!
until_peer_listening udp 5004; send "$PEER" >/dev/null 2>&1; until_true has_all there; end $receiver; md5sum <there
