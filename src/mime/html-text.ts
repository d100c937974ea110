import { cutText } from './charsets.ts';
import { formatOf } from './html-formats.ts';
import { walkFlatHtml, walkHtml } from './html-walk.ts';
import { plainMarkup } from './plain-markup.ts';

/** How links show in the text: `short` drops what follows the path (trackers), `full` keeps the whole address. */
export type LinkStyle = 'short' | 'full';

const MAX_LINK_CHARS = 200;
/** Deeper and wider than any mail a program composes. */
const WALK = { depth: 200, children: 100_000 };
/** With fewer tags the worst nesting costs too little to look for. */
const FEW_TAGS = 5000;
/** What HTML of more tags may hold; the depth counts elements without text, too. */
const MARKUP = { depth: 2 * WALK.depth, elements: 60_000 };

const addresses: Record<LinkStyle, (href: string) => string> = { short: shortLink, full: fullLink };

/** Only addresses a reader could visit; `javascript:`, `data:` and `cid:` are none. */
function fullLink(href: string): string {
  const link = href.trim();
  if (/^[a-z][a-z0-9+.-]{0,20}:/i.test(link) && !/^(?:https?|ftp|mailto|tel|sms):/i.test(link)) {
    return '';
  }
  return cutText(link, 2000);
}

function shortLink(href: string): string {
  const link = fullLink(href);
  if (!/^https?:/i.test(link) || link.length <= 60) return cutText(link, MAX_LINK_CHARS);
  return cutText(link.replace(/[?#].*$/s, ''), MAX_LINK_CHARS);
}

/** How much HTML becomes text. */
export interface HtmlLimits {
  /** UTF-16 units of HTML; what lies beyond is cut. */
  readonly chars: number;
  /** Start tags and end tags; HTML that has more of them is flattened. */
  readonly tags: number;
}

/**
 * HTML of a mail as plain text, links in brackets behind their words. Whatever the nesting, all text is kept:
 * what the converter cannot walk within its limits is flattened first (losing links and lists, not words).
 *
 * @returns the text, whether the HTML was cut, and how many tags were read as a tree: none where it was flattened
 */
export function htmlText(
  html: string,
  links: LinkStyle,
  limits: HtmlLimits,
): { readonly text: string; readonly cut: boolean; readonly tags: number } {
  const source = withoutInlineData(html);
  const cut = source.length > limits.chars;
  const input = cutText(source, limits.chars);
  const tags = tagsIn(input);
  const markup = tags > limits.tags ? null : tags > FEW_TAGS ? plainMarkup(input, MARKUP) : input;
  const text = markup === null ? null : walkHtml(markup, addresses[links], WALK);
  if (text !== null) return { text: tidy(text), cut, tags };
  const flat = walkFlatHtml(flatten(input), fullLink);
  return { text: tidy(flat), cut, tags: markup === null ? 0 : tags };
}

/** Start tags and end tags of HTML; other signs that look like their beginning count too. */
function tagsIn(html: string): number {
  let tags = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) tags++;
  return tags;
}

/** Pictures inside the HTML (`data:` URIs) are most of its length where they occur, and no text. */
function withoutInlineData(html: string): string {
  return html.includes('base64,') ? html.replace(/base64,[A-Za-z0-9+/=]{64,}/g, '') : html;
}

/** UTF-16 units of HTML that are flattened at once, about. */
const FLAT_PIECE = 64 * 1024;
const RAW_TEXT = /^(?:script|style|title|textarea|xmp)$/i;
const TAG_OR_SIGN = /<(?:\/?([a-z][^\s/<>]{0,20})[^<>]*>?|[!?])?/gi;
const IN_LINE = /^(?:inline|link|image|skip)$/;

/** The same words without any nesting: tags of blocks become line breaks, others go. Linear in the input. */
function flatten(html: string): string {
  const unfolded = html.replace(/\s+/g, ' ');
  const flat = piecesOf(unfolded)
    .map((piece) => piece.replace(TAG_OR_SIGN, flatTag))
    .join('');
  return flat.replace(/\n[\n ]*\n/g, '\n\n');
}

/** What stands for a tag; a sign that begins none must not begin one once the tag behind it is gone. */
function flatTag(tag: string, name: string | undefined): string {
  if (name === undefined) return tag === '<' ? '&lt;' : tag;
  if (RAW_TEXT.test(name)) return tag;
  const { kind } = formatOf(name.toLowerCase());
  if (kind === 'apart') return ' ';
  return IN_LINE.test(kind) ? '' : '\n';
}

/**
 * HTML in pieces, each of which but the first begins with `<`, so that no tag is cut. V8 collects all matches of an
 * expression before it replaces the first: some 200 bytes for each of several hundred thousand tags.
 */
function piecesOf(html: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < html.length; ) {
    const next = html.indexOf('<', at + FLAT_PIECE);
    const end = next < 0 ? html.length : next;
    pieces.push(html.slice(at, end));
    at = end;
  }
  return pieces;
}

/** Layout tables leave runs of blank lines and trailing blanks; no-break spaces are there for layout too. */
function tidy(text: string): string {
  return text
    .replaceAll('\u00a0', ' ')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
