# A tunnel over UDP, with the library at both ends.
. "$PROGRAMS/services/openvpn.bash"
(serve) & server=$!
until_served
all_answered() { ping -q -c 20 -i 0.05 -s "$1" 10.99.0.1 | grep -o '20 received, 0% packet loss'; }
for size in 10 1000 1400; do measure all_answered $size; done
seq 1 100000 >numbers
socat -u TCP4-LISTEN:5000,bind=10.99.0.2 CREATE:got & receiver=$!
until_listening tcp 5000; peer socat -u OPEN:numbers TCP4:10.99.0.2:5000; wait $receiver; md5sum <got
end $server; peer pkill -F client.pid
