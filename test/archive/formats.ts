import { expect } from 'vitest';
import type { SimulatedDisk } from './simulated-disk.ts';

const FRAME = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** Paths of the files of an archive, unfinished ones included, that hold a zstd frame. */
export function filesWithZstd(disk: SimulatedDisk, dir: string): string[] {
  return disk
    .paths()
    .filter((path) => path.startsWith(`${dir}/`) && disk.read(path).includes(FRAME));
}

/** Fails when a file of the archive holds zstd and FORMAT does not say so. */
export function expectFormatAllows(disk: SimulatedDisk, dir: string): void {
  const found = filesWithZstd(disk, dir);
  if (found.length === 0) return;
  expect(disk.read(`${dir}/FORMAT`).toString(), found.join()).toBe('mailkeep archive 2\n');
}
