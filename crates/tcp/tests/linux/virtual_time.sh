#!/usr/bin/env bash
# Measures the goodput of Linux at all points of the table in virtual time, and writes tests/goodput_linux.txt; or that of the
# engine in its place, which goes to tests/goodput_to_linux.txt.
#
# usage: virtual_time.sh LINUX_SOURCE BUILD [linux|engine [POINTS]]
#
# With POINTS, a part of the names of points, only those are measured, and printed. Write _ for each blank of the name, as in
# ms__reordering_10.
#
# LINUX_SOURCE is a source tree of Linux, BUILD a directory (made if it is not there) for a User-Mode Linux built from it, a
# kernel that is a process. On Debian:
#
#   apt-get install linux-source-6.12 build-essential bc bison flex iproute2
#   tar -C /tmp -xf /usr/src/linux-source-6.12.tar.xz
#   crates/tcp/tests/linux/virtual_time.sh /tmp/linux-source-6.12 /tmp/linux-um
#
# With time-travel=inf-cpu the clock of that kernel stands still while anything in it runs, and jumps to the next timer when
# everything sleeps. So neither the relay nor the kernel is ever late, whatever the machine: 10 Gbit/s and round trips of 20
# microseconds are exact, and another run gives the same table. It takes an hour and a half, as root, and changes nothing but the table on
# the machine. Its processes must not be stopped (SIGSTOP) meanwhile: that ends a User-Mode Linux.
set -euo pipefail
usage="usage: virtual_time.sh LINUX_SOURCE BUILD [linux|engine [POINTS]]"
source=$(realpath "${1:?$usage}")
build=$(realpath -m "${2:?$usage}")
sender=${3:-linux}
points=${4:+POINTS=$4}
here=$(cd "$(dirname "$0")" && pwd)

# User-Mode Linux ticks at 100 Hz and has no option for it; distributions have 250 or 1000.
sed -i '/^config HZ$/,/default/s/default 100$/default 1000/' "$source/arch/um/Kconfig"
mkdir -p "$build"
kernel() { make -C "$source" O="$build" ARCH=um "$@"; }
kernel KCONFIG_ALLCONFIG="$here/virtual_time/kernel.config" allnoconfig >/dev/null
grep -q '^CONFIG_HZ=1000$' "$build/.config"
kernel -j"$(nproc)" linux

# In a directory of its own: the binary is what cargo names last.
test=$(cd "$here" && cargo test -p tcp --test linux --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
"$build/linux" mem=2G time-travel=inf-cpu root=/dev/root rootfstype=hostfs rootflags=/ rw quiet \
    con0=fd:0,fd:1 init="$here/virtual_time/init.sh" TEST="$test" SENDER="$sender" UPDATE_GOODPUT=1 $points </dev/null |
    tee "$build/measurement.log"
grep -q '^test result: ok' "$build/measurement.log"
