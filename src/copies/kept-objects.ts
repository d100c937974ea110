import { hash, type KeyObject as SigningKey, sign } from 'node:crypto';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import { canonicalJson, isObject, parseJson } from '../archive/format.ts';
import type { PortableConfig } from '../core/config-shown.ts';
import { errnoName, hasCode, isDamage, MailkeepError } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import { openState, type StateFile } from '../core/state.ts';
import type { CopyFinding } from './check-copy.ts';
import { copiesError } from './errors.ts';
import { offsiteError } from './format/errors.ts';
import {
  encodeSigner,
  type KeyObject,
  readKeyObject,
  readSigner,
  type WrappedKeys,
} from './format/keys.ts';
import {
  bytesAsStream,
  type ClearSettings,
  COPY_NAME,
  decodeManifest,
  decodeSettings,
  encodeSettings,
  FOLDERS,
  MAX_MANIFEST_BYTES,
  MAX_SETTINGS_BYTES,
  settingsMark,
  type Trusted,
} from './format/manifest.ts';
import { decodeCopyFile, encodeCopyFile, publicKeyOf } from './format/sealed-object.ts';
import {
  type KeptObject,
  keptObject,
  keyFolder,
  type LocalKey,
  listOwnNames,
  localSecrets,
  type OptionalLock,
  putWithLock,
  rawPublicKey,
  readOwnObject,
  readOwnObjects,
  recipientAccess,
} from './local-key.ts';
import { orDamage, readSmallObject } from './manifests.ts';
import type { ObjectStore } from './object-store.ts';
import type { KeptManifest } from './upload-copy.ts';

interface RepairedFinding extends CopyFinding {
  readonly repaired: boolean;
}

/** Differences between the local copies and the target's objects that open and describe a copy. */
interface Comparison {
  readonly findings: readonly CopyFinding[];
  readonly missing: readonly KeyObject[];
  /** Names of objects that contain another object's bytes and should be removed. */
  readonly displaced: readonly string[];
  readonly kept: readonly KeptObject[];
}

interface Comparing {
  readonly store: ObjectStore;
  readonly key: LocalKey;
  readonly signal: AbortSignal;
}

/** Compares the target's description, recipients and later signers with the local copies. */
export async function checkKeptObjects(comparing: Comparing): Promise<readonly CopyFinding[]> {
  return (await compare(comparing)).findings;
}

interface Mending extends OptionalLock, Comparing {
  readonly file: string;
  /** Signs new settings, and a new description if there is no local copy of it. */
  readonly signingKey: SigningKey;
}

/**
 * Compares as `checkKeptObjects` does, and stores damaged or missing objects again. Without local copies, accepts the
 * target's objects unless they are evidently damaged.
 * @throws errors from the store; offsite-key-unwritable
 */
export async function repairKeptObjects(
  mending: Mending,
): Promise<{ readonly key: LocalKey; readonly findings: readonly RepairedFinding[] }> {
  const { store, key, signal, file } = mending;
  const comparison = await compare(mending, mending.signingKey);
  const repaired = new Set<string>(comparison.displaced);
  for (const object of comparison.missing) {
    if (await storeAgain(mending, object)) repaired.add(object.name);
  }
  for (const name of comparison.displaced) await store.delete(name, signal);
  const mended = key.with({ kept: comparison.kept });
  if (!isDeepStrictEqual(key.kept, comparison.kept)) await mended.write(file);
  return {
    key: mended,
    findings: comparison.findings.map((one) => ({ ...one, repaired: repaired.has(one.name) })),
  };
}

/**
 * Refuses to change a copy's recipients while some are damaged. Somebody may rely on a damaged recipient, for which a
 * rotation would not wrap the new keys.
 * @param but names of recipients that are about to be removed
 * @throws offsite-mend-first; errors from the store
 */
export async function refuseDamagedRecipients(
  comparing: Comparing,
  but: ReadonlySet<string> = new Set(),
): Promise<void> {
  const { findings } = await compare(comparing);
  // Another machine may have removed a missing recipient, so nobody relies on it.
  const names = findings
    .filter(({ error }) => error.code !== 'object-missing')
    .map(({ name }) => name)
    .filter((name) => !but.has(name));
  // Without local copies, lost objects can be replaced only by changing the recipients.
  if (comparing.key.kept === undefined || names.length === 0) return;
  throw copiesError('offsite-mend-first', { to: comparing.store.label, names });
}

/** Returns false if the store cannot replace an entry with that name, such as a directory. */
async function storeAgain(mending: OptionalLock, { name, bytes }: KeyObject): Promise<boolean> {
  try {
    await putWithLock(mending, name, bytes.length, bytesAsStream(bytes));
    const stored = await readSmallObject(mending.store, name, bytes.length, mending.signal);
    return stored.equals(bytes);
  } catch (error) {
    if (isDamage(error) || hasCode(error, 'store-entry-foreign')) return false;
    throw error;
  }
}

/** @param signingKey signs a new description if no local copy exists; otherwise, a damaged one cannot be mended */
async function compare(comparing: Comparing, signingKey?: SigningKey): Promise<Comparison> {
  const { key } = comparing;
  if (key.kept === undefined) return adoptObjects(comparing, signingKey);
  const findings: CopyFinding[] = [];
  const missing: KeyObject[] = [];
  const kept: KeptObject[] = [];
  for (const one of key.kept) {
    const bytes = await readOwnObject(comparing.store, one.name, comparing.signal);
    const isThere = Buffer.isBuffer(bytes) && hash('sha256', bytes) === one.sha256;
    kept.push(isThere ? { ...one, bytes } : one);
    if (isThere) continue;
    findings.push({ name: one.name, error: Buffer.isBuffer(bytes) ? wrongBytes(one.name) : bytes });
    // The local key file may also be damaged.
    if (hash('sha256', one.bytes) === one.sha256) missing.push(one);
  }
  const others = await findOthers(comparing, key.kept);
  findings.push(...others.findings, ...checkRecipients(key, kept, comparing.store.label));
  return { findings, missing, kept, displaced: others.displaced };
}

/** Finds invalid and displaced objects without a local copy. Valid recipients may come from another machine. */
async function findOthers(
  comparing: Comparing,
  kept: readonly KeptObject[],
): Promise<Pick<Comparison, 'findings' | 'displaced'>> {
  const { store, key, signal } = comparing;
  const findings: CopyFinding[] = [];
  const displaced: string[] = [];
  const names = new Set(kept.map(({ name }) => name));
  const hashes = new Set(kept.map(({ sha256 }) => sha256));
  for (const folder of ['keys', 'signers', 'settings'] as const) {
    for await (const { name } of listOwnNames(store, folder, signal)) {
      if (names.has(name)) continue;
      const bytes = await readOwnObject(store, name, signal);
      if (hasCode(bytes, 'object-missing')) continue;
      const isDisplaced = Buffer.isBuffer(bytes) && hashes.has(hash('sha256', bytes));
      if (isDisplaced) displaced.push(name);
      if (folder !== 'keys' && !isDisplaced) continue;
      const value = Buffer.isBuffer(bytes)
        ? await orDamage(() => recipientOf(key, { name, bytes }))
        : bytes;
      if (value instanceof MailkeepError) findings.push({ name, error: value });
      else if (isDisplaced) findings.push({ name, error: wrongBytes(name) });
    }
  }
  return { findings, displaced };
}

/** Parses a recipient of this copy. @throws copy-object-damaged, copy-key-damaged */
function recipientOf({ copyId }: LocalKey, object: KeyObject): WrappedKeys {
  const keys = readKeyObject(object);
  if (keys.copyId.toString('hex') === copyId) return keys;
  throw offsiteError('copy-object-damaged', { name: object.name, reason: 'other-copy' });
}

/** Accepts the target's objects, for a copy made by an earlier version or being adopted. */
async function adoptObjects(comparing: Comparing, signingKey?: SigningKey): Promise<Comparison> {
  const { store, key, signal } = comparing;
  const findings: CopyFinding[] = [];
  const missing: KeyObject[] = [];
  const found: KeyObject[] = [];
  const description = await readDescription(comparing);
  if (Buffer.isBuffer(description)) found.push({ name: COPY_NAME, bytes: description });
  else {
    findings.push({ name: COPY_NAME, error: description });
    if (signingKey !== undefined) missing.push(newDescription(key, signingKey));
  }
  const parse = (object: KeyObject) => ({ object, keys: recipientOf(key, object) });
  for await (const { name, value } of readOwnObjects(store, 'keys', parse, signal)) {
    if (value instanceof MailkeepError) findings.push({ name, error: value });
    else found.push(value.object);
  }
  const settings = await newestSettings(comparing);
  if (settings !== undefined) found.push(settings);
  const signers = await readSignerObjects(comparing);
  found.push(...signers.found);
  missing.push(...signers.missing);
  for (const { name } of signers.missing) {
    findings.push({ name, error: copiesError('offsite-signer-lost', { to: store.label }) });
  }
  const kept = [...found, ...missing].map(keptObject);
  findings.push(...checkRecipients(key, kept, store.label));
  return { findings, missing, displaced: [], kept };
}

async function readDescription(comparing: Comparing): Promise<Buffer | MailkeepError> {
  const bytes = await readOwnObject(comparing.store, COPY_NAME, comparing.signal);
  if (!Buffer.isBuffer(bytes)) return bytes;
  try {
    const { copyId } = decodeCopyFile(bytes);
    if (copyId.toString('hex') === comparing.key.copyId) return bytes;
    return offsiteError('copy-object-damaged', { name: COPY_NAME, reason: 'other-copy' });
  } catch (error) {
    if (error instanceof MailkeepError && error.facts.reason !== 'newer') return error;
    throw error;
  }
}

/** Returns the newest settings with a trusted signature, or undefined. */
export async function newestSettings(
  comparing: Omit<Comparing, 'key'> & { readonly key: Trusted },
): Promise<(KeyObject & { readonly clear: ClearSettings }) | undefined> {
  const { store, key, signal } = comparing;
  let newest: (KeyObject & { readonly clear: ClearSettings }) | undefined;
  const parse = (object: KeyObject) => ({ ...object, clear: decodeSettings(object, key) });
  for await (const { value } of readOwnObjects(store, 'settings', parse, signal)) {
    if (value instanceof MailkeepError) continue;
    if (value.clear.sequence > (newest?.clear.sequence ?? -1)) newest = value;
  }
  return newest;
}

/**
 * Stores settings unless the copy already has them. Removes earlier ones.
 * @throws errors from the store; offsite-key-unwritable
 */
export async function storeSettings(mending: Mending, text: Buffer): Promise<LocalKey> {
  const { store, key, signal, file, signingKey } = mending;
  const mark = settingsMark(key.nameKey, text);
  const isSettings = ({ name }: KeptObject) => name.startsWith(FOLDERS.settings);
  const earlier = (key.kept ?? []).filter(isSettings);
  const [own] = earlier;
  if (own !== undefined && decodeSettings(own, key).mark === mark) return key;
  const before = await newestSettings(mending);
  const object = await encodeSettings(
    text,
    { sequence: (before?.clear.sequence ?? -1) + 1, mark },
    { sealing: key.sealing, sign: (bytes) => sign(null, bytes, signingKey) },
  );
  await putWithLock(mending, object.name, object.bytes.length, bytesAsStream(object.bytes));
  const others = (key.kept ?? []).filter((one) => !isSettings(one));
  const changed = key.with({ kept: [...others, keptObject(object)] });
  await changed.write(file);
  for (const { name } of earlier) {
    try {
      await store.delete(name, signal);
    } catch (error) {
      // A locked older object does no harm: readers use the newest one.
      if (!hasCode(error, 'object-locked')) throw error;
    }
  }
  return changed;
}

/** Returns the signers' objects. Only a machine that reads the copy can tell which are valid, and recreate them. */
async function readSignerObjects(comparing: Comparing) {
  const { store, key, signal } = comparing;
  const secrets = localSecrets(key);
  const found: KeyObject[] = [];
  const valid: Buffer[] = [];
  const parse = (object: KeyObject) => secrets && readSigner(object, secrets);
  for await (const { name, bytes, value } of readOwnObjects(store, 'signers', parse, signal)) {
    if (Buffer.isBuffer(value)) valid.push(value);
    if (!Buffer.isBuffer(bytes)) continue;
    const isInvalid = value instanceof MailkeepError && value.facts.reason !== 'older-key';
    if (!isInvalid) found.push({ name, bytes });
  }
  if (secrets === undefined) return { found, missing: [] };
  const lost = key.signers.slice(1).filter((one) => !valid.some((signer) => signer.equals(one)));
  return { found, missing: lost.map((signer) => encodeSigner(secrets, signer)) };
}

export function newDescription(key: LocalKey, signingKey: SigningKey): KeyObject {
  const oldest = key.privateKeys.at(-1);
  const publicKey = oldest === undefined ? key.publicKey : publicKeyOf(oldest);
  const signer = rawPublicKey(signingKey);
  const bytes = encodeCopyFile({ copyId: key.sealing.copyId, publicKey, signer }, (text) =>
    sign(null, text, signingKey),
  );
  return { name: COPY_NAME, bytes };
}

/** Reports a copy without recipients, whose new content nobody could open. */
function checkRecipients(
  key: LocalKey,
  kept: readonly KeptObject[],
  to: string,
): readonly CopyFinding[] {
  const opens = kept.some(({ name, bytes }) => {
    try {
      return (
        name.startsWith('keys/') && recipientAccess(readKeyObject({ name, bytes }), key) !== 'old'
      );
    } catch {
      // The local copy is damaged, which the comparison with the target reports.
      return false;
    }
  });
  return opens ? [] : [{ name: 'keys/', error: copiesError('offsite-no-recipients', { to }) }];
}

function wrongBytes(name: string): MailkeepError {
  return offsiteError('copy-object-damaged', { name, reason: 'replaced' });
}

function manifestFile(dataDir: string, { copyId }: LocalKey): string {
  return path.join(keyFolder(dataDir), `${copyId}.manifest`);
}

/** Returns the newest manifest that this machine has written or read, or undefined if it is missing or invalid. */
export function readLocalManifest(dataDir: string, key: LocalKey): KeptManifest | undefined {
  const file = manifestFile(dataDir, key);
  if (!existsSync(file)) return undefined;
  const bytes = readRegularFile(file, MAX_MANIFEST_BYTES);
  const fields = parseJson(bytes.toString('utf8'));
  if (!isObject(fields) || typeof fields.name !== 'string') return undefined;
  try {
    return { clear: decodeManifest(bytes, fields.name, key), bytes };
  } catch (error) {
    if (error instanceof MailkeepError) return undefined;
    throw error;
  }
}

/** Keeps a local copy of a manifest. @throws copy-manifest-damaged if the target changed it; errors from the store */
export async function storeLocalManifest(
  dataDir: string,
  { store, key, signal }: Comparing,
  name: string,
): Promise<void> {
  if (readLocalManifest(dataDir, key)?.clear.name === name) return;
  const bytes = await readSmallObject(store, name, MAX_MANIFEST_BYTES, signal);
  decodeManifest(bytes, name, key);
  const file = manifestFile(dataDir, key);
  try {
    await replaceFile(realFiles, file, bytes);
  } catch (error) {
    throw copiesError('offsite-key-unwritable', { file, reason: errnoName(error) }, error);
  }
}

export type RestoredSettings = NonNullable<Awaited<ReturnType<typeof restoreSettings>>>;

const MARK = 'settings 1';
const portable = z.object({
  content: z.record(z.string(), z.unknown()),
  secrets: z.array(z.unknown()).transform((all) => all.filter((one) => typeof one === 'string')),
});
/** The configuration without secrets, and the user's data from the state. */
const carriedSettings = z.object({
  mailkeep: z.literal(MARK),
  config: portable.nullable().catch(null),
  savedSearches: z.record(z.string(), z.unknown()),
});
const FILE = 'settings.json';

/**
 * Returns the settings to be copied as text, or undefined if there are none.
 * @param config defaults to the configuration of an earlier run
 */
export function settingsText(
  state: Pick<StateFile, 'get' | 'set' | 'entries'> | undefined,
  config: PortableConfig | undefined,
): Buffer | undefined {
  const previous = state?.get('copy-config', 'config');
  if (config !== undefined && canonicalJson(config) !== canonicalJson(previous ?? null)) {
    state?.set('copy-config', 'config', config);
  }
  const carried = config ?? portable.safeParse(previous).data ?? null;
  const searches = state?.entries('saved-search') ?? [];
  if (carried === null && searches.length === 0) return undefined;
  const savedSearches = Object.fromEntries(searches.map(({ key, value }) => [key, value]));
  const text = canonicalJson({ mailkeep: MARK, config: carried, savedSearches });
  return Buffer.from(`${text}\n`, 'utf8');
}

/** Writes settings next to a readable copy. @throws `disk-full` and other disk errors */
export async function writeSettings(to: string, text: Buffer): Promise<void> {
  const file = path.join(to, FILE);
  if (existsSync(file) && readRegularFile(file, MAX_SETTINGS_BYTES).equals(text)) return;
  await replaceFile(realFiles, file, text);
}

export function readSettings(dir: string): Buffer | undefined {
  const file = path.join(dir, FILE);
  return existsSync(file) ? readRegularFile(file, MAX_SETTINGS_BYTES) : undefined;
}

/**
 * Restores the configuration into an archive's directory, and the other settings into its state. Returns the path of
 * the configuration (null if the copy has none), and the fields whose secrets the user must enter again. Returns
 * undefined if the text contains no settings.
 */
export async function restoreSettings(dir: string, text: Buffer) {
  const carried = carriedSettings.safeParse(parseJson(text.toString('utf8'))).data;
  if (carried === undefined) return undefined;
  const { config, savedSearches } = carried;
  const file = config === null ? null : path.join(dir, 'config.json');
  if (file !== null && !existsSync(file)) {
    // The configuration is now in the archive's directory.
    const content = JSON.stringify({ ...config?.content, dataDir: '.' }, null, 2);
    await replaceFile(realFiles, file, Buffer.from(`${content}\n`, 'utf8'));
  }
  const searches = Object.entries(savedSearches).flatMap(([name, query]) =>
    typeof query === 'string' ? [[name, query] as const] : [],
  );
  if (searches.length > 0) {
    const state = openState(dir);
    try {
      for (const [name, query] of searches) state.set('saved-search', name, query);
    } finally {
      state.close();
    }
  }
  return { config: file, secrets: config?.secrets ?? [], savedSearches: searches.length };
}
