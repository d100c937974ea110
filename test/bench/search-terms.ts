/** What is searched for; chosen from the messages themselves, so that any set has its own. */
export interface SearchTerms {
  /** A word of nearly half of the messages. */
  readonly common: string;
  /** A word of a few messages. */
  readonly rare: string;
  /** Two words that follow each other in some messages. */
  readonly phrase: string;
}

/** The words to search for, a phrase in quotes: all three programs read that the same way. */
export function queryText(terms: SearchTerms, term: keyof SearchTerms): string {
  return term === 'phrase' ? `"${terms.phrase}"` : terms[term];
}

/** Lines of an answer that has one per hit. */
export function countLines(text: string): number {
  return text.split('\n').filter((line) => line !== '').length;
}

const COMMON_SHARE = 0.45;
const RARE_MESSAGES = 4;
const PHRASE_SHARE = 0.04;
const CODED =
  /<html|<body|<div|content-type:\s*multipart|transfer-encoding:\s*(?:base64|quoted-printable)/i;
/** Words in more messages than this make phrases of function words, and pairs of rare ones are too many to count. */
const PHRASE_WORDS = { least: 0.02, most: 0.6 };

/**
 * Counts in how many messages words and pairs of words stand. Only plain text is looked at: tags, part headers and base64
 * hold words that no index has. The figures choose the terms; how often each program finds them is measured.
 */
export class TermCounts {
  readonly #texts: string[][] = [];

  /** Counts the body of one source; HTML, encoded and composed ones are passed over. */
  count(source: Buffer): void {
    const text = source.toString('latin1');
    const blank = /\r?\n\r?\n/.exec(text);
    if (blank === null || CODED.test(text)) return;
    const body = text.slice(blank.index).toLowerCase();
    // Complete words only: what is next to a byte above ASCII is the rest of one.
    this.#texts.push(body.match(/(?<![\w\x80-\xff])[a-z]+(?![\w\x80-\xff])/g) ?? []);
  }

  /** The terms nearest to the shares wanted; equal ones by the alphabet. */
  choose(): SearchTerms {
    const messages = this.#texts.length;
    const words = tally(this.#texts, (text) => text.filter((word) => word.length >= 4));
    const frequent = new Set(
      [...words].filter(([, n]) => within(n / messages)).map(([word]) => word),
    );
    const pairs = tally(this.#texts, (text) =>
      text.flatMap((word, i) => {
        const following = text[i + 1];
        return following !== undefined && frequent.has(word) && frequent.has(following)
          ? [`${word} ${following}`]
          : [];
      }),
    );
    return {
      common: nearest(words, messages * COMMON_SHARE),
      rare: nearest(new Map([...words].filter(([word]) => word.length >= 7)), RARE_MESSAGES),
      phrase: nearest(pairs, messages * PHRASE_SHARE),
    };
  }
}

function within(share: number): boolean {
  return share >= PHRASE_WORDS.least && share <= PHRASE_WORDS.most;
}

function tally(
  texts: readonly string[][],
  terms: (text: string[]) => string[],
): Map<string, number> {
  const counts = new Map<string, number>();
  for (const text of texts)
    for (const term of new Set(terms(text))) counts.set(term, (counts.get(term) ?? 0) + 1);
  return counts;
}

function nearest(counts: ReadonlyMap<string, number>, wanted: number): string {
  let best: readonly [string, number] | undefined;
  for (const [term, count] of counts) {
    const distance = Math.abs(count - wanted);
    if (best === undefined || distance < best[1] || (distance === best[1] && term < best[0]))
      best = [term, distance];
  }
  if (best === undefined) throw new Error('the messages hold no plain text to search for');
  return best[0];
}
