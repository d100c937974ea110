import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { realFiles } from '../../../src/archive/file-system.ts';
import { scanLog } from '../../../src/archive/log-reader.ts';
import { type Verification, verifyArchive } from '../../../src/verify/verify-archive.ts';
import { checkerInProcess } from '../../verify/checker-in-process.ts';
import type { Left } from './trial.ts';

const signal = new AbortController().signal;

/** What `mailkeep verify` says finds nothing, and the catalog is in one of these states. */
async function verifies(dir: string, catalogs: readonly string[]): Promise<Verification> {
  const checker = checkerInProcess(realFiles);
  const result = await verifyArchive({ dir, checker, full: true, signal });
  const { found, findings, catalog } = result;
  expect({ found, findings }).toEqual({ found: 0, findings: [] });
  expect(catalogs).toContain(catalog);
  return result;
}

export function sound(dir: string): Promise<Verification> {
  return verifies(dir, ['equal']);
}

/** A catalog may lose what can be rebuilt from the log, and is never wrong. */
export function soundOrBehind(dir: string): Promise<Verification> {
  return verifies(dir, ['equal', 'behind', 'missing', 'other-version']);
}

/** Sound, with its catalog or without one. */
export function soundOrWithout(dir: string): Promise<Verification> {
  return verifies(dir, ['equal', 'missing']);
}

/** Every commit that was made durable is there, and the archive is sound, with a catalog that may be behind. */
export async function soundWithCommits(dir: string, left: Left): Promise<void> {
  await keepsCommits(dir, left);
  await soundOrBehind(dir);
}

/** Every commit that was made durable before the power went is there, and what follows continues it. */
export async function keepsCommits(dir: string, { committed }: Left): Promise<void> {
  const batches = existsSync(path.join(dir, 'FORMAT')) ? await commitsIn(dir) : [];
  expect(batches.slice(0, committed.length)).toEqual(committed);
}

/** Hashes of all commits of a log, in order. @throws Error for damage */
export async function commitsIn(dir: string): Promise<string[]> {
  const hashes: string[] = [];
  for await (const event of scanLog({ dir })) {
    if (event.what === 'damage') throw new Error(JSON.stringify(event));
    if (event.what === 'batch') hashes.push(event.batch.commit.hash);
  }
  return hashes;
}
