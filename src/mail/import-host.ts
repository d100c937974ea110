import type { MailboxKey } from './words.ts';

/**
 * The host of mailboxes that no service has. `.invalid` names nothing for ever (RFC 2606), so no account can have it,
 * and no pass ever takes such a mailbox for one of its own.
 */
export const IMPORT_HOST = 'import.invalid';

/** True for a mailbox whose mail came from files: nothing there can be compared with a service. */
export function isImported({ host }: Pick<MailboxKey, 'host'>): boolean {
  return host === IMPORT_HOST;
}
