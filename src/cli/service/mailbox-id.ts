import { operationError } from '../../errors/operation.ts';
import { nearestAddress } from '../../names/near-names.ts';
import type { Clients } from './clients.ts';

export interface NamedMailbox {
  readonly resourceId: string;
  readonly address: string;
}

/**
 * The mailbox that an address or a resource id names, among those that the token of the mailbox surface reaches.
 *
 * @throws operation-mailbox-unknown
 */
export async function namedMailbox(clients: Clients, name: string): Promise<NamedMailbox> {
  const { mailboxes } = await clients.reach();
  const found = mailboxCalled(mailboxes, name);
  if (found !== undefined) return { resourceId: found.resourceId, address: found.address };
  const known = mailboxes.map((mailbox) => mailbox.address);
  throw operationError('operation-mailbox-unknown', {
    address: name,
    account: clients.account.name,
    known,
    suggestion: nearestAddress(name, known),
  });
}

/** Returns the mailbox that an address or a resource id names, or undefined. */
export function mailboxCalled<M extends NamedMailbox>(
  mailboxes: readonly M[],
  name: string,
): M | undefined {
  const address = name.toLowerCase();
  return mailboxes.find(
    (mailbox) => mailbox.resourceId === name || mailbox.address.toLowerCase() === address,
  );
}
