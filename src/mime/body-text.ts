import { cutText } from './charsets.ts';
import { htmlText, type LinkStyle } from './html-text.ts';
import { isBodyText, type LeafContent, leafText } from './leaf-content.ts';
import type { Leaf, Part } from './part-tree.ts';

export interface BodyLimits {
  readonly bodyChars: number;
  readonly htmlChars: number;
  readonly htmlTags: number;
}

/** Text of a message's own bodies, in the order of the source. */
export interface BodyText {
  readonly text: string;
  readonly cut: boolean;
  /** Tags of HTML that were read as trees. */
  readonly tags: number;
}

/** A body as it stands in the message, before HTML became text. */
interface Piece {
  readonly html: boolean;
  readonly leaf: Leaf<LeafContent>;
}

/** HTML before its pictures are taken out may be this many times as long as the text that is kept. */
const RAW_HTML = 4;

/** A plain alternative is a stub when its HTML alternative says this many times as much… */
const STUB_RATIO = 3;
/** …and this many characters more ("Your program cannot show this message", with a newsletter). */
const STUB_SLACK = 200;

/**
 * The text of all bodies under a part. Of a multipart/alternative the plain text stands for all, unless it is
 * empty or a stub: then the HTML is added, for words that only it has are searched for too.
 */
export function bodyText(root: Part<LeafContent>, links: LinkStyle, limits: BodyLimits): BodyText {
  let cut = false;
  let tags = 0;
  let room = limits.bodyChars;
  const texts: string[] = [];
  const add = (text: string) => {
    if (text.trim() === '') return;
    if (text.length > room) cut = true;
    if (room <= 0) return;
    const kept = cutText(text, room);
    texts.push(kept);
    room -= kept.length;
  };
  const textOf = ({ html, leaf }: Piece): string => {
    if (leaf.content.cut) cut = true;
    // One char beyond the ceiling shows that there was more.
    const raw = leafText(leaf.info, leaf.content, (html ? RAW_HTML : 1) * limits.bodyChars + 1);
    if (!html) return raw;
    const left = limits.htmlTags - tags;
    const converted = htmlText(raw, links, { chars: limits.htmlChars, tags: left });
    tags += converted.tags;
    if (converted.cut) cut = true;
    return converted.text;
  };
  const visit = (part: Part<LeafContent>): void => {
    if (part.kind === 'leaf') {
      const piece = pieceOf(part);
      if (piece !== null && room > 0) add(textOf(piece));
    } else if (part.subtype === 'alternative') {
      for (const text of alternative(part.children, textOf)) add(text);
    } else {
      for (const child of part.children) visit(child);
    }
  };
  visit(root);
  return { text: texts.join('\n\n'), cut, tags };
}

/** Returns the HTML of each body that is HTML, at most `maxChars` of each. */
export function htmlBodies(leaves: readonly Leaf<LeafContent>[], maxChars: number): string[] {
  return leaves
    .filter(({ info }) => info.contentType === 'text/html' && isBodyText(info))
    .map(({ info, content }) => leafText(info, content, maxChars));
}

/** An empty part has its line end. Bytes. */
const LINE_END = 2;

/** Returns whether a body is text that is no HTML, and not empty. */
export function hasPlainBody(leaves: readonly Leaf<LeafContent>[]): boolean {
  return leaves.some(
    ({ info, content }) =>
      info.contentType !== 'text/html' && isBodyText(info) && content.size > LINE_END,
  );
}

function pieceOf(leaf: Leaf<LeafContent>): Piece | null {
  if (!isBodyText(leaf.info)) return null;
  return { html: leaf.info.contentType === 'text/html', leaf };
}

function alternative(
  parts: readonly Part<LeafContent>[],
  textOf: (piece: Piece) => string,
): string[] {
  const pieces = parts.flatMap(piecesUnder);
  const plainPieces = pieces.filter((piece) => !piece.html);
  const htmlPieces = pieces.filter((piece) => piece.html);
  const plain = plainPieces.map(textOf).join('\n\n').trim();
  const markup = htmlPieces.reduce((sum, { leaf }) => sum + leaf.content.size, 0);
  // Markup is never shorter than its text, so most plain parts are known to be no stub without a conversion.
  if (plain !== '' && markup <= STUB_RATIO * plain.length + STUB_SLACK) return [plain];
  const html = htmlPieces.map(textOf).join('\n\n').trim();
  if (plain === '') return [html];
  return html.length > STUB_RATIO * plain.length + STUB_SLACK ? [plain, html] : [plain];
}

function piecesUnder(part: Part<LeafContent>): Piece[] {
  if (part.kind === 'multipart') return part.children.flatMap(piecesUnder);
  const piece = pieceOf(part);
  return piece === null ? [] : [piece];
}
