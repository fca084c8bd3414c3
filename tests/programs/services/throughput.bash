# throughput.bash <service> <seconds>: runs the service on one CPU, with $LIBRARY if that is set, loads it from another one,
# and says "load <answers a second> <clock ticks that the service took>".
. "$PROGRAMS/services/$1.bash"

# Clock ticks of all processes here but this shell.
ticks() {
    local pid fields sum=0
    for pid in $(ip netns pids "$SELF_NETNS"); do
        [ "$pid" != $$ ] && read -r fields 2>/dev/null <"/proc/$pid/stat" || continue
        fields=(${fields##*) })
        sum=$((sum + fields[11] + fields[12]))
    done
    echo $sum
}

(
    taskset -cp 1 $BASHPID >/dev/null
    [ -z "$LIBRARY" ] || export LD_PRELOAD=$LIBRARY
    serve
) >serve.log 2>&1 &
until_served
sleep 0.5
before=$(ticks)
rate=$(load "$2")
echo "load $rate $(($(ticks) - before))"
