import type { LogReader } from '../../archive/read/log-reader.ts';
import type { SegmentStore } from '../../archive/read/segment-store.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';

/**
 * Returns a reader whose `streamMessage` waits for segments that are elsewhere. Its other methods throw `segment-elsewhere`,
 * as those of the reader do that it is made of.
 */
export function fetchingReader(reader: LogReader, segments: SegmentStore): LogReader {
  return {
    readMessage: (id) => reader.readMessage(id),
    readSource: (id, maxBytes) => reader.readSource(id, maxBytes),
    readBlob: (hash) => reader.readBlob(hash),
    sizeOf: (id) => reader.sizeOf(id),
    factsOf: (commit) => reader.factsOf(commit),
    refresh: () => reader.refresh(),
    close: () => reader.close(),
    async *streamMessage(id) {
      let given = 0;
      for (;;) {
        let toSkip = given;
        try {
          for await (const piece of reader.streamMessage(id)) {
            const rest = piece.subarray(Math.min(toSkip, piece.length));
            toSkip -= piece.length - rest.length;
            if (rest.length === 0) continue;
            given += rest.length;
            yield rest;
          }
          return;
        } catch (error) {
          // A message refers to parts that may be in any segment: it is begun again, as far as it came.
          if (!hasCode(error, 'segment-elsewhere')) throw error;
          const segment = Number(error.facts.segment);
          await segments.fetch([segment]);
          if (!segments.present(segment)) throw error;
        }
      }
    },
  };
}
