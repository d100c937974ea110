import type { SearchNode } from '../../../search/ast.ts';
import { within } from '../mail-list.ts';
import type { ServedReader } from '../served-archive.ts';
import { understandQuery } from '../understood-query.ts';

/** A number of messages with the query that finds exactly these. */
export interface Linked {
  readonly count: number;
  /** Null where the language cannot name them, or where there was no time to count them. */
  readonly query: string | null;
}

/** For all numbers of a page together, in milliseconds. */
const COUNTING_MS = 400;

/** Counts what queries find, so that each number is the one that its link shows. */
export class LinkedNumbers {
  readonly #mayContinue = within(COUNTING_MS);

  constructor(
    private readonly reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
    private readonly now: number,
    private readonly accounts: (node: SearchNode) => ReadonlyMap<string, string>,
  ) {}

  /** @param known what is shown without a link where the query was not counted */
  of(query: string, known: number): Linked {
    if (known === 0 || !this.#mayContinue()) return { count: known, query: null };
    const { request } = understandQuery(query, this.reader, this.now, this.accounts);
    if (request === null) return { count: known, query: null };
    const { count, complete } = this.reader.catalog.countHitsWhile(request, this.#mayContinue);
    return complete ? { count, query } : { count: known, query: null };
  }
}
