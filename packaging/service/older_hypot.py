"""older_hypot.py LIBRARY: lets a library of x86-64 that asks libm for GLIBC_2.35 load with older ones. What is new in libm 2.35 is hypot()
alone, which no longer sets errno: the library gets GLIBC_2.2.5's instead. It refuses a library that takes anything else of 2.35. The
tables are those of the ELF specification and of the Linux Standard Base (section "Symbol Versioning")."""

import struct
import subprocess
import sys

OLD, NEW = b"GLIBC_2.2.5", b"GLIBC_2.35"


def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value ^= (value & 0xF0000000) >> 24
        value &= 0x0FFFFFFF
    return value


def sections(file):
    """Of .dynstr and .gnu.version_r: name -> where it begins."""
    table, = struct.unpack_from("<Q", file, 40)
    entry_bytes, count, names = struct.unpack_from("<3H", file, 58)
    headers = [struct.unpack_from("<IIQQQQ", file, table + i * entry_bytes) for i in range(count)]
    begin = headers[names][4]
    return {bytes(file[begin + h[0] : file.index(0, begin + h[0])]): h[4] for h in headers}


def main(path):
    with open(path, "rb") as source:
        file = bytearray(source.read())
    found = sections(file)
    if b".gnu.version_r" not in found:
        return
    taken = {line.split()[-1] for line in subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout.splitlines()
             if f"({NEW.decode()})" in line}
    if not taken:
        return
    if not taken <= {"hypot", "hypotf"}:
        sys.exit(f"older_hypot.py: {path} takes {', '.join(sorted(taken))} of {NEW.decode()}")
    strings, need = found[b".dynstr"], found[b".gnu.version_r"]
    old = file.index(b"\0" + OLD + b"\0", strings) + 1 - strings
    while True:
        _, count, _, entry, following = struct.unpack_from("<HHIII", file, need)
        at = need + entry
        for _ in range(count):
            name, step = struct.unpack_from("<II", file, at + 8)
            if file[strings + name : file.index(0, strings + name)] == NEW:
                struct.pack_into("<I", file, at, elf_hash(OLD))
                struct.pack_into("<I", file, at + 8, old)
            at += step
        if following == 0:
            break
        need += following
    with open(path, "wb") as target:
        target.write(file)


if __name__ == "__main__":
    main(sys.argv[1])
