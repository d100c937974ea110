import Database from 'better-sqlite3';
import type { CommittedBatch, Fact } from '../../src/archive/format.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { attachment, entry, sha256, temporaryDir } from './history.ts';
import { Model } from './model.ts';

const WORDS = ['alpha', 'beta', 'gamma'];
const numberOf = (id: string) => Number.parseInt(id.slice(0, 8), 16);

/** Seconds around the turns of days, months and years, in all zones. */
function secondOf(id: string): number {
  const n = numberOf(id);
  const day = Date.UTC(
    2022 + (n % 3),
    [0, 2, 9, 11][(n >>> 3) % 4] ?? 0,
    [1, 31, 15][(n >>> 5) % 3],
  );
  return day / 1000 + ((n >>> 7) % 96) * 1800 - 86_400;
}

/** Each message with a size, a time, and a docid of its own. */
function settled(docids: Map<string, number>) {
  return (fact: Fact): Fact => {
    if (fact.fact !== 'appeared') return fact;
    const { message } = fact;
    const base = secondOf(message) * 64;
    const docid = docids.get(message) ?? base + docids.size;
    docids.set(message, docid);
    return { ...fact, docid, size: 100 + (numberOf(message) % 5000) };
  };
}

function index(catalog: WritableCatalog): void {
  const people = ['ada@example.org', 'bo@example.org', 'x.ada@example.org', 'cy@example.net'];
  catalog.index.index(
    catalog.index.pending({ limit: 1000 }).map(({ docid, id }) => {
      const n = numberOf(id);
      const sender = people[n % 4] ?? '';
      return {
        docid,
        entry: entry({
          from: `Ada <${sender}>`,
          senders: [sender],
          recipients: people.slice((n >>> 2) % 4),
          body: WORDS[n % 3] ?? '',
          // Two messages in a few share one.
          messageId: `${n % 7}@example.org`,
          attachments: Array.from({ length: n % 3 }, (_, i) =>
            attachment(i + 1, {
              contentType: ['application/pdf', 'image/PNG', 'image/svg+xml'][(n + i) % 3] ?? '',
              hash: sha256(`content ${(n + i) % 4}`),
              size: 10 * ((n + i) % 4),
            }),
          ),
        }),
      };
    }),
  );
}

/** Plays a history of messages at the turns of days, months and years, and indexes it. */
export async function withHistory(
  played: Parameters<Model['play']>[0][],
  act: (catalog: WritableCatalog, db: Database.Database, times: readonly number[]) => void,
): Promise<void> {
  const room = temporaryDir();
  const catalog = await openCatalog(room.dir);
  const db = new Database(catalogFile(room.dir), { readonly: true });
  try {
    const model = new Model();
    for (const step of [...played, { act: 'commit', a: 0, b: 0 } as const]) model.play(step);
    const settle = settled(new Map());
    const batches = model.history.batches.map(
      (batch): CommittedBatch => ({
        ...batch,
        records: batch.records.map((record) =>
          record.kind === 'fact' ? { ...record, fact: settle(record.fact) } : record,
        ),
      }),
    );
    catalog.foldBatches(batches);
    index(catalog);
    act(
      catalog,
      db,
      batches.map(({ commit }) => commit.time),
    );
  } finally {
    db.close();
    catalog.close();
    room.remove();
  }
}
