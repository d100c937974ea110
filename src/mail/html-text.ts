import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';
import { Parser } from 'htmlparser2-10';
import { decodeText, truncateText } from './charsets.ts';
import { rtfText } from './containers.ts';
import { decodeQuotedPrintable } from './transfer-decoding.ts';

/** A block of text with its own lines. Finished lines are in `text`, the current ones in `lines`. */
class Block {
  text = '';
  lines = '';
  hasWords = false;
  hasSpace = false;
  breaks = 0;

  constructor(
    readonly outer: Block | null,
    public leading: number,
    readonly isPre: boolean,
  ) {}

  all(): string {
    return this.lines === '' ? this.text : this.text + this.lines;
  }

  newLines(count: number): void {
    this.lines += count === 1 ? '\n' : '\n'.repeat(count);
    this.hasWords = false;
  }

  addBlock(text: string, leading: number, trailing: number): void {
    const before = this.all();
    const breaks = Math.max(this.breaks, leading);
    this.lines = '';
    this.hasWords = false;
    if (before === '') {
      this.text = text;
      this.leading = breaks;
    } else this.text = `${before}${'\n'.repeat(breaks)}${text}`;
    this.breaks = trailing;
  }
}

interface ListItem {
  readonly prefix: string;
  readonly text: string;
  readonly leading: number;
  readonly trailing: number;
}

interface OpenLink {
  readonly href: string;
  /** Number of UTF-16 units of `href` that the text has matched so far, or -1 once they differ. */
  same: number;
  hasWords: boolean;
}

/** Lays out HTML as plain text with blocks, lists and quotes. Like html-to-text without word wrap, but faster. */
class TextLayout {
  #block = new Block(null, 1, false);
  readonly #links: OpenLink[] = [];

  /** @param keepsLines true if line feeds in text end lines, rather than being white space */
  constructor(private readonly keepsLines: boolean) {}

  add(text: string): void {
    this.#add(text, this.#links);
  }

  lineBreak(): void {
    const block = this.#block;
    if (block.isPre) block.text += '\n';
    else block.newLines(1);
  }

  openBlock(leading: number, isPre = false): void {
    const outer = this.#block;
    this.#block = new Block(outer, leading, isPre || outer.isPre);
  }

  closeBlock(trailing: number, change?: (text: string) => string): void {
    const block = this.#block;
    const text = change === undefined ? block.all() : change(block.all());
    this.#closeBlock(block).addBlock(text, block.leading, Math.max(block.breaks, trailing));
  }

  openItem(): void {
    this.openBlock(1);
  }

  closeItem(prefix: string): ListItem {
    const block = this.#block;
    this.#closeBlock(block);
    const { leading, breaks } = block;
    return { prefix, text: block.all(), leading, trailing: Math.max(breaks, 1) };
  }

  addList(items: readonly ListItem[], leading: number, trailing: number): void {
    const width = items.reduce((most, { prefix }) => Math.max(most, prefix.length), 0);
    const indent = `\n${' '.repeat(width)}`;
    const list = new Block(null, leading, false);
    for (const item of items) {
      const text = item.prefix.padEnd(width) + item.text.replaceAll('\n', indent);
      list.addBlock(text, item.leading, item.trailing);
    }
    const text = list.all();
    if (text !== '') this.#block.addBlock(text, list.leading, trailing);
  }

  openLink(href: string): void {
    this.#links.push({ href, same: 0, hasWords: false });
  }

  closeLink(): void {
    const link = this.#links.pop();
    if (link === undefined || link.same === link.href.length) return;
    this.#add(link.hasWords ? ` [${link.href}]` : link.href, NONE);
  }

  text(): string {
    return this.#block.all();
  }

  #closeBlock(block: Block): Block {
    this.#block = block.outer ?? new Block(null, 1, false);
    return this.#block;
  }

  #add(text: string, links: readonly OpenLink[]): void {
    const block = this.#block;
    if (block.isPre) {
      block.text += text;
      const words = text.trim();
      if (words !== '') for (const link of links) compare(link, words);
      return;
    }
    if (this.keepsLines && text.includes('\n')) this.#addLines(block, text, links);
    else addWords(block, text, links);
  }

  #addLines(block: Block, text: string, links: readonly OpenLink[]): void {
    const lines = text.split('\n');
    if (lines.every((line) => wordsStart(line) === line.length)) {
      block.newLines(lines.length - 1);
      return;
    }
    if (block.breaks > 0) block.newLines(block.breaks);
    block.breaks = 0;
    for (const [i, line] of lines.entries()) {
      if (i > 0) block.newLines(1);
      addWords(block, line, links);
    }
  }
}

const NONE: readonly OpenLink[] = [];

function addWords(block: Block, text: string, links: readonly OpenLink[]): void {
  const { length } = text;
  const start = wordsStart(text);
  if (start === length) {
    // White space between blocks is insignificant.
    if (length > 0 && block.breaks === 0) block.hasSpace = true;
    return;
  }
  const end = wordsEnd(text);
  const words = collapseSpaces(start === 0 && end === length ? text : text.slice(start, end));
  if (block.breaks > 0) {
    block.newLines(block.breaks);
    block.breaks = 0;
  }
  const isApart = block.hasWords && (start > 0 || block.hasSpace);
  block.lines += isApart ? ` ${words}` : words;
  block.hasWords = true;
  block.hasSpace = end < length;
  for (const link of links) compare(link, words);
}

function compare(link: OpenLink, words: string): void {
  link.hasWords = true;
  if (link.same < 0) return;
  const text = words.replaceAll(' ', '');
  link.same = link.href.startsWith(text, link.same) ? link.same + text.length : -1;
}

const SPACES = / [ \t\r\n\f\u200b]+|[\t\r\n\f\u200b][ \t\r\n\f\u200b]*/g;

function collapseSpaces(words: string): string {
  return words.replace(SPACES, ' ');
}

function wordsStart(text: string): number {
  let at = 0;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function wordsEnd(text: string): number {
  let at = text.length;
  while (isSpace(text.charCodeAt(at - 1))) at--;
  return at;
}

function isSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d && unit !== 0x0b) || unit === 0x200b;
}

/** How an element affects the page's text. */
type Format =
  | { readonly kind: 'inline' | 'apart' | 'link' | 'skip' | 'break' | 'rule' | 'image' }
  | {
      readonly kind: 'block' | 'pre' | 'quote';
      readonly leading: number;
      readonly trailing: number;
    }
  | { readonly kind: 'list'; readonly isOrdered: boolean };

const INLINE: Format = { kind: 'inline' };

const FORMATS = new Map<string, Format>([
  ...pair('article aside div footer form header main nav section', block(1, 1)),
  ...pair('tr caption dl dt dd center address option optgroup body figure figcaption', block(1, 1)),
  ...pair('details summary fieldset legend hgroup noframes', block(1, 1)),
  // For items outside a list, which creates blocks for its items.
  ...pair('li', block(1, 1)),
  ...pair('p h4 h5 h6 table', block(2, 2)),
  ...pair('h1 h2 h3', block(3, 2)),
  ...pair('pre', { kind: 'pre', leading: 2, trailing: 2 }),
  ...pair('blockquote', { kind: 'quote', leading: 2, trailing: 2 }),
  ...pair('ul menu dir', { kind: 'list', isOrdered: false }),
  ...pair('ol', { kind: 'list', isOrdered: true }),
  // Inline elements that separate words.
  ...pair('td th button label textarea select iframe text', { kind: 'apart' }),
  ...pair('title wbr script style', { kind: 'skip' }),
  ...pair('br', { kind: 'break' }),
  ...pair('hr', { kind: 'rule' }),
  ...pair('img', { kind: 'image' }),
  ...pair('a', { kind: 'link' }),
]);

function findFormat(name: string): Format {
  return FORMATS.get(name) ?? INLINE;
}

function block(leading: number, trailing: number): Format {
  return { kind: 'block', leading, trailing };
}

function pair(names: string, format: Format): [string, Format][] {
  return names.split(' ').map((name) => [name, format]);
}

/** @param type the list's attribute: `a` and `A` for letters, `i` and `I` for Roman numerals */
function listNumber(number: number, type: string | undefined): string {
  switch (type) {
    case 'a':
      return letters(number);
    case 'A':
      return letters(number).toUpperCase();
    case 'i':
      return roman(number).toLowerCase();
    case 'I':
      return roman(number);
    default:
      return String(number);
  }
}

/** Returns a to z, aa, ab and so on, or digits if the number is not positive. */
function letters(number: number): string {
  if (!Number.isSafeInteger(number) || number < 1) return String(number);
  let text = '';
  for (let left = number; left > 0; left = Math.floor((left - 1) / 26))
    text = String.fromCharCode(0x61 + ((left - 1) % 26)) + text;
  return text;
}

const ROMAN = {
  ...{ M: 1000, CM: 900, D: 500, CD: 400, C: 100, XC: 90, L: 50, XL: 40 },
  ...{ X: 10, IX: 9, V: 5, IV: 4, I: 1 },
};

/** Formats a number in Roman numerals, or in digits if that is impossible. */
function roman(number: number): string {
  if (!Number.isInteger(number) || number < 1 || number > 3999) return String(number);
  let text = '';
  let left = number;
  for (const [sign, value] of Object.entries(ROMAN)) {
    const times = Math.floor(left / value);
    text += sign.repeat(times);
    left -= times * value;
  }
  return text;
}

interface WalkLimits {
  /** Levels of nested elements. A list item counts as two. */
  readonly depth: number;
  /** Elements, text nodes and comments directly within an element that is not a list. */
  readonly children: number;
  readonly elements?: number;
}

/** Returns the address to show after a link's text, or an empty string. */
type ShownAddress = (href: string) => string;

class Frame {
  children = 0;
  prefix: string | null = null;
  hasAddress = false;
  /** Null outside lists, which also use the next item's number and numbering type. */
  readonly items: ListItem[] | null;
  number = 1;
  type: string | undefined;

  constructor(
    readonly outer: Frame | null,
    readonly name: string,
    readonly format: Format,
    /** Levels allowed below this element. */
    readonly level: number,
  ) {
    this.items = format.kind === 'list' ? [] : null;
  }
}

const WITH_ATTRIBUTES = new Set(['a', 'img', 'ol']);
const RAW = new Set(['textarea', 'xmp']);
const RULE = '-'.repeat(40);
const MAX_IGNORED = 1000;

class Walk {
  isOver = false;
  wantsAttributes = false;
  /** True if the top element's text is literal. */
  isRaw = false;
  #top: Frame;
  #elements = 0;
  #tag: string | null = null;
  #href: string | undefined;
  #alt: string | undefined;
  #start: string | undefined;
  #type: string | undefined;
  #text = '';

  constructor(
    private readonly address: ShownAddress,
    private readonly limits: WalkLimits,
    readonly layout: TextLayout,
  ) {
    this.#top = new Frame(null, '', findFormat(''), limits.depth);
  }

  readTag(name: string): void {
    this.#tag = name;
    this.wantsAttributes = WITH_ATTRIBUTES.has(name);
    if (!this.wantsAttributes) return;
    this.#href = undefined;
    this.#alt = undefined;
    this.#start = undefined;
    this.#type = undefined;
  }

  /** If an attribute is repeated, the first one wins. */
  addAttribute(name: string, value: string): void {
    if (name === 'href') this.#href ??= value;
    else if (name === 'alt') this.#alt ??= value;
    else if (name === 'start') this.#start ??= value;
    else if (name === 'type') this.#type ??= value;
  }

  open(): void {
    const name = this.#tag;
    if (name === null) return;
    this.settle();
    this.#tag = null;
    this.isRaw = RAW.has(name);
    if (this.#takesChild()) this.#begin(name);
    else this.#ignore(name);
  }

  /** Counts the level of an ignored element. It has no text to lay out, but its depth still slows the parser down. */
  #ignore(name: string): void {
    const { format, level } = this.#top;
    this.#top = new Frame(this.#top, name, format, level - 1);
    if (level < -MAX_IGNORED) this.isOver = true;
  }

  addText(text: string): void {
    this.#text += text;
  }

  addNote(): void {
    this.settle();
    const { items } = this.#top;
    if (this.#takesChild() && items !== null) this.#item(items, '');
  }

  close(): void {
    // A self-closing element, or one implied only by its end tag.
    this.open();
    this.settle();
    this.isRaw = false;
    const frame = this.#top;
    // The parser also closes unfinished tags, which were never opened here.
    if (frame.outer === null) return;
    this.#top = frame.outer;
    if (this.isOver) return;
    this.#end(frame);
    if (frame.prefix !== null) frame.outer.items?.push(this.layout.closeItem(frame.prefix));
  }

  /** Drops an unfinished tag. The remaining text was parsed as part of the tag, so it has no entities. */
  stopReading(): void {
    this.#tag = null;
    this.isRaw = true;
  }

  settle(): void {
    const text = this.#text;
    if (text === '') return;
    this.#text = '';
    const { items } = this.#top;
    if (!this.#takesChild()) return;
    if (items === null) this.layout.add(text);
    // A list ignores blank text.
    else if (text.trim() !== '') this.#item(items, text);
  }

  /** Counts a child of the top element. Returns false if the child is ignored. */
  #takesChild(): boolean {
    const frame = this.#top;
    if (this.isOver || frame.format.kind === 'skip') return false;
    frame.children++;
    if (frame.children > this.limits.children && frame.items === null) this.isOver = true;
    return !this.isOver;
  }

  #item(items: ListItem[], text: string): void {
    this.#openItem(this.#top);
    this.layout.add(text);
    items.push(this.layout.closeItem(''));
  }

  #openItem(list: Frame): void {
    if (list.level < 0) this.isOver = true;
    this.layout.openItem();
  }

  #begin(name: string): void {
    const outer = this.#top;
    const format = findFormat(name);
    const frame = new Frame(outer, name, format, outer.level - 1);
    this.#elements++;
    if (this.#elements > (this.limits.elements ?? Number.POSITIVE_INFINITY)) this.isOver = true;
    this.#top = frame;
    if (outer.items !== null) {
      frame.prefix = name === 'li' ? itemPrefix(outer) : '';
      this.#openItem(outer);
    }
    const layout = this.layout;
    switch (format.kind) {
      case 'skip':
        return;
      case 'break':
        layout.lineBreak();
        return;
      case 'image':
        // Readers need an image's alternative text, but not its address.
        if (this.#alt !== undefined && this.#alt.trim() !== '') layout.add(this.#alt);
        return;
      case 'rule':
        layout.openBlock(2);
        layout.add(RULE);
        layout.closeBlock(2);
        return;
      case 'list':
        if (format.isOrdered) {
          frame.number = Number(this.#start || '1');
          frame.type = this.#type;
        }
        return;
      case 'apart':
        layout.add(' ');
        break;
      case 'link': {
        const address = this.#shownAddress();
        frame.hasAddress = address !== '';
        if (frame.hasAddress) layout.openLink(address);
        break;
      }
      case 'block':
      case 'quote':
        layout.openBlock(format.leading);
        break;
      case 'pre':
        layout.openBlock(format.leading, true);
        break;
    }
    if (frame.level < 0) this.isOver = true;
  }

  #shownAddress(): string {
    const href = (this.#href ?? '').replace(/^mailto:/, '');
    return href === '' || href.startsWith('#') ? '' : this.address(href);
  }

  #end(frame: Frame): void {
    const { format } = frame;
    const layout = this.layout;
    switch (format.kind) {
      case 'apart':
        layout.add(' ');
        break;
      case 'link':
        if (frame.hasAddress) layout.closeLink();
        break;
      case 'block':
      case 'pre':
        layout.closeBlock(format.trailing);
        break;
      case 'quote':
        layout.closeBlock(format.trailing, quoteLines);
        break;
      case 'list': {
        const breaks = frame.outer?.name === 'li' ? 1 : 2;
        layout.addList(frame.items ?? [], breaks, breaks);
        break;
      }
    }
  }
}

function itemPrefix(list: Frame): string {
  const isOrdered = list.format.kind === 'list' && list.format.isOrdered;
  const prefix = isOrdered ? ` ${listNumber(list.number++, list.type)}. ` : ' * ';
  // A nested list is indented like its item.
  return list.outer?.name === 'li' ? prefix.trimStart() : prefix;
}

function quoteLines(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === '\n') start++;
  while (end > start && text[end - 1] === '\n') end--;
  return `> ${text.slice(start, end).replaceAll('\n', '\n> ')}`;
}

/**
 * Returns the text of HTML, or null if it exceeds the limits. Builds no tree: parser events go straight to the layout.
 * The result is identical to that of html-to-text. This requires the same parser version, as versions differ in which
 * elements they close.
 */
export function walkHtml(html: string, address: ShownAddress, limits: WalkLimits): string | null {
  const walk = new Walk(address, limits, new TextLayout(false));
  run(walk, html);
  return walk.isOver ? null : walk.layout.text();
}

/** Returns the text of HTML nested to any depth, with its line feeds as line endings. */
export function walkFlatHtml(html: string, address: ShownAddress): string {
  const walk = new Walk(address, NO_LIMITS, new TextLayout(true));
  run(walk, html);
  return walk.layout.text();
}

const NO_LIMITS: WalkLimits = {
  depth: Number.POSITIVE_INFINITY,
  children: Number.POSITIVE_INFINITY,
};

function run(walk: Walk, html: string): void {
  const parser = new WalkParser(walk);
  for (const piece of splitBeforeTags(html)) {
    // The parser takes longer per tag as the depth increases.
    if (walk.isOver) return;
    parser.write(piece);
  }
  walk.stopReading();
  parser.end();
  walk.settle();
}

/** Avoids building an attribute object per tag and the text of irrelevant attributes. */
class WalkParser extends Parser {
  #isSelfClosing = false;

  constructor(private readonly walk: Walk) {
    super(
      {
        onopentagname: (name) => walk.readTag(name),
        onattribute: (name, value) => walk.addAttribute(name, decodeAttribute(value)),
        onclosetag: () => walk.close(),
        ontext: (text) => walk.addText(walk.isRaw ? text : decodedText(text)),
        oncomment: () => walk.addNote(),
        onprocessinginstruction: () => walk.addNote(),
      },
      // Without entities, the parser jumps from tag to tag and from quote to quote.
      { decodeEntities: false },
    );
  }

  override onselfclosingtag(end: number): void {
    this.#isSelfClosing = true;
    super.onselfclosingtag(end);
    this.#isSelfClosing = false;
  }

  override onopentagend(end: number): void {
    this.walk.open();
    // The parser reads tags and entities as text only after a tag that is not self-closing.
    if (this.#isSelfClosing) this.walk.isRaw = false;
    super.onopentagend(end);
  }

  override onattribname(start: number, end: number): void {
    if (this.walk.wantsAttributes) super.onattribname(start, end);
  }

  override onattribdata(start: number, end: number): void {
    if (this.walk.wantsAttributes) super.onattribdata(start, end);
  }

  override onattribentity(codePoint: number): void {
    if (this.walk.wantsAttributes) super.onattribentity(codePoint);
  }

  override onattribend(quote: Quote, end: number): void {
    if (this.walk.wantsAttributes) super.onattribend(quote, end);
  }
}

type Quote = Parameters<Parser['onattribend']>[0];

function decodedText(text: string): string {
  return text.includes('&') ? decodeHTML(text) : text;
}

function decodeAttribute(value: string): string {
  return value.includes('&') ? decodeHTMLAttribute(value) : value;
}

/** How to show links in the text. `short` drops the query and fragment (trackers); `full` keeps the whole address. */
export type LinkStyle = 'short' | 'full';

const MAX_LINK_CHARS = 200;
const WALK: WalkLimits = { depth: 200, children: 100_000, elements: 60_000 };
const addresses: Record<LinkStyle, (href: string) => string> = { short: shortLink, full: fullLink };

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
  const source = dropInlineImages(html);
  const cut = source.length > limits.chars;
  const input = truncateText(source, limits.chars);
  const tags = countTags(input);
  const isFlat = tags > limits.tags;
  const text =
    (isFlat ? null : walkHtml(input, addresses[links], WALK)) ??
    walkFlatHtml(flatten(input), fullLink);
  return { text: tidy(text), cut, tags: isFlat ? 0 : tags };
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
const IN_LINE = /^(?:inline|link|image|skip)$/;

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
  const { kind } = findFormat(name.toLowerCase());
  if (kind === 'apart') return ' ';
  return IN_LINE.test(kind) ? '' : '\n';
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
