# Changed: the address, a key for the test. MB/s of one scp, which runs as root.
megabytes=600
options=(-q -i /run/everyday/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes)
prepare() {
    mkdir /run/sshd
    ssh-keygen -q -t ed25519 -N '' -f /run/everyday/key
    truncate -s ${megabytes}M /run/everyday/file
}
serve() { start /usr/sbin/sshd -D -o ListenAddress="$SELF" -o AuthorizedKeysFile=/run/everyday/key.pub; }
until_served() { until_listening tcp 22; }
load() {
    local begun=$EPOCHREALTIME
    case $VARIANT in
    upload) client scp "${options[@]}" /run/everyday/file "$SELF:/run/everyday/copy" ;;
    download) client scp "${options[@]}" "$SELF:/run/everyday/file" /run/everyday/copy ;;
    esac
    awk -v mb="$(($(stat -c %s /run/everyday/copy) / 1048576))" "BEGIN { print \"rate\", mb / ($EPOCHREALTIME - $begun); print \"errors\", $megabytes - mb }"
}
