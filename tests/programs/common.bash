# What the scripts share. bash reads it first (BASH_ENV).
#
# The script runs in a network namespace as $SELF, in an empty directory, $HOME. $HOST is $SELF as it stands in a URL, $PEER the other end
# of its only link.
unset BASH_ENV

# Runs a program at the other end, with the library if this end has it.
peer() {
    ip netns exec "$PEER_NETNS" "$@"
}

# Starts a program at the other end; $server is its process id. After `peer program &` it would be that of a shell whose end the
# program outlives.
peer_server() {
    ip netns exec "$PEER_NETNS" "$@" & server=$!
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

# Waits until a command succeeds at the other end.
until_peer_answers() {
    until_true peer "$@"
}

# At the other end without the library, on a CPU that the service leaves alone.
load_from_peer() {
    ip netns exec "$PEER_NETNS" env -u LD_PRELOAD taskset -c "${LOAD_CPU:-0}" "$@"
}

# peer_load <arguments of tests/c/load.c>: answers a second.
peer_load() {
    load_from_peer "$LOAD" "$@"
}

# dns_load <seconds>: answered questions a second.
dns_load() {
    for i in {1..50}; do echo "n$i.name.test A"; done >questions
    load_from_peer dnsperf -s "$SELF" -d questions -l "$1" -c 8 -q 64 -t 1 >dnsperf.log 2>&1
    grep -q 'NOERROR [0-9]* (100.00%)' dnsperf.log || grep 'Response codes' dnsperf.log >&2
    awk '/Queries per second/ { print int($4) }' dnsperf.log
}

# Questions to a server of the zone name.test, and what it answers.
ask_for_names() {
    for i in {1..20}; do peer dig "@$SELF" "n$i.name.test" +short +tries=1 +timeout=10; done
    peer dig "@$SELF" name.test SOA | grep -o 'status: [A-Z]*'
    peer dig "@$SELF" a.name.test +tcp +short
    for i in {1..200}; do echo "m$i.name.test"; done >names
    peer dig "@$SELF" -f names +short | sort | uniq -c
    peer dig "@$SELF" absent.invalid | grep -o 'status: [A-Z]*'
}
