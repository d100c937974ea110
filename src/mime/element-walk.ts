import { type Format, formatOf } from './html-formats.ts';
import { listNumber } from './list-number.ts';
import type { ListItem, TextLayout } from './text-layout.ts';

export interface WalkLimits {
  /** Levels of elements; an item of a list is two. */
  readonly depth: number;
  /** Elements, texts and comments within one element that is no list. */
  readonly children: number;
}

/** Returns the address that is shown behind the words of a link, or an empty text for none. */
export type ShownAddress = (href: string) => string;

/** An element that is open. */
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
export class Walk {
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

  /** Takes the end of the tag that is being read. */
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

  /** Takes the end of the element on top. */
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
