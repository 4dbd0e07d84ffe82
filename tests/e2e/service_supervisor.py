# SPDX-License-Identifier: Apache-2.0
"""A stand-in for systemd where none runs: the notify socket of one service, with what the service said and the descriptors it
parked (FDSTORE=1), handed to the next start as sd_listen_fds(3) says.

    service_supervisor.py FD,FD,… NAME:NAME:… COMMAND…      executes the command with these descriptors from 3 on
"""

import array
import fcntl
import os
import pathlib
import socket
import sys
import threading
import time

HIGH_FD = 500  # out of the way of the descriptors a service finds


class ServiceSupervisor:
    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "notify"
        self.said = []  # states in order, without descriptor messages
        self.kept = []  # (name, fd)
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def stop(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self.path))
        self.thread.join()
        self.socket.close()
        for _, fd in self.kept:
            os.close(fd)

    def start(self, daemon):
        """Starts a conftest.Daemon with what is kept; systemd keeps it as well."""
        daemon.env["NOTIFY_SOCKET"] = str(self.path)
        self.settle()
        with self.lock:
            names, fds = [name for name, _ in self.kept], [fd for _, fd in self.kept]
        own_command = [sys.executable, __file__, ",".join(map(str, fds)), ":".join(names)]
        return daemon.start(prefix=own_command, fds=fds)

    def settle(self):
        """Waits until everything sent so far is read: systemd reads notifications before it looks at dead services."""
        mark = f"MARK={len(self.said)}.{os.urandom(4).hex()}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(mark.encode(), str(self.path))
        while mark not in self.said:
            time.sleep(0.001)
        self.said.remove(mark)

    def names(self):
        with self.lock:
            return sorted(name for name, _ in self.kept)

    def park(self, name, fd):
        with self.lock:
            self.kept.append((name, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)))

    def _listen(self):
        while True:
            message, control, _, _ = self.socket.recvmsg(8192, socket.CMSG_SPACE(16 * 4))
            if not message:
                return
            fields = dict(line.split("=", 1) for line in message.decode().splitlines())
            received = array.array("i")
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    received.frombytes(data)
            if fields.get("FDSTORE") == "1":
                self._keep(fields["FDNAME"], received)
            elif fields.get("FDSTOREREMOVE") == "1":
                self._remove(fields["FDNAME"])
            else:
                self.said.append(message.decode())
            for fd in received:
                os.close(fd)

    def _keep(self, name, fds):
        assert 0 < len(name) < 256 and ":" not in name and name.isprintable()
        known = {(name, os.fstat(fd).st_dev, os.fstat(fd).st_ino) for name, fd in self.kept}
        for fd in fds:
            if (name, os.fstat(fd).st_dev, os.fstat(fd).st_ino) not in known:
                self.park(name, fd)

    def _remove(self, name):
        with self.lock:
            gone = [fd for kept, fd in self.kept if kept == name]
            self.kept = [(kept, fd) for kept, fd in self.kept if kept != name]
        for fd in gone:
            os.close(fd)


def execute(fds, names, command):
    for number, fd in enumerate(fds, start=3):
        os.dup2(fd, number)  # without close-on-exec
        os.close(fd)
    if fds:
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
    os.execv(command[0], command)


if __name__ == "__main__":
    execute([int(fd) for fd in sys.argv[1].split(",") if fd], sys.argv[2], sys.argv[3:])
