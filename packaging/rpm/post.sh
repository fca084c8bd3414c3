# The links by which the loader finds the library and programs preload it. Not left to ldconfig, which looks into this
# directory on some systems only.
ln -sfn libvma.so.@VERSION@ /usr/lib64/libvma.so.@MAJOR@
ln -sfn libvma.so.@MAJOR@ /usr/lib64/libvma.so
# VMA's sonames: what programs are linked to, and scripts preload.
ln -sfn libvma.so.@MAJOR@ /usr/lib64/libvma.so.9
ln -sfn libvma.so.@MAJOR@ /usr/lib64/libvma.so.8
ldconfig
if command -v systemd-sysusers >/dev/null; then
    systemd-sysusers vma.conf || :
fi
if command -v systemd-tmpfiles >/dev/null && [ -d /run/systemd/system ]; then
    systemd-tmpfiles --create vma.conf || :
fi
if [ "$1" -eq 1 ] && [ -x /usr/lib/systemd/systemd-update-helper ]; then
    /usr/lib/systemd/systemd-update-helper install-system-units vma.service || :
fi
