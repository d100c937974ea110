"""Reads an archive with nothing but archive-format.md and Python's standard library.

python3 read_archive.py ARCHIVE [FOLDER]

For records that are compressed with zstd it needs Python 3.14, the module zstandard or the program zstd.

Prints one JSON line for each message (id, size) and fact, and one for the whole. With FOLDER, every message is
written there, byte for byte, as <id>.eml. Stops at the first thing that is not as the format says.
"""
import base64, functools, glob, hashlib, json, os, shutil, struct, subprocess, sys, tempfile, zlib

FORMATS = "mailkeep archive 1\n", "mailkeep archive 2\n"
MIB = 1 << 20
LARGEST = {1: 4 * MIB, 2: 513 * MIB, 3: 513 * MIB, 4: MIB // 16, 5: 4 * MIB, 6: 64 * MIB}
KINDS = {1: "blob", 2: "message", 3: "fact", 4: "commit"}


def sha(data):
    return hashlib.sha256(data).digest()


def inflate(codec, data, size):
    if codec == 1:
        stream = zlib.decompressobj()
        data = stream.decompress(data, size + 1)
        assert stream.eof and not stream.unused_data, "zlib stream"
    elif codec == 3:
        assert is_one_frame(data, size), "zstd frame"
        data = zstd_decompressor()(data, size)
    else:
        assert codec == 0, "codec"
    assert len(data) == size, "raw length"
    return data


def is_one_frame(data, size):
    """Returns whether data is one zstd frame that states its size, has a window of at most 8 MiB, and ends where data
    ends (RFC 8878, 3.1.1)."""
    if len(data) < 6 or data[:4] != b"\x28\xb5\x2f\xfd" or data[4] & 0b1011:
        return False
    single, checksum = data[4] >> 5 & 1, data[4] & 4
    at, width = 6 - single, (single, 2, 4, 8)[data[4] >> 6]
    stated = int.from_bytes(data[at:at + width], "little") + (256 if width == 2 else 0)
    window = stated if single else (8 + (data[5] & 7)) << (7 + (data[5] >> 3))
    if width == 0 or window > 8 * MIB:
        return False
    at, last = at + width, 0
    while not last and at < len(data):
        block = int.from_bytes(data[at:at + 3], "little")
        last, is_run = block & 1, block >> 1 & 3 == 1
        at += 3 + (1 if is_run else block >> 3)
    return stated == size and last == 1 and at + checksum == len(data)


@functools.cache
def zstd_decompressor():
    """Returns a function of a frame and its size: that of Python 3.14, of zstandard, or of the program zstd."""
    try:
        from compression.zstd import ZstdDecompressor
        return lambda frame, size: ZstdDecompressor().decompress(frame, size + 1)
    except ImportError:
        pass
    try:
        from zstandard import ZstdDecompressor
        return lambda frame, size: ZstdDecompressor().decompress(frame, max_output_size=size)
    except ImportError:
        pass
    if shutil.which("zstd"):
        return run_zstd
    sys.exit("This archive is compressed with zstd. To read it, use Python 3.14 or newer, or install the Python module "
             "zstandard (Debian: python3-zstandard) or the program zstd.")


def run_zstd(frame, size):
    with tempfile.TemporaryFile() as file:
        file.write(frame)
        file.seek(0)
        with subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE) as program:
            data = program.stdout.read(size + 1)
    assert program.returncode == 0, "zstd"
    return data


def headers(data, archive, segment):
    at = 64
    while data[at:at + 4] == b"\x89MKR":
        kind, codec, flags, raw, stored, digest, crc, owner, check = struct.unpack_from(
            "<4xBBHII32sI8sI", data, at)
        place = struct.pack("<QI", at, segment)
        assert owner == archive and check == zlib.crc32(data[at:at + 60] + place), "record header"
        payload = data[at + 64:at + 64 + stored]
        assert len(payload) == stored and zlib.crc32(payload) == crc, "stored payload"
        assert flags & 1 or codec == 0 or raw <= LARGEST.get(kind, 513 * MIB), "raw length"
        payload = None if flags & 1 else inflate(codec, payload, raw)
        assert payload is None or sha(payload) == digest, "payload"
        yield at, kind, payload, raw, digest
        at += 64 + stored


def records(data, archive, segment):
    for _, kind, payload, raw, digest in headers(data, archive, segment):
        if kind == 5:
            at = 0
            while at < len(payload):
                inner, flags, length = struct.unpack_from("<BxHI", payload, at)
                size = 32 if flags & 1 else length
                body = payload[at + 8:at + 8 + size]
                yield inner, None if flags & 1 else body, length, body if flags & 1 else sha(body)
                at += 8 + size
        elif kind in KINDS:
            yield kind, payload, raw, digest


def is_sealed(data, archive, segment):
    magic, offset, length, owner, number, crc = struct.unpack_from("<4sQI8sII", data, len(data) - 32)
    return (magic, owner, number) == (b"\x89MKF", archive, segment) and crc == zlib.crc32(data[-32:-4]) \
        and offset + length + 32 == len(data)


def segments(folder):
    names = {}
    for path in glob.glob(os.path.join(folder, "log", "*.seg")):
        number, generation, _ = os.path.basename(path).split(".")
        names.setdefault(int(number), []).append((int(generation), path))
    for number in sorted(names):
        for generation, path in sorted(names[number], reverse=True):
            data = open(path, "rb").read()
            magic, _, own, archive, segment, before, previous, crc = struct.unpack_from("<4sHH8sIQ32sI", data)
            assert (magic, own, segment) == (b"\x89MKS", generation, number), "segment header"
            assert crc == zlib.crc32(data[:60]), "segment header"
            if generation == 1 or is_sealed(data, archive, number):
                yield number, archive, before, previous, data
                break


def rebuild(recipe, literal, blobs):
    source, used = b"", 0
    for part in recipe["parts"]:
        if part[0] == "raw":
            source += literal[used:used + part[1]]
            used += part[1]
            continue
        length, digest, *chunks = part[1:] if part[0] == "blob" else part[3:]
        data = b"".join(blobs[name] for name in (chunks[0] if chunks else [digest]))
        assert len(data) == length and sha(data).hex() == digest, "blob"
        if part[0] == "b64":
            text, line = base64.b64encode(data), part[1]
            eol = b"\r\n" if part[2] == "crlf" else b"\n"
            data = eol.join(text[i:i + line] for i in range(0, len(text), line))
        source += data
    assert len(source) == recipe["size"] and sha(source).hex() == recipe["sha256"], "message"
    return source


def tell(source, into):
    name = sha(source).hex()
    print(json.dumps({"message": name, "size": len(source)}))
    if into:
        with open(os.path.join(into, name + ".eml"), "wb") as file:
            file.write(source)


def main(folder, into=None):
    assert open(os.path.join(folder, "FORMAT")).read() in FORMATS, "format"
    if into:
        os.makedirs(into, exist_ok=True)
    number, blobs, purged, batch, waiting = 0, {}, 0, [], []
    for segment, archive, before, previous, data in segments(folder):
        if segment == 1:
            chain = sha(b"mailkeep genesis 1\n" + archive)
        assert (before, previous) == (number, chain), "chain of segments"
        batch = []
        for kind, payload, raw, digest in records(data, archive, segment):
            if KINDS[kind] != "commit":
                batch.append((kind, payload, raw, digest))
                continue
            commit = json.loads(payload)
            content = b"mailkeep commit 1\n" + chain + struct.pack("<QQ", commit["number"], commit["time"])
            content += b"".join(struct.pack("<BI", k, r) + d for k, _, r, d in batch)
            assert commit["number"] == number + 1 and commit["previous"] == chain.hex(), "chain"
            assert commit["records"] == len(batch) and commit["hash"] == sha(content).hex(), "chain"
            number, chain = commit["number"], bytes.fromhex(commit["hash"])
            for k, body, _, d in batch:
                if body is None:
                    purged += 1
                elif KINDS[k] == "blob":
                    blobs[d.hex()] = body
                elif KINDS[k] == "message":
                    line, _, literal = body.partition(b"\n")
                    try:
                        tell(rebuild(json.loads(line), literal, blobs), into)
                    except KeyError:  # a blob that was purged; a later record may have it again
                        waiting.append((json.loads(line), literal))
                else:
                    print(json.dumps({"fact": json.loads(body)}))
            batch = []
    for recipe, literal in waiting:
        try:
            tell(rebuild(recipe, literal, blobs), into)
        except KeyError:
            print(json.dumps({"gone": recipe["sha256"]}))
    print(json.dumps({"commits": number, "hash": chain.hex(), "purged": purged, "tail": len(batch)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
