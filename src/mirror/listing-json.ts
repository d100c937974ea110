import type { Fact } from '../archive/format/facts.ts';
import type { LogReader } from '../archive/read/log-reader.ts';
import type { OriginPlace, OriginQueries } from '../catalog/origin-places.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { isDated, receivedAt } from '../mail/docid.ts';
import type { Listing, MailboxKey } from '../mail/words.ts';

/** Characters of records kept: some 20,000 of them. */
const CEILING = 16 * 1024 * 1024;
/** Commits whose listings are kept parsed. Messages of one page mostly came together. */
const COMMITS = 16;

/** What a listing says of a message and its flags do not change, without uid and flags. */
type Unchanging = Omit<Listing, 'uid' | 'flags'>;

/**
 * The listing records of messages as the origin showed them, from the facts in the log. A record never changes while its
 * place is there, so that its JSON is kept, up to a limit.
 */
export class ListingRecords {
  readonly #fragments = new Map<number, string>();
  readonly #commits = new Map<number, readonly Fact[]>();
  #characters = 0;

  constructor(
    private readonly log: () => Pick<LogReader, 'factsOf'>,
    private readonly pathAt: OriginQueries['pathAt'],
  ) {}

  /** Lets go of everything: by another commit, rows may be other messages', and messages may be forgotten. */
  clear(): void {
    this.#fragments.clear();
    this.#commits.clear();
    this.#characters = 0;
  }

  /** Returns a message's record as the wire has it, as JSON; undefined where its place is gone. */
  json(
    mailbox: MailboxKey,
    path: string,
    { uid, row }: { readonly uid: number; readonly row: number },
    flags: readonly string[],
    placeOf: () => OriginPlace | undefined,
  ): string | undefined {
    let fragment = this.#fragments.get(row);
    if (fragment === undefined) {
      const place = placeOf();
      if (place === undefined) return undefined;
      fragment = JSON.stringify(this.#record(mailbox, place)).slice(1, -1);
      this.#keep(row, fragment);
    }
    const unseen = !flags.includes('\\Seen');
    return `{"uid":${uid},"path":${JSON.stringify(path)},"flags":${JSON.stringify(flags)},"unseen":${unseen},${fragment}}`;
  }

  /** Returns what the origin listed of a message; what the catalog knows of it where the log does not tell any more. */
  listing(mailbox: MailboxKey, place: OriginPlace): Unchanging {
    return this.#listed(mailbox, place) ?? fromCatalog(place);
  }

  #record(mailbox: MailboxKey, place: OriginPlace): Record<string, unknown> {
    const { extra, date, ...listing } = this.listing(mailbox, place);
    const received = date === '' ? isoAt(place) : date;
    // What the wire calls otherwise than we do comes first: what we know by name is as we read it.
    return { ...extra, date: received, ...listing };
  }

  #listed(mailbox: MailboxKey, place: OriginPlace): Unchanging | undefined {
    const found = this.#factsOf(place.commit).filter(
      (fact) =>
        (fact.fact === 'appeared' || fact.fact === 'quarantined') &&
        fact.host === mailbox.host &&
        fact.mailbox === mailbox.mailbox &&
        fact.generation === place.generation &&
        fact.uid === place.uid,
    );
    const then = this.pathAt(place.folder, place.commit);
    const there = found.find((fact) => 'folder' in fact && fact.folder === then);
    // Folders that were renamed in the same commit have another path in its facts; uids of two folders may be the same.
    const fact = there ?? (found.length === 1 ? found[0] : undefined);
    if (fact === undefined || !('listing' in fact)) return undefined;
    const { uid: _uid, flags: _flags, ...listing } = fact.listing;
    return listing;
  }

  #factsOf(commit: number): readonly Fact[] {
    const known = this.#commits.get(commit);
    if (known !== undefined) return known;
    const facts = this.#readFacts(commit);
    this.#commits.set(commit, facts);
    const [oldest] = this.#commits.keys();
    if (this.#commits.size > COMMITS && oldest !== undefined) this.#commits.delete(oldest);
    return facts;
  }

  #readFacts(commit: number): readonly Fact[] {
    try {
      return this.log().factsOf(commit);
    } catch (error) {
      // A damaged stretch of the log must not hide the others of a page; verification reports it.
      if (error instanceof MailkeepError && error.family === 'damage') return [];
      throw error;
    }
  }

  #keep(row: number, fragment: string): void {
    this.#fragments.set(row, fragment);
    this.#characters += fragment.length;
    for (const [oldest, { length }] of this.#fragments) {
      if (this.#characters <= CEILING) return;
      this.#fragments.delete(oldest);
      this.#characters -= length;
    }
  }
}

function fromCatalog(place: OriginPlace): Unchanging {
  const { senderName, senderAddress } = place;
  const isNamed = senderName !== null || senderAddress !== null;
  return {
    date: isoAt(place) ?? '',
    size: place.size,
    subject: place.subject,
    from: isNamed ? { name: senderName ?? '', address: senderAddress ?? '' } : null,
    to: [],
    cc: [],
    bcc: [],
    messageId: place.messageId,
    inReplyTo: null,
    attachments: [],
    extra: {},
  };
}

/** Null for a message without a date: imported mail may have none, which a service never shows. */
function isoAt({ docid }: OriginPlace): string | null {
  return isDated(docid) ? new Date(receivedAt(docid)).toISOString() : null;
}
