"""Which processes run, and who started them."""

import subprocess


def ps(*options: str) -> list[str]:
    command = ["ps", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def started_by(ancestor: int) -> dict[int, str]:
    """Every process that descends from this one, with its command."""
    fields = [line.split(None, 3) for line in ps("-axwwo", "pid=,ppid=,state=,args=")]
    running = {int(pid): (int(parent), args) for pid, parent, state, args in fields if state[0] != "Z"}
    found: dict[int, str] = {}
    family = {ancestor}
    while family:
        family = {pid for pid, (parent, _) in running.items() if parent in family}
        found |= {pid: running[pid][1] for pid in family}
    return found


def still_running(processes: dict[int, str]) -> dict[int, str]:
    """Those that have not ended; a number may have been given to another process since."""
    fields = [line.split(None, 2) for line in ps("-axwwo", "pid=,state=,args=")]
    now = {int(pid): args for pid, state, args in fields if state[0] != "Z"}
    return {pid: args for pid, args in processes.items() if now.get(pid) == args}
