import { type Dirent, readdirSync, type Stats, statSync } from 'node:fs';
import { serviceError } from '../../errors/daemon.ts';
import type { Mailbox } from '../store/mailbox.ts';
import type { SourceBlock } from '../store/source-block.ts';
import type { Store } from '../store/store.ts';
import { FileBlock } from './file-block.ts';
import { isMaildir, readMaildir } from './maildir.ts';
import { MboxBlock } from './mbox-block.ts';

/**
 * Fills a mailbox from a path: a folder with `cur/` and `new/` is a Maildir; any other folder is walked, each
 * regular file that is not hidden being one message byte for byte, in path order; a file ending in `.mbox` is
 * an mbox; any other file is one message.
 *
 * @throws MailkeepError `sandbox-seed-unreadable`
 */
export function loadPath(store: Store, mailbox: Mailbox, path: string): void {
  try {
    loadReadable(store, mailbox, path, statSync(path));
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error;
    throw serviceError('sandbox-seed-unreadable', { path, reason: error.message }, error);
  }
}

function loadReadable(store: Store, mailbox: Mailbox, path: string, stats: Stats): void {
  if (!stats.isDirectory()) {
    intoInbox(store, mailbox, path.endsWith('.mbox') ? new MboxBlock(path) : new FileBlock([path]));
    return;
  }
  if (!isMaildir(path)) {
    intoInbox(store, mailbox, new FileBlock(walk(path)));
    return;
  }
  for (const { path: folderPath, block, flags } of readMaildir(path)) {
    const folder = store.folderFor(mailbox, folderPath);
    store.place(
      block,
      flags.map((set, number) => ({ folder, number, flags: set })),
    );
  }
}

function intoInbox(store: Store, mailbox: Mailbox, block: SourceBlock): void {
  const folder = store.folderFor(mailbox, 'INBOX');
  store.place(
    block,
    Array.from({ length: block.count }, (_, number) => ({ folder, number, flags: [] })),
  );
}

const SLASH = Buffer.from('/');
const DOT = 46;

/** Regular files below a folder, hidden ones and hidden folders left out, links not followed, sorted by the bytes of their paths. */
function walk(root: string): (string | Buffer)[] {
  const found: Buffer[] = [];
  const pending: Buffer[] = [Buffer.from(root)];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    const entries: Dirent<Buffer>[] = readdirSync(folder, {
      withFileTypes: true,
      // Names are bytes; one that is no UTF-8 would not be found again as a string.
      encoding: 'buffer',
    });
    for (const entry of entries) {
      if (entry.name[0] === DOT) continue;
      const path = Buffer.concat([folder, SLASH, entry.name]);
      if (entry.isDirectory()) pending.push(path);
      else if (entry.isFile()) found.push(path);
    }
  }
  return found.sort(Buffer.compare).map(textWhereUtf8);
}

function textWhereUtf8(path: Buffer): string | Buffer {
  const text = path.toString('utf8');
  return Buffer.from(text).equals(path) ? text : path;
}
