# A broker that becomes its own user once it listens, as its package configures it.
. "$PROGRAMS/tcp.bash"
printf 'user mosquitto\nlistener 1883 %s\nallow_anonymous true\npersistence false\n' "$SELF" >conf
chmod 755 "$HOME"
serve mosquitto -c conf 2>/dev/null & server=$!
until_listening tcp 1883
client mosquitto_sub -h "$SELF" -t numbers -C 300 >seen & subscriber=$!
is_subscribed() { ss --no-header --numeric --tcp state established 'sport = :1883' | grep -q .; }
until_true is_subscribed
sleep 0.5
seq 1 300 | client mosquitto_pub -h "$SELF" -t numbers -l
wait $subscriber
md5sum <seen
end $server
