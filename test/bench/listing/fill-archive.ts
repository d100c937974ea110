import { createHash } from 'node:crypto';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { openCatalog } from '../../../src/catalog/catalog.ts';
import { docidBase } from '../../../src/mail/docid.ts';
import { ADDRESS, AT, listingOf } from './listing-origin.ts';

const FACTS_PER_BATCH = 2_000;

/** An archive that knows `count` messages of one folder by their facts. Their bytes are not in it. */
export async function fillArchive(dir: string, count: number): Promise<void> {
  const catalog = await openCatalog(dir);
  const log = await openLogWriter({ dir, now: Date.now, expected: catalog.reached() });
  let batch = log.newBatch();
  const commit = async (): Promise<void> => {
    catalog.foldBatch(await log.commit(batch));
    batch = log.newBatch();
  };
  const { host, mailbox } = AT;
  batch.addFact({ fact: 'mailbox', host, mailbox, address: ADDRESS });
  batch.addFact({
    fact: 'folder',
    ...AT,
    name: 'INBOX',
    delimiter: '.',
    specialUse: null,
    generation: 1,
  });
  for (let uid = 1; uid <= count; uid += 1) {
    const listing = listingOf(uid);
    batch.addFact({
      fact: 'appeared',
      ...AT,
      generation: 1,
      uid,
      listing,
      docid: docidBase(listing.date, Date.now()),
      message: createHash('sha256').update(String(uid)).digest('hex'),
      size: listing.size,
    });
    if (batch.records >= FACTS_PER_BATCH) await commit();
  }
  if (batch.records > 0) await commit();
  await log.close();
  catalog.close();
}
