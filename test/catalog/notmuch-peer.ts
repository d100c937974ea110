import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SearchedMessage } from './searched-mail.ts';

/** A notmuch index over messages, each in its folder and with its flags; it answers with docids. */
export class NotmuchPeer {
  readonly #env: NodeJS.ProcessEnv;
  /** What it took for mail. */
  readonly known: ReadonlySet<number>;

  constructor(dir: string, messages: readonly SearchedMessage[]) {
    const root = join(dir, 'notmuch-mail');
    const made = new Set<string>();
    for (const { docid, source, places } of messages) {
      const [{ folder, flags } = { folder: 'INBOX', flags: [] }] = places;
      const cur = join(root, folder, 'cur');
      if (!made.has(cur))
        for (const sub of ['cur', 'new', 'tmp'])
          mkdirSync(join(root, folder, sub), { recursive: true });
      made.add(cur);
      const letters = ['\\Flagged', '\\Answered', '\\Seen'].map((flag) =>
        flags.includes(flag) ? (LETTERS[flag] ?? '') : '',
      );
      writeFileSync(join(cur, `${docid}.mail:2,${letters.join('')}`), source);
    }
    const config = join(dir, 'notmuch-config');
    writeFileSync(
      config,
      `[database]\npath=${root}\n[user]\nname=one\nprimary_email=one@example.net\n[new]\ntags=unread\n[maildir]\nsynchronize_flags=true\n`,
    );
    this.#env = { ...process.env, NOTMUCH_CONFIG: config, TZ: 'UTC' };
    execFileSync('notmuch', ['new', '--quiet'], { env: this.#env, stdio: 'ignore' });
    this.known = this.search('*');
  }

  search(query: string): Set<number> {
    const text = execFileSync('notmuch', ['search', '--output=files', '--exclude=false', query], {
      env: this.#env,
      maxBuffer: 64 * 1024 * 1024,
      encoding: 'utf8',
    });
    const docids = text.split('\n').flatMap((file) => /\/(\d+)\.mail:2,/.exec(file)?.[1] ?? []);
    return new Set(docids.map(Number));
  }
}

const LETTERS: Readonly<Record<string, string>> = {
  '\\Flagged': 'F',
  '\\Answered': 'R',
  '\\Seen': 'S',
};
