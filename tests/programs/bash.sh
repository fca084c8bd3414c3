# The shell's own processes, descriptors, job control and network files.
set +o pipefail
set -m
# When a shell says "Terminated" is a matter of time.
{ sleep 60 & kill %1; wait %1 || echo "job: $?"; } 2>/dev/null
(sleep 0.05; exit 7) & wait -n || echo "wait -n: $?"
set +m
coproc UPPER { while read -r line; do echo "${line^^}"; done; }
echo hello >&"${UPPER[1]}"; read -r answer <&"${UPPER[0]}"; echo "$answer"
exec {UPPER[1]}>&-; wait "$UPPER_PID"
diff <(seq 5) <(seq 6) || :
x=$(echo outer $(echo inner $(echo innermost))); echo "$x"
(exit 3) || echo "subshell: $?"
trap 'echo trapped' USR1; kill -USR1 $$; trap - USR1
exec 3<>file; echo text >&3; exec 3>&-; cat file
exec 200>lock; flock -n 200; (flock -n 200 || echo "locked $?") 200>lock; exec 200>&-
for i in {1..20}; do (echo $((i * i))) & done | sort -n | tail -n 1; wait
mkfifo silent; read -rt 0.05 <>silent || [ $? -gt 128 ] && echo "read timed out"
yes | head -n 1; echo "${PIPESTATUS[*]}"
ulimit -n 1024; ulimit -n
mapfile -t lines < <(printf 'a\nb\n'); echo "${#lines[@]}"
cat <<< "here string" | { read -r a b; echo "$b $a"; }
! { exec 9<>/dev/tcp/127.0.0.1/9; } 2>/dev/null && echo "refused"
# Over the network, to the echo service at the other end.
for i in {1..10}; do
    exec 8<>"/dev/udp/$PEER/7"
    echo "datagram $i" >&8
    timeout 30 dd bs=100 count=1 status=none <&8
    exec 8>&-
done
exec 8<>"/dev/tcp/$PEER/7"; echo stream >&8; read -r answer <&8; echo "$answer"; exec 8>&-
exec echo "the end"
