import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';
import { Parser as Htmlparser2Parser } from 'htmlparser2';
import { Parser } from 'htmlparser2-10';
import { cutText, decodeText } from './charsets.ts';
import { rtfText } from './containers.ts';
import { decodeQuotedPrintable } from './transfer-decoding.ts';

/** A part of the text with lines of its own. Lines that are finished stand in `text`, the current ones in `lines`. */
class Block {
  text = '';
  lines = '';
  /** The last of `lines` has a word. */
  hasWords = false;
  /** White space came behind the last word. */
  hasSpace = false;
  /** Line breaks that separate what comes next from what is there. */
  breaks = 0;

  constructor(
    readonly outer: Block | null,
    /** Line breaks before this block. */
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

  /** Adds the finished text of an inner block. */
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

/** A link whose words are being read. */
interface OpenLink {
  readonly href: string;
  /** UTF-16 units of `href` that the words so far are; -1 when they are something else. */
  same: number;
  hasWords: boolean;
}

/**
 * Builds plain text from the elements and texts of HTML, in their order: collapses white space, keeps blocks apart, and
 * indents lists and quotes. Its layout is that of html-to-text (without word wrap), for which it is a faster way.
 */
class TextLayout {
  #block = new Block(null, 1, false);
  readonly #links: OpenLink[] = [];

  /** @param keepsLines true where line feeds in a text end lines instead of being white space */
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

  /** @param change makes the text of the block what it is for the blocks around */
  closeBlock(trailing: number, change?: (text: string) => string): void {
    const block = this.#block;
    const text = change === undefined ? block.all() : change(block.all());
    this.#leave(block).addBlock(text, block.leading, Math.max(block.breaks, trailing));
  }

  openItem(): void {
    this.openBlock(1);
  }

  closeItem(prefix: string): ListItem {
    const block = this.#block;
    this.#leave(block);
    const { leading, breaks } = block;
    return { prefix, text: block.all(), leading, trailing: Math.max(breaks, 1) };
  }

  /** Adds a list, its texts indented by the longest prefix. */
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

  /** Adds the address of the link unless its words are the address. */
  closeLink(): void {
    const link = this.#links.pop();
    if (link === undefined || link.same === link.href.length) return;
    this.#add(link.hasWords ? ` [${link.href}]` : link.href, NONE);
  }

  /** Returns the text. To be called when all blocks are closed. */
  text(): string {
    return this.#block.all();
  }

  #leave(block: Block): Block {
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
    // Between blocks, white space says nothing.
    if (length > 0 && block.breaks === 0) block.hasSpace = true;
    return;
  }
  const end = wordsEnd(text);
  const words = withSingleSpaces(start === 0 && end === length ? text : text.slice(start, end));
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

function withSingleSpaces(words: string): string {
  return words.replace(SPACES, ' ');
}

/** Where the first word begins; the length of a text without words. */
function wordsStart(text: string): number {
  let at = 0;
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

/** Where the last word ends. */
function wordsEnd(text: string): number {
  let at = text.length;
  while (isSpace(text.charCodeAt(at - 1))) at--;
  return at;
}

function isSpace(unit: number): boolean {
  return (
    unit === 0x20 ||
    unit === 0x0a ||
    unit === 0x09 ||
    unit === 0x0d ||
    unit === 0x0c ||
    unit === 0x200b
  );
}

/** What an element does to the text of a page. */
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
  ...each('article aside div footer form header main nav section', block(1, 1)),
  ...each('tr caption dl dt dd center address option optgroup body figure figcaption', block(1, 1)),
  ...each('details summary fieldset legend hgroup noframes', block(1, 1)),
  // Outside a list; the items of a list have a block each.
  ...each('li', block(1, 1)),
  ...each('p h4 h5 h6 table', block(2, 2)),
  ...each('h1 h2 h3', block(3, 2)),
  ...each('pre', { kind: 'pre', leading: 2, trailing: 2 }),
  ...each('blockquote', { kind: 'quote', leading: 2, trailing: 2 }),
  ...each('ul menu dir', { kind: 'list', isOrdered: false }),
  ...each('ol', { kind: 'list', isOrdered: true }),
  // In a line with others whose words must not run together with theirs.
  ...each('td th button label textarea select iframe text', { kind: 'apart' }),
  ...each('title wbr script style', { kind: 'skip' }),
  ...each('br', { kind: 'break' }),
  ...each('hr', { kind: 'rule' }),
  ...each('img', { kind: 'image' }),
  ...each('a', { kind: 'link' }),
]);

function formatOf(name: string): Format {
  return FORMATS.get(name) ?? INLINE;
}

function block(leading: number, trailing: number): Format {
  return { kind: 'block', leading, trailing };
}

function each(names: string, format: Format): [string, Format][] {
  return names.split(' ').map((name) => [name, format]);
}

/**
 * Returns the number of an item as its list shows it.
 *
 * @param type the attribute of the list: `a`, `A`, `i` and `I` stand for letters and Roman numbers
 */
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

/** a to z, aa, ab, and so on; digits for what no letters stand for. */
function letters(number: number): string {
  if (!Number.isSafeInteger(number) || number < 1) return String(number);
  let text = '';
  for (let left = number; left > 0; left = Math.floor((left - 1) / 26))
    text = String.fromCharCode(0x61 + ((left - 1) % 26)) + text;
  return text;
}

const ROMAN = [
  ...([
    [1000, 'M'],
    [900, 'CM'],
    [500, 'D'],
    [400, 'CD'],
    [100, 'C'],
    [90, 'XC'],
  ] as const),
  ...([
    [50, 'L'],
    [40, 'XL'],
    [10, 'X'],
    [9, 'IX'],
    [5, 'V'],
    [4, 'IV'],
    [1, 'I'],
  ] as const),
] as const;

/** Digits for what has no Roman number. */
function roman(number: number): string {
  if (!Number.isInteger(number) || number < 1 || number > 3999) return String(number);
  let text = '';
  let left = number;
  for (const [value, sign] of ROMAN) {
    const times = Math.floor(left / value);
    text += sign.repeat(times);
    left -= times * value;
  }
  return text;
}

interface WalkLimits {
  /** Levels of elements; an item of a list is two. */
  readonly depth: number;
  /** Elements, texts and comments within one element that is no list. */
  readonly children: number;
}

/** Returns the address that is shown behind the words of a link, or an empty text for none. */
type ShownAddress = (href: string) => string;

class Frame {
  children = 0;
  /** What stands before the item of a list that this element is; null where it is none. */
  prefix: string | null = null;
  /** Of a link whose address is shown. */
  hasAddress = false;
  /** Of a list, as are the number of the next item and what kind of number it is. */
  readonly items: ListItem[] | null;
  number = 1;
  type: string | undefined;

  constructor(
    readonly outer: Frame | null,
    readonly name: string,
    readonly format: Format,
    /** How many levels of elements there may be below its children. */
    readonly level: number,
  ) {
    this.items = format.kind === 'list' ? [] : null;
  }
}

const WITH_ATTRIBUTES = new Set(['a', 'img', 'ol']);
/** Elements whose text has neither tags nor entities, of those whose text is shown. */
const RAW = new Set(['textarea', 'xmp']);
const RULE = '-'.repeat(40);

/** Turns elements and texts, as the parser finds them, into the layout of a text. */
class Walk {
  /** The HTML is beyond the limits. */
  isOver = false;
  /** The attributes of the tag that is being read say something. */
  wantsAttributes = false;
  /** The text of the element on top is as it is written. */
  isRaw = false;
  #top: Frame;
  /** The tag that is being read, and those of its attributes that say something. */
  #tag: string | null = null;
  #href: string | undefined;
  #alt: string | undefined;
  #start: string | undefined;
  #type: string | undefined;
  /** The text that is being read. */
  #text = '';

  constructor(
    private readonly address: ShownAddress,
    private readonly limits: WalkLimits,
    readonly layout: TextLayout,
  ) {
    this.#top = new Frame(null, '', formatOf(''), limits.depth);
  }

  /** Takes the name of a tag whose attributes are read next. */
  readTag(name: string): void {
    this.#tag = name;
    this.wantsAttributes = WITH_ATTRIBUTES.has(name);
    if (!this.wantsAttributes) return;
    this.#href = undefined;
    this.#alt = undefined;
    this.#start = undefined;
    this.#type = undefined;
  }

  /** Takes an attribute of the tag that is being read. Of several with one name, the first counts. */
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
    else this.#top = new Frame(this.#top, name, this.#top.format, this.#top.level);
  }

  addText(text: string): void {
    this.#text += text;
  }

  /** Takes a comment or a processing instruction. */
  addNote(): void {
    this.settle();
    const { items } = this.#top;
    if (this.#takesChild() && items !== null) this.#item(items, '');
  }

  close(): void {
    // One that ends itself, or that its end tag alone stands for.
    this.open();
    this.settle();
    this.isRaw = false;
    const frame = this.#top;
    // The parser closes a tag without an end, too, which was not opened here.
    if (frame.outer === null) return;
    this.#top = frame.outer;
    if (this.isOver) return;
    this.#end(frame);
    if (frame.prefix !== null) frame.outer.items?.push(this.layout.closeItem(frame.prefix));
  }

  /** Leaves out a tag that does not end. The rest of the text began as a tag, so that it has no entities. */
  stopReading(): void {
    this.#tag = null;
    this.isRaw = true;
  }

  /** Takes the text that ends where something else begins. */
  settle(): void {
    const text = this.#text;
    if (text === '') return;
    this.#text = '';
    const { items } = this.#top;
    if (!this.#takesChild()) return;
    if (items === null) this.layout.add(text);
    // A list has no text of its own but what is more than blanks, of whatever kind.
    else if (text.trim() !== '') this.#item(items, text);
  }

  /** Counts a node within the element on top; false where nothing of it is read. */
  #takesChild(): boolean {
    const frame = this.#top;
    if (this.isOver || frame.format.kind === 'skip') return false;
    frame.children++;
    if (frame.children > this.limits.children && frame.items === null) this.isOver = true;
    return !this.isOver;
  }

  /** Adds what is no element to a list. */
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
    const format = formatOf(name);
    const frame = new Frame(outer, name, format, outer.level - 1);
    this.#top = frame;
    if (outer.items !== null) {
      frame.prefix = name === 'li' ? prefixOf(outer) : '';
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
        // The address of a picture says nothing to a reader; its alternative text does.
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
        layout.closeBlock(format.trailing, quoted);
        break;
      case 'list': {
        const breaks = frame.outer?.name === 'li' ? 1 : 2;
        layout.addList(frame.items ?? [], breaks, breaks);
        break;
      }
    }
  }
}

/** The sign or number before the next item of a list. */
function prefixOf(list: Frame): string {
  const isOrdered = list.format.kind === 'list' && list.format.isOrdered;
  const prefix = isOrdered ? ` ${listNumber(list.number++, list.type)}. ` : ' * ';
  // A list within an item stands behind the indentation of that.
  return list.outer?.name === 'li' ? prefix.trimStart() : prefix;
}

function quoted(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text[start] === '\n') start++;
  while (end > start && text[end - 1] === '\n') end--;
  return `> ${text.slice(start, end).replaceAll('\n', '\n> ')}`;
}

/**
 * Returns the text of HTML, or null where it is beyond the limits. The parser's events become text as they come; no
 * tree is built. The result is that of html-to-text, whose version of the parser this is: versions differ in the
 * elements that they close.
 */
export function walkHtml(html: string, address: ShownAddress, limits: WalkLimits): string | null {
  const walk = new Walk(address, limits, new TextLayout(false));
  run(walk, html);
  return walk.isOver ? null : walk.layout.text();
}

/** Returns the text of HTML whose line feeds are the ends of its lines, whatever its depth. */
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
  parser.write(html);
  walk.stopReading();
  parser.end();
  walk.settle();
}

/**
 * The parser without what is of no use here: it makes neither an object of the attributes of every tag, nor texts of
 * those that say nothing.
 */
class WalkParser extends Parser {
  #isSelfClosing = false;

  constructor(private readonly walk: Walk) {
    super(
      {
        onopentagname: (name) => walk.readTag(name),
        onattribute: (name, value) => walk.addAttribute(name, decodedAttribute(value)),
        onclosetag: () => walk.close(),
        ontext: (text) => walk.addText(walk.isRaw ? text : decodedText(text)),
        oncomment: () => walk.addNote(),
        onprocessinginstruction: () => walk.addNote(),
      },
      // When the parser looks for none, it jumps from tag to tag and from quote to quote.
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
    // Only behind a tag that does not close itself, the parser reads tags and entities as text.
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

function decodedAttribute(value: string): string {
  return value.includes('&') ? decodeHTMLAttribute(value) : value;
}

/** HTML given to the parser at once: within one piece, the depth may run past what is asked for. */
const PIECE = 16 * 1024;

/** Elements without a text that anybody reads. */
const UNREAD = new Set(['script', 'style', 'title']);
/** Elements that have no end tag, and say something. */
const EMPTY = new Set(['br', 'hr', 'img', 'wbr']);
/**
 * Elements whose content parsers take for text, or read by other rules, depending on their version. Within the others
 * all parsers agree.
 */
const AMBIGUOUS = new Set(['iframe', 'noembed', 'noframes', 'plaintext', 'textarea', 'xmp']);
const FOREIGN = new Set(['svg', 'math']);
/** Attributes that the text of a page needs. */
const READ_ATTRIBUTES = ['href', 'alt', 'start', 'type'];

/**
 * Rewrites HTML so that every parser sees the same tree, no deeper than `most.depth` levels: each element that is
 * opened is closed, in order; text is escaped; what nobody reads is left out. Null for HTML that is deeper, or that has
 * more than `most.elements` elements.
 *
 * The parser that turns HTML into text is older than this one and closes fewer elements by itself, so the depth that
 * this one finds says nothing about what the other makes of the original. Its time grows with the depth at every tag.
 */
export function plainMarkup(
  html: string,
  most: { readonly depth: number; readonly elements: number },
): string | null {
  const out: string[] = [];
  let depth = 0;
  let elements = 0;
  let unread = 0;
  let over = false;
  const parser = new Htmlparser2Parser({
    onopentag(name, attributes) {
      depth++;
      elements++;
      if (depth > most.depth || elements > most.elements) over = true;
      if (UNREAD.has(name)) unread++;
      else if (unread === 0) out.push(`<${shownName(name)}${shownAttributes(attributes)}>`);
    },
    ontext(text) {
      if (unread === 0) out.push(escaped(text));
    },
    onclosetag(name, implied) {
      depth--;
      if (UNREAD.has(name)) unread--;
      else if (unread === 0 && !EMPTY.has(name)) out.push(`</${shownName(name)}>`);
      // A link that the next one ended: the address that the text shows behind it must not touch the next word.
      if (name === 'a' && implied) out.push(' ');
    },
  });
  for (let at = 0; at < html.length && !over; at += PIECE) parser.write(html.slice(at, at + PIECE));
  if (over) return null;
  parser.end();
  return over ? null : out.join('');
}

function shownName(name: string): string {
  if (AMBIGUOUS.has(name)) return 'label';
  return FOREIGN.has(name) ? 'span' : name;
}

function shownAttributes(attributes: Readonly<Record<string, string>>): string {
  return READ_ATTRIBUTES.map((name) => {
    const value = attributes[name];
    return value === undefined ? '' : ` ${name}="${escaped(value)}"`;
  }).join('');
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

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

/**
 * HTML of a mail as plain text, links in brackets behind their words. Whatever the nesting, all text is kept:
 * what the converter cannot walk within its limits is flattened first (losing links and lists, not words).
 *
 * @returns the text, whether the HTML was cut, and how many tags were read as a tree: none where it was flattened
 */
export function htmlText(
  html: string,
  links: LinkStyle,
  limits: {
    /** UTF-16 units of HTML; what lies beyond is cut. */
    readonly chars: number;
    /** Start tags and end tags; HTML that has more of them is flattened. */
    readonly tags: number;
  },
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

/**
 * Returns the words of a text in a format with a syntax of its own, which its beginning shows, or, for enriched text, its
 * type; null for any other text, HTML among it.
 */
export function formattedText(text: string, type = ''): string | null {
  if (/^\s{0,99}\{\\rtf/.test(text)) return rtfText(text);
  if (/^\s{0,99}BEGIN:V(?:CALENDAR|CARD|EVENT|TODO)\s/i.test(text)) return propertyText(text);
  if (type === 'text/enriched') return enrichedText(text);
  return type === 'text/richtext' ? richText(text) : null;
}

/** Properties of calendar entries (RFC 5545) and address cards (RFC 6350) that people would search for. */
const READ =
  /^(?:summary|description|location|comment|contact|organizer|attendee|dtstart|dtend|due|url|categories|x-alt-desc|conference|fn|n|nickname|email|tel|adr|label|org|title|role|note|bday|impp|x-(?:skype|jabber|icq|aim|msn)[\w-]{0,20})$/i;
/** Properties whose fields are separated by semicolons. */
const STRUCTURED = /^(?:n|adr|org)$/i;
/** A property: its name, perhaps behind that of a group, its parameters, and its value. */
const PROPERTY = /^(?:[\w-]{1,99}\.)?([\w-]{1,99})((?:;(?:"[^"]*"|[^":])*)?):(.*)$/s;
const ENCODED = /;(?:encoding=)?(quoted-printable|base64|b)(?:;|$)/i;
/** HTML that a calendar entry has as a value. */
const VALUE_LIMITS = { chars: 256 * 1024, tags: 20_000 };

/**
 * The words of a calendar or of address cards: lines unfolded, escapes undone, names of properties left out. A text
 * without any such property is given as it is.
 */
function propertyText(source: string): string {
  const lines = source
    .replace(/\r\n?/g, '\n')
    .replace(/\n[ \t]/g, '')
    .split('\n');
  const read: string[] = [];
  let isZone = false;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    // A time zone has the dates of its own rules.
    if (/^(?:begin|end):vtimezone\s*$/i.test(line)) isZone = /^b/i.test(line);
    const property = isZone ? null : PROPERTY.exec(line);
    if (property === null) continue;
    const [, name = '', parameters = '', value = ''] = property;
    const values = [value];
    const encoding = ENCODED.exec(parameters)?.[1]?.toLowerCase();
    if (encoding === 'quoted-printable')
      while (values.at(-1)?.endsWith('=') && i + 1 < lines.length) values.push(lines[++i] ?? '');
    if (!READ.test(name) || encoding === 'base64' || encoding === 'b') continue;
    read.push(valueText(name, parameters, quotedText(values, parameters)));
  }
  return read.length === 0 ? source : read.join('\n');
}

/** The value in its lines; those of version 2.1 of both formats may be quoted-printable, in a charset that they name. */
function quotedText(lines: readonly string[], parameters: string): string {
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
  const shown = isHtml ? htmlText(text, 'short', VALUE_LIMITS).text : text;
  return `${person.replaceAll('"', '')} ${shown}`.trim();
}

/** Commands of text/enriched (RFC 1896) go, with their parameters; one line end is a blank, and more are one fewer. */
function enrichedText(source: string): string {
  return source
    .replace(/\r\n?/g, '\n')
    .replace(/\n(\n*)/g, (_, more: string) => (more === '' ? ' ' : more))
    .replace(/<param>[^<]{0,1000}<\/param>/gi, '')
    .replace(/<<|<\/?[a-z][\w-]{0,60}>/gi, (sign) => (sign === '<<' ? '<' : ''));
}

/** Commands of text/richtext (RFC 1341) go; those for line ends and signs become them. */
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
