import { createHmac, hash, randomBytes } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { z } from 'zod';
import { isCount, isHash, parseJson } from '../../archive/format.ts';
import { fromBase64, isSignedBy } from '../../core/ed25519.ts';
import { type ManifestDamage, offsiteError } from './errors.ts';
import type { KeyObject } from './keys.ts';
import {
  base64,
  canonicalBytes,
  encodeCanonical,
  hexText,
  type OpeningKey,
  open,
  readCanonical,
  type SealingKey,
  type Sign,
  seal,
} from './sealed-object.ts';

/** Kinds of content. */
export type ObjectKind = 'segment' | 'tail' | 'manifest' | 'settings' | 'snapshot' | 'state';

/** Name, under the prefix, of the object that describes a copy to people. */
export const COPY_NAME = 'mailkeep-copy';
export const FOLDERS = {
  data: 'data/',
  keys: 'keys/',
  manifests: 'manifests/',
  settings: 'settings/',
  signers: 'signers/',
} as const;

interface CommitHash {
  readonly hash: string;
}

/**
 * Returns the mark (32 hexadecimal digits) by which a writer recognises a closed segment's object. It reveals nothing
 * without the name key.
 * @param identity with the segment's last commit and a digest of its purged records, empty if there are none
 */
export function segmentMark(
  nameKey: Buffer,
  identity: { readonly segment: number; readonly end: CommitHash; readonly purged: string },
): string {
  return mark(nameKey, ['segment', identity.segment, identity.end.hash, identity.purged]);
}

/**
 * Returns the mark of an object that holds part of the open segment.
 * @param range offsets in the file of generation 1, with the last commit before `to`
 */
export function tailMark(
  nameKey: Buffer,
  range: {
    readonly segment: number;
    readonly from: number;
    readonly to: number;
    readonly end: CommitHash;
  },
): string {
  return mark(nameKey, ['tail', range.segment, range.from, range.to, range.end.hash]);
}

/** Returns the mark of a commit, by which a writer locates a manifest's commit in its own chain. */
export function commitMark(
  nameKey: Buffer,
  { number, hash }: { readonly number: number; readonly hash: string },
): string {
  return mark(nameKey, ['commit', number, hash]);
}

/** Returns the mark of a snapshot of the index as of a commit. */
export function snapshotMark(
  nameKey: Buffer,
  { number, hash }: { readonly number: number; readonly hash: string },
  version: number,
): string {
  return mark(nameKey, ['snapshot', number, hash, version]);
}

/** Returns the mark of a state digest. @param digest SHA-256 of its content in hexadecimal */
export function stateMark(nameKey: Buffer, digest: string): string {
  return mark(nameKey, ['state', digest]);
}

/** Returns a new name with a mark. Every attempt to write an object uses a new name. */
export function objectName(ofMark: string): string {
  return `${FOLDERS.data}${ofMark}${randomBytes(8).toString('hex')}`;
}

/** Returns undefined for names outside `data/`. */
export function markOfName(name: string): string | undefined {
  return /^data\/([0-9a-f]{32})[0-9a-f]{16}$/.exec(name)?.[1];
}

/**
 * Returns a new name for a manifest. The names sort by commit.
 * @param mark 16 bytes that tell it from others
 */
export function manifestName(commit: number, mark = randomBytes(16)): string {
  const digits = String(commit).padStart(16, '0');
  return `${FOLDERS.manifests}${digits}-${mark.toString('hex')}`;
}

/** Manifests of a fleet only: the mark of a name has epoch and sequence, so that a listing shows which one is the last. */
export function fleetManifestName(commit: number, epoch: number, sequence: number): string {
  const mark = randomBytes(16);
  mark.writeUInt32BE(epoch, 0);
  mark.writeUInt32BE(sequence, 4);
  return manifestName(commit, mark);
}

/** Returns undefined for names outside `manifests/`. */
export function readFleetManifestName(name: string) {
  const commit = commitOfName(name);
  if (commit === undefined) return undefined;
  const mark = Buffer.from(name.slice(-32), 'hex');
  return { commit, epoch: mark.readUInt32BE(0), sequence: mark.readUInt32BE(4) };
}

/** Returns undefined for names outside `manifests/`. */
export function commitOfName(name: string): number | undefined {
  const digits = /^manifests\/(\d{16})-[0-9a-f]{32}$/.exec(name)?.[1];
  const commit = Number(digits);
  return Number.isSafeInteger(commit) ? commit : undefined;
}

/** Directories that hold small objects with random names. */
export type SmallFolder = 'keys' | 'signers' | 'settings';

export function recipientName(folder: SmallFolder) {
  const id = randomBytes(16).toString('hex');
  return { name: `${FOLDERS[folder]}${id}`, id };
}

/** Returns undefined for names outside the directory. */
export function idOfName(folder: SmallFolder, name: string): string | undefined {
  const [, found, id] = /^(keys|signers|settings)\/([0-9a-f]{32})$/.exec(name) ?? [];
  return found === folder ? id : undefined;
}

/** Returns an HMAC-SHA256, truncated to 16 bytes. No field contains a line break: all are hexadecimal or numbers. */
function mark(nameKey: Buffer, fields: readonly (string | number)[]): string {
  const text = `mailkeep copy name 1\n${fields.join('\n')}\n`;
  return createHmac('sha256', nameKey).update(text, 'utf8').digest('hex').slice(0, 32);
}

/** Enough for 8 TiB of segments. */
export const MAX_OBJECTS = 2 ** 17;
const MAX_FORMAT = 4096;
const count = z.custom<number>(isCount);
const digest = z.custom<string>(isHash);

/** Manifests of a fleet only. */
const fleetFields = z.strictObject({
  /** Number of purges that the objects are clean of, and that had been decided. */
  clean: count,
  purges: count,
  node: z.string(),
  snapshot: z
    .strictObject({ name: z.string(), commit: count, hash: digest, version: count })
    .optional(),
  state: z.strictObject({ name: z.string() }).optional(),
});

const secretManifest = z
  .strictObject({
    archiveId: hexText(8),
    /** Text of the archive's FORMAT file. */
    format: z.string().max(MAX_FORMAT),
    /** Last commit. `time` is in milliseconds since 1970. */
    commit: z.strictObject({ number: count, hash: digest, time: count }),
    /** Consecutive segments, starting with segment 1. */
    segments: z
      .array(z.strictObject({ name: z.string(), segment: count }))
      .max(MAX_OBJECTS)
      .refine((all) => all.every(({ segment }, index) => segment === index + 1)),
    /** Consecutive parts of the next segment's generation 1 file, starting with its first byte. */
    tail: z
      .array(z.strictObject({ name: z.string(), segment: count, from: count, to: count }))
      .max(MAX_OBJECTS)
      .refine((all) => all.every(({ from }, index) => from === (all[index - 1]?.to ?? 0)))
      .refine((all) => all.every(({ from, to }) => to > from)),
    fleet: fleetFields.optional(),
  })
  .refine(({ segments, tail }) => tail.every((one) => one.segment === segments.length + 1));
export type SecretManifest = z.output<typeof secretManifest>;

function readSecretManifest(bytes: Buffer): SecretManifest | undefined {
  return secretManifest.safeParse(parseJson(bytes.toString('utf8'))).data;
}

/** Returns whether the unencrypted and encrypted parts list the same commit and objects. */
function agrees(
  { commit, segments, tail, fleet }: SecretManifest,
  clear: { readonly commit: number; readonly objects: readonly { readonly name: string }[] },
): boolean {
  const others = [fleet?.snapshot, fleet?.state].filter((one) => one !== undefined);
  const all = [...segments, ...tail, ...others];
  const names = new Set(all.map(({ name }) => name));
  return (
    commit.number === clear.commit &&
    names.size === all.length &&
    names.size === clear.objects.length &&
    clear.objects.every(({ name }) => names.has(name))
  );
}

const MARK = 'copy manifest 1';

const clearFields = z.strictObject({
  mailkeep: z.literal(MARK),
  copy: z.string(),
  name: z.string(),
  commit: count,
  /** Sequence number of this manifest within the copy, starting at 0. */
  sequence: count,
  /** Creation time, milliseconds since 1970. */
  time: count,
  /** SHA-256 of the previous manifest's bytes; null for the first manifest. */
  previous: digest.nullable(),
  /** From `commitMark`. */
  chain: hexText(16),
  /** Manifests of a fleet only: the writer's epoch. */
  epoch: count.optional(),
  /** Sorted by name. Lengths and hashes refer to the stored bytes. */
  objects: z
    .array(
      z.strictObject({
        name: z.string().refine((name) => markOfName(name) !== undefined),
        length: count,
        sha256: digest,
      }),
    )
    .max(MAX_OBJECTS)
    .refine((all) => all.every(({ name }, index) => (all[index - 1]?.name ?? '') < name)),
  sealed: z.string(),
  signature: z.string(),
});
type ClearFields = z.output<typeof clearFields>;

/** The part of a manifest that is readable without a key. */
export interface ClearManifest
  extends Omit<ClearFields, 'mailkeep' | 'copy' | 'sealed' | 'signature'> {
  readonly sealed: Buffer;
  /** SHA-256 of all bytes, to be recorded in the next manifest. */
  readonly sha256: string;
  readonly signer: Buffer;
}

export interface ManifestInput
  extends Pick<ClearManifest, 'sequence' | 'time' | 'previous' | 'chain' | 'epoch'> {
  /** Not sorted. */
  readonly objects: readonly Readonly<ClearFields['objects'][number]>[];
  readonly secret: SecretManifest;
}

export const MAX_MANIFEST_BYTES = 64 * 1024 * 1024;
const DOMAIN = Buffer.from('mailkeep copy manifest 1\n', 'utf8');
/** Matches the signature near the end. Keys are sorted, so it can be cut out before parsing. */
const SIGNATURE = /"signature":"([A-Za-z0-9+/]{86}==)",("time":\d{1,16}\})$/;
const MAX_END = 160;

export interface Trusted {
  /** 32 hexadecimal digits. */
  readonly copyId: string;
  readonly signers: readonly Buffer[];
}

/** @throws `copy-too-many-objects` */
export async function encodeManifest(
  input: ManifestInput,
  name: string,
  keys: { readonly sealing: SealingKey; readonly sign: Sign },
): Promise<Buffer> {
  const { secret, sequence, time, previous, chain, epoch } = input;
  const objects = input.objects.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const found = objects.length;
  if (found > MAX_OBJECTS) {
    throw offsiteError('copy-too-many-objects', { found, most: MAX_OBJECTS });
  }
  const text = canonicalBytes(secret);
  const about = { kind: 'manifest', name } as const;
  const sealed = await buffer(seal(keys.sealing, about, text.length, bytesAsStream(text)).bytes);
  const fields = {
    mailkeep: MARK,
    copy: keys.sealing.copyId.toString('hex'),
    commit: secret.commit.number,
    ...{ name, sequence, time, previous, chain },
    ...(epoch === undefined ? {} : { epoch }),
    objects: objects.map(({ name, length, sha256 }) => ({ name, length, sha256 })),
    sealed: sealed.toString('base64'),
  };
  const isRight =
    clearFields.safeParse({ ...fields, signature: '' }).success &&
    commitOfName(name) === secret.commit.number &&
    readSecretManifest(text) !== undefined &&
    agrees(secret, fields);
  if (!isRight) throw new Error(`${name} contradicts itself`);
  const signature = keys.sign(signedBytes(canonicalBytes(fields))).toString('base64');
  return canonicalBytes({ ...fields, signature });
}

/** Finds a trusted signature, and only then parses and returns the unencrypted part. @throws `copy-manifest-damaged` */
export function decodeManifest(bytes: Buffer, name: string, trusted: Trusted): ClearManifest {
  const damaged = (reason: ManifestDamage) =>
    offsiteError('copy-manifest-damaged', { name, reason });
  if (bytes.length > MAX_MANIFEST_BYTES) throw damaged('too-large');
  const end = SIGNATURE.exec(bytes.subarray(-MAX_END).toString('latin1'));
  const signature = fromBase64(end?.[1] ?? '');
  if (end === null || signature === undefined) throw damaged('shape');
  const [field, , after = ''] = end;
  const signed = signedBytes(
    bytes.subarray(0, bytes.length - field.length),
    Buffer.from(after, 'latin1'),
  );
  const signer = trusted.signers.find((key) => isSignedBy(key, signed, signature));
  if (signer === undefined) throw damaged('signature');
  const fields = clearFields.safeParse(parseJson(bytes.toString('utf8'))).data;
  if (fields === undefined) throw damaged('shape');
  if (fields.copy !== trusted.copyId) throw damaged('other-copy');
  if (fields.name !== name || commitOfName(name) !== fields.commit) throw damaged('name');
  const sealed = fromBase64(fields.sealed);
  if (sealed === undefined) throw damaged('shape');
  const { commit, sequence, time, previous, chain, epoch, objects } = fields;
  const sha256 = hash('sha256', bytes);
  return { name, commit, sequence, time, previous, chain, epoch, objects, sealed, sha256, signer };
}

/**
 * Decrypts a manifest.
 * @throws `copy-manifest-damaged` if the encrypted part contradicts the unencrypted part; `copy-object-damaged`,
 * `copy-key-unknown`
 */
export async function openManifest(
  manifest: ClearManifest,
  opening: OpeningKey,
): Promise<SecretManifest> {
  const { name, sealed } = manifest;
  const text = await buffer(open(opening, { kind: 'manifest', name }, bytesAsStream(sealed)));
  const secret = readSecretManifest(text);
  if (secret === undefined) throw offsiteError('copy-manifest-damaged', { name, reason: 'shape' });
  if (!agrees(secret, manifest)) {
    throw offsiteError('copy-manifest-damaged', { name, reason: 'disagree' });
  }
  return secret;
}

function signedBytes(...parts: readonly Buffer[]): Buffer {
  return Buffer.concat([DOMAIN, ...parts]);
}

export async function* bytesAsStream(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

export const MAX_SETTINGS_BYTES = 4 * 1024 * 1024;
const SETTINGS_MARK = 'copy settings 1';
const SETTINGS_DOMAIN = Buffer.from('mailkeep copy settings 1\n', 'utf8');

const signedSettings = z.strictObject({
  mailkeep: z.literal(SETTINGS_MARK),
  copy: z.string(),
  id: z.string(),
  /** Sequence number of these settings within the copy, starting at 0. */
  sequence: count,
  /** Lets a writer, which cannot open settings, recognise identical ones. */
  mark: hexText(16),
  sealed: base64(),
});
const settingsFields = signedSettings.extend({ signature: base64(64) });

/** The unencrypted part of the settings, which are encrypted and signed like manifests. */
export interface ClearSettings
  extends Readonly<Pick<z.output<typeof signedSettings>, 'sequence' | 'mark' | 'sealed'>> {
  readonly name: string;
}

export function settingsMark(nameKey: Buffer, text: Buffer): string {
  return mark(nameKey, ['settings', hash('sha256', text)]);
}

export async function encodeSettings(
  text: Buffer,
  { sequence, mark }: Pick<ClearSettings, 'sequence' | 'mark'>,
  { sealing, sign }: { readonly sealing: SealingKey; readonly sign: Sign },
): Promise<KeyObject> {
  const { name, id } = recipientName('settings');
  const about = { kind: 'settings', name } as const;
  const sealed = await buffer(seal(sealing, about, text.length, bytesAsStream(text)).bytes);
  const copy = sealing.copyId.toString('hex');
  const fields = { mailkeep: SETTINGS_MARK, copy, id, sequence, mark, sealed } as const;
  const signature = sign(signedSettingsBytes(fields));
  return { name, bytes: encodeCanonical(settingsFields, { ...fields, signature }) };
}

/** Parses the unencrypted part of the settings. @throws `copy-manifest-damaged` unless a trusted key signed it */
export function decodeSettings({ name, bytes }: KeyObject, trusted: Trusted): ClearSettings {
  const damaged = (reason: ManifestDamage) =>
    offsiteError('copy-manifest-damaged', { name, reason });
  const fields = readCanonical(settingsFields, bytes, MAX_SETTINGS_BYTES);
  if (fields === undefined) throw damaged('shape');
  const { signature, ...signed } = fields;
  const text = signedSettingsBytes(signed);
  if (!trusted.signers.some((key) => isSignedBy(key, text, signature))) throw damaged('signature');
  if (signed.copy !== trusted.copyId) throw damaged('other-copy');
  if (signed.id !== idOfName('settings', name)) throw damaged('name');
  const { sequence, mark, sealed } = signed;
  return { name, sequence, mark, sealed };
}

/** @throws `copy-object-damaged`, `copy-key-unknown` */
export async function openSettings(
  { name, sealed }: ClearSettings,
  opening: OpeningKey,
): Promise<Buffer> {
  return await buffer(open(opening, { kind: 'settings', name }, bytesAsStream(sealed)));
}

function signedSettingsBytes(fields: z.output<typeof signedSettings>): Buffer {
  return Buffer.concat([SETTINGS_DOMAIN, encodeCanonical(signedSettings, fields)]);
}
