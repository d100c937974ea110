import type { Fact } from '../../src/archive/format.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { openCatalog } from '../../src/catalog/catalog.ts';
import { openState } from '../../src/core/state.ts';
import { listing } from '../catalog/history.ts';
import { idOf, letter } from './purged-archive.ts';

export const DAY = 86_400_000;
export const KEY = { host: 'mail.example.org', mailbox: 'AC1' };
const FOLDERS = { INBOX: null, Drafts: '\\Drafts', Legal: null } as const;

export const at = (where: keyof typeof FOLDERS, uid: number) => ({
  ...KEY,
  folder: where,
  generation: 1,
  uid,
});
export const MAIL = ['kept', 'old', 'legal', 'drafted', 'recent', 'late'] as const;
export const raw = (name: (typeof MAIL)[number]) => letter(name);

/**
 * Mail that ended a hundred days ago, with a complete look at two folders eighty days ago and a commit of today.
 *
 * @param sealed the mail in a sealed segment, and what was learned later in the next
 */
export async function writePrunable(data: string, { sealed = false } = {}): Promise<void> {
  let now = Date.now() - 120 * DAY;
  const catalog = await openCatalog(data);
  const log = await openLogWriter({ dir: data, now: () => now });
  const commit = async (facts: readonly Fact[], sources: readonly Buffer[] = []) => {
    const batch = log.newBatch();
    for (const source of sources) batch.addSource(source, idOf(source));
    for (const fact of facts) batch.addFact(fact);
    catalog.foldBatch(await log.commit(batch));
  };
  const appeared = (
    where: keyof typeof FOLDERS,
    uid: number,
    name: (typeof MAIL)[number],
  ): Fact => ({
    fact: 'appeared',
    ...at(where, uid),
    listing: listing(uid, { size: raw(name).length, subject: `${name}subject` }),
    docid: catalog.docidFor((Math.floor(now / 1000) + uid) * 64),
    message: idOf(raw(name)),
    size: raw(name).length,
  });
  const ended = (where: keyof typeof FOLDERS, uid: number): Fact => ({
    fact: 'ended',
    ...at(where, uid),
    reason: 'deleted',
  });
  const certificate = (where: keyof typeof FOLDERS, since: number, complete = true): Fact => ({
    fact: 'certificate',
    ...KEY,
    folder: where,
    generation: 1,
    ...{ originTotal: 1, stored: 1, assumed: 0, quarantined: 0, held: 0, forgotten: 0 },
    complete,
    since: new Date(since).toISOString(),
  });
  await commit(
    [
      { fact: 'mailbox', ...KEY, address: 'ada@example.org' },
      ...Object.entries(FOLDERS).map(
        ([name, specialUse]): Fact => ({
          ...{ fact: 'folder', ...KEY, folder: name, name, delimiter: '.' },
          ...{ specialUse, generation: 1 },
        }),
      ),
      appeared('INBOX', 1, 'kept'),
      appeared('INBOX', 2, 'old'),
      appeared('INBOX', 3, 'legal'),
      appeared('Drafts', 1, 'drafted'),
      appeared('INBOX', 5, 'recent'),
      appeared('Legal', 1, 'late'),
    ],
    MAIL.map(raw),
  );
  if (sealed) {
    await log.rollIfLarger(0);
    await sealClosedSegments({ dir: data, before: log.segment });
    await dropOldGenerations({ dir: data, now: Date.now(), keepMs: 0 });
  }
  now += 20 * DAY;
  await commit([ended('INBOX', 2), ended('INBOX', 3), ended('Drafts', 1), ended('Legal', 1)]);
  now += 20 * DAY;
  await commit([
    certificate('INBOX', now),
    certificate('Drafts', now),
    certificate('Legal', now, false),
    certificate('Legal', now - 19 * DAY),
  ]);
  now = Date.now() - DAY;
  await commit([ended('INBOX', 5)]);
  await log.close();
  catalog.close();
  const state = openState(data);
  state.set('account-mailboxes', JSON.stringify(['main', KEY.host]), [
    { resourceId: KEY.mailbox, address: 'ada@example.org', unreachableSince: null },
  ]);
  state.close();
}
