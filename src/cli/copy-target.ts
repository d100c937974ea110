import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import type { CopyFinding } from '../copies/check-copy.ts';
import { copiesError } from '../copies/errors.ts';
import { folderStore } from '../copies/folder-store.ts';
import {
  parseIdentities,
  parseRecoveryKey,
  RECOVERY_LINES,
  type Way,
} from '../copies/format/keys.ts';
import { COPY_NAME } from '../copies/format/manifest.ts';
import type { ObjectStore } from '../copies/object-store.ts';
import { hasKeysFor, noteMended } from '../copies/own-copy.ts';
import { resolveS3 } from '../copies/s3-settings.ts';
import { ensureBucket, s3Store } from '../copies/s3-store.ts';
import { errnoName, MailkeepError, sentenceOf } from '../core/errors.ts';
import { readRegularFile } from '../core/files.ts';
import { parseTarget } from '../core/s3-target.ts';
import { terminalAsker } from './ask.ts';
import { type CommandContext, invalidUsage, subCommand, type Values } from './context.ts';

/** Files with what opens a copy. */
export type KeyLine = {
  readonly [File in 'recoveryKeyFile' | 'passphraseFile' | 'identityFile']?: string | undefined;
};
/** The same where those options name something new. */
export type OpenWithLine = Values<
  'openWithRecoveryKey' | 'openWithPassphrase' | 'openWithIdentity'
>;

interface TargetWish {
  readonly createBucket?: boolean;
  /** Of a bucket that is created: its objects can be locked. */
  readonly objectLock?: boolean;
  readonly bytesPerSecond?: number | undefined;
}

/**
 * Opens the store at a target for as long as `act` takes.
 *
 * @throws store-target-invalid, store-no-credentials, store-setting-invalid; what `act` throws
 */
export async function withStore<T>(
  context: CommandContext,
  target: string,
  wish: TargetWish,
  act: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const store = await openStore(context, target, wish);
  try {
    return await act(store);
  } finally {
    await store.close();
  }
}

async function openStore(
  { surroundings, signal }: CommandContext,
  target: string,
  { createBucket = false, objectLock = false, bytesPerSecond }: TargetWish,
): Promise<ObjectStore> {
  const parsed = parseTarget(target);
  if (parsed.kind === 'folder') return folderStore(path.resolve(surroundings.cwd, parsed.path));
  const { env } = surroundings;
  const home = env.HOME ?? homedir();
  const s3 = await resolveS3(parsed, { env, home, bytesPerSecond });
  if (createBucket) await ensureBucket(s3, signal, { lock: objectLock });
  return s3Store(s3);
}

/** Whether a target holds, or will hold, an encrypted copy: S3 always does, a folder where one was begun. */
export function isEncrypted(
  { surroundings }: CommandContext,
  dataDir: string,
  target: string,
): boolean {
  const parsed = parseTarget(target);
  if (parsed.kind === 's3') return true;
  const folder = path.resolve(surroundings.cwd, parsed.path);
  const marker = lstatSync(path.join(folder, COPY_NAME), { throwIfNoEntry: false });
  return marker !== undefined || hasKeysFor(dataDir, folder);
}

/** @throws usage-invalid where it is missing */
export function required(to: string | undefined, option: string): string {
  if (to !== undefined) return to;
  throw invalidUsage('copy', `${option} is missing.`);
}

/** Returns findings as people and JSON get them. */
export function foundIn<F extends CopyFinding>(findings: readonly F[]) {
  return findings.map(({ error, ...finding }) => {
    const { code, message } = sentenceOf(error);
    return { ...finding, code, message };
  });
}

/** Runs `act`, and writes down if a copy was refused because it is damaged as a whole. */
export async function notingDamage<T>(
  context: CommandContext,
  dataDir: string,
  to: string,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const isDamage = error instanceof MailkeepError && error.family === 'damage';
    // A copy that a newer program wrote is intact.
    if (isDamage && error.facts.reason !== 'newer') {
      const finding = { name: 'manifests/', error, repaired: false };
      noteMended(context, dataDir, to, foundIn([finding]), []);
    }
    throw error;
  }
}

/** The environment's passphrase, where no file is named. */
const PASSPHRASE = 'MAILKEEP_COPY_PASSPHRASE';
const MOST_BYTES = 64 * 1024;

/**
 * Returns what opens a copy: from a file, from the environment, or as typed on a terminal.
 *
 * @throws offsite-no-way without any; copy-recovery-shape, copy-recovery-line, copy-age-identity
 */
export async function openingKey(context: CommandContext, line: KeyLine): Promise<Way> {
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
  const asker = context.globals.json ? undefined : terminalAsker(context);
  if (asker === undefined) throw copiesError('offsite-no-way', { variable: PASSPHRASE });
  const lines: string[] = [];
  for (let number = 1; number <= RECOVERY_LINES; number += 1) {
    lines.push(await asker.line(`Line ${number} of the recovery key`));
  }
  return { type: 'recovery', recovery: parseRecoveryKey(lines.join('\n')) };
}

/**
 * Returns what opens a copy whose recipients are to be changed: there, the other options name what is new.
 *
 * @throws what `openingKey` throws
 */
export function openingKeyAlongside(context: CommandContext, line: OpenWithLine): Promise<Way> {
  const opening = {
    recoveryKeyFile: line.openWithRecoveryKey,
    passphraseFile: line.openWithPassphrase,
    identityFile: line.openWithIdentity,
  };
  const names = '--open-with-recovery-key, --open-with-passphrase and --open-with-identity';
  refuseSeveral(opening, names);
  return openingKey(context, opening);
}

function refuseSeveral({ recoveryKeyFile, passphraseFile, identityFile }: KeyLine, names: string) {
  const given = [recoveryKeyFile, passphraseFile, identityFile].filter((one) => one !== undefined);
  if (given.length <= 1) return;
  throw invalidUsage('copy', `name one of ${names}.`);
}

/** The passphrase in a file's first line, or in the environment; undefined where there is none. */
export function passphraseOf(
  context: CommandContext,
  file: string | undefined,
): string | undefined {
  if (file === undefined) {
    const value = context.surroundings.env[PASSPHRASE] ?? '';
    return value === '' ? undefined : value;
  }
  const [first = ''] = readKeyFile(context, file).split(/\r?\n/, 1);
  if (first === '') throw copiesError('offsite-key-unreadable', { file, reason: 'it is empty' });
  return first;
}

/** A file that `copy init` wrote has words around the key. */
function keyLines(text: string): string {
  return text
    .split(/\r?\n/)
    .filter((line) => !line.startsWith('#'))
    .join('\n');
}

function readKeyFile({ surroundings }: CommandContext, named: string): string {
  const file = path.resolve(surroundings.cwd, named);
  try {
    return readRegularFile(file, MOST_BYTES).toString('utf8');
  } catch (error) {
    throw copiesError('offsite-key-unreadable', { file, reason: errnoName(error) }, error);
  }
}

/**
 * Adds a command below another, described as the commands of `copy` are. Its help lists the options of the program as
 * global ones, but not those of `copy`: there, the same names mean something else.
 */
export function sub(command: Command, name: string, summary: string): Command {
  const added = subCommand(command, name, summary);
  let program = command;
  while (program.parent !== null) program = program.parent;
  const visibleGlobalOptions = () => program.options.filter(({ hidden }) => !hidden);
  return added.configureHelp({ ...added.configureHelp(), visibleGlobalOptions });
}
