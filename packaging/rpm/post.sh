# The link by which programs preload the library; the one for the loader is ldconfig's.
ldconfig
ln -sfn libvma.so.@MAJOR@ /usr/lib64/libvma.so
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers vma.conf || :
fi
if command -v systemd-tmpfiles >/dev/null && [ -d /run/systemd/system ]; then
    systemd-tmpfiles --create vma.conf || :
fi
if [ "$1" -eq 1 ] && [ -x /usr/lib/systemd/systemd-update-helper ]; then
    /usr/lib/systemd/systemd-update-helper install-system-units vma.service || :
fi
