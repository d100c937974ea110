import type { FileGroup } from '../../catalog/files/group-names.ts';
import { groupFilter } from '../../catalog/files/groups.ts';
import type { CountRequest, HitCount } from '../../catalog/search/search.ts';
import type { Reader } from '../../engine/archive/reader.ts';
import { within } from './mail-list.ts';
import { findTerm, withTerm } from './query-terms.ts';

/** The messages that have the attachments of a list. */
export interface FilesMessages {
  readonly query: string;
  readonly found: HitCount;
  /** False where no query can name the listed group: the messages have attachments of any type. */
  readonly isOfGroup: boolean;
}

const COUNTING_MS = 150;
const MOST_COUNTS = 64;
const ATTACHED = 'has:attachment';
/**
 * PDFs and the like that a mail program shows in the text are listed; pictures there are not. What a term says of a type,
 * it says of the message: one with a PDF and a logo in its text has both.
 */
const OTHER_THAN_PICTURES = ['application', 'text', 'message', 'audio', 'video']
  .map((type) => `mime:${type}/*`)
  .join(' OR ');
const ANY = `(has:attachment OR (has:inline (-mime:image/* OR ${OTHER_THAN_PICTURES})))`;
const ANY_WITH_PICTURES = '(has:attachment OR has:inline)';

/** Counts the messages that have what is listed, and keeps the numbers until the archive has another commit. */
export class FilesMessagesCounts {
  #version = -1;
  readonly #counts = new Map<string, HitCount>();

  /**
   * Returns a query for the messages that have what is listed for another one, and counts what it finds.
   *
   * @param understand returns the request of a query; null for one that cannot be understood
   */
  of(
    { catalog }: Pick<Reader, 'catalog'>,
    query: string,
    listed: { readonly group: FileGroup | null; readonly inlinePictures: boolean },
    understand: (text: string) => CountRequest | null,
  ): FilesMessages | null {
    const { text, isOfGroup } = queryFor(query, listed);
    const request = understand(text);
    if (request === null) return null;
    return { query: text, found: this.#count(catalog, request), isOfGroup };
  }

  #count(catalog: Reader['catalog'], request: CountRequest): HitCount {
    const version = catalog.version();
    if (version !== this.#version) this.#counts.clear();
    this.#version = version;
    // What was understood, not the text: the days that words such as `yesterday` mean are others tomorrow.
    const name = JSON.stringify([request.node, request.asOf]);
    const known = this.#counts.get(name);
    if (known !== undefined) return known;
    const found = catalog.countHitsWhile(request, within(COUNTING_MS));
    if (this.#counts.size >= MOST_COUNTS) this.#counts.clear();
    if (found.complete) this.#counts.set(name, found);
    return found;
  }
}

function queryFor(
  query: string,
  { group, inlinePictures }: { readonly group: FileGroup | null; readonly inlinePictures: boolean },
): { readonly text: string; readonly isOfGroup: boolean } {
  // No term tells a picture that is attached from one that stands in the text.
  const isNamed = group !== null && (group !== 'pictures' || inlinePictures);
  const ofGroup = isNamed ? groupFilter(group) : null;
  const filter = ofGroup ?? (inlinePictures ? ANY_WITH_PICTURES : ANY);
  const isFiltered =
    findTerm(query, filter) !== undefined ||
    (ofGroup === null && findTerm(query, ATTACHED) !== undefined);
  const text = isFiltered ? query : withTerm(query, filter);
  return { text, isOfGroup: group === null || ofGroup !== null };
}
