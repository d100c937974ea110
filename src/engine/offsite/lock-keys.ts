import { MailkeepError } from '../../errors/mailkeep-error.ts';
import { COPY_NAME } from '../../offsite/format/names.ts';
import { MOST_KEY_BYTES, readKeyObject } from '../../offsite/format/recipients.ts';
import type { LocalKey } from '../../offsite/local-key.ts';
import { isLockDue, keepLocked, type Locking, type Locks } from '../../offsite/lock-objects.ts';
import { wholeObject } from '../../offsite/manifests.ts';
import { namesIn, opensOf } from './recipients.ts';

/**
 * Locks what a copy is opened and believed with: its description, recipients, later signers and settings. Recipients that
 * open only what was copied before a rotation are left to be removed.
 *
 * @throws what the store throws
 */
export async function lockKeys(locking: Locking & { readonly key: LocalKey }): Promise<Locks> {
  const { store, signal } = locking;
  const names: string[] = [COPY_NAME];
  for (const folder of ['keys', 'signers', 'settings'] as const) {
    for await (const { name } of namesIn(store, folder, signal)) {
      const isOld =
        folder === 'keys' && isLockDue(locking, name) && (await opensOld(locking, name));
      if (!isOld) names.push(name);
    }
  }
  return await keepLocked(locking, names);
}

/** A damaged one may hide another version, which is locked with it. */
async function opensOld(
  { store, key, signal }: Pick<Locking, 'store' | 'signal'> & { readonly key: LocalKey },
  name: string,
): Promise<boolean> {
  try {
    const bytes = await wholeObject(store, name, MOST_KEY_BYTES, signal);
    return opensOf(readKeyObject({ name, bytes }), key) === 'old';
  } catch (error) {
    if (error instanceof MailkeepError && error.family === 'damage') return false;
    throw error;
  }
}
