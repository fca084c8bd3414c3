# Has what this shell starts from here on, in a control group of its own, send by a sockmap: see sockmap.bpf.c. bpftool brings it there.
sockmap_begin() {
    local object=$PREPARED/sockmap.o groups=$HOME/groups bpf=$HOME/bpf
    [ -e "$object" ] || clang -O2 -g -target bpf -I"/usr/include/$(uname -m)-linux-gnu" -c "$PROGRAMS/everyday/sockmap.bpf.c" -o "$object"
    mkdir -p "$groups" "$bpf"
    mount -t cgroup2 none "$groups"
    mount -t bpf bpf "$bpf"
    mkdir "$bpf/programs" "$bpf/maps"
    sockmap_group=$groups/vma-compare-$$
    mkdir "$sockmap_group"
    bpftool prog loadall "$object" "$bpf/programs" pinmaps "$bpf/maps"
    bpftool prog attach pinned "$bpf/programs/pass_on" msg_verdict pinned "$bpf/maps/sockets"
    bpftool cgroup attach "$sockmap_group" sock_ops pinned "$bpf/programs/remember"
    echo $$ >"$sockmap_group/cgroup.procs"
    trap sockmap_end EXIT
}

# The group goes when its last process has gone, and what is attached to it with it.
sockmap_end() {
    echo $$ >"$HOME/groups/cgroup.procs"
    bpftool cgroup detach "$sockmap_group" sock_ops pinned "$HOME/bpf/programs/remember"
    for pid in $(cat "$sockmap_group/cgroup.procs"); do kill "$pid"; done
    for i in {1..20}; do rmdir "$sockmap_group" 2>/dev/null && break; sleep 0.1; done
}
