import { cutText } from './charsets.ts';
import { htmlText, type LinkStyle } from './html-text.ts';
import { type BodyKind, bodyKind, type LeafContent, leafText } from './leaf-content.ts';
import { newWords } from './new-words.ts';
import type { Leaf, Part } from './part-tree.ts';
import { formattedText } from './text-formats.ts';

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

/** A body in its form in the message, before HTML became text. */
interface Piece {
  readonly kind: BodyKind;
  readonly leaf: Leaf<LeafContent>;
}

/** HTML before its pictures are taken out may be this many times as long as the text that is kept. */
const RAW_HTML = 4;

/**
 * The text of all bodies under a part. Of a multipart/alternative, the plain text comes first; a form of it that says
 * much more follows ("Your program cannot show this message", with a newsletter). For the index (`short` links), words
 * that only the other form has follow in any case, since readers of other programs saw them.
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
  const textOf = ({ kind, leaf }: Piece): string => {
    if (leaf.content.cut) cut = true;
    const isMarkup = kind === 'html' || /html/.test(leaf.info.contentType);
    // One char beyond the ceiling shows that there was more.
    const raw = leafText(leaf.info, leaf.content, (isMarkup ? RAW_HTML : 1) * limits.bodyChars + 1);
    if (!isMarkup)
      return kind === 'plain' ? raw : (formattedText(raw, leaf.info.contentType) ?? raw);
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
      for (const text of alternative(part, textOf, links === 'short')) add(text);
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
    .filter(({ info }) => bodyKind(info) === 'html')
    .map(({ info, content }) => leafText(info, content, maxChars));
}

/** An empty part has its line end. Bytes. */
const LINE_END = 2;

/** Returns whether a body is plain text, and not empty. */
export function hasPlainBody(leaves: readonly Leaf<LeafContent>[]): boolean {
  return leaves.some(({ info, content }) => bodyKind(info) === 'plain' && content.size > LINE_END);
}

function pieceOf(leaf: Leaf<LeafContent>): Piece | null {
  const kind = bodyKind(leaf.info);
  return kind === null ? null : { kind, leaf };
}

/** The text of a multipart/alternative: forms that nobody is meant to read where there is a better one are left out. */
function alternative(
  part: Part<LeafContent>,
  textOf: (piece: Piece) => string,
  isForIndex: boolean,
): string[] {
  const pieces = piecesUnder(part);
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
    texts.push(...addition(texts, other, isForIndex));
  return texts;
}

function piecesUnder(part: Part<LeafContent>): Piece[] {
  if (part.kind === 'multipart') return part.children.flatMap(piecesUnder);
  const piece = pieceOf(part);
  return piece === null ? [] : [piece];
}

/** What another form of the same text adds: all of it, if it says much more; else, for the index, its new words. */
function addition(texts: readonly string[], other: string, isForIndex: boolean): string[] {
  const { isMost, text } = newWords(other.replace(LINK, ' '), texts);
  if (isMost || texts.every((one) => one === '')) return [other];
  return isForIndex ? [text] : [];
}

/** An address behind the words of a link. */
const LINK = /\[(?:https?|ftp|mailto|tel|sms):[^\]\s]{1,2000}\]/gi;
