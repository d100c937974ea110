import { type Fact, isFact } from '../format/facts.ts';
import { parseJson } from '../format/json-shape.ts';
import { readMessagePayload } from '../format/recipe.ts';
import { RECORD_KIND, type RecordMeaning } from '../format/records.ts';
import type { Visited } from './segment-batches.ts';
import type { LogicalRecord } from './segment-records.ts';

/** Reads what a record means: a blob by its header, a message by its recipe, a fact by its JSON. */
export function foldRecord(
  record: LogicalRecord & { readonly payload: Buffer },
): Visited<RecordMeaning> {
  switch (record.kind) {
    case RECORD_KIND.blob:
      return {
        value: { kind: 'blob', hash: record.hash.toString('hex'), size: record.rawLength },
      };
    case RECORD_KIND.message: {
      const message = readMessagePayload(record.payload);
      if (message === undefined) return { problem: 'recipe' };
      const { sha256, size } = message.recipe;
      return { value: { kind: 'message', id: sha256, size } };
    }
    case RECORD_KIND.fact: {
      const fact = readFact(record.payload.toString('utf8'));
      return fact === undefined ? { problem: 'fact' } : { value: { kind: 'fact', fact } };
    }
    default:
      return { problem: 'bytes' };
  }
}

/** The fact that a fact record's payload is; undefined when it is none. */
export function readFact(text: string): Fact | undefined {
  const fact = parseJson(text);
  return isFact(fact) ? fact : undefined;
}
