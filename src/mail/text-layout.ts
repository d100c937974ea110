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
    /** White space is kept. */
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

export interface ListItem {
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
export class TextLayout {
  #block = new Block(null, 1, false);
  readonly #links: OpenLink[] = [];

  /** @param keepsLines true where line feeds in a text end lines instead of being white space */
  constructor(private readonly keepsLines: boolean) {}

  /** Adds running text. */
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
