# sudo runs the command without the caller's environment, and so without the library.
printf 'root ALL=(ALL) NOPASSWD: ALL\nDefaults !syslog, !use_pty\n' >sudoers
mount --bind sudoers /etc/sudoers; chown 0:0 sudoers; chmod 440 sudoers
sudo -n id -u; sudo -n -u nobody id -un; sudo -n sh -c 'exit 5' || echo "sudo: $?"
sudo -n -u nobody sh -c 'echo "${LD_PRELOAD-no library}"' | sed "s:$HOME::"
echo piped | sudo -n cat; sudo -n -l | grep -c NOPASSWD
