import { copyFileSync, cpSync, rmSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect } from 'vitest';
import { catalogFile } from '../../../src/catalog/database.ts';
import { deliver } from '../../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { mailkeep, workplace } from '../../cli/child.ts';
import { commitsIn } from './sound-archive.ts';

/** A small archive as a sync left it, to be copied. */
export class SomeArchive {
  private constructor(
    readonly top: string,
    readonly dir: string,
    /** The same as a sync left it before some of the mail came. */
    readonly earlier: string,
    /** Hashes of all its commits. */
    readonly commits: readonly string[],
  ) {}

  static async create({ messages = 24, later = 0 } = {}): Promise<SomeArchive> {
    const sandbox = await startSandbox({ seed: 31, mail: { messages } });
    const { folder: top, config, data } = workplace(sandbox);
    const earlier = path.join(top, 'earlier');
    const sync = async (): Promise<void> => {
      expect((await mailkeep(['sync', '--config', config, '--quiet'])).code).toBe(0);
    };
    try {
      await sync();
      cpSync(data, earlier, { recursive: true });
      deliverMore(sandbox, later);
      if (later > 0) await sync();
    } finally {
      await sandbox.close();
    }
    return new SomeArchive(top, data, earlier, await commitsIn(data));
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
 * Leaves a write-ahead log next to a catalog, as a killed writer does. Its content has no meaning next to any other
 * catalog: pages that are free there.
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

/** A letter with a word that stands nowhere else. */
export function laterLetter(n: number): { readonly source: Buffer; readonly word: string } {
  const word = `jumblyword${n}`;
  const text = `From: new@example.org\r\nSubject: new ${n}\r\n\r\n${`the ${word}\r\n`.repeat(300)}`;
  return { source: Buffer.from(text), word };
}

/** Brings them to a service. */
export function deliverMore({ service }: Sandbox, count: number): void {
  const [mailbox] = service.store.mailboxes.values();
  const inbox = [...(mailbox?.folders.values() ?? [])].find((folder) => folder.path === 'INBOX');
  if (mailbox === undefined || inbox === undefined) throw new Error('no INBOX');
  for (let n = 0; n < count; n += 1) deliver(service, mailbox, inbox, laterLetter(n).source);
}
