#!/bin/sh
# The first process of the User-Mode Linux that ../virtual_time.sh boots, which gives it TEST and SENDER in the environment.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/net
[ -c /dev/net/tun ] || mknod /dev/net/tun c 10 200
"$TEST" --ignored --exact "goodput::${SENDER}_in_virtual_time" --nocapture
# reboot(LINUX_REBOOT_CMD_POWER_OFF)
exec perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
