import { changesIn } from './comparison.ts';
import { isNear, messageIdOf, type SentForm } from './content.ts';
import type { FoundMessage } from './present.ts';
import type { ServerConnection } from './server.ts';

/**
 * Returns the uids of messages with these bytes, as the server may have changed them, among those of the selected folder
 * with higher uids: each uid once.
 */
export async function lastOnes(
  connection: ServerConnection,
  after: number,
  ready: readonly { readonly form: SentForm }[],
): Promise<(number | undefined)[]> {
  const there: FoundMessage[] = [];
  for await (const found of connection.messages(after + 1)) there.push(found);
  const uids: (number | undefined)[] = [];
  const taken = new Set<number>();
  for (const { form } of ready) {
    const uid = await lastOne(connection, there, taken, form);
    if (uid !== undefined) taken.add(uid);
    uids.push(uid);
  }
  return uids;
}

async function lastOne(
  connection: ServerConnection,
  there: readonly FoundMessage[],
  taken: ReadonlySet<number>,
  form: SentForm,
): Promise<number | undefined> {
  const messageId = messageIdOf(form.head);
  for (const { uid, ...found } of there) {
    if (taken.has(uid) || found.messageId !== messageId || !isNear(form.size, found.size)) continue;
    if ((await changesIn(form, connection.pieces(uid))) !== undefined) return uid;
  }
  return undefined;
}
