import { copiesError } from '../../errors/copies.ts';
import type { MailkeepError } from '../../errors/mailkeep-error.ts';
import { FOLDERS, idOfName } from '../../offsite/format/names.ts';
import type { WrappedKeys } from '../../offsite/format/recipients.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { keptObject, writeLocalKey } from '../../offsite/local-key.ts';
import { checkKept, refuseDamaged } from './kept-objects.ts';
import {
  type Additions,
  idOf,
  putObjects,
  refuseTooMany,
  removeUnread,
  wrapFor,
} from './new-recipients.ts';
import { fittingSecrets, type KeysOrder, ownSecrets, withOwnKey } from './open-keys.ts';
import { ownKeyOf } from './own-copy.ts';
import { findSigners, namesIn, type Opens, opensOf, readRecipients } from './recipients.ts';

export interface ListedRecipient {
  readonly keys: WrappedKeys;
  readonly opens: Opens;
}

export interface ListedKeys {
  readonly recipients: readonly ListedRecipient[];
  /** Ed25519, 32 bytes each; the first one began the copy. */
  readonly signers: readonly Buffer[];
  /** Objects below `keys/` and `signers/` that are not valid, with their names in the facts. */
  readonly damaged: readonly MailkeepError[];
  /** Whether a rotation was interrupted on this machine. */
  readonly isRotating: boolean;
}

/**
 * Lists who can open a copy, and whose manifests are believed. Recipients are listed as they describe themselves: only
 * somebody who opens one knows more.
 *
 * @throws what `ownKeyOf` and the store throw
 */
export async function listKeys({ dataDir, store, signal }: KeysOrder): Promise<ListedKeys> {
  const key = await ownKeyOf(dataDir, store, signal);
  const { recipients, damaged: unreadable } = await readRecipients(store, signal);
  const differing = (await checkKept({ store, key, signal })).map(({ error }) => error);
  const named = new Set(differing.map(({ facts }) => facts.name));
  const damaged = [...differing, ...unreadable.filter(({ facts }) => !named.has(facts.name))];
  const listed = recipients
    .map((keys) => ({ keys, opens: opensOf(keys, key) }))
    .sort((a, b) => a.keys.created - b.keys.created);
  const isRotating = key.next !== undefined || key.replaced.length > 0;
  const secrets = ownSecrets(key);
  if (secrets === undefined) {
    return { recipients: listed, signers: key.signers, damaged, isRotating };
  }
  const found = await findSigners(store, secrets, signal);
  const invalid = found.damaged.filter(({ facts }) => facts.reason !== 'older-key');
  return {
    ...{ recipients: listed, signers: found.signers, isRotating },
    damaged: [...damaged, ...invalid.filter(({ facts }) => !named.has(facts.name))],
  };
}

export interface AddOrder extends KeysOrder {
  /** As `openOwnCopy` returned them. */
  readonly secrets: CopySecrets;
  readonly additions: Additions;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/**
 * Lets others open a copy.
 *
 * @returns the ids of the new recipients
 * @throws copy-age-recipient, offsite-too-many-recipients, offsite-key-unfit where the keys were rotated
 *   meanwhile; what `withOwnKey` throws
 */
export async function addRecipients(order: AddOrder): Promise<readonly string[]> {
  const { store, signal } = order;
  return withOwnKey(order, async (key, file) => {
    const secrets = fittingSecrets(key, order.secrets, store.label);
    const { recipients } = await readRecipients(store, signal);
    refuseTooMany(recipients, order.additions, store.label);
    await refuseDamaged({ store, key, signal });
    const { objects, age } = await wrapFor(secrets, order.additions, order.now());
    try {
      await putObjects(store, objects, signal);
    } catch (error) {
      await removeUnread(store, objects);
      throw error;
    }
    const kept = key.kept && [...key.kept, ...objects.map(keptObject)];
    await writeLocalKey(file, key.with({ age: [...key.age, ...age], kept }));
    return objects.map(idOf);
  });
}

/**
 * Removes recipients of a copy. Whoever opened the copy before may have kept its keys.
 *
 * @param ids each the beginning of one id
 * @returns the complete ids
 * @throws offsite-no-recipient, offsite-last-recipient, offsite-mend-first, object-locked; what `withOwnKey` throws
 */
export async function removeRecipients(
  order: KeysOrder & { readonly ids: readonly string[] },
): Promise<readonly string[]> {
  const { store, signal } = order;
  return withOwnKey(order, async (key, file) => {
    const there: string[] = [];
    for await (const { name } of namesIn(store, 'keys', signal)) {
      there.push(idOfName('keys', name) ?? '');
    }
    const chosen = [...new Set(order.ids.map((id) => oneOf(there, id, store.label)))];
    const { recipients } = await readRecipients(store, signal);
    const isLeft = recipients.some(
      (one) => opensOf(one, key) === 'new' && !chosen.includes(one.id),
    );
    if (!isLeft) throw copiesError('offsite-last-recipient', { to: store.label });
    const names = chosen.map((id) => `${FOLDERS.keys}${id}`);
    await refuseDamaged({ store, key, signal }, new Set(names));
    // Kept longer than it is there, one would be stored again.
    const age = key.age.filter(({ id }) => !chosen.includes(id));
    const kept = key.kept?.filter(({ name }) => !names.includes(name));
    await writeLocalKey(file, key.with({ age, kept }));
    for (const name of names) await store.delete(name, signal);
    return chosen;
  });
}

function oneOf(ids: readonly string[], beginning: string, to: string): string {
  const found = ids.filter((id) => id.startsWith(beginning));
  const [id, ...others] = beginning === '' ? [] : found;
  if (id === undefined || others.length > 0) {
    throw copiesError('offsite-no-recipient', { to, id: beginning, found: found.length });
  }
  return id;
}
