import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { ReadLeaf } from './compare.ts';

/** A part in the JSON of `notmuch show`. */
interface Part {
  readonly id: number;
  readonly 'content-type': string;
  readonly 'content-disposition'?: string;
  readonly filename?: string;
  readonly content?: string | readonly Part[] | readonly { readonly body: readonly Part[] }[];
}

interface Shown {
  readonly id: string;
  readonly filename: readonly string[];
  readonly body: readonly Part[];
}

/** Shows that letters were decoded that were never encoded. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are sought.
const NO_TEXT = /[\0-\x08\x0e-\x1a\ufffd]/;

/** A thread is a list of messages, each with a list of its replies. */
type Threads = readonly (Threads | Shown | null)[];

/**
 * Reads messages with notmuch, and so with GMime.
 *
 * @returns the leaves of each message; nothing for one that notmuch does not take for mail
 */
export function readWithNotmuch(sources: readonly Buffer[]): Map<number, readonly ReadLeaf[]> {
  const folder = mkdtempSync(join(tmpdir(), 'notmuch-'));
  try {
    const mail = join(folder, 'mail');
    for (const name of ['cur', 'new', 'tmp']) mkdirSync(join(mail, name), { recursive: true });
    for (const [i, source] of sources.entries())
      writeFileSync(join(mail, 'cur', `${i}:2,`), source);
    const config = join(folder, 'config');
    writeFileSync(config, `[database]\npath=${mail}\n[user]\nname=test\n[search]\nexclude_tags=\n`);
    const run = (...args: readonly string[]) =>
      spawnSync('notmuch', args, {
        env: { ...process.env, NOTMUCH_CONFIG: config },
        maxBuffer: 1024 * 1024 * 1024,
      });
    run('new', '--quiet');
    const shown = run('show', '--format=json', '--entire-thread=false', '--decrypt=false', '*');
    if (shown.status !== 0) return withoutCrash(sources);
    const threads: Threads = JSON.parse(shown.stdout.toString('utf8'));
    const found = new Map<number, readonly ReadLeaf[]>();
    for (const { id, filename, body } of shownIn(threads)) {
      const query = `id:"${id.replaceAll('"', '""')}"`;
      const bytesOf = (part: number) => run('show', '--format=raw', `--part=${part}`, query).stdout;
      const leaves = body.flatMap((part) => [...leavesIn(part, false, bytesOf)]);
      found.set(Number.parseInt(basename(filename[0] ?? ''), 10), leaves);
    }
    return found;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Some messages end notmuch: it gives no verdict on them. */
function withoutCrash(sources: readonly Buffer[]): Map<number, readonly ReadLeaf[]> {
  if (sources.length === 1) return new Map();
  const half = Math.ceil(sources.length / 2);
  const second = readWithNotmuch(sources.slice(half));
  return new Map([
    ...readWithNotmuch(sources.slice(0, half)),
    ...[...second].map(([i, leaves]) => [i + half, leaves] as const),
  ]);
}

function* shownIn(threads: Threads): Generator<Shown> {
  for (const one of threads) {
    if (one !== null && 'body' in one) yield one;
    else if (one !== null) yield* shownIn(one);
  }
}

function* leavesIn(
  part: Part,
  inside: boolean,
  bytesOf: (part: number) => Buffer,
): Generator<ReadLeaf> {
  const type = part['content-type'].toLowerCase();
  const { content } = part;
  if (type.startsWith('multipart/') && Array.isArray(content)) {
    for (const child of content) yield* leavesIn(child, inside, bytesOf);
    return;
  }
  const leaf = {
    type,
    name: part.filename ?? null,
    attached: part['content-disposition'] === 'attachment',
    inside,
  };
  if (Array.isArray(content)) {
    yield { ...leaf, size: null, sha256: null, text: '' };
    for (const message of content) {
      // Of signed data that GMime opens, the parts themselves.
      const parts = 'body' in message ? message.body : [message];
      for (const child of parts) yield* leavesIn(child, true, bytesOf);
    }
    return;
  }
  const isText = type === 'text/plain' && typeof content === 'string' && !NO_TEXT.test(content);
  // Text without a name is compared by its words.
  const isFile = !inside && (type !== 'text/plain' || leaf.attached || leaf.name !== null);
  const bytes = isFile ? bytesOf(part.id) : null;
  yield {
    ...leaf,
    size: bytes?.length ?? 0,
    sha256: bytes === null ? null : createHash('sha256').update(bytes).digest('hex'),
    text: isText ? String(content) : '',
  };
}
