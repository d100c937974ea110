"""Turns an off-site copy into an archive with nothing but copy-format.md, Python and its module cryptography.

python3 read_copy.py COPY ARCHIVE WAY FILE [SIGNER]

COPY is a folder with all objects of the copy: download those of a bucket first. ARCHIVE is a new folder, which
read_archive.py reads. WAY is "recovery", "passphrase" or "age"; FILE contains the recovery key, the passphrase in one
line, or age identities (for these the program age must be installed). SIGNER is the public key that was printed when the
copy was made, in base64. Stops at the first thing that is not as the format says, except for invalid manifests: those
are reported and left out.
"""
import base64, glob, hashlib, hmac, json, os, re, struct, subprocess, sys, unicodedata

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
except ImportError:
    sys.exit("Install the Python module cryptography (Debian: python3-cryptography).")

MIB = 1 << 20
DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
KINDS = {"segment": 1, "tail": 2, "manifest": 3}


def sha(data):
    return hashlib.sha256(data).digest()


def unbase64(text):
    data = base64.b64decode(text, validate=True)
    assert base64.b64encode(data).decode() == text, "base64"
    return data


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def hkdf(secret, salt, info):
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def decrypt_once(key, data):
    try:
        return AESGCM(key).decrypt(bytes(12), data, None)
    except InvalidTag:
        return None


def read(copy, name):
    with open(os.path.join(copy, *name.split("/")), "rb") as file:
        return file.read()


def names(copy, folder, pattern):
    found = [os.path.basename(path) for path in glob.glob(os.path.join(glob.escape(copy), folder, "*"))]
    return sorted(f"{folder}/{name}" for name in found if re.fullmatch(pattern, name))


def recovery_key(text):
    digits = re.sub(r"[\s-]", "", text).upper().replace("I", "1").replace("L", "1").replace("O", "0")
    assert re.fullmatch(f"[{DIGITS}]{{32}}", digits), "a recovery key is four lines of eight characters"
    key = b""
    for line in range(4):
        value = 0
        for digit in digits[8 * line:8 * line + 8]:
            value = value * 32 + DIGITS.index(digit)
        data = value.to_bytes(5, "big")
        assert checksum(data[:4], line + 1) == data[4], f"line {line + 1} of the recovery key"
        key += data[:4]
    return key


def checksum(data, value):
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value << 1 ^ (0x107 if value & 0x80 else 0)) & 0x1ff
    return value


def unwrap(recipient, way, file):
    """Returns the text of the secrets, or None where they are for somebody else."""
    wrapped = unbase64(recipient["wrapped"])
    if way == "age":
        run = subprocess.run(["age", "--decrypt", "--identity", file], input=wrapped, capture_output=True)
        return run.stdout if run.returncode == 0 else None
    with open(file, encoding="utf-8") as secret:
        text = secret.read()
    salt = unbase64(recipient["salt"])
    if way == "recovery":
        return decrypt_once(hkdf(recovery_key(text), salt, b"mailkeep copy key 1\n"), wrapped)
    n, r, p = (recipient[name] for name in "Nrp")
    assert 1 << 10 <= n <= 1 << 20 and 1 <= r <= 8 and 1 <= p <= 4, "scrypt"
    passphrase = unicodedata.normalize("NFC", text.rstrip("\r\n")).encode()
    key = hashlib.scrypt(passphrase, salt=salt, n=n, r=r, p=p, maxmem=128 * r * (n + p + 2) + MIB, dklen=32)
    return decrypt_once(key, wrapped)


def unlock(copy, way, file):
    """Returns the secrets with the most private keys that a secret of the user opens."""
    newest = None
    for name in names(copy, "keys", "[0-9a-f]{32}"):
        recipient = json.loads(read(copy, name))
        if recipient["type"] != way:
            continue
        text = unwrap(recipient, way, file)
        if text is None:
            continue
        secrets = json.loads(text)
        del recipient["wrapped"]
        assert secrets["clear"] == sha(canonical(recipient)).hex(), f"{name} was changed"
        assert secrets["copy"] == recipient["copy"] and name == f"keys/{recipient['id']}", f"{name} was moved"
        if newest is not None:
            few, many = sorted((newest["privateKeys"], secrets["privateKeys"]), key=len)
            same = all(newest[field] == secrets[field] for field in ("copy", "nameKey", "signer"))
            assert same and many[len(many) - len(few):] == few, f"{name} contains other keys than a recipient before"
        if newest is None or len(secrets["privateKeys"]) > len(newest["privateKeys"]):
            newest = secrets
    if newest is None:
        sys.exit("This does not open the copy.")
    return newest


def signers(copy, secrets):
    yield unbase64(secrets["signer"])
    key = hkdf(unbase64(secrets["privateKeys"][0]), None, b"mailkeep copy signer 1\n")
    for name in names(copy, "signers", "[0-9a-f]{32}"):
        later = json.loads(read(copy, name))
        mac = bytes.fromhex(later.pop("mac"))
        right = later["copy"] == secrets["copy"] and name == f"signers/{later['id']}"
        if right and hmac.compare_digest(hmac.digest(key, canonical(later), "sha256"), mac):
            yield unbase64(later["signer"])
        else:
            print(f"left out, not valid: {name}", file=sys.stderr)


def open_envelope(secrets, kind, name, data):
    header = data[:112]
    magic, version, number, zero, copy, key_id, ephemeral, wrapped = struct.unpack("<4sBBH16s8s32s48s", header)
    assert (magic, version, number, zero) == (b"\x89MKC", 1, KINDS[kind], 0), f"{name}: header"
    assert copy.hex() == secrets["copy"], f"{name}: another copy"
    for private in map(unbase64, secrets["privateKeys"]):
        pair = X25519PrivateKey.from_private_bytes(private)
        public = pair.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        if sha(public)[:8] == key_id:
            break
    else:
        raise AssertionError(f"{name}: unknown key")
    shared = pair.exchange(X25519PublicKey.from_public_bytes(ephemeral))
    info = b"mailkeep copy 1\n" + copy + bytes([number]) + name.encode()
    key = decrypt_once(hkdf(shared, ephemeral + public, info), wrapped)
    assert key is not None, f"{name}: header, or another name"
    cipher, bound, parts = AESGCM(key), sha(header), []
    for index, at in enumerate(range(112, len(data), MIB + 16)):
        last = at + MIB + 16 >= len(data)
        nonce = index.to_bytes(11, "little") + bytes([last])
        try:
            parts.append(cipher.decrypt(nonce, data[at:at + MIB + 16], bound))
        except InvalidTag:
            raise AssertionError(f"{name}: chunk {index} is damaged") from None
    text = b"".join(parts)
    length = int.from_bytes(text[:8], "little")
    assert len(text) == (8 + length + 65535) // 65536 * 65536, f"{name}: length"
    assert not any(text[8 + length:]), f"{name}: padding"
    return text[8:8 + length]


def is_signed(data, keys):
    """Checks the signature before anything is parsed. It stands before the last field."""
    end = re.search(rb'"signature":"([A-Za-z0-9+/]{86}==)",("time":\d{1,16}\})\Z', data[-160:])
    if end is None:
        return False
    signed = b"mailkeep copy manifest 1\n" + data[:len(data) - len(end[0])] + end[2]
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(unbase64(end[1].decode()), signed)
            return True
        except InvalidSignature:
            pass
    return False


def newest_manifest(copy, secrets):
    keys = list(signers(copy, secrets))
    for name in reversed(names(copy, "manifests", r"\d{16}-[0-9a-f]{32}")):
        data = read(copy, name)
        if is_signed(data, keys):
            manifest = json.loads(data)
            if (manifest["mailkeep"], manifest["copy"], manifest["name"]) == \
                    ("copy manifest 1", secrets["copy"], name):
                return manifest
        print(f"left out, not valid: {name}", file=sys.stderr)
    sys.exit("The copy has no valid manifest.")


def main(copy, archive, way, file, signer=None):
    assert way in ("recovery", "passphrase", "age"), "WAY is recovery, passphrase or age"
    secrets = unlock(copy, way, file)
    print(json.dumps({"copy": secrets["copy"], "signer": secrets["signer"]}))
    assert signer in (None, secrets["signer"]), "the signer is another one"
    manifest = newest_manifest(copy, secrets)
    name = manifest["name"]
    inner = json.loads(open_envelope(secrets, "manifest", name, unbase64(manifest["sealed"])))
    listed = {one["name"]: one for one in manifest["objects"]}
    used = [one["name"] for one in inner["segments"] + inner["tail"]]
    assert inner["commit"]["number"] == manifest["commit"] and sorted(used) == sorted(listed), f"{name}: contradicts itself"

    def content(kind, one):
        assert re.fullmatch("data/[0-9a-f]{48}", one), f"{name}: name of an object"
        data = read(copy, one)
        assert len(data) == listed[one]["length"] and sha(data).hex() == listed[one]["sha256"], f"{one}: SHA-256"
        return open_envelope(secrets, kind, one, data)

    def write(path, mode, data):
        with open(os.path.join(archive, path), mode, opener=lambda p, f: os.open(p, f, 0o600)) as out:
            out.write(data)

    os.makedirs(os.path.join(archive, "log"), mode=0o700)
    write("FORMAT", "xb", inner["format"].encode())
    for number, one in enumerate(inner["segments"], 1):
        assert one["segment"] == number, f"{name}: segments"
        data = content("segment", one["name"])
        write(f"log/{number:010}.{struct.unpack_from('<H', data, 6)[0]}.seg", "xb", data)
    end = 0
    for one in inner["tail"]:
        data = content("tail", one["name"])
        whole = one["segment"] == len(inner["segments"]) + 1 and one["from"] == end
        assert whole and one["to"] == end + len(data), f"{name}: tail"
        write(f"log/{one['segment']:010}.1.seg", "ab", data)
        end = one["to"]
    print(json.dumps({"commit": inner["commit"], "time": manifest["time"], "objects": len(used)}))


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    main(*sys.argv[1:])
