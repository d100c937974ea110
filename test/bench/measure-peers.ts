import { serveImap } from '../peers/dovecot.ts';
import type { Participant } from './entry.ts';
import { allottedBytes, type Indexer } from './indexer.ts';
import { mbsyncStored, prepareMbsync } from './mbsync.ts';
import { type IndexerFigures, type MirrorFigures, perTerm } from './measurements.ts';
import type { MessageSet } from './message-set.ts';
import { type Peer, peerVersion } from './peers.ts';
import { Peak, timeProgram } from './process-cost.ts';
import { countLines, queryText } from './search-terms.ts';
import type { Workplace } from './workplace.ts';

/** How often the no-change pass is repeated. */
export const AGAIN_RUNS = 5;

type Opened<T> = Participant<T> | { readonly missing: string };

/** The first of these that is not installed, as the reason why there is no figure. */
function missingPeer(...peers: readonly Peer[]): { readonly missing: string } | undefined {
  const absent = peers.find((peer) => peerVersion(peer) === undefined);
  return absent === undefined
    ? undefined
    : { missing: `not measured (${absent} is not installed)` };
}

/** mbsync against Dovecot. */
export async function openMbsync(
  work: Workplace,
  messages: MessageSet,
): Promise<Opened<MirrorFigures>> {
  const absent = missingPeer('dovecot', 'doveadm', 'mbsync');
  if (absent !== undefined) return absent;
  const server = await serveImap(work.fresh('dovecot'), messages.maildir, (child) =>
    work.adopt(child),
  );
  // Its index is built before anything is measured.
  await work.run({
    command: 'doveadm',
    args: ['-c', server.config, 'fetch', '-u', server.user, 'uid flags size.virtual', 'all'],
  });
  const mbsync = prepareMbsync(work, server);
  const firstMs: number[] = [];
  const againMs: number[] = [];
  const peak = new Peak();
  return {
    async round() {
      flush();
      const cost = await mbsync.firstSync();
      firstMs.push(cost.wallMs);
      peak.note(cost.peakBytes);
    },
    async figures() {
      const stored = mbsyncStored(work);
      if (stored !== messages.count)
        throw new Error(`mbsync stored ${stored} of ${messages.count} messages`);
      for (let run = 0; run < AGAIN_RUNS; run++) againMs.push((await mbsync.again()).wallMs);
      return { firstMs, againMs, peakBytes: peak.bytes, stored };
    },
    async close() {
      await server.stop();
      work.fresh('mbsync');
    },
  };
}

/** notmuch or mu over the Maildir. */
export async function openIndexer(
  peer: Peer,
  indexer: Indexer,
  messages: MessageSet,
): Promise<Opened<IndexerFigures>> {
  const absent = missingPeer(peer);
  if (absent !== undefined) return absent;
  const wallMs: number[] = [];
  const peak = new Peak();
  return {
    async round() {
      flush();
      const cost = await indexer.index();
      wallMs.push(cost.wallMs);
      peak.note(cost.peakBytes);
    },
    async figures() {
      const hits = (query: string): number => countLines(timeProgram(indexer.all(query)).stdout);
      return {
        name: indexer.name,
        wallMs,
        peakBytes: peak.bytes,
        diskBytes: allottedBytes(indexer.folder),
        hits: perTerm((term) => hits(queryText(messages.terms, term))),
      };
    },
    async close() {},
  };
}

/** Writes back what earlier steps left in the page cache, so that it is not paid for by the next one. */
export function flush(): void {
  timeProgram({ command: 'sync', args: [] });
}
