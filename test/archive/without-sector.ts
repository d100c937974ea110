import type { FileLayer } from '../../src/archive/file-system.ts';
import { realFiles } from '../../src/archive/file-system.ts';
import { systemError } from './simulated-disk.ts';

export const SECTOR = 4_096;

/**
 * A disk that does not give back one sector of segments.
 *
 * @param way `short`: reads end before it, and fail at it; `whole`: reads that touch it fail
 * @param isOn whether a path is on it; all segments if not said
 */
export function withoutSector(
  bad: number,
  way: 'short' | 'whole',
  isOn: (path: string) => boolean = (path) => path.endsWith('.seg'),
): FileLayer {
  const [from, to] = [bad * SECTOR, (bad + 1) * SECTOR];
  return {
    ...realFiles,
    open(file, access) {
      const opened = realFiles.open(file, access);
      if (!isOn(file)) return opened;
      return {
        ...opened,
        read(target, position) {
          if (position >= to || position + target.length <= from)
            return opened.read(target, position);
          if (way === 'whole' || position >= from) throw systemError('EIO', file);
          return opened.read(target.subarray(0, from - position), position);
        },
      };
    },
  };
}
