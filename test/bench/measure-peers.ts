import { serveImap } from './dovecot.ts';
import { allottedBytes, type Indexer } from './indexer.ts';
import { coldLatencies } from './latency.ts';
import { mbsyncStored, prepareMbsync } from './mbsync.ts';
import { type IndexerFigures, type Measured, type MirrorFigures, perTerm } from './measurements.ts';
import type { MessageSet } from './message-set.ts';
import { type Peer, peerVersion } from './peers.ts';
import { timeProgram } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

/** How often the no-change pass is repeated. */
export const AGAIN_RUNS = 5;

/** The first of these that is not installed, as the reason why there is no figure. */
export function missingPeer(...peers: readonly Peer[]): { readonly missing: string } | undefined {
  const absent = peers.find((peer) => peerVersion(peer) === undefined);
  return absent === undefined
    ? undefined
    : { missing: `not measured (${absent} is not installed)` };
}

/** mbsync against Dovecot, `runs` times from nothing. */
export async function measureMbsync(
  work: Workplace,
  messages: MessageSet,
  runs: number,
): Promise<Measured<MirrorFigures>> {
  const absent = missingPeer('dovecot', 'doveadm', 'mbsync');
  if (absent !== undefined) return absent;
  const server = await serveImap(work, messages);
  try {
    const mbsync = prepareMbsync(work, server);
    const firstMs: number[] = [];
    let peakBytes: number | undefined;
    for (let run = 0; run < runs; run++) {
      flush();
      const cost = await mbsync.firstSync();
      firstMs.push(cost.wallMs);
      peakBytes = Math.max(peakBytes ?? 0, cost.peakBytes ?? 0) || undefined;
    }
    const stored = mbsyncStored(work);
    if (stored !== messages.count)
      throw new Error(`mbsync stored ${stored} of ${messages.count} messages`);
    const againMs: number[] = [];
    for (let run = 0; run < AGAIN_RUNS; run++) againMs.push((await mbsync.again()).wallMs);
    return { value: { firstMs, againMs, peakBytes, stored } };
  } finally {
    await server.stop();
    work.fresh('mbsync');
  }
}

/** notmuch or mu over the Maildir, `runs` times from an empty database. */
export async function measureIndexer(
  peer: Peer,
  indexer: Indexer,
  messages: MessageSet,
  runs: number,
): Promise<Measured<IndexerFigures>> {
  const absent = missingPeer(peer);
  if (absent !== undefined) return absent;
  const wallMs: number[] = [];
  let peakBytes: number | undefined;
  for (let run = 0; run < runs; run++) {
    flush();
    const cost = await indexer.index();
    wallMs.push(cost.wallMs);
    peakBytes = Math.max(peakBytes ?? 0, cost.peakBytes ?? 0) || undefined;
  }
  const query = perTerm((term) => queryText(messages, term));
  const [common = 0, rare = 0, phrase = 0] = coldLatencies([
    indexer.newest(query.common),
    indexer.newest(query.rare),
    indexer.newest(query.phrase),
  ]);
  return {
    value: {
      name: indexer.name,
      wallMs,
      peakBytes,
      diskBytes: allottedBytes(indexer.folder),
      hits: perTerm((term) => countLines(timeProgram(indexer.all(query[term])).stdout)),
      coldMs: { common, rare, phrase },
    },
  };
}

/** The words to search for, a phrase in quotes: all three programs read that the same way. */
export function queryText(messages: MessageSet, term: 'common' | 'rare' | 'phrase'): string {
  return term === 'phrase' ? `"${messages.terms.phrase}"` : messages.terms[term];
}

export function countLines(text: string): number {
  return text.split('\n').filter((line) => line !== '').length;
}

/** Writes back what earlier steps left in the page cache, so that it is not paid for by the next one. */
export function flush(): void {
  timeProgram({ command: 'sync', args: [] });
}
