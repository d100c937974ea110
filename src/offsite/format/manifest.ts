import { hash } from 'node:crypto';
import { isCount, isHash, isObject, parseJson } from '../../archive/format/json-shape.ts';
import { type ManifestDamage, offsiteError } from '../../errors/offsite.ts';
import { isSignedBy } from '../../verify/ed25519.ts';
import { canonicalBytes, type Fields, fromBase64, hasOnly } from './canonical.ts';
import type { Sign } from './copy-file.ts';
import type { OpeningKey, SealingKey } from './header.ts';
import { commitOfName, markOfName } from './names.ts';
import { open } from './open.ts';
import { seal } from './seal.ts';
import {
  agrees,
  MOST_OBJECTS,
  readSecretManifest,
  type SecretManifest,
} from './secret-manifest.ts';

/** An object that a manifest names, as anybody can see it. */
export interface ManifestObject {
  readonly name: string;
  /** Bytes as they are stored. */
  readonly length: number;
  /** Of the bytes as they are stored. */
  readonly sha256: string;
}

/** What a manifest shows without a key. */
export interface ClearManifest {
  readonly name: string;
  readonly commit: number;
  /** Counts the manifests of a copy, from 0. */
  readonly sequence: number;
  /** When it was written; milliseconds since 1970. */
  readonly time: number;
  /** SHA-256 of the bytes of the manifest before, or null for the first one. */
  readonly previous: string | null;
  /** The mark of the commit, for the writer (`commitMark`). */
  readonly chain: string;
  /** In order of their names. */
  readonly objects: readonly ManifestObject[];
  /** The envelope of what a key is needed for. */
  readonly sealed: Buffer;
  /** SHA-256 of all bytes, for the next manifest. */
  readonly sha256: string;
  /** The key that signed it. */
  readonly signer: Buffer;
}

export interface ManifestInput {
  readonly sequence: number;
  readonly time: number;
  readonly previous: string | null;
  readonly chain: string;
  /** In any order. */
  readonly objects: readonly ManifestObject[];
  readonly secret: SecretManifest;
}

/** Bytes of a manifest. */
export const MOST_MANIFEST_BYTES = 64 * 1024 * 1024;
const MARK = 'copy manifest 1';
const DOMAIN = Buffer.from('mailkeep copy manifest 1\n', 'utf8');
/** How a manifest ends. Its keys are sorted, so the signature is cut out before anything is parsed. */
const SIGNATURE = /"signature":"([A-Za-z0-9+/]{86}==)",("time":\d{1,16}\})$/;
const LONGEST_END = 160;
const NAMES = [
  ...['mailkeep', 'copy', 'name', 'commit', 'sequence', 'time', 'previous', 'chain', 'objects'],
  ...['sealed', 'signature'],
];

/**
 * Returns the bytes of a manifest.
 *
 * @throws `copy-too-many-objects`
 */
export async function encodeManifest(
  input: ManifestInput,
  name: string,
  keys: { readonly sealing: SealingKey; readonly sign: Sign },
): Promise<Buffer> {
  const { secret, sequence, time, previous, chain } = input;
  const objects = input.objects.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const found = objects.length;
  if (found > MOST_OBJECTS) {
    throw offsiteError('copy-too-many-objects', { found, most: MOST_OBJECTS });
  }
  const text = canonicalBytes(secret);
  const about = { kind: 'manifest', name } as const;
  const sealed = await allOf(seal(keys.sealing, about, text.length, once(text)).bytes);
  const fields = {
    mailkeep: MARK,
    copy: keys.sealing.copyId.toString('hex'),
    commit: secret.commit.number,
    ...{ name, sequence, time, previous, chain },
    objects: objects.map(({ name, length, sha256 }) => ({ name, length, sha256 })),
    sealed: sealed.toString('base64'),
  };
  const isRight =
    isShaped({ ...fields, signature: '' }) &&
    commitOfName(name) === secret.commit.number &&
    readSecretManifest(text) !== undefined &&
    agrees(secret, fields);
  if (!isRight) throw new Error(`${name} contradicts itself`);
  const signature = keys.sign(signedBytes(canonicalBytes(fields))).toString('base64');
  return canonicalBytes({ ...fields, signature });
}

/**
 * Returns the clear part of a manifest that a trusted key signed. Nothing of it is parsed before its signature was
 * checked.
 *
 * @throws `copy-manifest-damaged`
 */
export function decodeManifest(
  bytes: Buffer,
  name: string,
  trusted: { readonly copyId: Buffer; readonly signers: readonly Buffer[] },
): ClearManifest {
  const damaged = (reason: ManifestDamage) =>
    offsiteError('copy-manifest-damaged', { name, reason });
  if (bytes.length > MOST_MANIFEST_BYTES) throw damaged('too-large');
  const end = SIGNATURE.exec(bytes.subarray(-LONGEST_END).toString('latin1'));
  const signature = fromBase64(end?.[1]);
  if (end === null || signature === undefined) throw damaged('shape');
  const [field, , after = ''] = end;
  const signed = signedBytes(
    bytes.subarray(0, bytes.length - field.length),
    Buffer.from(after, 'latin1'),
  );
  const signer = trusted.signers.find((key) => isSignedBy(key, signed, signature));
  if (signer === undefined) throw damaged('signature');
  const fields = parseJson(bytes.toString('utf8'));
  if (!isObject(fields) || !isShaped(fields)) throw damaged('shape');
  if (fields.copy !== trusted.copyId.toString('hex')) throw damaged('other-copy');
  if (fields.name !== name || commitOfName(name) !== fields.commit) throw damaged('name');
  const sealed = fromBase64(fields.sealed);
  if (sealed === undefined) throw damaged('shape');
  const { commit, sequence, time, previous, chain, objects } = fields;
  const sha256 = hash('sha256', bytes);
  return { name, commit, sequence, time, previous, chain, objects, sealed, sha256, signer };
}

/**
 * Returns the encrypted part of a manifest.
 *
 * @throws `copy-manifest-damaged` if it contradicts the clear part; `copy-object-damaged`, `copy-key-unknown`
 */
export async function openManifest(
  manifest: ClearManifest,
  opening: OpeningKey,
): Promise<SecretManifest> {
  const { name, sealed } = manifest;
  const text = await allOf(open(opening, { kind: 'manifest', name }, once(sealed)));
  const secret = readSecretManifest(text);
  if (secret === undefined) throw offsiteError('copy-manifest-damaged', { name, reason: 'shape' });
  if (!agrees(secret, manifest)) {
    throw offsiteError('copy-manifest-damaged', { name, reason: 'disagree' });
  }
  return secret;
}

/** The fields of a manifest, checked but for what depends on its name and copy. */
interface Shape extends Omit<ClearManifest, 'name' | 'sealed' | 'sha256' | 'signer'> {
  readonly copy: string;
  readonly name: string;
  readonly sealed: string;
}

function isShaped(fields: Fields): fields is Fields & Shape {
  const { commit, sequence, time, previous, chain, objects } = fields;
  return (
    hasOnly(fields, NAMES) &&
    fields.mailkeep === MARK &&
    typeof fields.sealed === 'string' &&
    [commit, sequence, time].every(isCount) &&
    (previous === null || isHash(previous)) &&
    typeof chain === 'string' &&
    /^[0-9a-f]{32}$/.test(chain) &&
    Array.isArray(objects) &&
    objects.length <= MOST_OBJECTS &&
    objects.every((one, index) => isListed(one) && isAfter(one, objects[index - 1]))
  );
}

function isListed(value: unknown): value is ManifestObject {
  return (
    isObject(value) &&
    hasOnly(value, ['name', 'length', 'sha256']) &&
    typeof value.name === 'string' &&
    markOfName(value.name) !== undefined &&
    isCount(value.length) &&
    isHash(value.sha256)
  );
}

/** No name is there twice. */
function isAfter({ name }: ManifestObject, before: unknown): boolean {
  return !isObject(before) || String(before.name) < name;
}

function signedBytes(...parts: readonly Buffer[]): Buffer {
  return Buffer.concat([DOMAIN, ...parts]);
}

async function allOf(parts: AsyncIterable<Buffer>): Promise<Buffer> {
  const found: Buffer[] = [];
  for await (const part of parts) found.push(part);
  return Buffer.concat(found);
}

async function* once(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}
