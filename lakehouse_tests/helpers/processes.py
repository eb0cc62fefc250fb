"""List running processes and their ancestors."""

import subprocess


def ps(*options: str) -> list[str]:
    command = ["ps", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def started_by(ancestor: int) -> dict[int, str]:
    """Return the descendants of a process: their commands by process id."""
    fields = [line.split(None, 3) for line in ps("-axwwo", "pid=,ppid=,state=,args=")]
    processes = {int(pid): (int(parent), args) for pid, parent, state, args in fields if state[0] != "Z"}
    descendants: dict[int, str] = {}
    generation = {ancestor}
    while generation:
        generation = {pid for pid, (parent, _) in processes.items() if parent in generation}
        descendants |= {pid: processes[pid][1] for pid in generation}
    return descendants


def still_running(processes: dict[int, str]) -> dict[int, str]:
    """Return the processes that have not ended. Compare the commands, because a process id may have been reused."""
    fields = [line.split(None, 2) for line in ps("-axwwo", "pid=,state=,args=")]
    commands = {int(pid): args for pid, state, args in fields if state[0] != "Z"}
    return {pid: args for pid, args in processes.items() if commands.get(pid) == args}
