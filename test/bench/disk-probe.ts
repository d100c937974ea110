import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Workplace } from './workplace.ts';

const FILES = 200;
const BYTES = 9_000;

/**
 * Small files a second that this disk makes durable one by one, just now. Whatever syncs each message (mbsync with
 * FSync yes) cannot be faster, and a disk that others use as well slows it down far more than a program that syncs
 * batches: a run in which this figure is low says little about either.
 */
export function durableFilesPerSecond(work: Workplace): number {
  const folder = work.fresh('disk-probe');
  const bytes = Buffer.alloc(BYTES, 'x');
  const started = performance.now();
  for (let i = 0; i < FILES; i++) {
    const file = openSync(join(folder, String(i)), 'wx');
    writeSync(file, bytes);
    fsyncSync(file);
    closeSync(file);
  }
  return (FILES * 1000) / (performance.now() - started);
}
