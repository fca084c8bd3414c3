# dgram, http, worker_threads, child processes.
node "$PROGRAMS/node.js"
