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
  // A tag without an end is none.
  walk.forgetTag();
  parser.end();
  walk.settle();
}

/**
 * The parser without what is of no use here: it makes neither an object of the attributes of every tag, nor texts of
 * those that say nothing.
 */
class WalkParser extends Parser {
  constructor(private readonly walk: Walk) {
    super({
      onopentagname: (name) => walk.readTag(name),
      onattribute: (name, value) => walk.addAttribute(name, value),
      onclosetag: () => walk.close(),
      ontext: (text) => walk.addText(text),
      oncomment: () => walk.addNote(),
      onprocessinginstruction: () => walk.addNote(),
    });
  }

  override onopentagend(end: number): void {
    this.walk.open();
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
