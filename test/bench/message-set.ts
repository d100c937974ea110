import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { attachmentFor } from './attachment.ts';
import { attach, repeatMessage, sentAt } from './message-copy.ts';
import { type SearchTerms, TermCounts } from './search-terms.ts';
import { permutation, seeded } from './seeded.ts';
import type { SourceStock } from './source-stock.ts';

/** The messages of one run: a Maildir that every program is given as it is. */
export interface MessageSet {
  readonly maildir: string;
  readonly origin: string;
  readonly count: number;
  /** Messages of each folder that has any. */
  readonly folderCounts: readonly number[];
  readonly rawBytes: number;
  readonly medianBytes: number;
  readonly largestBytes: number;
  /** Share of the messages that carry an attachment, 0 to 1. */
  readonly attachmentShare: number;
  readonly terms: SearchTerms;
}

/**
 * Attachments go to small messages rather than to large ones, as far as needed to bring the median up to that of a
 * real mailbox. Bytes; shares 0 to 1.
 */
const SMALL_BYTES = 9_000;
const SHARE_OF_SMALL = 0.2;
const SHARE_OF_LARGE = 0.12;
/**
 * The inbox and the folders of a Maildir++ below it. With Drafts and Trash, which every mailbox of the service has,
 * they are 20.
 */
const FOLDERS: readonly string[] = [
  '',
  '.Sent',
  ...Array.from({ length: 16 }, (_, i) => `.List-${String(i + 1).padStart(2, '0')}`),
];
const INBOX_SHARE = 0.4;
/** Words are counted in this many messages; more would not change which word is common. */
const COUNTED_MESSAGES = 4_000;
/** Received times for messages whose own date cannot be read or is absurd: 2001-09-09 on, one a minute. */
const FALLBACK_START_MS = 1_000_000_000_000;
const EARLIEST_MS = Date.UTC(1995, 0, 1);
const LATEST_MS = Date.UTC(2026, 0, 1);

/** Writes `count` messages into `maildir` (which must not exist). The same arguments give the same bytes. */
export function makeMessageSet(
  maildir: string,
  stock: SourceStock,
  count: number,
  seed: number,
): MessageSet {
  for (const folder of FOLDERS)
    for (const name of ['cur', 'new', 'tmp'])
      mkdirSync(join(maildir, folder, name), { recursive: true });
  const sizes: number[] = [];
  const words = new TermCounts();
  const inFolder = new Map<string, number>();
  let withAttachment = 0;
  let order: readonly number[] = [];
  for (let index = 0; index < count; index++) {
    const copy = Math.floor(index / stock.size);
    // Sources of one kind lie side by side in a corpus, and would compress better there than in a mailbox.
    if (index % stock.size === 0) order = permutation(stock.size, seeded(seed, 'order', copy));
    const random = seeded(seed, 'message', index);
    const base = repeatMessage(stock.source(order[index % stock.size] ?? 0), copy, random);
    const chosen =
      !stock.hasAttachments &&
      random.next() < (base.length < SMALL_BYTES ? SHARE_OF_SMALL : SHARE_OF_LARGE);
    const message = chosen ? attach(base, attachmentFor(seed, index), random) : base;
    if (hasAttachment(message)) withAttachment++;
    if (index < COUNTED_MESSAGES) words.count(base);
    sizes.push(message.length);
    const folder = random.next() < INBOX_SHARE ? '' : (FOLDERS[random.below(FOLDERS.length)] ?? '');
    writeMessage(join(maildir, folder, 'cur'), index, message);
    inFolder.set(folder, (inFolder.get(folder) ?? 0) + 1);
  }
  sizes.sort((a, b) => a - b);
  return {
    maildir,
    origin: stock.name,
    count,
    folderCounts: [...inFolder.values()],
    rawBytes: sizes.reduce((sum, size) => sum + size, 0),
    medianBytes: sizes[Math.floor(count / 2)] ?? 0,
    largestBytes: sizes[count - 1] ?? 0,
    attachmentShare: withAttachment / count,
    terms: words.choose(),
  };
}

function hasAttachment(message: Buffer): boolean {
  return /^content-disposition:\s*attachment/im.test(message.toString('latin1'));
}

/** The received time is both in the name, as Maildirs have it, and the file's. */
function writeMessage(folder: string, index: number, message: Buffer): void {
  const sent = sentAt(message);
  const sane = sent !== undefined && sent > EARLIEST_MS && sent < LATEST_MS;
  const received = Math.floor((sane ? sent : FALLBACK_START_MS + index * 60_000) / 1000);
  const file = join(folder, `${received}.M${index}.bench:2,S`);
  // Dovecot reads as a user of its own.
  writeFileSync(file, message, { mode: 0o644 });
  utimesSync(file, received, received);
}
