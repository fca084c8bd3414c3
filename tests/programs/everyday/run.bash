# run.bash <service> <seconds>: runs an everyday service as its package ships it, with $LIBRARY if that is set. Says "ready" when it answers,
# then puts it under its usual load, with $CLIENT_LIBRARY if that is set, once for each line of standard input. Says each time what both did,
# a line each, and "ready" again: "rate", "p99_us", "server_ticks", "client_sec", "seconds", "octets" (received by the interface, and by the
# kernel's IP from it), "errors". run.bash <service> answers: asks it the questions of answers.bash instead, and says what it answered and how it
# ended.
#
# A service is a file of this directory, and what follows the dash of its name is $VARIANT. It has
#   prepare        writes what is not in the package, as root, before anything is preloaded
#   serve          execs the service, by start or start_as
#   until_served   returns when it answers
#   warm_up        (if it is there) runs before what is measured
#   load SECONDS   runs the generator by client, and prints "rate", "p99_us", "errors"
#
# What the service writes stays away from the machine: /run, /var/log and what cover names are empty directories of this run.
if [ -z "${COVERED:-}" ]; then
    export COVERED=yes
    exec unshare --mount --propagation private bash "$0" "$@"
fi
. "$PROGRAMS/common.bash"

# Puts empty directories over these, of a user if the first word is user:group.
cover() {
    local owner=root:root directory
    case $1 in *:*) owner=$1; shift ;; esac
    for directory; do
        mkdir -p "$directory"
        mount -t tmpfs -o mode=755 tmpfs "$directory"
        chown "$owner" "$directory"
    done
}

# exec, with the library.
start() {
    exec env ${LIBRARY:+LD_PRELOAD="$LIBRARY"} "$@"
}

# The same as a user, with the rights that docs/deployment.md gives units that have one (User=): none beside a broker.
start_as() {
    start_with_rights "$1" '' "${@:2}"
}

# start_with_rights USER RIGHTS PROGRAM...: which its unit gives it anyway, as in +net_bind_service. With $ONE_USER as root, as its clients.
start_with_rights() {
    local user=$1 rights=$2
    shift 2
    [ -z "${ONE_USER:-}" ] || start "$@"
    [ -n "${BROKER:-}" ] || rights+=${rights:+,}+net_raw,+net_admin,+bpf,+perfmon,+ipc_lock
    exec setpriv --reuid="$user" --regid="$(id -gn "$user")" --init-groups --inh-caps="${rights:--all}" \
        --ambient-caps="${rights:--all}" env ${LIBRARY:+LD_PRELOAD="$LIBRARY"} HOME=/ "$@"
}

# At the other end.
client() {
    ip netns exec "$PEER_NETNS" env ${CLIENT_LIBRARY:+LD_PRELOAD="$CLIENT_LIBRARY"} VMA_TRACELEVEL=error \
        taskset -c "$CLIENT_CPUS" "$@"
}

# Microseconds of a time as wrk writes it.
microseconds() {
    awk -v time="$1" 'BEGIN { unit = time; sub(/^[0-9.]+/, "", unit); print time * (unit == "us" ? 1 : unit == "ms" ? 1000 : 1000000) }'
}

# web_load SECONDS URL CONNECTIONS [wrk's options]
web_load() {
    local seconds=$1 url=$2 connections=$3
    shift 3
    client wrk --threads 1 --connections "$connections" --duration "${seconds}s" --timeout 5s --latency "$@" "$url" >wrk.log 2>&1
    awk '/^Requests\/sec:/ { print "rate", $2 }' wrk.log
    echo "p99_us $(microseconds "$(awk '$1 == "99%" { print $2 }' wrk.log)")"
    # A server that has fewer processes than a moment ago closes connections: one error of each is none.
    awk -v spare="$connections" '/Socket errors:/ { gsub(/,/, ""); n = $4 + $6 + $8 + $10 } /Non-2xx/ { wrong = $NF }
        END { print "errors", (n > spare ? n : 0) + wrong }' wrk.log
}

# sample_load udp|tcp PORT SECONDS SOCKETS WINDOW QUESTION BYTES: see tests/c/load.c.
sample_load() {
    local kind=$1 port=$2
    shift 2
    client "$LOAD" "$kind" "$SELF" "$port" "$@" p99 | awk '{ print "rate", $1; print "p99_us", $2 }'
}

# name_load SECONDS: questions for names of the zone name.test.
name_load() {
    for i in {1..50}; do echo "n$i.name.test A"; done >questions
    client dnsperf -s "$SELF" -d questions -l "$1" -c 8 -q 64 -t 1 >dnsperf.log 2>&1
    awk '/Queries per second/ { print "rate", $4 } /Queries lost/ { lost = $3 }
        /Response codes/ && !/NOERROR [0-9]+ \(100.00%\)/ { wrong = 1 } END { print "errors", lost + wrong }' dnsperf.log
}

name_zone() {
    printf '$ORIGIN name.test.\n@ 3600 SOA ns admin 1 2 3 4 5\n@ NS ns\nns A %s\n* A 192.0.2.1\n' "$SELF"
}

until_names_answered() {
    until_true client dig "@$SELF" a.name.test +tries=1 +timeout=1
}

# The service's processes are those of other sessions than this shell's.
ticks() {
    local pid fields sum=0
    for pid in $(ip netns pids "$SELF_NETNS"); do
        read -r fields 2>/dev/null <"/proc/$pid/stat" || continue
        fields=(${fields##*) })
        [ "${fields[3]}" != "$session" ] || continue
        sum=$((sum + fields[11] + fields[12] + fields[13] + fields[14]))
    done
    echo $sum
}

# What the interfaces but lo have received, and what of it, and of what lo has, the kernel's IP has.
octets() {
    awk '$1 == "lo:" { lo = $2 } /:/ && $1 != "lo:" { all += $2 - 14 * $3 }
        FILENAME ~ /netstat/ && $1 == "IpExt:" { if (names++) ip = $column; else for (i = 1; i <= NF; i++) if ($i == "InOctets") column = i }
        END { printf "%.0f %.0f\n", all, ip - lo }' /proc/net/dev /proc/net/netstat
}

case $1 in *-*) VARIANT=${1#*-} ;; *) VARIANT= ;; esac
. "$PROGRAMS/everyday/${1%%-*}.bash"
if [ "${2:-}" = serve ]; then
    serve
    exit 1
fi

mkdir -p /run/netns "$HOME/netns"
mount --rbind /run/netns "$HOME/netns"
cover /run /var/log
mkdir -p /run/netns
mount --move "$HOME/netns" /run/netns
mkdir /run/everyday
if [ -n "${BROKER:-}" ]; then
    mkdir /run/vma
    mount --bind "$BROKER" /run/vma
fi

session=$(ps -o sid= -p $$ | tr -d ' ')
prepare
if [ -n "${SOCKMAP:-}" ]; then
    . "$PROGRAMS/everyday/sockmap.bash"
    sockmap_begin
fi
taskset -c "$SERVER_CPUS" setsid bash "$0" "$1" serve >serve.log 2>&1 & service=$!
until_served || { cat serve.log; exit 1; }
if [ "${2:-}" = answers ]; then
    . "$PROGRAMS/everyday/answers.bash"
    "answers_${1%%-*}"
    end_service
    exit
fi
sleep 0.3
if declare -F warm_up >/dev/null; then
    warm_up >/dev/null
fi
# One load, and what it has cost.
measured() {
    local before octets_before octets_after begun ended TIMEFORMAT='client_sec %U %S'
    before=$(ticks) octets_before=($(octets))
    begun=$EPOCHREALTIME
    { time load "$1" 2>load.log; } 2>&1
    ended=$EPOCHREALTIME
    octets_after=($(octets))
    echo "server_ticks $(($(ticks) - before))"
    echo "seconds $(bc <<<"$ended - $begun" 2>/dev/null || awk "BEGIN { print $ended - $begun }")"
    echo "octets $((octets_after[0] - octets_before[0])) $((octets_after[1] - octets_before[1]))"
    cat load.log >&2
}

echo ready
while read -r; do
    measured "$2" </dev/null
    echo ready
done
