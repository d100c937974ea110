import { realFiles } from '../../../src/archive/real-files.ts';
import { scanLog } from '../../../src/archive/scan-log.ts';
import { checkerInProcess } from '../../../src/verify/segment-threads.ts';
import { type Verification, verifyArchive } from '../../../src/verify/verify-archive.ts';

const signal = new AbortController().signal;

/** What `mailkeep verify` says, found by the same function. */
export function verified(dir: string): Promise<Verification> {
  return verifyArchive({ dir, checker: checkerInProcess(realFiles), full: true, signal });
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
