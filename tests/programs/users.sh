# Other users and other rights.
su -s /bin/sh nobody -c 'id -un; echo $HOME >/dev/null; cat /etc/hostname >/dev/null && echo readable'
setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all id -u
setpriv --bounding-set=-all --no-new-privs sh -c 'id -u; grep NoNewPrivs /proc/self/status'
runuser -u nobody -- id -un
! su -s /bin/sh nobody -c 'cat /etc/shadow' 2>/dev/null && echo "not readable"
setsid --wait sh -c 'exit 4' || echo "setsid: $?"
chroot / sh -c 'echo chrooted'
unshare --mount --uts --ipc --fork sh -c 'hostname inside; hostname'
nsenter --net=/proc/self/ns/net echo entered
newgrp root <<<'id -gn'
