# SPDX-License-Identifier: Apache-2.0
"""Runs a command as a locked container would: bpf and perf_event_open are refused with EPERM by a seccomp filter, and no rights
can be gained. Namespaces are the caller's business (unshare).

    locked_container.py COMMAND…
"""

import ctypes
import errno
import os
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NUMBERS = {"x86_64": (298, 321), "aarch64": (241, 280)}[os.uname().machine]  # perf_event_open, bpf


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def main():
    code = (Instruction * 5)(
        Instruction(LOAD_WORD, 0, 0, 0),  # the number of the system call
        Instruction(JUMP_IF_EQUAL, 2, 0, NUMBERS[0]),
        Instruction(JUMP_IF_EQUAL, 1, 0, NUMBERS[1]),
        Instruction(RETURN, 0, 0, ALLOW),
        Instruction(RETURN, 0, 0, REFUSE),
    )
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code), code)
    for order in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*order) != 0:
            sys.exit(f"locked_container: prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
