import { copyFileSync, cpSync, rmSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { catalogFile } from '../../../src/catalog/open.ts';
import { startSandbox } from '../../../src/service/sandbox.ts';
import { mailkeep, workplace } from '../../cli/child.ts';
import { commitsIn } from './sound-archive.ts';

/** A small archive as a sync left it, to be copied. */
export class SomeArchive {
  private constructor(
    readonly top: string,
    readonly dir: string,
    /** Hashes of all its commits. */
    readonly commits: readonly string[],
  ) {}

  static async create(messages = 40): Promise<SomeArchive> {
    const sandbox = await startSandbox({ seed: 31, mail: { messages } });
    const place = workplace(sandbox);
    try {
      expect((await mailkeep(['sync', '--config', place.config, '--quiet'])).code).toBe(0);
    } finally {
      await sandbox.close();
    }
    return new SomeArchive(place.folder, place.data, await commitsIn(place.data));
  }

  /** Puts a copy of it into a folder, as `data`. */
  copyTo(work: string): string {
    const data = path.join(work, 'data');
    cpSync(this.dir, data, { recursive: true });
    return data;
  }

  remove(): void {
    rmSync(this.top, { recursive: true, force: true });
  }
}

/**
 * Leaves a write-ahead log beside a catalog, as a writer does that is killed. What it holds has no meaning beside any
 * other catalog: pages that are free there.
 */
export function killedWriter(data: string): void {
  const file = catalogFile(data);
  const spare = `${file}.spare`;
  const database = new Database(file);
  database.pragma('wal_autocheckpoint = 0');
  database.exec(
    'CREATE TABLE spare (x); INSERT INTO spare VALUES (zeroblob(200000)); DROP TABLE spare',
  );
  for (const suffix of ['', '-wal']) copyFileSync(`${file}${suffix}`, `${spare}${suffix}`);
  database.close();
  for (const suffix of ['', '-wal']) {
    copyFileSync(`${spare}${suffix}`, `${file}${suffix}`);
    rmSync(`${spare}${suffix}`);
  }
}
