import { type Seeded, seeded } from '../bench/seeded.ts';
import { plainWords, type ScannedDocument, type ScannedField, UNSPACED } from './plain-scan.ts';

const FIELDS = ['subject', 'from', 'to', 'cc', 'body', 'filename'] as const;
const DAY = 86_400_000;

/** A document as queries are made from it. */
type Source = ScannedDocument & { readonly date: number };

/** Makes queries of what stands in documents, so that most of them find something. */
export class QueryMaker {
  readonly #random: Seeded;

  constructor(
    private readonly documents: readonly Source[],
    seed: number,
  ) {
    this.#random = seeded('search queries', seed);
  }

  /** One to four conditions of one or two documents, put together with AND, OR and NOT. */
  query(): string {
    const doc = this.document();
    const parts = Array.from({ length: 1 + this.#random.below(4) }, () =>
      this.atom(this.#random.below(4) === 0 ? this.document() : doc),
    );
    return parts
      .map((part, i) => {
        const way = this.#random.below(10);
        if (way === 0) return `-${part}`;
        if (way === 1) return `NOT (${part} ${this.atom(this.document())})`;
        if (way <= 3 && i > 0) return `OR ${part}`;
        if (way === 4) return `(${part} OR ${this.atom(this.document())})`;
        return part;
      })
      .join(' ');
  }

  document(): Source {
    return this.pick(this.documents);
  }

  pick<T>(of: readonly T[]): T {
    const one = of[this.#random.below(of.length)];
    if (one === undefined) throw new Error('nothing to pick from');
    return one;
  }

  /** A condition that mostly holds for the document. */
  atom(doc: Source): string {
    switch (this.#random.below(12)) {
      case 0:
      case 1:
      case 2:
        return this.words(doc, 'body', 1);
      case 3:
        return this.words(doc, 'body', 2 + this.#random.below(2));
      case 4:
        return this.prefix(doc);
      case 5:
      case 6:
      case 7: {
        const field = this.pick(FIELDS);
        return `${field}:${this.words(doc, field, 1 + this.#random.below(2))}`;
      }
      case 8:
        return this.pick(doc.places.map(({ folder }) => `in:${folder}`));
      case 9:
        return this.pick(['is:unread', 'is:starred', 'is:read', 'has:attachment', 'is:unread']);
      case 10:
        return this.date(doc);
      default:
        return this.size(doc);
    }
  }

  /** So many words of the document that stand one after the other, in quotes. */
  words(doc: Source, field: ScannedField, count: number): string {
    const words = this.plain(doc, field);
    const at = this.#random.below(Math.max(1, words.length - count + 1));
    return `"${words.slice(at, at + count).join(' ') || 'nothing'}"`;
  }

  private prefix(doc: Source): string {
    const word = this.pick([...this.plain(doc, 'subject'), 'prefix']);
    return `${word.slice(0, 2 + this.#random.below(3))}*`;
  }

  /** Words of a field, but for scripts without spaces: those have rules of their own, tested elsewhere. */
  private plain(doc: Source, field: ScannedField): string[] {
    return plainWords(doc.fields[field] ?? '').filter(
      (word) => word.length > 1 && word.length < 40 && !UNSPACED.test(word),
    );
  }

  private date({ date }: Source): string {
    const at = (days: number) => new Date(date + days * DAY).toISOString().slice(0, 10);
    const far = 1 + this.#random.below(400);
    return this.pick([
      `before:${at(far)}`,
      `after:${at(-far)}`,
      `on:${at(0)}`,
      `on:${at(0).slice(0, 7)}`,
      `date:${at(-far)}..${at(far)}`,
    ]);
  }

  private size({ size }: Source): string {
    const away = this.#random.below(2_000);
    return this.pick([
      `larger:${Math.max(1, size - away)}`,
      `smaller:${size + away}`,
      `size:${Math.max(1, size - away)}..${size + away}`,
    ]);
  }
}
