import { logDamaged } from '../errors/archive.ts';
import type { FoldLogOptions, FoldProgress } from './fold-log.ts';
import { foldLog } from './fold-log.ts';

/**
 * Brings a catalog level with the log: folds what was committed after the commit it has reached, as is the case
 * after a crash between a commit and its fold, or when the catalog was deleted. For the writer, on opening.
 *
 * @throws `log-damaged` at the first damage: nothing behind it is folded, `rebuild` is the way to do without.
 *   A log that ends before the catalog's commit, or has another one in its place, is damage too.
 */
export async function catchUp(options: Omit<FoldLogOptions, 'onDamage'>): Promise<FoldProgress> {
  return await foldLog({
    ...options,
    onDamage: ({ file, segment, offset, reason }) => {
      throw logDamaged({ file, segment, offset, reason });
    },
  });
}
