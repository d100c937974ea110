import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Indexer } from './indexer.ts';
import type { Workplace } from './workplace.ts';

/** notmuch over the given Maildir, its database in a folder of its own. */
export function prepareNotmuch(work: Workplace, maildir: string): Indexer {
  const folder = join(work.folder, 'notmuch');
  const config = join(work.folder, 'notmuch-config');
  writeFileSync(
    config,
    `[database]
path=${folder}
mail_root=${maildir}
[user]
name=bench
primary_email=bench@example.org
[new]
tags=inbox
`,
  );
  const env = { NOTMUCH_CONFIG: config };
  const search = (query: string, limit: number) => ({
    command: 'notmuch',
    args: ['search', '--output=messages', ...(limit > 0 ? [`--limit=${limit}`] : []), query],
    env,
  });
  return {
    name: 'notmuch new',
    folder,
    async index() {
      work.fresh('notmuch');
      return await work.run({ command: 'notmuch', args: ['new', '--quiet'], env });
    },
    newest: (query) => search(query, 20),
    all: (query) => search(query, 0),
  };
}
