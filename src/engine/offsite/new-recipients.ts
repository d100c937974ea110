import { copiesError } from '../../errors/copies.ts';
import type { RecipientType } from '../../errors/offsite.ts';
import type { ObjectStore } from '../../objects/store.ts';
import { idOfName } from '../../offsite/format/names.ts';
import {
  type KeyObject,
  type WrappedKeys,
  wrapForAge,
  wrapForPassphrase,
  wrapForRecovery,
} from '../../offsite/format/recipients.ts';
import type { CopySecrets } from '../../offsite/format/secrets.ts';
import { MOST_TRIED } from '../../offsite/format/unlock.ts';
import type { KnownRecipient } from '../../offsite/local-key.ts';
import { oneObject } from '../../offsite/one-object.ts';

const RECIPIENT_TYPES = ['recovery', 'passphrase', 'age'] as const;

/** Who is to open a copy as well. */
export interface Additions {
  readonly recovery?: Buffer | undefined;
  readonly passphrase?: string | undefined;
  /** Recipients as age names them (`age1…`). */
  readonly age?: readonly string[];
  /** For people: whose they are. */
  readonly label?: string | undefined;
}

/** Objects that wrap the keys of a copy, and what this machine remembers of them. */
export interface NewRecipients {
  readonly objects: readonly KeyObject[];
  readonly age: readonly KnownRecipient[];
}

/** Wraps the keys of a copy for some. Nothing is stored yet. @throws copy-age-recipient */
export async function wrapFor(
  secrets: CopySecrets,
  { recovery, passphrase, age = [], label }: Additions,
  created: number,
): Promise<NewRecipients> {
  const note = label === undefined ? { created } : { created, label };
  const objects: KeyObject[] = [];
  const known: KnownRecipient[] = [];
  if (recovery !== undefined) objects.push(await wrapForRecovery(secrets, recovery, note));
  if (passphrase !== undefined) objects.push(await wrapForPassphrase(secrets, passphrase, note));
  for (const recipient of age) {
    const object = await wrapForAge(secrets, recipient, note);
    objects.push(object);
    known.push({ id: idOf(object), recipient, ...(label === undefined ? {} : { label }) });
  }
  return { objects, age: known };
}

/**
 * Refuses what would leave more recipients of a type than a reader tries.
 *
 * @param there those that stay
 * @throws offsite-too-many-recipients
 */
export function refuseTooMany(
  there: readonly Pick<WrappedKeys, 'type'>[],
  { recovery, passphrase, age = [] }: Additions,
  to: string,
): void {
  const added: Readonly<Record<RecipientType, number>> = {
    recovery: recovery === undefined ? 0 : 1,
    passphrase: passphrase === undefined ? 0 : 1,
    age: age.length,
  };
  for (const type of RECIPIENT_TYPES) {
    const found = there.filter((one) => one.type === type).length + added[type];
    if (added[type] === 0 || found <= MOST_TRIED) continue;
    throw copiesError('offsite-too-many-recipients', { to, type, most: MOST_TRIED });
  }
}

/** Stores small objects, one after the other. @throws what the store throws */
export async function putObjects(
  store: ObjectStore,
  objects: readonly KeyObject[],
  signal: AbortSignal,
): Promise<void> {
  for (const { name, bytes } of objects) {
    await store.put(name, bytes.length, oneObject(bytes), { signal });
  }
}

const REMOVING_MS = 10_000;

/** Removes objects that nobody reads yet, also after an interruption; where the store cannot be reached, they stay. */
export async function removeUnread(
  store: ObjectStore,
  objects: readonly KeyObject[],
): Promise<void> {
  const signal = AbortSignal.timeout(REMOVING_MS);
  for (const { name } of objects) await store.delete(name, signal).catch(() => {});
}

/** Returns the id in the name of a recipient's object. */
export function idOf({ name }: Pick<KeyObject, 'name'>): string {
  return idOfName('keys', name) ?? '';
}
