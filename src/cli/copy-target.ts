import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { CopyFinding } from '../copies/check-copy.ts';
import { copiesError } from '../copies/errors.ts';
import { folderStore } from '../copies/folder-store.ts';
import {
  parseIdentities,
  parseRecoveryKey,
  RECOVERY_LINES,
  type UnlockMethod,
} from '../copies/format/keys.ts';
import { COPY_NAME } from '../copies/format/manifest.ts';
import { hasKeysFor } from '../copies/local-key.ts';
import type { ObjectStore } from '../copies/object-store.ts';
import { resolveS3 } from '../copies/s3-settings.ts';
import { ensureBucket, s3Store } from '../copies/s3-store.ts';
import { describeError, errnoName, MailkeepError } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import { parseTarget } from '../core/s3-target.ts';
import { recordCopyRepair } from '../verify/copy-facts.ts';
import { writeStateOrWarn } from '../verify/verify.ts';
import { terminalPrompter } from './ask.ts';
import { type CommandContext, type Flags, invalidUsage, type Values } from './context.ts';

export type KeyOptions = {
  readonly [File in 'recoveryKeyFile' | 'passphraseFile' | 'identityFile']?: string | undefined;
};
/** The secrets in `KeyOptions`, for commands whose other options specify new ones. */
export type OpenWithOptions = Values<
  'openWithRecoveryKey' | 'openWithPassphrase' | 'openWithIdentity'
>;

/**
 * Runs `act` with a target's store open.
 * @param wish `objectLock` enables object locks when creating a bucket
 * @throws store-target-invalid, store-no-credentials, store-setting-invalid; errors from `act`
 */
export async function withStore<T>(
  { environment, signal }: CommandContext,
  target: string,
  wish: Flags<'createBucket' | 'objectLock'> & Values<'bytesPerSecond', number | undefined>,
  act: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const open = async (): Promise<ObjectStore> => {
    const parsed = parseTarget(target);
    if (parsed.kind === 'folder') return folderStore(path.resolve(environment.cwd, parsed.path));
    const { env } = environment;
    const { createBucket = false, objectLock: lock = false, bytesPerSecond } = wish;
    const s3 = await resolveS3(parsed, { env, home: env.HOME ?? homedir(), bytesPerSecond });
    if (createBucket) await ensureBucket(s3, signal, { lock });
    return s3Store(s3);
  };
  const store = await open();
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

/** Returns whether a target's copy is encrypted: always on S3, and in a folder once it is initialised. */
export function isEncrypted(
  { environment }: CommandContext,
  dataDir: string,
  target: string,
): boolean {
  const parsed = parseTarget(target);
  if (parsed.kind === 's3') return true;
  const folder = path.resolve(environment.cwd, parsed.path);
  const marker = lstatSync(path.join(folder, COPY_NAME), { throwIfNoEntry: false });
  return marker !== undefined || hasKeysFor(dataDir, folder);
}

/** @throws usage-invalid if the option is missing */
export function requireOption(to: string | undefined, option: string): string {
  if (to !== undefined) return to;
  throw invalidUsage('copy', `${option} is missing.`);
}

/** Replaces the error of each finding with its code and message, for text and JSON output. */
export function formatFindings<F extends CopyFinding>(findings: readonly F[]) {
  return findings.map(({ error, ...finding }) => {
    const { code, message } = describeError(error);
    return { ...finding, code, message };
  });
}

/** Runs `act`. If it refuses to copy because of damage, records the damage. */
export async function recordRefusedCopy<T>(
  context: CommandContext,
  dataDir: string,
  to: string,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const isDamage = error instanceof MailkeepError && error.family === 'damage';
    // A copy made by a newer version is not damaged.
    if (isDamage && error.facts.reason !== 'newer') {
      const finding = { name: 'manifests/', error, repaired: false };
      writeStateOrWarn(context, dataDir, 'copy', (state) =>
        recordCopyRepair(state, to, context.now(), formatFindings([finding]), []),
      );
    }
    throw error;
  }
}

/** Environment variable that holds the passphrase, used unless a file is given. */
const PASSPHRASE = 'MAILKEEP_COPY_PASSPHRASE';
const MAX_BYTES = 64 * 1024;

/**
 * Returns the secret that opens a copy, from a file, the environment or a prompt.
 * @throws offsite-no-way if there is none; copy-recovery-shape, copy-recovery-line, copy-age-identity
 */
export async function openingKey(context: CommandContext, line: KeyOptions): Promise<UnlockMethod> {
  const { recoveryKeyFile, passphraseFile, identityFile } = line;
  refuseSeveral(line, '--recovery-key-file, --passphrase-file and --identity-file');
  if (recoveryKeyFile !== undefined) {
    const text = readKeyFile(context, recoveryKeyFile);
    return { type: 'recovery', recovery: parseRecoveryKey(keyLines(text)) };
  }
  if (identityFile !== undefined) {
    return { type: 'age', identities: await parseIdentities(readKeyFile(context, identityFile)) };
  }
  const passphrase = passphraseOf(context, passphraseFile);
  if (passphrase !== undefined) return { type: 'passphrase', passphrase };
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) throw copiesError('offsite-no-way', { variable: PASSPHRASE });
  const lines: string[] = [];
  for (let number = 1; number <= RECOVERY_LINES; number += 1) {
    lines.push(await prompter.line(`Line ${number} of the recovery key`));
  }
  return { type: 'recovery', recovery: parseRecoveryKey(lines.join('\n')) };
}

/**
 * Returns the secret that opens a copy, for commands whose other options specify new secrets.
 * @throws errors from `openingKey`
 */
export function openingKeyAlongside(
  context: CommandContext,
  line: OpenWithOptions,
): Promise<UnlockMethod> {
  const options = {
    recoveryKeyFile: line.openWithRecoveryKey,
    passphraseFile: line.openWithPassphrase,
    identityFile: line.openWithIdentity,
  };
  const names = '--open-with-recovery-key, --open-with-passphrase and --open-with-identity';
  refuseSeveral(options, names);
  return openingKey(context, options);
}

function refuseSeveral(
  { recoveryKeyFile, passphraseFile, identityFile }: KeyOptions,
  names: string,
) {
  const files = [recoveryKeyFile, passphraseFile, identityFile].filter((one) => one !== undefined);
  if (files.length <= 1) return;
  throw invalidUsage('copy', `name one of ${names}.`);
}

/** Returns the passphrase in a file's first line or in the environment. */
export function passphraseOf(
  context: CommandContext,
  file: string | undefined,
): string | undefined {
  if (file === undefined) {
    const value = context.environment.env[PASSPHRASE] ?? '';
    return value === '' ? undefined : value;
  }
  const [first = ''] = readKeyFile(context, file).split(/\r?\n/, 1);
  if (first === '') throw copiesError('offsite-key-unreadable', { file, reason: 'it is empty' });
  return first;
}

/** Drops comments, which `copy init` writes around the key. */
function keyLines(text: string): string {
  return text
    .split(/\r?\n/)
    .filter((line) => !line.startsWith('#'))
    .join('\n');
}

function readKeyFile({ environment }: CommandContext, name: string): string {
  const file = path.resolve(environment.cwd, name);
  try {
    return readRegularFile(file, MAX_BYTES).toString('utf8');
  } catch (error) {
    throw copiesError('offsite-key-unreadable', { file, reason: errnoName(error) }, error);
  }
}
