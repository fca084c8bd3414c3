# Streams between two ends: a server here, its clients at the other end. $AT says which of them has the library: server, client or
# both; without the library neither has.

# To be started in the background.
serve() {
    if [ "${AT:-}" = client ]; then
        exec env -u LD_PRELOAD "$@"
    fi
    exec "$@"
}

client() {
    if [ "${AT:-}" = server ]; then
        ip netns exec "$PEER_NETNS" env -u LD_PRELOAD "$@"
    else
        ip netns exec "$PEER_NETNS" "$@"
    fi
}

has_ended() {
    ! kill -0 "$1"
}
