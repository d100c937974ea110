import type { Reader } from '../../engine/archive/reader.ts';
import type { MessageId } from '../../mail/words.ts';
import type { Range } from '../../search/word-matches.ts';
import { inTurns } from './in-turns.ts';

/** Bytes of what is looked for in a source; a longer text is cut. */
const MOST_BYTES = 200;

/** Where a text stands in a source. Bytes from its beginning. */
export interface FoundInSource {
  readonly count: number;
  /** The match at or after the place that was asked about, else the first; null where there is none. */
  readonly at: number | null;
  /** Which of all matches it is, from 1. */
  readonly number: number;
  readonly next: number | null;
  readonly previous: number | null;
}

/**
 * Finds a text in the raw bytes of a source, letters of ASCII in either case. Memory stays at one piece of the source,
 * whatever its size.
 *
 * @param sought the text, and the byte at which the wanted match begins, or which it follows
 * @throws message-damaged, blob-damaged
 */
export async function findInSource(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  { text, from }: { readonly text: string; readonly from: number },
  signal: AbortSignal,
): Promise<FoundInSource> {
  const finder = new SourceFinder(text, from);
  const pieces = inTurns(reader.sources().streamMessage(id), signal);
  for await (const piece of pieces) finder.push(piece);
  return finder.found();
}

/** Looks for a text in bytes that come piece by piece. */
export class SourceFinder {
  readonly #sought: Buffer;
  /** The end of what was looked through, in which a match may have begun. */
  #rest: Buffer = Buffer.alloc(0);
  /** Bytes before `#rest`. */
  #passed = 0;
  #count = 0;
  #first: number | null = null;
  #last: number | null = null;
  #at: number | null = null;
  #number = 0;
  #next: number | null = null;
  #previous: number | null = null;
  /** Behind the last match: matches do not overlap. */
  #free = 0;

  constructor(
    text: string,
    private readonly from: number,
  ) {
    this.#sought = lower(Buffer.from(text).subarray(0, MOST_BYTES));
  }

  push(piece: Buffer): void {
    const { length } = this.#sought;
    if (length === 0) return;
    const bytes = lower(Buffer.concat([this.#rest, piece]));
    let behind = Math.max(0, this.#free - this.#passed);
    for (
      let found = bytes.indexOf(this.#sought, behind);
      found >= 0;
      found = bytes.indexOf(this.#sought, behind)
    ) {
      this.#note(this.#passed + found);
      behind = found + length;
    }
    this.#free = Math.max(this.#free, this.#passed + behind);
    const kept = Math.min(bytes.length, length - 1);
    this.#rest = Buffer.from(bytes.subarray(bytes.length - kept));
    this.#passed += bytes.length - kept;
  }

  found(): FoundInSource {
    // Behind the last match the search begins again.
    const wraps = this.#at === null;
    const at = this.#at ?? this.#first;
    const number = wraps ? Math.min(1, this.#count) : this.#number;
    const only = this.#count < 2;
    const next = wraps ? this.#second : (this.#next ?? this.#first);
    const previous = number <= 1 ? this.#last : this.#previous;
    return {
      count: this.#count,
      at,
      number,
      next: only ? null : next,
      previous: only ? null : previous,
    };
  }

  #second: number | null = null;

  #note(at: number): void {
    this.#count += 1;
    if (this.#count === 1) this.#first = at;
    if (this.#count === 2) this.#second = at;
    if (this.#at !== null && this.#next === null) this.#next = at;
    if (this.#at === null && at >= this.from) {
      this.#at = at;
      this.#number = this.#count;
      this.#previous = this.#last;
    }
    this.#last = at;
  }
}

/** In lower case, of ASCII only: in bytes of any charset nothing else can be told. */
function lower(bytes: Buffer): Buffer {
  const out = Buffer.from(bytes);
  for (let i = 0; i < out.length; i += 1) {
    const byte = out[i] ?? 0;
    if (byte >= 0x41 && byte <= 0x5a) out[i] = byte + 0x20;
  }
  return out;
}

/** Matches that are marked in one part of a source. */
const MOST_MARKED = 2_000;

/** Returns where a text stands in the part of a source that is shown, as `SourceFinder` compares. */
export function rangesIn(shown: string, text: string): readonly Range[] {
  const plain = (some: string): string => some.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const sought = plain(Buffer.from(text).subarray(0, MOST_BYTES).toString('utf8'));
  if (sought === '') return [];
  const whole = plain(shown);
  const ranges: Range[] = [];
  for (let at = whole.indexOf(sought); at >= 0; at = whole.indexOf(sought, at + sought.length)) {
    ranges.push({ start: at, end: at + sought.length });
    if (ranges.length >= MOST_MARKED) break;
  }
  return ranges;
}
