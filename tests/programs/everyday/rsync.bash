# Changed: the address, a module to write to, its user. MB/s of one upload.
megabytes=400
prepare() {
    mkdir -m 777 /run/everyday/module
    head -c ${megabytes}M /dev/urandom >/run/everyday/file
    printf 'use chroot = yes\n[module]\npath = /run/everyday/module\nread only = no\n' >/run/everyday/rsyncd.conf
}
serve() { start rsync --daemon --no-detach --config=/run/everyday/rsyncd.conf --address="$SELF"; }
until_served() { until_listening tcp 873; }
load() {
    local begun=$EPOCHREALTIME
    client rsync --whole-file /run/everyday/file "rsync://$SELF/module/"
    awk -v mb="$(($(stat -c %s /run/everyday/module/file) / 1048576))" "BEGIN { print \"rate\", mb / ($EPOCHREALTIME - $begun); print \"errors\", $megabytes - mb }"
}
