#!/bin/sh
# What the scripts take for granted. The runner of this project knows these by heart; packetdrill itself runs this file.
sysctl -q \
    net.ipv4.tcp_rmem="4096 540000 15728640" \
    net.ipv4.tcp_wmem="4096 262144 4194304" \
    net.ipv4.tcp_timestamps=1 \
    net.ipv4.tcp_syn_retries=5 \
    net.ipv4.tcp_synack_retries=5 \
    net.ipv4.tcp_sack=1 \
    net.ipv4.tcp_dsack=1 \
    net.ipv4.tcp_reordering=3 \
    net.ipv4.tcp_congestion_control=cubic \
    net.ipv4.tcp_slow_start_after_idle=0 \
    net.ipv4.tcp_early_retrans=4 \
    net.ipv4.tcp_recovery=1 \
    net.ipv4.tcp_ecn=0 \
    net.ipv4.tcp_syncookies=1
