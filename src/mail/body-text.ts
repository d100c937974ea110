import { truncateText } from './charsets.ts';
import { formattedText, htmlText, type LinkStyle } from './html-text.ts';
import {
  type BodyKind,
  bodyKind,
  type Leaf,
  type LeafContent,
  leafText,
  type Part,
} from './part-tree.ts';

/** UTF-16 units to compare per text. */
const COMPARED_CHARS = 256 * 1024;
/** Longest run of punctuation allowed within a word, for example in `48.20`, `77-9921` or an address. */
const SIGNS_INSIDE = 3;

/**
 * Returns the words missing from the other texts, with their neighbours so that phrase searches match. `isMost` is true
 * if they make up more than half of the text. Ignores case, spacing and line breaks. Runs in linear time.
 */
function newWords(text: string, others: readonly string[]) {
  const hashes = new Set<number>();
  for (const other of others) {
    const lower = truncateText(other, COMPARED_CHARS).toLowerCase();
    scan(lower, true, (hash) => hashes.add(hash));
  }
  const sample = truncateText(text, COMPARED_CHARS);
  const lower = sample.toLowerCase();
  // Some capitals become several characters in lower case.
  const original = lower.length === sample.length ? sample : lower;
  const starts: number[] = [];
  const ends: number[] = [];
  const isNew: boolean[] = [];
  let count = 0;
  scan(lower, false, (hash, start, end) => {
    starts.push(start);
    ends.push(end);
    isNew.push(!hashes.has(hash));
    if (!hashes.has(hash)) count++;
  });
  const pieces: string[] = [];
  let from = -1;
  for (let i = 0; i <= isNew.length; i++) {
    const isNear = i < isNew.length && (isNew[i] || isNew[i - 1] || isNew[i + 1]);
    if (isNear && from < 0) from = starts[i] ?? 0;
    if (isNear || from < 0) continue;
    pieces.push(original.slice(from, ends[i - 1]));
    from = -1;
  }
  return { isMost: 2 * count > isNew.length, text: pieces.join('\n') };
}

type TakeUnit = (hash: number, start: number, end: number) => void;

/**
 * Splits text into words. In scripts without spaces, yields each pair of adjacent characters instead.
 *
 * @param isWrapped true if lines can break between any two characters of such a script
 */
function scan(text: string, isWrapped: boolean, take: TakeUnit): void {
  let start = -1;
  let end = 0;
  let hash = 0;
  let before = -1;
  const close = () => {
    if (start >= 0) take(hash, start, end);
    start = -1;
  };
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (isUnspaced(code)) {
      close();
      if (before >= 0) take(mixHash(text.charCodeAt(before), code), before, i + 1);
      else if (!isUnspaced(text.charCodeAt(i + 1))) take(code, i, i + 1);
      before = i;
      continue;
    }
    const isBlank = code <= 0x20 || code === 0xa0 || code === 0x3000;
    if (!isBlank || !isWrapped) before = -1;
    if (isWordUnit(code)) {
      if (start < 0) {
        start = i;
        end = i;
        hash = 0;
      }
      for (; end <= i; end++) hash = mixHash(hash, text.charCodeAt(end));
    } else if (isBlank || i - end >= SIGNS_INSIDE) close();
  }
  close();
}

/** Returns a 30-bit hash, which fits in a small integer. Collisions within a message are rare. */
function mixHash(hash: number, code: number): number {
  return (Math.imul(hash, 0x01000193) ^ code) & 0x3fffffff;
}

/** Matches letters, digits and marks, approximated as all non-ASCII except common punctuation. */
function isWordUnit(code: number): boolean {
  if (code < 0x80)
    return (
      (code >= 0x30 && code <= 0x39) ||
      (code >= 0x41 && code <= 0x5a) ||
      (code >= 0x61 && code <= 0x7a)
    );
  return code >= 0xc0 && (code < 0x2000 || code > 0x2bff) && (code < 0xfe00 || code > 0xff0f);
}

/** Reports whether a script lacks spaces or agglutinates words. See `UNSPACED` in normalise.ts. */
function isUnspaced(code: number): boolean {
  if (code < 0x0e00) return false;
  return (
    code <= 0x0eff ||
    (code >= 0x1000 && code <= 0x11ff) ||
    (code >= 0x1780 && code <= 0x17ff) ||
    (code >= 0x3005 && code <= 0x9fff && (code < 0x3008 || code > 0x3020)) ||
    (code >= 0xac00 && code <= 0xdfff) ||
    (code >= 0xf900 && code <= 0xfaff)
  );
}

interface Piece {
  readonly kind: BodyKind;
  readonly leaf: Leaf<LeafContent>;
}

/** Factor by which HTML can exceed the length of the text kept, because of inline images. */
const RAW_HTML = 4;

/**
 * Returns the text of all bodies under a part. In a multipart/alternative, plain text comes first. HTML follows if it
 * has many more words, for example if the plain text is just "Your program cannot show this message". The index
 * (`short` links) also includes words found only in the HTML, since other mail programs display them.
 */
export function bodyText(
  root: Part<LeafContent>,
  links: LinkStyle,
  limits: {
    readonly bodyChars: number;
    readonly htmlChars: number;
    readonly htmlTags: number;
  },
) {
  let cut = false;
  let tags = 0;
  let room = limits.bodyChars;
  const texts: string[] = [];
  const add = (text: string) => {
    if (text.trim() === '') return;
    if (text.length > room) cut = true;
    if (room <= 0) return;
    const part = truncateText(text, room);
    texts.push(part);
    room -= part.length;
  };
  const textOf = ({ kind, leaf }: Piece): string => {
    if (leaf.content.cut) cut = true;
    const isMarkup = kind === 'html' || /html/.test(leaf.info.contentType);
    // Read one extra character to detect truncation.
    const raw = leafText(leaf.info, leaf.content, (isMarkup ? RAW_HTML : 1) * limits.bodyChars + 1);
    if (!isMarkup)
      return kind === 'plain' ? raw : (formattedText(raw, leaf.info.contentType) ?? raw);
    const budget = limits.htmlTags - tags;
    const result = htmlText(raw, links, { chars: limits.htmlChars, tags: budget });
    tags += result.tags;
    if (result.cut) cut = true;
    return result.text;
  };
  const visit = (part: Part<LeafContent>): void => {
    if (part.kind === 'leaf') {
      const piece = toPiece(part);
      if (piece !== null && room > 0) add(textOf(piece));
    } else if (part.subtype === 'alternative') {
      for (const text of alternative(part, textOf, links === 'short')) add(text);
    } else {
      for (const child of part.children) visit(child);
    }
  };
  visit(root);
  return { text: texts.join('\n\n'), cut, tags };
}

export function htmlBodies(leaves: readonly Leaf<LeafContent>[], maxChars: number): string[] {
  return leaves
    .filter(({ info }) => bodyKind(info) === 'html')
    .map(({ info, content }) => leafText(info, content, maxChars));
}

const LINE_END = 2;

export function hasPlainBody(leaves: readonly Leaf<LeafContent>[]): boolean {
  return leaves.some(({ info, content }) => bodyKind(info) === 'plain' && content.size > LINE_END);
}

function toPiece(leaf: Leaf<LeafContent>): Piece | null {
  const kind = bodyKind(leaf.info);
  return kind === null ? null : { kind, leaf };
}

/** Returns the text of a multipart/alternative, omitting forms superseded by a better one. */
function alternative(
  part: Part<LeafContent>,
  textOf: (piece: Piece) => string,
  isForIndex: boolean,
): string[] {
  const pieces = collectPieces(part);
  const textOfKind = (wanted: BodyKind): string =>
    pieces
      .filter(({ kind }) => kind === wanted)
      .map(textOf)
      .join('\n\n')
      .trim();
  const plain = textOfKind('plain');
  const html = textOfKind('html');
  const texts = [plain === '' && html === '' ? textOfKind('rich') || textOfKind('other') : plain];
  for (const other of [html, textOfKind('event')])
    texts.push(...addedText(texts, other, isForIndex));
  return texts;
}

function collectPieces(part: Part<LeafContent>): Piece[] {
  if (part.kind === 'multipart') return part.children.flatMap(collectPieces);
  const piece = toPiece(part);
  return piece === null ? [] : [piece];
}

/** Returns the other form if it has many more words, otherwise (for the index) just the words it adds. */
function addedText(texts: readonly string[], other: string, isForIndex: boolean): string[] {
  const { isMost, text } = newWords(other.replace(LINK, ' '), texts);
  if (isMost || texts.every((one) => one === '')) return [other];
  return isForIndex ? [text] : [];
}

const LINK = /\[(?:https?|ftp|mailto|tel|sms):[^\]\s]{1,2000}\]/gi;
