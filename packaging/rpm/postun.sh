if [ "$1" -eq 0 ]; then
    rm -f /usr/lib64/libvma.so /usr/lib64/libvma.so.@MAJOR@ /usr/lib64/libvma.so.9 /usr/lib64/libvma.so.8 /run/vma_agent.sock
elif [ -x /usr/lib/systemd/systemd-update-helper ]; then
    /usr/lib/systemd/systemd-update-helper mark-restart-system-units vma.service || :
fi
ldconfig
