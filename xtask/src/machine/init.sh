#!/bin/busybox sh
# The first process of the virtual machine: its root is the host's, which it can read and not write.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
mount -t tmpfs tmpfs /changes
mkdir /changes/new /changes/work
mount -t overlay -o lowerdir=/host,upperdir=/changes/new,workdir=/changes/work overlay /root
for directory in proc sys dev; do mount --move /$directory /root/$directory; done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts devpts /root/dev/pts
for directory in run tmp dev/shm; do mount -t tmpfs tmpfs /root/$directory; done
cp /job /root/run/job
exec switch_root /root /bin/sh /run/job
