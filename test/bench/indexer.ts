import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Invocation, ProcessCost } from './process-cost.ts';

/** A peer that makes a Maildir searchable. */
export interface Indexer {
  readonly name: string;
  /** Where its database is. */
  readonly folder: string;
  /** Indexes everything, from an empty database. */
  index(): Promise<ProcessCost>;
  /** The command that shows the newest 20 hits. */
  newest(query: string): Invocation;
  /** The command that prints one line per hit. */
  all(query: string): Invocation;
}

/** Bytes on disk of all files below a folder, as the file system allots them. */
export function allottedBytes(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).blocks * 512, 0);
}
