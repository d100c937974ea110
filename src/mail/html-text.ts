import { compile, type HtmlToTextOptions } from 'html-to-text';
import { Parser } from 'htmlparser2-10';
import { decodeText, truncateText } from './charsets.ts';
import { rtfText } from './containers.ts';
import { lazy } from './normalise.ts';
import { decodeQuotedPrintable } from './transfer-decoding.ts';

const split = (names: string): readonly string[] => names.split(' ');

/** Elements on lines of their own, some of which html-to-text treats as inline. */
const LINES = split(
  'tr caption dl dt dd center address option optgroup body figure figcaption details summary fieldset legend hgroup noframes li',
);
const HEADINGS = split('h1 h2 h3 h4 h5 h6');
/** Inline elements that separate words. */
const WORDS = split('td th button label textarea select iframe text');
const BLOCKS = new Set([
  ...[...LINES, ...HEADINGS, ...split('article aside div footer form header main nav section')],
  ...split('p table pre blockquote ul menu dir ol br hr'),
]);

/** Marks text that exceeds a limit of html-to-text. A private-use character, which mail has no reason to contain. */
const ELLIPSIS = '\uf8fe';
/** Limits of a layout. Each level takes three stack frames, and each element about 1 kB. */
const LIMITS = { depth: 200, children: 100_000, elements: 60_000, attributes: 100_000 };

const MAX_ROMAN = 3999;

type Element = Parameters<NonNullable<HtmlToTextOptions['formatters']>[string]>[0];

/** @param address returns the address to show after a link's text, or an empty string */
function converter(address: (href: string) => string, preserveNewlines = false) {
  const asBlock = { format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } };
  return compile({
    wordwrap: false,
    preserveNewlines,
    baseElements: { selectors: [], returnDomByDefault: true },
    limits: {
      maxInputLength: Number.MAX_SAFE_INTEGER,
      ellipsis: ELLIPSIS,
      ...(preserveNewlines ? {} : { maxDepth: LIMITS.depth, maxChildNodes: LIMITS.children }),
    },
    selectors: [
      ...HEADINGS.map((selector) => ({ selector, options: { uppercase: false } })),
      ...LINES.map((selector) => ({ selector, ...asBlock })),
      ...WORDS.map((selector) => ({ selector, format: 'apart' })),
      ...['menu', 'dir'].map((selector) => ({ selector, format: 'unorderedList' })),
      { selector: 'title', format: 'skip' },
      { selector: 'img', format: 'alternative' },
      { selector: 'a', format: 'link' },
      { selector: 'ol', format: 'numbered' },
    ],
    formatters: {
      apart(element, walk, builder) {
        builder.addInline(' ');
        walk(element.children, builder);
        builder.addInline(' ');
      },
      // Readers need an image's alternative text, but not its address.
      alternative(element, _walk, builder) {
        const alt = attribute(element, 'alt');
        if (alt.trim() !== '') builder.addInline(alt);
      },
      numbered(element, walk, builder, options) {
        const first = Number(attribute(element, 'start') || 1);
        const last = first + (element.children?.length ?? 0);
        // Only these numbers have Roman digits and letters; html-to-text writes or throws nonsense for others.
        if (!(first >= 1 && last <= MAX_ROMAN)) element.attribs = { ...element.attribs, type: '1' };
        builder.options.formatters.orderedList?.(element, walk, builder, options);
      },
      link(element, walk, builder) {
        walk(element.children, builder);
        const href = attribute(element, 'href').replace(/^mailto:/, '');
        const shown = href === '' || href.startsWith('#') ? '' : address(href);
        const words = shown === '' ? '' : wordsOf(element, shown.length);
        if (shown !== words) builder.addInline(words === '' ? shown : ` [${shown}]`);
      },
    },
  });
}

function attribute({ attribs }: Element, name: string): string {
  return String(attribs?.[name] ?? '');
}

/** Returns the start of an element's text, without blanks: more than `most` UTF-16 units if there are as many. */
function wordsOf(element: Element, most: number): string {
  let words = '';
  const pending = [element];
  for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
    const text = node.type === 'text' ? String(node.data) : '';
    const own = node.name === 'img' ? attribute(node, 'alt') : text;
    words += own.replace(/[ \t\r\n\f\u200b]+/g, '');
    if (words.length > most) break;
    if (node.type === 'tag')
      for (const child of node.children?.toReversed() ?? []) pending.push(child);
  }
  return words;
}

/**
 * Reports whether html-to-text can lay out the HTML in little time and memory: its parser shifts an array of open elements
 * per tag, and it keeps an object per element. The parser here must have the same version, as versions differ in which
 * elements they close.
 */
function isModest(html: string): boolean {
  let depth = 0;
  let { elements, attributes } = LIMITS;
  let isDeep = false;
  const parser = new Parser(
    {
      onopentagname: () => {
        elements--;
        depth++;
        isDeep ||= depth > 2 * LIMITS.depth;
      },
      onattribute: () => {
        attributes--;
      },
      onclosetag: () => {
        depth--;
      },
    },
    { decodeEntities: false },
  );
  return splitBeforeTags(html).every((piece) => {
    parser.write(piece);
    return !isDeep && elements >= 0 && attributes >= 0;
  });
}

/** How to show links in the text. `short` drops the query and fragment (trackers); `full` keeps the whole address. */
export type LinkStyle = 'short' | 'full';

const MAX_LINK_CHARS = 200;
/** Compiled when first called, because the tables take 2 MB of each thread. */
const layouts = {
  short: lazy(() => converter(shortLink)),
  full: lazy(() => converter(fullLink)),
  flat: lazy(() => converter(fullLink, true)),
};

/** Returns the address if a reader could visit it, otherwise an empty string (`javascript:`, `data:`, `cid:`). */
function fullLink(href: string): string {
  const link = href.trim();
  if (/^[a-z][a-z0-9+.-]{0,20}:/i.test(link) && !/^(?:https?|ftp|mailto|tel|sms):/i.test(link)) {
    return '';
  }
  return truncateText(link, 2000);
}

function shortLink(href: string): string {
  const link = fullLink(href);
  if (!/^https?:/i.test(link) || link.length <= 60) return truncateText(link, MAX_LINK_CHARS);
  return truncateText(link.replace(/[?#].*$/s, ''), MAX_LINK_CHARS);
}

/**
 * Converts HTML mail to plain text, with links in brackets after their text. No words are lost: HTML that exceeds the
 * layout limits is flattened first, which loses only links and lists.
 *
 * @returns the text, whether the HTML was cut, and the number of tags laid out (0 if flattened)
 */
export function htmlText(
  html: string,
  links: LinkStyle,
  limits: {
    /** UTF-16 units of HTML to read. */
    readonly chars: number;
    readonly tags: number;
  },
): { readonly text: string; readonly cut: boolean; readonly tags: number } {
  const source = dropInlineImages(html).replaceAll(ELLIPSIS, '');
  const cut = source.length > limits.chars;
  const input = truncateText(source, limits.chars);
  const tags = countTags(input);
  const isFlat = tags > limits.tags;
  const text = (isFlat ? null : layOut(input, links)) ?? layouts.flat()(flatten(input));
  return { text: tidy(text), cut, tags: isFlat ? 0 : tags };
}

/** Shorter HTML costs too little to check its nesting. */
const FEW_CHARS = 64 * 1024;

function layOut(html: string, links: LinkStyle): string | null {
  if (html.length > FEW_CHARS && !isModest(html)) return null;
  const text = layouts[links]()(html);
  return text.includes(ELLIPSIS) ? null : text;
}

function countTags(html: string): number {
  let tags = 0;
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at + 1)) tags++;
  return tags;
}

/** Removes inline images, which are not text but often account for most of the HTML. */
function dropInlineImages(html: string): string {
  return html.includes('base64,') ? html.replace(/base64,[A-Za-z0-9+/=]{64,}/g, '') : html;
}

/** Approximate UTF-16 units of HTML to parse or flatten at a time. */
const PIECE = 16 * 1024;
const RAW_TEXT = /^(?:script|style|title|textarea|xmp)$/i;
const TAG_OR_SIGN = /<(?:\/?([a-z][^\s/<>]{0,20})[^<>]*>?|[!?])?/gi;

/** Removes all nesting but keeps the words. Block tags become line breaks; others are dropped. Runs in linear time. */
function flatten(html: string): string {
  const unfolded = html.replace(/\s+/g, ' ');
  const flat = splitBeforeTags(unfolded)
    .map((piece) => piece.replace(TAG_OR_SIGN, flattenTag))
    .join('');
  return flat.replace(/\n[\n ]*\n/g, '\n\n');
}

/** Escapes a lone `<`, which must not start a tag once the next tag is gone. */
function flattenTag(tag: string, name: string | undefined): string {
  if (name === undefined) return tag === '<' ? '&lt;' : tag;
  // HTML has no self-closing elements with these names, but the parser would nest them.
  if (RAW_TEXT.test(name)) return tag.replace(/\/>$/, '>');
  const key = name.toLowerCase();
  if (WORDS.includes(key)) return ' ';
  return BLOCKS.has(key) ? '\n' : '';
}

/** Splits HTML before tags to avoid a single `replace`, where V8 would collect all matches at 200 bytes each. */
function splitBeforeTags(html: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < html.length; ) {
    const next = html.indexOf('<', at + PIECE);
    const end = next < 0 ? html.length : next;
    pieces.push(html.slice(at, end));
    at = end;
  }
  return pieces;
}

/** Collapses the blank lines of layout tables, trims the ends of lines, and replaces no-break spaces. */
function tidy(text: string): string {
  return text
    .replaceAll('\u00a0', ' ')
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** Returns the words in enriched text, RTF, a calendar or an address card. Returns null for other text. */
export function formattedText(text: string, type = ''): string | null {
  if (/^\s{0,99}\{\\rtf/.test(text)) return rtfText(text);
  if (/^\s{0,99}BEGIN:V(?:CALENDAR|CARD|EVENT|TODO)\s/i.test(text)) return propertyText(text);
  if (type === 'text/enriched') return enrichedText(text);
  return type === 'text/richtext' ? richText(text) : null;
}

/** Searchable properties of calendar entries (RFC 5545) and address cards (RFC 6350). */
const READ =
  /^(?:summary|description|location|comment|contact|organizer|attendee|dtstart|dtend|due|url|categories|x-alt-desc|conference|fn|n|nickname|email|tel|adr|label|org|title|role|note|bday|impp|x-(?:skype|jabber|icq|aim|msn)[\w-]{0,20})$/i;
const STRUCTURED = /^(?:n|adr|org)$/i;
const PROPERTY = /^(?:[\w-]{1,99}\.)?([\w-]{1,99})((?:;(?:"[^"]*"|[^":])*)?):(.*)$/s;
const ENCODED = /;(?:encoding=)?(quoted-printable|base64|b)(?:;|$)/i;
const VALUE_LIMITS = { chars: 256 * 1024, tags: 20_000 };

/** Returns a calendar's or address card's words without property names. Returns text without properties unchanged. */
function propertyText(source: string): string {
  const lines = source
    .replace(/\r\n?/g, '\n')
    .replace(/\n[ \t]/g, '')
    .split('\n');
  const output: string[] = [];
  let isZone = false;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    // Dates in a time zone only describe its rules.
    if (/^(?:begin|end):vtimezone\s*$/i.test(line)) isZone = /^b/i.test(line);
    const property = isZone ? null : PROPERTY.exec(line);
    if (property === null) continue;
    const [, name = '', parameters = '', value = ''] = property;
    const values = [value];
    const encoding = ENCODED.exec(parameters)?.[1]?.toLowerCase();
    if (encoding === 'quoted-printable')
      while (values.at(-1)?.endsWith('=') && i + 1 < lines.length) values.push(lines[++i] ?? '');
    if (!READ.test(name) || encoding === 'base64' || encoding === 'b') continue;
    output.push(valueText(name, parameters, decodeValue(values, parameters)));
  }
  return output.length === 0 ? source : output.join('\n');
}

/** Decodes a value. Version 2.1 of both formats allows quoted-printable in a declared charset. */
function decodeValue(lines: readonly string[], parameters: string): string {
  if (!/;(?:encoding=)?quoted-printable/i.test(parameters)) return lines.join('');
  const bytes = decodeQuotedPrintable(Buffer.from(lines.join('\n')));
  return decodeText(bytes, /;charset=([^;:]{1,100})/i.exec(parameters)?.[1] ?? null);
}

function valueText(name: string, parameters: string, value: string): string {
  const person = /;CN=("[^"]*"|[^;:]*)/i.exec(parameters)?.[1] ?? '';
  const fields = STRUCTURED.test(name)
    ? value.replace(/(\\.)|;/gs, (_, escaped: string | undefined) => escaped ?? ' ')
    : value;
  const text = fields
    .replace(/\\(.)/gs, (_, sign: string) => (/n/i.test(sign) ? '\n' : sign))
    .replace(/^mailto:/i, '');
  const isHtml = /^x-alt-desc$/i.test(name) || /;fmttype="?text\/html/i.test(parameters);
  const plain = isHtml ? htmlText(text, 'short', VALUE_LIMITS).text : text;
  return `${person.replaceAll('"', '')} ${plain}`.trim();
}

/** Removes text/enriched commands (RFC 1896). Drops one line ending from each run; a single one becomes a blank. */
function enrichedText(source: string): string {
  return source
    .replace(/\r\n?/g, '\n')
    .replace(/\n(\n*)/g, (_, more: string) => (more === '' ? ' ' : more))
    .replace(/<param>[^<]{0,1000}<\/param>/gi, '')
    .replace(/<<|<\/?[a-z][\w-]{0,60}>/gi, (sign) => (sign === '<<' ? '<' : ''));
}

/** Removes text/richtext commands (RFC 1341), replacing those for line endings and characters. */
function richText(source: string): string {
  const signs: Readonly<Record<string, string>> = {
    nl: '\n',
    np: '\n',
    paragraph: '\n\n',
    lt: '<',
  };
  return source
    .replace(/\s+/g, ' ')
    .replace(/<comment>[^<]{0,10000}<\/comment>/gi, '')
    .replace(/<\/?([a-z][\w-]{0,60})>/gi, (_, name: string) => signs[name.toLowerCase()] ?? '');
}
