# A server with its own key at this end; the client, sftp and scp.
mkdir -p /run/sshd; chmod 755 . ; mkdir -m 700 keys
ssh-keygen -q -t ed25519 -N '' -f keys/host; ssh-keygen -q -t ed25519 -N '' -f keys/user
cp keys/user.pub keys/authorized
/usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$HOME/keys/host" -o ListenAddress="$SELF" -o PidFile=none -o UsePAM=no \
    -o StrictModes=no -o AuthorizedKeysFile="$HOME/keys/authorized" -o Subsystem='sftp internal-sftp' 2>sshd.log & sshd=$!
until_listening tcp 2222
options=(-F /dev/null -i keys/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes)
ssh "${options[@]}" -p 2222 "$SELF" 'echo remote; id -u; exit 3' || echo "ssh: $?"
seq 1 100000 | ssh "${options[@]}" -p 2222 "$SELF" md5sum
ssh "${options[@]}" -tt -p 2222 "$SELF" 'tty -s && echo a terminal'
scp "${options[@]}" -q -P 2222 keys/user.pub "$SELF:$HOME/copied"; cmp keys/user.pub copied && echo copied
echo "ls $HOME/keys" | sftp "${options[@]}" -q -P 2222 -b - "$SELF" | sed "s:$HOME::" | grep -v '^sftp>' | tr -s ' \n' ' '; echo
ssh "${options[@]}" -p 2222 -N -L "2223:$SELF:2222" "$SELF" & forward=$!
until_listening tcp 2223
ssh "${options[@]}" -p 2223 127.0.0.1 'echo through the tunnel'
end $forward $sshd
