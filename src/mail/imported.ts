import { createHash } from 'node:crypto';
import { IMPORT_HOST } from './import-host.ts';
import type { MailboxKey } from './words.ts';

/** The mailbox that imports under this name go to: the same name, in any case, is the same mailbox. */
export function importedMailbox(name: string): MailboxKey {
  const digest = createHash('sha256').update(name.normalize('NFC').toLowerCase()).digest('hex');
  return { host: IMPORT_HOST, mailbox: `import-${digest.slice(0, 16)}` };
}
