import { sign } from 'node:crypto';
import { rmSync } from 'node:fs';
import { copiesError } from '../../errors/copies.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { encodeCopyFile } from '../../offsite/format/copy-file.ts';
import { COPY_NAME } from '../../offsite/format/names.ts';
import { newRecoveryKey } from '../../offsite/format/recovery.ts';
import { type CopyKeys, type CopySecrets, newCopyKeys } from '../../offsite/format/secrets.ts';
import { keptObject, keyFile, LocalKey, writeLocalKey } from '../../offsite/local-key.ts';
import { rawPublicKey } from '../../offsite/signer.ts';
import { readSigningKey } from '../../verify/checkpoint.ts';
import { ownSigningKey } from '../checkpoint-key.ts';
import { putObjects, refuseTooMany, removeUnread, wrapFor } from './new-recipients.ts';

/** The keys of a copy that does not exist yet. The recovery key is kept nowhere: its owner has to have it first. */
export interface PreparedCopy {
  readonly keys: CopyKeys;
  readonly recovery: Buffer;
  /** Ed25519, 32 bytes: who signs its manifests. */
  readonly signer: Buffer;
  readonly signingKeyFile: string;
}

/** Makes the keys of a new copy. @throws usage-save-failed, checkpoint-key */
export async function prepareCopy(dataDir: string): Promise<PreparedCopy> {
  const signingKeyFile = await ownSigningKey(dataDir);
  const signer = rawPublicKey(readSigningKey(signingKeyFile));
  return { keys: newCopyKeys(), recovery: newRecoveryKey(), signer, signingKeyFile };
}

export interface NewCopy {
  /** Gives the recovery key to its owner: once the target has taken its object, and before it shows that a copy is there. */
  readonly handOver?: () => Promise<void>;
  readonly dataDir: string;
  readonly store: ObjectStore;
  /** The target as people name it. */
  readonly to: string;
  readonly prepared: PreparedCopy;
  readonly passphrase: string | undefined;
  /** Recipients as age names them (`age1…`). */
  readonly age: readonly string[];
  /** This machine gets no key that reads. */
  readonly writeOnly: boolean;
  readonly signal: AbortSignal;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** @throws offsite-exists where there is a copy */
export async function refuseExisting(store: ObjectStore, signal: AbortSignal): Promise<void> {
  const there = await store.head(COPY_NAME, signal);
  if (there !== undefined) throw copiesError('offsite-exists', { to: store.label });
}

/**
 * Begins a copy: those who may open it first, then the keys here, and last what shows that a copy is there. A run that
 * fails removes what it made. One that was killed leaves objects that nobody reads, and can be repeated.
 *
 * @returns its id
 * @throws offsite-exists, offsite-too-many-recipients, offsite-key-unwritable, copy-age-recipient; what the store throws
 */
export async function beginCopy(copy: NewCopy): Promise<string> {
  const { store, signal, prepared, dataDir, to } = copy;
  const { keys, signer, signingKeyFile } = prepared;
  await refuseExisting(store, signal);
  const secrets: CopySecrets = {
    copyId: keys.copyId,
    privateKeys: [keys.privateKey],
    nameKey: keys.nameKey,
    signer,
  };
  const { recovery } = prepared;
  const additions = { recovery, passphrase: copy.passphrase, age: copy.age };
  refuseTooMany([], additions, to);
  const { objects, age } = await wrapFor(secrets, additions, copy.now());
  const copyId = keys.copyId.toString('hex');
  const file = keyFile(dataDir, copyId);
  const signingKey = readSigningKey(signingKeyFile);
  const description = {
    name: COPY_NAME,
    bytes: encodeCopyFile({ copyId: keys.copyId, publicKey: keys.publicKey, signer }, (text) =>
      sign(null, text, signingKey),
    ),
  };
  const key = new LocalKey({
    copyId,
    to,
    publicKey: keys.publicKey,
    nameKey: keys.nameKey,
    privateKeys: copy.writeOnly ? [] : [keys.privateKey],
    signers: [signer],
    age,
  });
  try {
    await putObjects(store, objects, signal);
    await writeLocalKey(file, key);
    await copy.handOver?.();
    await putObjects(store, [description], signal);
  } catch (error) {
    rmSync(file, { force: true });
    await removeUnread(store, objects);
    throw error;
  }
  await writeLocalKey(file, key.with({ kept: [description, ...objects].map(keptObject) }));
  return copyId;
}
