/** A module for the commits before the first `mailkeep sync`: writes an archive with their log and their catalog. */
export const LIBRARY_DRIVER = String.raw`
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { openLogWriter } from './src/archive/open-log-writer.ts';
import { openCatalog } from './src/catalog/catalog.ts';

const [dir, ...files] = process.argv.slice(2);
const catalog = await openCatalog(dir);
const log = await openLogWriter({ dir, now: Date.now });
const at = { host: 'mail.example.org', mailbox: 'AC1' };
const folder = { ...at, folder: 'INBOX' };
const person = { name: 'Anna Example', address: 'anna@example.org' };

async function commit(fill) {
  const batch = log.newBatch();
  fill(batch);
  const committed = await log.commit(batch);
  if (catalog.foldBatch) catalog.foldBatch(committed);
  else catalog.fold([committed]);
}

await commit((batch) => {
  batch.addFact({ fact: 'mailbox', ...at, address: 'ada@example.org' });
  const about = { name: 'INBOX', delimiter: '.', specialUse: null, generation: 1 };
  batch.addFact({ fact: 'folder', ...folder, ...about });
});
for (const [n, file] of files.entries()) {
  await commit((batch) => {
    const raw = readFileSync(file);
    const message = createHash('sha256').update(raw).digest('hex');
    batch.addSource(raw, message);
    const uid = n + 1;
    const date = '2026-03-0' + uid + 'T10:00:00.000Z';
    const flags = file === 'odd.eml' ? ['\\Flagged'] : [];
    const listing = {
      ...{ uid, date, flags, size: raw.length, subject: file, from: person },
      ...{ to: [], cc: [], bcc: [], messageId: '<' + file + '>', inReplyTo: null },
      ...{ attachments: [], extra: {} },
    };
    const docid = catalog.docidFor(Date.parse(date));
    const place = { ...folder, generation: 1, uid };
    batch.addFact({ fact: 'appeared', ...place, listing, docid, message, size: raw.length });
  });
}
await commit((batch) => {
  batch.addFact({ fact: 'flags', ...folder, generation: 1, uid: 1, flags: ['\\Seen'] });
  batch.addFact({ fact: 'ended', ...folder, generation: 1, uid: 3, reason: 'deleted' });
});
await log.close();
if (existsSync('src/archive/seal-segment.ts')) {
  const { sealSegment } = await import('./src/archive/seal-segment.ts');
  await sealSegment({ dir, segment: 1 });
}
catalog.checkpoint();
catalog.close();
`;
