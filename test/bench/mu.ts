import { join } from 'node:path';
import type { Indexer } from './indexer.ts';
import type { Workplace } from './workplace.ts';

/** mu over the given Maildir, its store in a folder of its own. */
export function prepareMu(work: Workplace, maildir: string): Indexer {
  const folder = join(work.folder, 'mu');
  const home = `--muhome=${folder}`;
  const find = (query: string, more: readonly string[]) => ({
    command: 'mu',
    args: ['find', home, ...more, query],
    // 4: no matches.
    accepted: [0, 4],
  });
  return {
    name: 'mu index',
    folder,
    async index() {
      work.fresh('mu');
      await work.run({
        command: 'mu',
        args: ['init', home, `--maildir=${maildir}`, '--my-address=bench@example.org'],
      });
      return await work.run({ command: 'mu', args: ['index', home, '--quiet'] });
    },
    newest: (query) => find(query, ['--maxnum=20', '--sortfield=date', '--reverse']),
    all: (query) => find(query, ['--fields=i']),
  };
}
