import { copiesError } from '../../errors/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { publicKeyOf } from '../../offsite/format/raw-keys.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { unlock, type Way } from '../../offsite/format/unlock.ts';
import { keyFile, type LocalKey, readLocalKey } from '../../offsite/local-key.ts';
import { ownKeyOf, withCopyLock } from './own-copy.ts';
import { readRecipients } from './recipients.ts';

export interface KeysOrder {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly signal: AbortSignal;
}

/**
 * Returns the secrets of the copy that this archive writes to: from this machine's file, or with a key that opens the
 * copy where this machine may only write.
 *
 * @param way asked only where it is needed
 * @throws offsite-key-unfit, copy-key-refused; what `withOwnKey`, `way` and the store throw
 */
export async function openOwnCopy(order: KeysOrder, way: () => Promise<Way>): Promise<CopySecrets> {
  const { store, signal } = order;
  // Who copies just now is to be known before anybody writes a new recovery key down.
  const key = await withOwnKey(order, async (own) => own);
  const own = ownSecrets(key);
  if (own !== undefined) return own;
  const { recipients } = await readRecipients(store, signal);
  return fittingSecrets(key, await unlock(recipients, await way(), signal), store.label);
}

/** Returns what this machine's file holds; undefined where it may only write. */
export function ownSecrets(key: LocalKey): CopySecrets | undefined {
  const { copyId, nameKey, privateKeys, signers } = key;
  const [signer = Buffer.alloc(0)] = signers;
  return privateKeys.length === 0
    ? undefined
    : { copyId: Buffer.from(copyId, 'hex'), nameKey, privateKeys, signer };
}

/**
 * Returns secrets as of the key that this machine writes with: those of a rotation that did not end here are left out.
 * Whoever knows an age recipient can wrap other keys for it, so all that is known here is compared.
 *
 * @throws offsite-key-unfit
 */
export function fittingSecrets(key: LocalKey, secrets: CopySecrets, to: string): CopySecrets {
  const at = secrets.privateKeys.findIndex((one) => publicKeyOf(one).equals(key.publicKey));
  const isOurs =
    secrets.copyId.toString('hex') === key.copyId &&
    secrets.nameKey.equals(key.nameKey) &&
    key.signers[0]?.equals(secrets.signer) === true;
  if (at < 0 || !isOurs) throw copiesError('offsite-key-unfit', { to });
  return { ...secrets, privateKeys: secrets.privateKeys.slice(at) };
}

/**
 * Calls `act` with this archive's keys of a copy while nobody else of this machine writes to the copy or changes them.
 *
 * @throws offsite-in-use; what `ownKeyOf` and `act` throw
 */
export async function withOwnKey<T>(
  { dataDir, store, signal }: KeysOrder,
  act: (key: LocalKey, file: string) => Promise<T>,
): Promise<T> {
  const { copyId } = await ownKeyOf(dataDir, store, signal);
  const file = keyFile(dataDir, copyId);
  // Read again: it may have changed before the lock was ours.
  return withCopyLock(dataDir, { copyId }, store.label, () => act(readLocalKey(file), file));
}
