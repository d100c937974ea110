import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';
import { Parser } from 'htmlparser2-10';
import { type ShownAddress, Walk, type WalkLimits } from './element-walk.ts';
import { TextLayout } from './text-layout.ts';

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
