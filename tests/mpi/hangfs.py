"""A file system that stops answering, as a dead file server does: `hangfs.py SOURCE MOUNT FILE`.

Shows the folder SOURCE, read-only, at MOUNT, by the kernel's FUSE protocol (see <linux/fuse.h>),
until FILE, a path below, is opened: from then on no request is answered, nor even taken, so that
whoever waits can only be killed. Prints "ready" when mounted. SIGTERM unmounts, which ends all
waiting with an error. Needs root and /dev/fuse.
"""

import ctypes
import errno
import os
import signal
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 26, 27, 28, 29, 36, 42
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)
MNT_DETACH = 2
DIRECT_IO, NO_FLUSH = 1, 32  # a process that ends would wait for a flush, even when it is killed


def attributes(path, node):
    info = os.stat(path)
    return struct.pack("<6Q10I", node, info.st_size, info.st_blocks, int(info.st_atime),
                       int(info.st_mtime), int(info.st_ctime), 0, info.st_mtime_ns % 10**9, 0,
                       info.st_mode, info.st_nlink, 0, 0, 0, 4096, 0)


class HangingFileSystem:
    def __init__(self, source, target):
        self.paths = {1: source}
        self.nodes = {source: 1}
        self.target = os.path.join(source, target)
        self.hangs = False

    def node(self, path):
        if path not in self.nodes:
            self.nodes[path] = len(self.nodes) + 1
            self.paths[self.nodes[path]] = path
        return self.nodes[path]

    def entries(self, path, offset, size):
        out = b""
        names = sorted(os.listdir(path))
        for index in range(offset, len(names)):
            name = names[index].encode()
            entry = struct.pack("<QQII", index + 2, index + 1, len(name), 0) + name
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out

    def answer(self, code, node, body):
        """The reply's bytes; OSError for an error."""
        path = self.paths.get(node)
        if code == INIT:
            return struct.pack("<4I2H2I2H8I", 7, 31, 65536, 0, 16, 12, 65536, 1, 16, 0, *[0] * 8)
        if code == LOOKUP:
            child = os.path.join(path, body.rstrip(b"\0").decode())
            found = attributes(child, self.node(child))
            return struct.pack("<4Q2I", self.node(child), 0, 1, 1, 0, 0) + found
        if code == GETATTR:
            return struct.pack("<QII", 1, 0, 0) + attributes(path, node)
        if code in (OPEN, OPENDIR):
            self.hangs = path == self.target
            return struct.pack("<QII", 0, DIRECT_IO | NO_FLUSH if code == OPEN else 0, 0)
        if code in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", body)
            if code == READDIR:
                return self.entries(path, offset, size)
            with open(path, "rb") as file:
                file.seek(offset)
                return file.read(size)
        if code == STATFS:
            return bytes(80)
        if code in (RELEASE, RELEASEDIR):
            return b""
        raise OSError(errno.ENOSYS, "not needed")

    def serve(self, device):
        while True:
            while self.hangs:
                signal.pause()
            request = os.read(device, 1 << 20)
            _, code, unique, node = struct.unpack_from("<IIQQ", request)
            if code in UNANSWERED:
                continue
            try:
                reply, error = self.answer(code, node, request[40:]), 0
            except OSError as failure:
                reply, error = b"", -failure.errno
            os.write(device, struct.pack("<IiQ", 16 + len(reply), error, unique) + reply)


def main():
    source, mount, target = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"penstock-test", mount.encode(), b"fuse", 1, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")

    def leave(*_):
        libc.umount2(mount.encode(), MNT_DETACH)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    print("ready", flush=True)
    HangingFileSystem(source, target).serve(device)


if __name__ == "__main__":
    main()
