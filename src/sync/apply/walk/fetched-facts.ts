import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { FetchedFacts } from '../../source-judgement.ts';
import type { FetchedSource } from '../ports.ts';

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
