import {
  type ImmutableRecord,
  readListingRecord,
} from '../../mailbox-surface/message/listing-record.ts';
import type { StoreBackend } from './backend.ts';
import type { Entry, Folder } from './folder.ts';

/** What the cache asks of the store. */
export type RecordSources = Pick<StoreBackend, 'readSource' | 'sourceReceived'>;

/** Characters of JSON kept at most: 64 M, some 100,000 records. */
const DEFAULT_CEILING = 64 * 1024 * 1024;

/**
 * Listing records as JSON text, made when they are first listed: text is several times smaller than the
 * objects it stands for, and needs no serialising when a page is sent. The oldest go first.
 */
export class RecordCache {
  readonly #fragments = new Map<number, string>();
  #characters = 0;

  constructor(
    private readonly sources: RecordSources,
    private readonly ceiling: number = DEFAULT_CEILING,
  ) {}

  /** A message record as JSON text; the costly part of it comes ready from the cache. */
  messageJson(folder: Folder, entry: Entry): string {
    const unseen = !entry.flags.includes('\\Seen');
    return `{"uid":${entry.uid},"path":${JSON.stringify(folder.path)},"flags":${JSON.stringify(entry.flags)},"unseen":${unseen},${this.#fragment(entry.source)}}`;
  }

  /** `"date":…,"size":…,…`: the members of a message's JSON object that never change, without braces. */
  #fragment(source: number): string {
    const known = this.#fragments.get(source);
    if (known !== undefined) return known;
    const date = new Date(this.sources.sourceReceived(source)).toISOString();
    const record: { date: string } & ImmutableRecord = {
      date,
      ...readListingRecord(this.sources.readSource(source)),
    };
    const fragment = JSON.stringify(record).slice(1, -1);
    this.#fragments.set(source, fragment);
    this.#characters += fragment.length;
    if (this.#characters > this.ceiling) this.#shrink();
    return fragment;
  }

  forget(source: number): void {
    this.#characters -= this.#fragments.get(source)?.length ?? 0;
    this.#fragments.delete(source);
  }

  #shrink(): void {
    for (const source of this.#fragments.keys()) {
      if (this.#characters <= this.ceiling * 0.9) return;
      this.forget(source);
    }
  }
}
