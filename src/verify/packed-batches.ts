import type { Fact } from '../archive/format/facts.ts';
import type { ReadBatch } from '../archive/read/segment-batches.ts';
import type { ComparedBatch } from '../catalog/fold/batch.ts';
import type { ComparedRecord, SettledRun } from '../catalog/settled-rows.ts';

/** What a record means to the catalog; a fact also as the text of its JSON, which was already checked. */
export type Meaning =
  | { readonly kind: 'blob'; readonly hash: string; readonly size: number }
  | { readonly kind: 'message'; readonly id: string; readonly size: number }
  | { readonly kind: 'fact'; readonly text: string; readonly fact: Fact };

/**
 * Batches on their way to another thread, as one JSON text. Facts go into it as they stand in the log: copying them as
 * objects, field by field, would cost more than folding them.
 */
export class PackedBatches {
  /** Records in what is gathered. */
  records = 0;
  #text = '';

  /** Characters of the text so far. */
  get length(): number {
    return this.#text.length;
  }

  add({ commit, records }: Pick<ReadBatch<Meaning | SettledRun>, 'commit' | 'records'>): void {
    const { number, time, hash, previous } = commit;
    let text = `{"commit":${JSON.stringify({ number, time, hash })},"previous":"${previous}","records":[`;
    let first = true;
    for (const { value, ordinal, offset } of records) {
      text += `${first ? '' : ','}[${ordinal},${offset},${fields(value)}]`;
      first = false;
    }
    this.#text += `${this.#text === '' ? '' : ','}${text}]}`;
    this.records += records.length;
  }

  /** What was gathered since it was last taken; undefined when that is nothing. */
  taken(): string | undefined {
    const text = this.#text;
    this.#text = '';
    this.records = 0;
    return text === '' ? undefined : `[${text}]`;
  }
}

/** Hashes are hexadecimal, so nothing in them needs quoting. */
function fields(value: Meaning | SettledRun): string {
  switch (value.kind) {
    case 'settled':
      return `"settled",${JSON.stringify(value)}`;
    case 'blob':
      return `"blob","${value.hash}",${value.size}`;
    case 'message':
      return `"message","${value.id}",${value.size}`;
    case 'fact':
      return `"fact",${value.text}`;
  }
}

type PackedRecord =
  | readonly [ordinal: number, offset: number, kind: 'blob' | 'message', hash: string, size: number]
  | readonly [ordinal: number, offset: number, kind: 'fact', fact: Fact]
  | readonly [ordinal: number, offset: number, kind: 'settled', run: SettledRun];

interface PackedBatch extends Pick<ComparedBatch, 'commit'> {
  readonly previous: string;
  readonly records: readonly PackedRecord[];
}

/** The batches of a segment again, as they were given to `PackedBatches`. */
export function unpackBatches(segment: number, text: string): readonly ComparedBatch[] {
  // Made by `PackedBatches` from facts that had the shape of facts.
  const packed = JSON.parse(text) as readonly PackedBatch[];
  return packed.map(({ commit, previous, records }) => ({
    commit,
    previousHash: previous,
    records: records.map((record) => unpackRecord(segment, record)),
  }));
}

function unpackRecord(segment: number, record: PackedRecord): ComparedRecord {
  const [ordinal, offset] = record;
  const position = { segment, ordinal, offset };
  switch (record[2]) {
    case 'blob':
      return { kind: 'blob', hash: record[3], size: record[4], position };
    case 'message':
      return { kind: 'message', id: record[3], size: record[4], position };
    case 'fact':
      return { kind: 'fact', fact: record[3], position };
    case 'settled':
      return record[3];
  }
}
