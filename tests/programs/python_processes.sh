# subprocess, multiprocessing and threads.
/usr/bin/python3 "$PROGRAMS/python_processes.py"
