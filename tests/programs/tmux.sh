# A server, its clients, and shells on pseudo-terminals.
t() { tmux -S "$HOME/socket" -f /dev/null "$@"; }
t new-session -d -s work -x 80 -y 24 'env -u LC_ALL PS1="$ " dash'
t send-keys -t work 'echo $((6 * 7)) >answer; echo done >&2' Enter
until_true test -s answer; cat answer
t split-window -t work 'cat >typed'; t send-keys -t work.1 'typed text' Enter C-d
until_true test -s typed; cat typed
t list-sessions -F '#{session_name} #{session_windows}'; t run-shell 'echo from the server'
t wait-for -S channel; t wait-for channel; t set-buffer hello; t show-buffer; echo
t kill-server; t list-sessions 2>/dev/null || echo "tmux: $?"
