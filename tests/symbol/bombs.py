#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ELF files that were made to break whoever reads them: bombs.py DIRECTORY

Each is small on disk (or sparse) and asks for a lot of memory, time or depth when it is read as it says. DIRECTORY/list names them, a
line each: NAME, a tab, an extended regular expression that what bomb_run says must match. "ok" there means that what the bomb damages is
left out, and the rest is a table. What must never be said is that the worker crashed.
"""
import hashlib, lzma, os, struct, sys, zlib

PROGBITS, SYMTAB, STRTAB, NOTE, NOBITS = 1, 2, 3, 7, 8
COMPRESSED = 0x800
TEXT, TEXT_SIZE = 0x401000, 1 << 20
bombs = []


def bomb(expected):
    def add(make):
        bombs.append((make.__name__, make, expected))
        return make
    return add


def uleb(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


class Section:
    def __init__(self, name, data, type=PROGBITS, flags=0, link=0, entsize=0, **override):
        self.name, self.data, self.type, self.flags, self.link, self.entsize = name, data, type, flags, link, entsize
        self.override = override  # offset, size: what the header says instead


def elf(path, sections, shnum=None, zeros=0):
    """A program with one executable segment and the sections. zeros: that many bytes at the end, sparse."""
    build_id = hashlib.sha1(os.path.basename(path).encode()).digest()
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU\0") + build_id
    sections = [Section("", b"", 0), Section(".text", b"", NOBITS, 6, address=TEXT, size=TEXT_SIZE), Section(".note.gnu.build-id", note, NOTE)] + sections
    names = b"\0"
    for s in sections:
        s.name_at = len(names) if s.name else 0
        names += s.name.encode() + b"\0" if s.name else b""
    s = Section(".shstrtab", b"", STRTAB)
    s.name_at = len(names)
    s.data = names + b".shstrtab\0"
    sections.append(s)
    with open(path, "wb") as f:
        at = 64 + 56
        headers = b""
        body = []
        for s in sections:
            o = s.override
            headers += struct.pack("<IIQQQQIIQQ", s.name_at, s.type, s.flags, o.get("address", 0), o.get("offset", at),
                                   o.get("size", len(s.data)), s.link, o.get("info", 0), o.get("align", 1), s.entsize)
            body.append(s.data)
            at += len(s.data)
        if shnum is not None:  # in section 0, as files with many sections do it
            headers = headers[:32] + struct.pack("<Q", shnum) + headers[40:]
        f.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, TEXT, 64, at, 0, 64, 56, 1, 64,
                                                          0 if shnum is not None else len(sections), len(sections) - 1))
        f.write(struct.pack("<IIQQQQQQ", 1, 5, 0x1000, TEXT, TEXT, TEXT_SIZE, TEXT_SIZE, 0x1000))
        for data in body:
            f.write(data)
        f.write(headers)
        if zeros:
            f.truncate(f.tell() + zeros)


# ---- DWARF ----
COMPILE_UNIT, SUBPROGRAM, INLINED, BLOCK, PARTIAL, IMPORTED, SKELETON = 0x11, 0x2E, 0x1D, 0x0B, 0x3C, 0x3D, 0x4A
NAME, STMT_LIST, LOW, HIGH, ORIGIN, SPECIFICATION, RANGES, IMPORT, COMP_DIR = 3, 0x10, 0x11, 0x12, 0x31, 0x47, 0x55, 0x18, 0x1B
CALL_LINE, DWO_NAME = 0x59, 0x76
ADDR, BLOCK_ULEB, DATA8, STRING, REF4, SEC_OFFSET, REF_ADDR, UDATA, EXPRLOC = 1, 9, 7, 8, 0x13, 0x17, 0x10, 0x0F, 0x18
GNU_REF_ALT = 0x1F20


def abbrev(code, tag, children, *attributes):
    return uleb(code) + uleb(tag) + bytes([children]) + b"".join(uleb(a) + uleb(f) for a, f in attributes) + b"\0\0"


def unit(dies, version=4, abbrev_at=0, unit_type=1, extra=b""):
    if version >= 5:
        body = struct.pack("<HBBI", version, unit_type, 8, abbrev_at) + extra + dies
    else:
        body = struct.pack("<HIB", version, abbrev_at, 8) + dies
    return struct.pack("<I", len(body)) + body


UNIT_V4 = abbrev(1, COMPILE_UNIT, 1, (NAME, STRING), (LOW, ADDR), (HIGH, DATA8))
CU = b"\1bomb.c\0" + struct.pack("<QQ", TEXT, TEXT_SIZE)  # of UNIT_V4
HEADER = 11  # of a unit of version 4: where its first entry is
FUNCTION = abbrev(2, SUBPROGRAM, 1, (NAME, STRING), (LOW, ADDR), (HIGH, DATA8))
MAIN = b"\2main\0" + struct.pack("<QQ", TEXT, 0x1000)


def dwarf(path, info, abbrevs, *more, **options):
    info = info if isinstance(info, Section) else Section(".debug_info", info)
    abbrevs = abbrevs if isinstance(abbrevs, Section) else Section(".debug_abbrev", abbrevs)
    elf(path, [info, abbrevs] + list(more), **options)


def packed(name, stream, size, kind=1, type=PROGBITS):
    return Section(name, struct.pack("<IIQQ", kind, 0, size, 1) + stream, type, COMPRESSED)


def deflated(head, block, count, tail=b"", checksum=True):
    """A zlib stream of head + block * count + tail, without making that."""
    pack = lambda data, how: (lambda c: c.compress(data) + c.flush(how))(zlib.compressobj(9, zlib.DEFLATED, -15))
    adler = zlib.adler32(head)
    for _ in range(count if checksum else 0):
        adler = zlib.adler32(block, adler)
    return (b"\x78\x9c" + pack(head, zlib.Z_FULL_FLUSH) + pack(block, zlib.Z_FULL_FLUSH) * count + pack(tail, zlib.Z_FINISH) +
            struct.pack(">I", zlib.adler32(tail, adler)))


def repeated(name, head, block, count, tail=b""):
    return packed(name, deflated(head, block, count, tail), len(head) + len(block) * count + len(tail))


def zstandard(byte, size):
    """A frame of RLE blocks of 128 KiB, four bytes each."""
    block, count = 128 << 10, size >> 17
    frame = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x38)  # window of 128 KiB, content size unknown
    one = lambda last: struct.pack("<I", block << 3 | 1 << 1 | last)[:3] + bytes([byte])
    return frame + one(0) * (count - 1) + one(1)


# ---- the container ----
DAMAGED = "^(ok|ENOEXEC|EBADMSG|E2BIG|ENOENT)"
GREEDY = "^(ok|EBADMSG|E2BIG|ENOMEM|ETIME)"


@bomb(DAMAGED)
def huge_sizes(path):
    big = dict(offset=1 << 60, size=1 << 60)
    elf(path, [Section(n, b"", SYMTAB if "tab" in n else PROGBITS, **big) for n in
               (".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".symtab", ".gnu_debugdata", ".gopclntab", ".gnu_debuglink")])


@bomb(DAMAGED)
def wrapping_sizes(path):
    wrap = dict(offset=0x1000, size=(1 << 64) - 0x1000)
    elf(path, [Section(n, b"", **wrap) for n in (".debug_info", ".debug_abbrev", ".debug_line", ".gnu_debugdata", ".gopclntab")])


@bomb("^(EBADMSG|E2BIG|ENOEXEC)")
def section_count_2_32(path):
    elf(path, [], shnum=1 << 32)


@bomb("^(EBADMSG|E2BIG|ENOEXEC|ok)")
def section_count_sparse(path):
    elf(path, [], shnum=(1 << 32) - 1, zeros=2 << 30)


@bomb("^ENOEXEC")
def zeros_2_gib(path):
    with open(path, "wb") as f:
        f.truncate(2 << 30)


@bomb(DAMAGED + "|^ENOMEM")
def zeros_as_sections(path):
    sections = [Section(n, b"", offset=0x1000, size=2 << 30) for n in (".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".gopclntab")]
    elf(path, sections, zeros=(2 << 30) + 0x1000)


@bomb(DAMAGED + "|^ENOMEM")
def symbols_10_8(path):
    # One symbol, and a table that says that there are 10^8 of it: sparse zeros behind it.
    elf(path, [Section(".strtab", b"\0main\0", STRTAB), Section(".symtab", b"", SYMTAB, link=3, entsize=24, offset=0x1000, size=24 * 10**8)],
        zeros=24 * 10**8 + 0x1000)


@bomb(DAMAGED + "|^ENOMEM")
def symbols_sharing_a_name(path):
    # A million names, each a tail of one of a million bytes.
    name = b"x" * 10**6 + b"\0"
    table = bytes(24) + b"".join(struct.pack("<IBBHQQ", i % 10**6, 0x12, 0, 1, TEXT + i, 1) for i in range(10**6))
    elf(path, [Section(".strtab", b"\0" + name, STRTAB), Section(".symtab", table, SYMTAB, link=3, entsize=24)])


@bomb(DAMAGED + "|^ENOMEM")
def symbol_tables_sharing_symbols(path):
    # 10,000 tables in the same place.
    table = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, TEXT + i, 1) for i in range(1000))
    first = Section(".symtab", table, SYMTAB, link=3, entsize=24)
    at = 64 + 56 + 4 * 3 + 4 + 20 + len(b"\0main\0")
    elf(path, [Section(".strtab", b"\0main\0", STRTAB), first] +
        [Section(".symtab", b"", SYMTAB, link=3, entsize=24, offset=at, size=len(table)) for _ in range(10000)])


# ---- packed sections ----
@bomb(DAMAGED)
def zlib_claims_2_60(path):
    dwarf(path, packed(".debug_info", zlib.compress(unit(CU + b"\0")), 1 << 60), UNIT_V4 + b"\0")


@bomb(DAMAGED)
def zdebug_claims_2_60(path):
    stream = b"ZLIB" + struct.pack(">Q", 1 << 60) + zlib.compress(unit(CU + b"\0"))
    dwarf(path, Section(".zdebug_info", stream), UNIT_V4 + b"\0")


@bomb(DAMAGED + "|^ENOMEM|^ETIME")
def zlib_10_gib(path):
    stream = deflated(unit(CU + b"\0"), bytes(1 << 20), 10 << 10, checksum=False)
    dwarf(path, packed(".debug_info", stream, 10 << 30), UNIT_V4 + b"\0")


@bomb(DAMAGED)
def zlib_more_than_claimed(path):
    stream = deflated(unit(CU + b"\0"), bytes(1 << 20), 10 << 10, checksum=False)
    dwarf(path, packed(".debug_info", stream, 1 << 20), UNIT_V4 + b"\0")


@bomb(DAMAGED)
def zstd_claims_2_60(path):
    dwarf(path, packed(".debug_info", zstandard(0, 1 << 20), 1 << 60, 2), UNIT_V4 + b"\0")


@bomb(DAMAGED + "|^ENOMEM|^ETIME")
def zstd_10_gib(path):
    dwarf(path, packed(".debug_info", zstandard(0, 10 << 30), 10 << 30, 2), UNIT_V4 + b"\0")


@bomb(DAMAGED)
def zstd_more_than_claimed(path):
    dwarf(path, packed(".debug_info", zstandard(0, 10 << 30), 1 << 20, 2), UNIT_V4 + b"\0")


@bomb(DAMAGED + "|^ENOMEM|^ETIME")
def fifty_sections_of_400_mib(path):
    stream = deflated(b"", bytes(1 << 20), 400)
    names = (".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_ranges")
    elf(path, [packed(names[i % 5], stream, 400 << 20) for i in range(50)])


@bomb(DAMAGED)
def xz_bomb(path):
    elf(path, [Section(".gnu_debugdata", lzma.compress(bytes(64 << 20), preset=0) * 64)])


@bomb(DAMAGED)
def xz_bomb_in_one(path):
    elf(path, [Section(".gnu_debugdata", lzma.compress(bytes(300 << 20), preset=0))])


@bomb(DAMAGED)
def xz_dictionary_4_gib(path):
    stream = bytearray(lzma.compress(bytes(100), preset=0))
    size = (stream[12] + 1) * 4  # the header of the block, behind that of the stream
    header = stream[12:12 + size - 4]
    at = bytes(header).index(b"\x21\x01")  # LZMA2, one byte of properties: the size of the dictionary
    header[at + 2] = 40
    stream[12:12 + size] = header + struct.pack("<I", zlib.crc32(bytes(header)))
    elf(path, [Section(".gnu_debugdata", bytes(stream))])


# ---- entries ----
ORIGINS = (UNIT_V4 + FUNCTION + abbrev(3, INLINED, 1, (ORIGIN, REF4), (LOW, ADDR), (HIGH, DATA8)) + abbrev(4, SUBPROGRAM, 0, (ORIGIN, REF4)) +
           abbrev(5, SUBPROGRAM, 0, (SPECIFICATION, REF4)) + abbrev(6, SUBPROGRAM, 1, (ORIGIN, REF4), (LOW, ADDR), (HIGH, DATA8)) + b"\0")


@bomb("^ok")
def origins_in_a_circle(path):
    a = HEADER + len(CU)
    dies = b"\4" + struct.pack("<I", a + 5) + b"\5" + struct.pack("<I", a)  # a -> b -> a
    c = a + len(dies)
    dies += b"\6" + struct.pack("<IQQ", c, TEXT, 0x1000)  # its own origin
    dies += b"\3" + struct.pack("<IQQ", a, TEXT, 0x100) + b"\0"
    dies += b"\3" + struct.pack("<IQQ", c, TEXT + 0x100, 0x100) + b"\0\0"
    dwarf(path, unit(CU + dies + b"\0"), ORIGINS)


@bomb("^ok")
def origins_a_million_long(path):
    a = HEADER + len(CU)
    chain = b"".join(b"\4" + struct.pack("<I", a + 5 * (i + 1)) for i in range(10**6))
    users = b"".join(b"\6" + struct.pack("<IQQ", a, TEXT + i * 8, 8) + b"\0" for i in range(10**4))
    dwarf(path, unit(CU + chain + b"\4" + struct.pack("<I", a) + users + b"\0"), ORIGINS)


@bomb("^(ok|EBADMSG|E2BIG)")
def blocks_a_million_deep(path):
    abbrevs = UNIT_V4 + FUNCTION + abbrev(3, BLOCK, 1) + b"\0"
    dwarf(path, unit(CU + MAIN + b"\3" * 10**6 + bytes(10**6 + 2)), abbrevs)


@bomb("^(ok|EBADMSG|E2BIG)")
def inlined_a_million_deep(path):
    die = b"\3" + struct.pack("<IQQ", HEADER + len(CU), TEXT, 0x1000)
    dwarf(path, unit(CU + MAIN + die * 10**6 + bytes(10**6 + 2)), ORIGINS)


@bomb("^(ok|EBADMSG|E2BIG)")
def never_closed(path):
    abbrevs = UNIT_V4 + FUNCTION + abbrev(3, BLOCK, 1) + b"\0"
    head = struct.pack("<IHIB", (100 << 20) + 7 + len(CU + MAIN), 4, 0, 8) + CU + MAIN
    dwarf(path, repeated(".debug_info", head, b"\3" * (1 << 20), 100), abbrevs)


@bomb("^(ok|EBADMSG|E2BIG)")
def block_of_2_40(path):
    abbrevs = UNIT_V4 + abbrev(2, SUBPROGRAM, 0, (0x40, BLOCK_ULEB), (NAME, STRING)) + b"\0"
    dwarf(path, unit(CU + b"\2" + uleb(1 << 40) + b"main\0\0"), abbrevs)


@bomb("^(ok|EBADMSG|E2BIG)")
def expression_of_2_64(path):
    abbrevs = UNIT_V4 + abbrev(2, SUBPROGRAM, 0, (0x40, EXPRLOC), (NAME, STRING)) + b"\0"
    dwarf(path, unit(CU + b"\2" + uleb((1 << 64) - 1) + b"main\0\0"), abbrevs)


@bomb(GREEDY)
def abbreviations_without_end(path):
    dwarf(path, unit(CU + b"\0"), repeated(".debug_abbrev", UNIT_V4, abbrev(77, BLOCK, 0) * (1 << 15), 512))


@bomb(GREEDY)
def attributes_without_end(path):
    head = uleb(1) + uleb(COMPILE_UNIT) + b"\1"
    dwarf(path, unit(CU + b"\0"), repeated(".debug_abbrev", head, bytes([0x40, UDATA]) * (1 << 19), 100))


@bomb(GREEDY)
def a_million_units_sharing_abbreviations(path):
    # Each unit has to read 16 MiB of abbreviations for its 12 bytes.
    abbrevs = repeated(".debug_abbrev", b"", abbrev(77, BLOCK, 0) * (1 << 15), 96, UNIT_V4 + b"\0")
    dwarf(path, unit(CU + b"\0") * 10**5, abbrevs)


@bomb("^(ok|EBADMSG|E2BIG)")
def leb128_without_end(path):
    dwarf(path, unit(b"\x81" * 10**6), UNIT_V4 + b"\x80" * 10**6)


# A unit that has n functions with no children; used where time squared is what is asked for.
RANGED = UNIT_V4 + abbrev(2, SUBPROGRAM, 0, (NAME, STRING), (RANGES, SEC_OFFSET)) + b"\0"


@bomb(GREEDY)
def ranges_without_end(path):
    block = b"".join(struct.pack("<QQ", i * 2, i * 2 + 1) for i in range(1, 65537))
    dwarf(path, unit(CU + b"\2main\0" + bytes(4) + b"\0"), RANGED, repeated(".debug_ranges", b"", block, 256))


@bomb(GREEDY)
def ranges_squared(path):
    # 10^5 functions, each of the same 10^5 ranges.
    ranges = b"".join(struct.pack("<QQ", i * 8, i * 8 + 4) for i in range(1, 10**5)) + bytes(16)
    dwarf(path, unit(CU + (b"\2f\0" + bytes(4)) * 10**5 + b"\0"), RANGED, Section(".debug_ranges", ranges))


@bomb(GREEDY)
def rnglists_without_end(path):
    abbrevs = abbrev(1, COMPILE_UNIT, 1, (NAME, STRING), (LOW, ADDR), (HIGH, DATA8)) + abbrev(2, SUBPROGRAM, 0, (NAME, STRING), (RANGES, SEC_OFFSET)) + b"\0"
    block = (b"\4" + uleb(1) + uleb(2)) * (1 << 18)  # DW_RLE_offset_pair
    head = struct.pack("<IHBBI", (len(block) << 8) + 8, 5, 8, 0, 0)
    dwarf(path, unit(CU + b"\2main\0" + struct.pack("<I", 12) + b"\0", 5), abbrevs, repeated(".debug_rnglists", head, block, 256))


@bomb("^ok")
def overlapping_everything(path):
    # 10^5 inlined calls, each as wide as the function, side by side: which of them is at an address?
    die = b"\3" + struct.pack("<IQQ", HEADER + len(CU), TEXT, 0x1000) + b"\0"
    dwarf(path, unit(CU + MAIN + die * 10**5 + b"\0\0"), ORIGINS)


@bomb(GREEDY)
def imports_doubling(path):
    # Partial units, each of which imports the next two.
    abbrevs = UNIT_V4 + abbrev(2, PARTIAL, 1) + abbrev(3, IMPORTED, 0, (IMPORT, REF_ADDR)) + b"\0"
    first, part = (lambda to: unit(CU + b"\3" + struct.pack("<I", to) + b"\0")), (lambda to: unit(b"\2" + (b"\3" + struct.pack("<I", to)) * 2 + b"\0"))
    at = lambda i: len(first(0)) + i % 64 * len(part(0)) + HEADER
    dwarf(path, first(at(0)) + b"".join(part(at(i + 1)) for i in range(64)), abbrevs)


# ---- lines ----
LINED = abbrev(1, COMPILE_UNIT, 0, (NAME, STRING), (LOW, ADDR), (HIGH, DATA8), (STMT_LIST, SEC_OFFSET)) + b"\0"
LINED_UNIT = unit(CU + bytes(4))


def line_program(program_size, files=b"\0a.c\0\0\0\0\0", version=4):
    rest = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + files
    head = struct.pack("<HI", version, len(rest)) + rest
    return struct.pack("<I", len(head) + program_size) + head


@bomb(GREEDY)
def rows_10_9(path):
    start = b"\0\x09\2" + struct.pack("<Q", TEXT)
    end = b"\0\1\1"
    size = len(start) + (954 << 20) + len(end)
    lines = repeated(".debug_line", line_program(size) + start, b"\x20" * (1 << 20), 954, end)
    dwarf(path, LINED_UNIT, LINED, lines)


@bomb(GREEDY)
def rows_10_8_of_copy(path):
    start = b"\0\x09\2" + struct.pack("<Q", TEXT)
    size = len(start) + (96 << 20) + 3
    dwarf(path, LINED_UNIT, LINED, repeated(".debug_line", line_program(size) + start, b"\1" * (1 << 20), 96, b"\0\1\1"))


@bomb(GREEDY)
def sequences_10_7(path):
    sequence = b"\0\x09\2" + struct.pack("<Q", TEXT) + b"\1\0\1\1"
    block = sequence * (1 << 16)
    dwarf(path, LINED_UNIT, LINED, repeated(".debug_line", line_program(len(block) * 160), block, 160))


@bomb(GREEDY)
def units_sharing_a_line_program(path):
    # 10^5 units, each with the same 10^5 rows.
    start = b"\0\x09\2" + struct.pack("<Q", TEXT)
    program = start + b"\x20" * 10**5 + b"\0\1\1"
    dwarf(path, LINED_UNIT * 10**5, LINED, Section(".debug_line", line_program(len(program)) + program))


@bomb(GREEDY)
def files_2_60_of_no_size(path):
    # Version 5: a table of 2^60 files whose entries have no fields.
    tables = b"\0" + b"\0" + b"\0" + uleb(1 << 60)
    rest = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + tables
    head = struct.pack("<HBBI", 5, 8, 0, len(rest)) + rest + b"\0\1\1"
    dwarf(path, unit(CU + bytes(4), 5), LINED, Section(".debug_line", struct.pack("<I", len(head)) + head))


@bomb(GREEDY)
def directories_2_60_of_no_size(path):
    tables = b"\0" + uleb(1 << 60) + b"\0\0"
    rest = bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + tables
    head = struct.pack("<HBBI", 5, 8, 0, len(rest)) + rest + b"\0\1\1"
    dwarf(path, unit(CU + bytes(4), 5), LINED, Section(".debug_line", struct.pack("<I", len(head)) + head))


@bomb(GREEDY)
def files_without_end(path):
    files = b"a.c\0\0\0\0" * (1 << 17)
    head = struct.pack("<HI", 4, 100 << 20) + bytes([1, 1, 1, 0xFB, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0"
    lines = repeated(".debug_line", struct.pack("<I", len(head) + len(files) * 100) + head, files, 100)
    dwarf(path, LINED_UNIT, LINED, lines)


@bomb(GREEDY)
def files_long_in_long_directories(path):
    # 10^4 files in one directory, whose name has a megabyte: paths of 10 GB.
    files = b"d" * 10**6 + b"\0\0" + b"a.c\0\1\0\0" * 10**4 + b"\0"
    program = b"\0\x09\2" + struct.pack("<Q", TEXT) + b"".join(b"\4" + uleb(i + 1) + b"\x20" for i in range(10**4)) + b"\0\1\1"
    dwarf(path, LINED_UNIT, LINED, Section(".debug_line", line_program(len(program), files) + program))


# ---- other files ----
@bomb("^(ok|EBADMSG)")
def alt_link_to_itself(path):
    own = hashlib.sha1(os.path.basename(path).encode()).digest()
    abbrevs = UNIT_V4 + abbrev(2, SUBPROGRAM, 0, (ORIGIN, GNU_REF_ALT), (LOW, ADDR), (HIGH, DATA8)) + abbrev(3, IMPORTED, 0, (IMPORT, GNU_REF_ALT)) + b"\0"
    a = HEADER + len(CU)
    dies = b"\2" + struct.pack("<IQQ", a, TEXT, 0x1000) + b"\3" + struct.pack("<I", HEADER)
    link = os.path.basename(path).encode() + b"\0" + own
    dwarf(path, unit(CU + dies + b"\0"), abbrevs, Section(".gnu_debugaltlink", link))


@bomb("^(ok|EBADMSG)")
def debug_link_to_itself(path):
    elf(path, [Section(".gnu_debuglink", (os.path.basename(path).encode() + b"\0").ljust(32, b"\0") + bytes(4))])


@bomb("^(ok|EBADMSG|E2BIG|ETIME)")
def split_units_10_5(path):
    # As many .dwo files are asked for, some of which are this file.
    abbrevs = abbrev(1, SKELETON, 0, (DWO_NAME, STRING), (COMP_DIR, STRING), (LOW, ADDR), (HIGH, DATA8)) + b"\0"
    units = b"".join(unit(b"\1" + (os.path.basename(path) if i % 2 else "../../../etc/passwd%d" % i).encode() + b"\0/\0" +
                          struct.pack("<QQ", TEXT, 0x1000), 5, 0, 4, struct.pack("<Q", i)) for i in range(10**5))
    dwarf(path, units, abbrevs)


# ---- Go ----
def pclntab(functions, files, offsets):
    return struct.pack("<IHBBQQQQQQQQ", 0xFFFFFFF1, 0, 1, 8, functions, files, TEXT, *offsets)


@bomb(DAMAGED + "|^ENOTSUP")
def functions_2_31(path):
    elf(path, [Section(".gopclntab", pclntab(1 << 31, 1 << 31, (72, 72, 72, 72, 72)) + bytes(4096))])


@bomb(DAMAGED + "|^ENOTSUP|^ENOMEM|^ETIME")
def functions_of_zeros(path):
    elf(path, [Section(".gopclntab", pclntab((1 << 30) // 8, 1, (72, 72, 72, 72, 72)) , offset=120, size=1 << 30)], zeros=1 << 30)


@bomb(DAMAGED + "|^ENOTSUP|^ENOMEM|^ETIME")
def functions_with_one_endless_line_table(path):
    # 10^5 functions, all of whose tables of lines are the same megabyte.
    n = 10**5
    table = b"\2\1" * (1 << 19)
    functab = b"".join(struct.pack("<II", i * 8, 8 * n + 8) for i in range(n)) + struct.pack("<I", n * 8)
    functab = functab.ljust(8 * n + 8, b"\0")
    func = struct.pack("<IiiIIIIiIBBBB", 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0)
    name_at, cu_at, file_at, pc_at = 72, 80, 96, 112
    func_at = pc_at + 1 + len(table) + 7 & ~7
    body = b"main\0\0\0\0" + bytes(16) + b"a.go\0".ljust(16, b"\0") + b"\0" + table
    body = body.ljust(func_at - 72, b"\0") + functab + func
    elf(path, [Section(".gopclntab", pclntab(n, 1, (name_at, cu_at, file_at, pc_at, func_at)) + body)])


def main():
    directory = sys.argv[1]
    chosen = sys.argv[2:]
    with open(os.path.join(directory, "list"), "w") as names:
        for name, make, expected in bombs:
            if chosen and name not in chosen:
                continue
            make(os.path.join(directory, name))
            names.write(name + "\t" + expected + "\n")


main()
