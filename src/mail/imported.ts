import { createHash } from 'node:crypto';
import type { MailboxKey } from './words.ts';

/**
 * The host of mailboxes that no service has. `.invalid` names nothing for ever (RFC 2606), so no account can have it,
 * and no pass ever takes such a mailbox for one of its own.
 */
export const IMPORT_HOST = 'import.invalid';

/** The mailbox that imports under this name go to: the same name, in any case, is the same mailbox. */
export function importedMailbox(name: string): MailboxKey {
  const digest = createHash('sha256').update(name.normalize('NFC').toLowerCase()).digest('hex');
  return { host: IMPORT_HOST, mailbox: `import-${digest.slice(0, 16)}` };
}

/** True for a mailbox whose mail came from files: nothing there can be compared with a service. */
export function isImported({ host }: Pick<MailboxKey, 'host'>): boolean {
  return host === IMPORT_HOST;
}
