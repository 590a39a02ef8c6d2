"""Runs a command where nothing but loopback exists, and counts what tried to leave.

usage: python loopback_only.py COUNT_FILE COMMAND [ARGUMENT ...]

The command gets a network namespace with the loopback interface alone, and a name server no packet can reach, so a
look-up of an outside name is an attempt too. The kernel counts each send or connect that finds no route
(OutNoRoutes); the sum over IPv4 and IPv6 is written to COUNT_FILE. Exit code: the command's, or 77 where this
process may not make namespaces. Linux only.
"""

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

NOT_PERMITTED = 77
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
UNREACHABLE_NAME_SERVER = "nameserver 192.0.2.53\noptions timeout:1 attempts:1\n"


def enter_namespaces() -> None:
    user, group = os.getuid(), os.getgid()
    try:
        os.unshare(os.CLONE_NEWNET | os.CLONE_NEWNS)
    except PermissionError:
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET | os.CLONE_NEWNS)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def point_name_look_ups_nowhere() -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".resolv.conf", delete=False) as file:
        file.write(UNREACHABLE_NAME_SERVER)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, timeout=10)
    subprocess.run(["mount", "--bind", file.name, str(Path("/etc/resolv.conf").resolve())], check=True, timeout=10)


def attempts_to_leave() -> int:
    lines = [line.split() for line in Path("/proc/self/net/snmp").read_text("ascii").splitlines() if line[:3] == "Ip:"]
    ipv4 = dict(zip(*lines, strict=True))["OutNoRoutes"]
    ipv6 = dict(line.split() for line in Path("/proc/self/net/snmp6").read_text("ascii").splitlines())
    return int(ipv4) + int(ipv6.get("Ip6OutNoRoutes", 0))


def main() -> int:
    count_file, *command = sys.argv[1:]
    try:
        enter_namespaces()
        raise_loopback()
        point_name_look_ups_nowhere()
    except (OSError, subprocess.SubprocessError) as error:
        print(f"may not make namespaces here: {error}", file=sys.stderr)
        return NOT_PERMITTED
    before = attempts_to_leave()
    child = subprocess.Popen(command)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    code = child.wait()
    Path(count_file).write_text(str(attempts_to_leave() - before), encoding="ascii")
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
