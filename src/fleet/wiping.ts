import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { realFiles } from '../archive/file-system.ts';
import { convertWriteErrors } from '../archive/hot-segment.ts';
import { withLock } from '../archive/lock.ts';
import { MailkeepError } from '../core/errors.ts';
import { leaveCache } from '../registry/leases.ts';
import { copiesToWipe } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';

/** Of the folder of an archive, these stay: whoever holds the lock has no other way to keep others out. */
const LOCK = new Set(['lock', 'lock.json']);

/** What a round did with the copies of a node that purges wait for. */
export interface Wiped {
  readonly archives: readonly number[];
  /** What kept others from being wiped; they are tried again in the next round. */
  readonly failures: readonly { readonly archive: number; readonly error: MailkeepError }[];
}

/**
 * Wipes the copies of a node that purges wait for: of archives that no living session of the node holds. A copy that some
 * process still has open stays until it is closed.
 *
 * @param folderOf returns the folder of an archive on this node
 * @throws the errors of the registry
 */
export async function wipeCopies(
  registry: Registry,
  node: string,
  folderOf: (archive: number) => string,
): Promise<Wiped> {
  const archives: number[] = [];
  const failures: { readonly archive: number; readonly error: MailkeepError }[] = [];
  for (const copy of await copiesToWipe(registry, node)) {
    const { archive } = copy;
    try {
      await wipe(folderOf(archive));
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      failures.push({ archive, error });
      continue;
    }
    // Named by the entry that was read before: of a later claim, it stays.
    await leaveCache(registry, copy);
    archives.push(archive);
  }
  return { archives, failures };
}

/**
 * Removes everything of an archive from a folder, durably.
 *
 * @throws archive-in-use, `archive-lock-failed`, `log-write-failed`
 */
async function wipe(dir: string): Promise<void> {
  if (!existsSync(dir)) return;
  await withLock(dir, async () => {
    await convertWriteErrors(dir, 0, async () => {
      for (const name of readdirSync(dir)) {
        if (!LOCK.has(name)) rmSync(path.join(dir, name), { recursive: true, force: true });
      }
      await realFiles.syncFolder(dir);
    });
  });
}
