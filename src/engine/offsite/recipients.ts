import { hasCode, MailkeepError } from '../../errors/mailkeep-error.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { keyIdOf } from '../../offsite/format/header.ts';
import { FOLDERS, idOfName, type SmallFolder } from '../../offsite/format/names.ts';
import {
  MOST_KEY_BYTES,
  readKeyObject,
  type WrappedKeys,
} from '../../offsite/format/recipients.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { MOST_SIGNER_BYTES, readSigner } from '../../offsite/format/signers.ts';
import type { LocalKey } from '../../offsite/local-key.ts';
import { wholeObject } from '../../offsite/manifests.ts';

/** Objects of keys that are read at the most: a copy has a few. */
const MOST_OBJECTS = 1_000;

export interface FoundRecipients {
  readonly recipients: readonly WrappedKeys[];
  /** Objects that are none of ours, or damaged. */
  readonly damaged: readonly MailkeepError[];
}

/** Reads who can open a copy. @throws what the store throws */
export async function readRecipients(
  store: ObjectStore,
  signal: AbortSignal,
): Promise<FoundRecipients> {
  const recipients: WrappedKeys[] = [];
  const damaged: MailkeepError[] = [];
  for await (const { name } of namesIn(store, 'keys', signal)) {
    try {
      const bytes = await wholeObject(store, name, MOST_KEY_BYTES, signal);
      recipients.push(readKeyObject({ name, bytes }));
    } catch (error) {
      if (!isGone(error)) damaged.push(damageOf(error));
    }
  }
  return { recipients, damaged };
}

/** What a recipient says that it opens: what is copied now, only what was copied before a rotation, or not said. */
export type Opens = 'new' | 'old' | 'unknown';

/** Returns what a recipient says that it opens, by the key that this machine writes with. */
export function opensOf(keys: WrappedKeys, { copyId, publicKey, next }: LocalKey): Opens {
  if (keys.key === null || keys.copyId.toString('hex') !== copyId) return 'unknown';
  // Those of a rotation that has not ended open what is written now as well.
  const current = next === undefined ? [publicKey] : [publicKey, next.publicKey];
  return current.some((key) => keyIdOf(key).toString('hex') === keys.key) ? 'new' : 'old';
}

/**
 * Reads whose manifests are believed besides those of the first signer: each later one is confirmed by somebody who could
 * read the copy.
 */
export async function readSigners(
  store: ObjectStore,
  secrets: CopySecrets,
  signal: AbortSignal,
): Promise<Buffer[]> {
  return (await findSigners(store, secrets, signal)).signers;
}

/** Reads the same, and what is wrong with the other objects that are there. */
export async function findSigners(
  store: ObjectStore,
  secrets: CopySecrets,
  signal: AbortSignal,
): Promise<{ readonly signers: Buffer[]; readonly damaged: readonly MailkeepError[] }> {
  const signers = [secrets.signer];
  const damaged: MailkeepError[] = [];
  for await (const { name } of namesIn(store, 'signers', signal)) {
    try {
      const bytes = await wholeObject(store, name, MOST_SIGNER_BYTES, signal);
      signers.push(readSigner({ name, bytes }, secrets));
    } catch (error) {
      // Anybody can put an object there: it makes nobody a signer.
      if (!isGone(error)) damaged.push(damageOf(error));
    }
  }
  return { signers, damaged };
}

/** Yields the objects of a folder whose names are ours. */
export async function* namesIn(store: ObjectStore, folder: SmallFolder, signal: AbortSignal) {
  let found = 0;
  for await (const fact of store.list(FOLDERS[folder], signal)) {
    if (idOfName(folder, fact.name) === undefined) continue;
    found += 1;
    if (found > MOST_OBJECTS) return;
    yield fact;
  }
}

/** Removed since it was listed; some stores list an object for a while after that. */
function isGone(error: unknown): boolean {
  return hasCode(error, 'object-missing');
}

function damageOf(error: unknown): MailkeepError {
  if (error instanceof MailkeepError && error.family === 'damage') return error;
  throw error;
}
