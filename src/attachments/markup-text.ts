import { StringDecoder } from 'node:string_decoder';
import { Parser } from 'htmlparser2';
import { type TextSink, Unreadable } from './text-sink.ts';

/**
 * Elements within elements, of which office programs write some dozens: the parser keeps the open ones in an array
 * whose front it shifts at every tag.
 */
const MAX_DEPTH = 1000;

/** Which elements of a kind of XML hold text; names without their namespace's prefix. */
export interface MarkupRules {
  /** Only below this element. */
  readonly within?: string;
  /** Elements in which text counts, at whatever depth. */
  readonly text: ReadonlySet<string>;
  /** Elements in which nothing counts. */
  readonly skip: ReadonlySet<string>;
  readonly skipWhen?: (name: string, attributes: Readonly<Record<string, string>>) => boolean;
  /** Elements at whose end a line ends. */
  readonly lineEnds: ReadonlySet<string>;
  /** Elements that are a sign. */
  readonly signs?: Readonly<Record<string, string>>;
  /** Elements at whose end words end. */
  readonly blanks: ReadonlySet<string>;
  /** An attribute that is text. */
  readonly attribute?: { readonly element: string; readonly name: string };
}

/**
 * Text out of XML as it comes, without a tree. The parser reads no document type, so it knows no entity but XML's
 * own and opens nothing outside; nesting is counted, not recursed into. `write` throws `Unreadable` (`malformed`) for
 * XML that nests deeper than 1,000 levels.
 */
export class MarkupText {
  readonly #parser: Parser;
  readonly #decoder = new StringDecoder('utf8');
  /** Elements that are open, of those that decide what counts. */
  #within = 0;
  #text = 0;
  /** Depth at which skipping began; 0: nothing is skipped. */
  #skipFrom = 0;
  #depth = 0;

  constructor(rules: MarkupRules, into: TextSink) {
    this.#within = rules.within === undefined ? 1 : 0;
    this.#parser = new Parser(
      {
        onopentag: (tag, attributes) => {
          const name = localName(tag);
          this.#depth++;
          if (this.#depth > MAX_DEPTH) throw new Unreadable('malformed');
          if (this.#skipFrom > 0) return;
          if (rules.skip.has(name) || rules.skipWhen?.(name, attributes) === true) {
            this.#skipFrom = this.#depth;
            return;
          }
          if (this.#within > 0) into.add(rules.signs?.[name] ?? '');
          if (name === rules.within) this.#within++;
          if (rules.text.has(name)) this.#text++;
          if (rules.attribute?.element === name) {
            into.add(attributes[rules.attribute.name] ?? '');
          }
        },
        ontext: (text) => {
          if (this.#skipFrom === 0 && this.#within > 0 && this.#text > 0) into.add(text);
        },
        onclosetag: (tag) => {
          const name = localName(tag);
          const skipped = this.#skipFrom > 0;
          if (this.#skipFrom === this.#depth) this.#skipFrom = 0;
          this.#depth--;
          if (skipped) return;
          if (name === rules.within) this.#within--;
          if (rules.text.has(name)) this.#text--;
          if (this.#within <= 0) return;
          if (rules.lineEnds.has(name)) into.add('\n');
          else if (rules.blanks.has(name)) into.add(' ');
        },
      },
      { xmlMode: true, decodeEntities: true },
    );
  }

  write(piece: Buffer): void {
    this.#parser.write(this.#decoder.write(piece));
  }

  end(): void {
    this.#parser.write(this.#decoder.end());
    this.#parser.end();
  }
}

function localName(tag: string): string {
  return tag.slice(tag.indexOf(':') + 1);
}
