import { existsSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { realFiles, replaceFile } from '../archive/file-system.ts';
import { canonicalJson, parseJson } from '../archive/format.ts';
import { readRegularFile } from '../core/files.ts';

const note = z.object({
  mailkeep: z.literal('fleet shard 1'),
  fleet: z.string(),
  shard: z.number(),
  /** The last manifest that is known to be shipped, and its commit. Null if there is none. */
  manifest: z.string().nullable(),
  commit: z.number(),
  /** Number of purges that have been carried out in the folder. */
  done: z.number(),
});
type FolderNote = Readonly<Omit<z.output<typeof note>, 'mailkeep'>>;

const MOST_BYTES = 64 * 1024;

function noteFile(dir: string): string {
  return path.join(dir, 'fleet.json');
}

/** Returns undefined if the folder has none or it is unreadable: nothing is then known to be shipped or purged. */
export function readNote(dir: string): FolderNote | undefined {
  const file = noteFile(dir);
  if (!existsSync(file)) return undefined;
  return note.safeParse(parseJson(readRegularFile(file, MOST_BYTES).toString('utf8'))).data;
}

/** @throws `disk-full` and other disk errors */
export async function writeNote(dir: string, content: FolderNote): Promise<void> {
  const text = canonicalJson({ mailkeep: 'fleet shard 1', ...content });
  await replaceFile(realFiles, noteFile(dir), Buffer.from(`${text}\n`, 'utf8'));
}
