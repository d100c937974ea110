import { realpathSync } from 'node:fs';
import path from 'node:path';
import { errnoName } from '../errors/mailkeep-error.ts';

/** Whether a path, which need not be there yet, is a folder that is, or lies in it, whatever links lead there. */
export function isWithin(target: string, folder: string): boolean {
  const relative = path.relative(realpathSync(folder), resolved(target));
  return relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative);
}

/** Links are followed as far as the path is there. */
function resolved(target: string): string {
  try {
    return realpathSync(target);
  } catch (error) {
    const parent = path.dirname(target);
    if (errnoName(error) !== 'ENOENT' || parent === target) return target;
    return path.join(resolved(parent), path.basename(target));
  }
}
