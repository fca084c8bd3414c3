# A server that hands each connection to a process that it starts.
. "$PROGRAMS/tcp.bash"
mkdir -p /run/sshd; chmod 755 .; mkdir -m 700 keys
ssh-keygen -q -t ed25519 -N '' -f keys/host; ssh-keygen -q -t ed25519 -N '' -f keys/user; cp keys/user.pub keys/authorized
serve /usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$HOME/keys/host" -o ListenAddress="$SELF" -o PidFile=none -o UsePAM=no \
    -o StrictModes=no -o AuthorizedKeysFile="$HOME/keys/authorized" -o Subsystem='sftp internal-sftp' 2>sshd.log & server=$!
until_listening tcp 2222
options=(-F /dev/null -i keys/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes)
client ssh "${options[@]}" -p 2222 "$SELF" 'echo remote; exit 3' || echo "ssh: $?"
seq 1 200000 | client ssh "${options[@]}" -p 2222 "$SELF" md5sum
client ssh "${options[@]}" -p 2222 "$SELF" seq 1 200000 | md5sum
client scp "${options[@]}" -q -P 2222 keys/user.pub "$SELF:$HOME/copied"; cmp keys/user.pub copied && echo copied
end $server
