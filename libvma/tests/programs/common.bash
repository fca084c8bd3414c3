# What the scripts share. bash reads it first (BASH_ENV).
#
# The script runs in a network namespace as $SELF, in an empty directory, $HOME. $PEER is the other end of its only link.
unset BASH_ENV

# Runs a program at the other end, with the library if this end has it.
peer() {
    ip netns exec "$PEER_NETNS" "$@"
}

# Waits until a command succeeds.
until_true() {
    local end=$((SECONDS + 60))
    while [ $SECONDS -lt $end ]; do
        if "$@" >/dev/null 2>&1; then
            return 0
        fi
        # No process substitution, which would change $!.
        sleep 0.02
    done
    echo "never true: $*"
    return 1
}

listens() {
    ss --no-header --listening --numeric --"$1" "sport = :$2" | grep -q .
}

# until_listening tcp|udp <port>
until_listening() {
    until_true listens "$1" "$2"
}

peer_listens() {
    peer ss --no-header --listening --numeric --"$1" "sport = :$2" | grep -q .
}

# The same at the other end.
until_peer_listening() {
    until_true peer_listens "$1" "$2"
}

# Ends background processes of this script and says nothing: bash may tell of their end with any command.
end() {
    { kill "$@" && { wait "$@" || :; }; } 2>/dev/null
}

# Runs a measurement until it succeeds, five times at most, for the machine may be busy; prints what the last one said.
measure() {
    local attempt said=
    for attempt in {1..5}; do
        if said=$("$@"); then
            break
        fi
    done
    echo "$said"
}
