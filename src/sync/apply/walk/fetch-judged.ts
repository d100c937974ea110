import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { fingerprint } from '../../../mail/fingerprint.ts';
import type { FolderKey, Listing, Place } from '../../../mail/words.ts';
import { placeKey } from '../../../state/scopes.ts';
import {
  carriesListedId,
  type FetchedFacts,
  type Judgement,
  judgeSource,
} from '../../source-judgement.ts';
import type { PassContext } from '../pass-context.ts';
import type { FetchedSource } from '../ports.ts';
import { askByName } from './ask-by-name.ts';

/** The Message-ID is in the header block; no real message has 256 KiB of headers. */
const HEADER_WINDOW = 256 * 1024;
const LF = 0x0a;
const CR = 0x0d;

/** Returns whether the first bytes may begin a mail, and not a web page. Costs nothing on the common path. */
export function beginsLikeMail(start: Uint8Array): boolean {
  const text = Buffer.from(start.subarray(0, 512)).toString('latin1').trimStart().toLowerCase();
  return !(text.startsWith('<!doctype') || text.startsWith('<html') || text.startsWith('<?xml'));
}

/** Computes what judging a source needs. A file is streamed, never held in memory. */
export async function factsOf(source: FetchedSource): Promise<FetchedFacts> {
  const chunks: AsyncIterable<Buffer> | Iterable<Buffer> =
    source.kind === 'buffer' ? [source.bytes] : createReadStream(source.path);
  const digest = createHash('sha256');
  const window: Buffer[] = [];
  let windowBytes = 0;
  let size = 0;
  let crlf = 0;
  let bareLf = 0;
  let previous = 0;
  for await (const chunk of chunks) {
    digest.update(chunk);
    size += chunk.length;
    if (windowBytes < HEADER_WINDOW) {
      window.push(chunk.subarray(0, HEADER_WINDOW - windowBytes));
      windowBytes += chunk.length;
    }
    for (let at = chunk.indexOf(LF); at >= 0; at = chunk.indexOf(LF, at + 1)) {
      const before = at === 0 ? previous : chunk[at - 1];
      if (before === CR) crlf += 1;
      else bareLf += 1;
    }
    previous = chunk[chunk.length - 1] ?? previous;
  }
  const head = Buffer.concat(window);
  return {
    size,
    sha256: digest.digest('hex'),
    messageId: messageIdOf(head),
    looksLikeMail: beginsLikeMail(head),
    crlf,
    bareLf,
  };
}

/** Returns the header block: everything before the first empty line. Searches the bytes, because bodies are long. */
function headersOf(head: Buffer): Buffer {
  const crlf = head.indexOf('\r\n\r\n');
  const before = crlf < 0 ? head : head.subarray(0, crlf);
  const lf = before.indexOf('\n\n');
  return lf < 0 ? before : before.subarray(0, lf);
}

/** Returns the first Message-ID header, unfolded and without angle brackets (RFC 5322, 3.6.4); null where there is none. */
export function messageIdOf(source: Buffer): string | null {
  const headers = headersOf(source.subarray(0, HEADER_WINDOW)).toString('latin1');
  const found = /^message-id[ \t]*:((?:.|\r?\n[ \t])*)/im.exec(headers)?.[1];
  const id = found?.replace(/\s+/g, '').replace(/^<|>$/g, '') ?? '';
  return id === '' ? null : id;
}

/** The folder whose messages are fetched. */
export interface FetchingFolder {
  readonly at: FolderKey;
  place(uid: number): Place;
}

/** Scope of memory: fetches that were not accepted, by place. */
const EARLIER_FETCHES = 'earlier-fetches';

export interface Judged {
  readonly source: FetchedSource;
  /** `other`: the uid shows another message than the one that was listed. */
  readonly judgement: Exclude<Judgement, { verdict: 'again' }> | { readonly verdict: 'other' };
  readonly detail: string;
}

/**
 * Fetches one message's raw source as often as it takes to decide whether it is complete. The caller deletes a
 * source that is a file.
 */
export async function fetchJudged(
  ctx: PassContext,
  folder: FetchingFolder,
  listing: Listing,
): Promise<Judged> {
  const key = placeKey(folder.place(listing.uid));
  const fetches: FetchedFacts[] = [];
  for (;;) {
    const source = await ctx.origin.source(folder.at, listing.uid, ctx.signal);
    ctx.host.trouble.over();
    if (fetches.length === 0 && isPlainlyComplete(source, listing)) {
      ctx.host.rules.learn(listing, undefined);
      return { source, judgement: { verdict: 'accept' }, detail: '' };
    }
    const latest = await factsOf(source);
    if (latest.looksLikeMail && !(await isListedStill(ctx, folder.at, listing, latest))) {
      return { source, judgement: { verdict: 'other' }, detail: '' };
    }
    fetches.push(latest);
    const [first = latest, ...rest] = fetches;
    const judgement = judgeSource({
      listing,
      fetches: [first, ...rest],
      earlier: ctx.memory.get(EARLIER_FETCHES, key) ?? [],
      rule: ctx.host.rules.rule,
      now: ctx.now(),
    });
    if (judgement.verdict !== 'again') {
      ctx.host.rules.learn(listing, latest);
      rememberFetch(ctx, key, judgement, latest);
      const detail = `listed ${listing.size} bytes, came ${latest.size}`;
      return { source, judgement, detail };
    }
    if (source.kind === 'file') await rm(source.path, { force: true });
  }
}

/** The common case: exactly as long as listed, with the listed Message-ID, and no web page. */
function isPlainlyComplete(source: FetchedSource, listing: Listing): boolean {
  if (source.kind === 'file' || source.bytes.length !== listing.size) return false;
  return (
    beginsLikeMail(source.bytes) &&
    carriesListedId(listing, { messageId: messageIdOf(source.bytes) })
  );
}

/**
 * Checks, for a source with another Message-ID than listed, whether its uid is still listed as before. The origin may
 * have reassigned its uids in between, and bytes must never be filed under another message's name. A host that
 * spells Message-IDs in its own way is learned, and not asked for ever.
 */
async function isListedStill(
  ctx: PassContext,
  at: FolderKey,
  listing: Listing,
  latest: FetchedFacts,
): Promise<boolean> {
  const { rules } = ctx.host;
  if (carriesListedId(listing, latest) || rules.spellsIdsItsWay) return true;
  const { answered } = await askByName(ctx, at, [listing.uid]);
  const now = answered.get(listing.uid);
  const same = now !== undefined && fingerprint(now) === fingerprint(listing);
  if (latest.size === listing.size) rules.learnIds(same);
  return same;
}

/** Remembers the first fetch of each distinct content: the time since then is what counts. */
function rememberFetch(
  ctx: PassContext,
  key: string,
  judgement: Judgement,
  latest: FetchedFacts,
): void {
  const earlier = ctx.memory.get(EARLIER_FETCHES, key) ?? [];
  if (judgement.verdict === 'accept') {
    if (earlier.length > 0) ctx.memory.set(EARLIER_FETCHES, key, null);
  } else if (!earlier.some(({ sha256 }) => sha256 === latest.sha256)) {
    ctx.memory.set(EARLIER_FETCHES, key, [...earlier, { at: ctx.now(), sha256: latest.sha256 }]);
  }
}
