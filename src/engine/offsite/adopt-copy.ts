import { copiesError } from '../../errors/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { publicKeyOf } from '../../offsite/format/raw-keys.ts';
import { encodeSigner } from '../../offsite/format/signers.ts';
import { unlock, type Way } from '../../offsite/format/unlock.ts';
import { keyFile, LocalKey, writeLocalKey } from '../../offsite/local-key.ts';
import { oneObject } from '../../offsite/one-object.ts';
import { rawPublicKey } from '../../offsite/signer.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { readRecipients, readSigners } from './recipients.ts';

/**
 * Gives an archive the keys of a copy, and makes its own key sign for it: of an archive that came from the copy, or that
 * lost its keys. Whether the copy is one of this archive is checked when it is next written to.
 *
 * @throws offsite-no-copy, copy-key-refused, offsite-key-unwritable; what the store throws
 */
export async function adoptCopy(order: {
  readonly dataDir: string;
  readonly store: ObjectStore;
  readonly way: Way;
  readonly signal: AbortSignal;
}): Promise<{ readonly copyId: string; readonly signer: Buffer }> {
  const { dataDir, store, way, signal } = order;
  const { recipients } = await readRecipients(store, signal);
  if (recipients.length === 0) throw copiesError('offsite-no-copy', { to: store.label });
  const secrets = await unlock(recipients, way, signal);
  const signers = await readSigners(store, secrets, signal);
  const signer = rawPublicKey(readSigningKey(await ownSigningKey(dataDir)));
  if (!signers.some((one) => one.equals(signer))) {
    const { name, bytes } = encodeSigner(secrets, signer);
    await store.put(name, bytes.length, oneObject(bytes), { signal });
    signers.push(signer);
  }
  const copyId = secrets.copyId.toString('hex');
  const { privateKeys, nameKey } = secrets;
  const [newest = Buffer.alloc(0)] = privateKeys;
  const publicKey = publicKeyOf(newest);
  const parts = { copyId, to: store.label, publicKey, nameKey, privateKeys, signers };
  await writeLocalKey(keyFile(dataDir, copyId), new LocalKey(parts));
  return { copyId, signer };
}
