import { readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { ImapServer } from '../peers/dovecot.ts';
import type { ProcessCost } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

/** mbsync with its settings; `firstSync` starts from nothing each time, `again` finds nothing new. */
export interface Mbsync {
  firstSync(): Promise<ProcessCost>;
  again(): Promise<ProcessCost>;
}

/** mbsync as a careful user has it: every message is synced to disk before the next step (FSync yes). */
export function prepareMbsync(work: Workplace, server: ImapServer): Mbsync {
  const config = join(work.folder, 'mbsyncrc');
  const store = (): string => work.fresh('mbsync');
  const local = store();
  writeFileSync(
    config,
    `FSync yes

IMAPAccount bench
Host 127.0.0.1
Port ${server.port}
User ${server.user}
Pass ${server.password}
SSLType None
AuthMechs LOGIN

IMAPStore far
Account bench

MaildirStore near
Path ${local}/
Inbox ${local}/INBOX
SubFolders Verbatim

Channel ch
Far :far:
Near :near:
Patterns *
Create Near
Sync Pull
SyncState *
`,
    { mode: 0o600 },
  );
  const run = (): Promise<ProcessCost> =>
    work.run({ command: 'mbsync', args: ['-q', '-c', config, 'ch'] });
  return {
    async firstSync() {
      store();
      return await run();
    },
    again: run,
  };
}

/** How many messages lie in the Maildir that mbsync filled. */
export function mbsyncStored(work: Workplace): number {
  return readdirSync(join(work.folder, 'mbsync'), { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && /^(?:cur|new)$/.test(basename(entry.parentPath)),
  ).length;
}
