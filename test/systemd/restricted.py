"""Runs a command under the restrictions that mailkeep.service asks systemd for, without systemd.

restricted.py READ_WRITE_DIR -- COMMAND…     (as root; the command runs as nobody)

Mirrors: ProtectSystem=strict, ProtectHome, PrivateTmp, PrivateDevices, ProtectProc=invisible, ProcSubset=pid,
ProtectHostname, RemoveIPC, an empty CapabilityBoundingSet, NoNewPrivileges, SystemCallFilter with its error number,
RestrictAddressFamilies, RestrictNamespaces, LockPersonality, UMask. Not mirrored: PrivateUsers, KeyringMode, the
device cgroup, and the parts of Protect* that hide kernel interfaces below /proc/sys and /sys beyond making them
read-only.
"""
import ctypes
import errno
import os
import subprocess
import sys

NOBODY = 65534
EPERM_ACTION = 0x00050000 | errno.EPERM
ENOSYS_ACTION = 0x00050000 | errno.ENOSYS
ALLOW = 0x7FFF0000
CLONE_NEW = 0x7E020080  # cgroup, uts, ipc, user, pid, net, mnt, time


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


EQUAL, MASKED_EQUAL = 4, 7


def mount(*args):
    subprocess.run(["mount", *args], check=True)


def build_view(writable):
    mount("--make-rprivate", "/")
    # Opened before anything covers it.
    kept = os.path.realpath(writable)
    for device in ("null", "zero", "full", "random", "urandom"):
        open(f"/dev/{device}").close()
    points = [line.split()[4] for line in open("/proc/self/mountinfo")]
    mount("--bind", kept, kept)
    for point in sorted(set(points)):
        if point == "/" or not point.startswith(("/proc", "/sys", "/dev", kept)):
            subprocess.run(["mount", "-o", "remount,bind,ro", point], check=False, stderr=subprocess.DEVNULL)
    # A private /tmp would cover a writable folder below it: then only that folder is seen there.
    handle = os.open(kept, os.O_RDONLY | os.O_DIRECTORY)
    source = f"/proc/self/fd/{handle}"
    for place in ("/tmp", "/var/tmp"):
        bound = kept.startswith(place + "/")
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", place)
        if bound:
            os.makedirs(kept)
            # Not by its name, which leads elsewhere now.
            subprocess.run(["mount", "-c", "--bind", source, kept], check=True, pass_fds=[handle])
    os.close(handle)
    for place in ("/home", "/root"):
        if os.path.isdir(place) and not visible_below(place):
            mount("-t", "tmpfs", "-o", "mode=000,ro", "tmpfs", place)
    mount("-t", "proc", "-o", "hidepid=invisible,subset=pid,nosuid,nodev,noexec", "proc", "/proc")
    mount("-o", "remount,bind,ro", "/sys")


def visible_below(place):
    """The interpreter itself may be installed there."""
    return any(os.path.realpath(word).startswith(place + "/") for word in sys.argv[3:] if word.startswith("/"))


def names_of(group):
    out = subprocess.run(["systemd-analyze", "syscall-filter", group], check=True, capture_output=True, text=True)
    names = set()
    for line in out.stdout.splitlines()[1:]:
        word = line.strip()
        if word.startswith("#") or word == "":
            continue
        names |= names_of(word) if word.startswith("@") else {word}
    return names


def filter_calls(allowed):
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(EPERM_ACTION))

    def add(action, name, *comparisons):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return
        array = (Comparison * len(comparisons))(*comparisons)
        result = library.seccomp_rule_add_array(context, action, number, len(comparisons), array)
        if result != 0:
            raise OSError(-result, f"seccomp rule for {name}")

    for name in sorted(allowed - {"socket", "clone", "clone3", "unshare", "setns", "personality"}):
        add(ALLOW, name)
    for family in (1, 2, 10):  # AF_UNIX, AF_INET, AF_INET6
        add(ALLOW, "socket", Comparison(0, EQUAL, family, 0))
    add(ALLOW, "clone", Comparison(0, MASKED_EQUAL, CLONE_NEW, 0))
    # Its flags are behind a pointer: systemd answers "no such call", and the C library takes clone.
    add(ENOSYS_ACTION, "clone3")
    add(ALLOW, "personality", Comparison(0, EQUAL, 0, 0))
    result = library.seccomp_load(context)
    if result != 0:
        raise OSError(-result, "seccomp_load")


def main():
    writable, separator, *command = sys.argv[1:]
    if separator != "--" or not command:
        sys.exit(__doc__)
    if os.environ.get("RESTRICTED_INSIDE") != "1":
        # A pid namespace of its own, for a /proc of its own.
        inside = dict(os.environ, RESTRICTED_INSIDE="1")
        unshare = ["unshare", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child"]
        os.execvpe("unshare", [*unshare, sys.executable, *sys.argv], inside)
    allowed = names_of("@system-service") - names_of("@privileged") - names_of("@resources")
    build_view(writable)
    os.umask(0o077)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
    os.setresuid(NOBODY, NOBODY, NOBODY)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    del os.environ["RESTRICTED_INSIDE"]
    filter_calls(allowed)
    os.execvp(command[0], command)


main()
