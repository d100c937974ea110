import { MARK } from '../watch.ts';

/** Where in a message a payload stands, for the list in docs/testing.md. */
export type Kind =
  | 'HTML'
  | 'handler attribute'
  | 'SVG or MathML'
  | 'CSS'
  | 'header field'
  | 'file name'
  | 'body of another type'
  | 'attached file'
  | 'calendar or card'
  | 'document'
  | 'plain text'
  | 'size'
  | 'several by chance';

/** What a view must show, so that a payload counts as opened: nothing before it has hidden it. */
export interface Sign {
  readonly view: 'html' | 'headers' | 'plain' | 'thread' | 'files';
  readonly text: string;
}

/** One thing that is made to run or to call somebody when it is shown. */
export interface Payload {
  readonly number: number;
  readonly kind: Kind;
  /** What is hostile about it, for a failure. */
  readonly what: string;
  /** Null where a view leaves it out, as it may. */
  readonly sign: Sign | null;
  /** As a page without any protection would hold it; null for what is no HTML. */
  readonly html: string | null;
}

/** Puts the mark of a payload and the address of the trap into a text. */
export type Fill = (text: string) => string;

/** Gives each payload a number, by which what it runs and what it asks for are known again. */
export class Payloads {
  readonly all: Payload[] = [];

  /** @param trap address of a server that must not be asked for anything */
  constructor(private readonly trap: string) {}

  /**
   * Adds one.
   *
   * @param made what is known of it once its number is
   */
  add(
    kind: Kind,
    what: string,
    made: (fill: Fill, number: number) => Partial<Pick<Payload, 'sign' | 'html'>>,
  ): Filled {
    const number = this.all.length;
    const fill: Fill = (text) =>
      text
        .replaceAll('{js}', `self.ran=${markOf(number)};console.log(ran);alert(ran)`)
        .replaceAll('{url}', `${this.trap}/${number}`);
    const payload = { number, kind, what, sign: null, html: null, ...made(fill, number) };
    this.all.push(payload);
    return { payload, fill };
  }
}

/** A payload, and what writes it into its message. */
export interface Filled {
  readonly payload: Payload;
  readonly fill: Fill;
}

/** Returns what the script of a payload sets and prints. */
export function markOf(number: number): number {
  return MARK + number;
}

/** Returns the number of the payload whose script printed a text; undefined for another text. */
export function numberIn(text: string): number | undefined {
  const [mark] = /\b4217\d{3}\b/.exec(text) ?? [];
  return mark === undefined ? undefined : Number(mark) - MARK;
}
