import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { noteMended } from '../engine/offsite/note-copy.ts';
import { hasKeysFor } from '../engine/offsite/own-copy.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { usageError } from '../errors/usage.ts';
import { folderStore } from '../objects/folder-store.ts';
import { ensureBucket } from '../objects/s3-bucket.ts';
import { resolveS3 } from '../objects/s3-settings.ts';
import { s3Store } from '../objects/s3-store.ts';
import { parseTarget } from '../objects/s3-target.ts';
import type { ObjectStore } from '../objects/store.ts';
import type { CopyFinding } from '../offsite/check-copy.ts';
import { COPY_NAME } from '../offsite/format/names.ts';
import { sentenceOf } from '../wording/sentence-of.ts';
import type { CommandContext } from './context.ts';

/** What is known of a target besides its address. */
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
  throw usageError('usage-invalid', { command: 'copy', problem: `${option} is missing.` });
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
