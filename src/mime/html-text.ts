import type { HtmlToTextOptions } from 'html-to-text';
import { compile } from 'html-to-text';
import { cutText } from './charsets.ts';
import { plainMarkup } from './plain-markup.ts';

/** How links show in the text: `short` drops what follows the path (trackers), `full` keeps the whole address. */
export type LinkStyle = 'short' | 'full';

/** Marks where html-to-text met a limit of its own; a private-use character that mail has no reason to hold. */
const MET_LIMIT = '\uf8fe';
const MAX_LINK_CHARS = 200;
/** Deeper than any mail a program composes; each level costs three stack frames. */
const MAX_DEPTH = 200;
/** With fewer tags the worst nesting costs too little to look for. */
const FEW_TAGS = 5000;
/** More elements than this would make a tree of some 50 MB. */
const TREE = { depth: 2 * MAX_DEPTH, elements: 60_000 };

/** Elements that html-to-text takes for running text although they stand in a line of their own. */
const OWN_LINE = ['tr', 'caption', 'dt', 'dd', 'center', 'address', 'option', 'body', 'figcaption'];
/** Elements in a line with others whose words must not run together with theirs. */
const OWN_WORDS = ['td', 'th', 'button', 'label', 'textarea', 'select', 'iframe', 'text'];

const converters: Record<LinkStyle, (html: string) => string> = {
  short: compile(options(shortLink)),
  full: compile(options(fullLink)),
};

/** For HTML without elements: its line breaks are its lines. */
const convertFlat = compile({ ...options(fullLink), preserveNewlines: true });

function options(pathRewrite: (href: string) => string): HtmlToTextOptions {
  const heading = { selector: '', options: { uppercase: false } };
  return {
    wordwrap: false,
    // No base element: text before, after and between <body> elements is text all the same.
    baseElements: { selectors: [], returnDomByDefault: true },
    limits: {
      maxInputLength: Number.MAX_SAFE_INTEGER,
      maxDepth: MAX_DEPTH,
      maxChildNodes: 100_000,
      ellipsis: MET_LIMIT,
    },
    selectors: [
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ ...heading, selector })),
      { selector: 'title', format: 'skip' },
      ...OWN_LINE.map((selector) => ({
        selector,
        format: 'block',
        options: { leadingLineBreaks: 1, trailingLineBreaks: 1 },
      })),
      ...OWN_WORDS.map((selector) => ({ selector, format: 'apart' })),
      { selector: 'img', format: 'imageText' },
      {
        selector: 'a',
        options: { pathRewrite, hideLinkHrefIfSameAsText: true, noAnchorUrl: true },
      },
    ],
    formatters: {
      apart: (element, walk, builder) => {
        builder.addInline(' ');
        walk(element.children, builder);
        builder.addInline(' ');
      },
      // The address of a picture says nothing to a reader; its alternative text does.
      imageText: (element, _walk, builder) => {
        const alt: unknown = element.attribs?.alt;
        if (typeof alt === 'string' && alt.trim() !== '') builder.addInline(alt);
      },
    },
  };
}

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
  const input = cutText(source, limits.chars).replaceAll(MET_LIMIT, '');
  const tags = tagsIn(input);
  const markup = tags > limits.tags ? null : tags > FEW_TAGS ? plainMarkup(input, TREE) : input;
  const tree = markup === null ? null : tryConvert(converters[links], markup);
  if (tree !== null && !tree.includes(MET_LIMIT)) return { text: tidy(tree), cut, tags };
  const text = convertFlat(flatten(input)).replaceAll(MET_LIMIT, '');
  return { text: tidy(text), cut, tags: markup === null ? 0 : tags };
}

/** Start tags and end tags of HTML; other signs that look like their beginning count too. */
function tagsIn(html: string): number {
  let tags = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) tags++;
  return tags;
}

function tryConvert(convert: (html: string) => string, html: string): string | null {
  try {
    return convert(html);
  } catch (error) {
    // What is too much for the stack has a flat form that is not.
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** Pictures inside the HTML (`data:` URIs) are most of its length where they occur, and no text. */
function withoutInlineData(html: string): string {
  return html.includes('base64,') ? html.replace(/base64,[A-Za-z0-9+/=]{64,}/g, '') : html;
}

/** UTF-16 units of HTML that are flattened at once, about. */
const FLAT_PIECE = 64 * 1024;
const RAW_TEXT = /^(?:script|style|title|textarea|xmp)$/i;
const TAG_OR_SIGN = /<(?:\/?([a-z][^\s/<>]{0,20})[^<>]*>?|[!?])?/gi;
const BLOCK =
  /^(?:p|div|br|hr|li|ul|ol|dl|dt|dd|tr|table|h[1-6]|blockquote|pre|center|section|article|header|footer|form|body|html)$/i;

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
  if (BLOCK.test(name)) return '\n';
  return /^t[dh]$/i.test(name) ? ' ' : '';
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
