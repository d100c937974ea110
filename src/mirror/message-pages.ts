import { rethrown } from '../errors/mailkeep-error.ts';
import type { MessageId } from '../mail/words.ts';
import {
  type Criteria,
  factsTest,
  sourceTest,
  spansOfCriteria,
} from '../mailbox-surface/criteria.ts';
import {
  bodyFrom,
  pageOf,
  type Sort,
  type SortField,
  sortOf,
} from '../mailbox-surface/parameters.ts';
import { Refusal } from '../mailbox-surface/refusal.ts';
import { type Page, pageReply, type ReadyReply } from '../mailbox-surface/reply.ts';
import {
  allWithin,
  type FoundPage,
  pageOfSorted,
  pageOfSpans,
} from '../mailbox-surface/uid-pages.ts';
import { searchRequest } from '../wire/mailbox-requests.ts';
import { folderOf, type InFolder } from './addressed.ts';
import type { MirrorEntry } from './folder-uids.ts';
import { inSlices } from './in-slices.ts';
import type { MirrorCall } from './mirror-call.ts';

/** A search may take this long, in milliseconds, with the time that it waits for others. */
const SEARCH_MS = 60_000;
/** Damaged messages that an error names. */
const MOST_NAMED = 100;

/** Answers `listMessages`. */
export async function listMessages(call: MirrorCall): Promise<ReadyReply> {
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const sort = sortOf(call.query);
  const everything = [{ low: 1, high: at.uids.lastUid }];
  if (sort.field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, everything, page, sort.descending));
  return listed(call, at, page, await sorted(at, allWithin(at.uids, everything), page, sort));
}

/** Answers `searchMessages`: criteria that read sources come last, on a thread. */
export async function searchMessages(call: MirrorCall): Promise<ReadyReply> {
  const until = call.clock() + SEARCH_MS;
  const at = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const sort = sortOf(call.query);
  const criteria = bodyFrom(call.body, searchRequest);
  const spans = spansOfCriteria(criteria, at.uids.lastUid);
  const facts = factsTest(criteria);
  const readsSources = sourceTest(criteria) !== null;
  if (facts === null && !readsSources && sort.field === 'uid')
    return listed(call, at, page, pageOfSpans(at.uids, spans, page, sort.descending));
  let found = allWithin(at.uids, spans);
  if (facts !== null) {
    const fitting: MirrorEntry[] = [];
    await inSlices(found, (entry) => {
      const received = () => at.uids.facts(entry).date;
      const size = () => at.uids.facts(entry).size;
      if (facts({ flags: call.view.flags(entry), received, size })) fitting.push(entry);
    });
    found = fitting;
  }
  if (readsSources) found = await withMatchingSources(call, at, found, criteria, until);
  return listed(call, at, page, await sorted(at, found, page, sort));
}

/** Quarantined messages have no source that could match. */
async function withMatchingSources(
  { alone, threads, dataDir, view, clock, isGone }: MirrorCall,
  { folder }: InFolder,
  entries: readonly MirrorEntry[],
  criteria: Criteria,
  until: number,
): Promise<MirrorEntry[]> {
  const stored: MirrorEntry[] = [];
  const ids: MessageId[] = [];
  await inSlices(entries, (entry) => {
    const id = view.place(folder, entry)?.id ?? null;
    if (id === null) return;
    stored.push(entry);
    ids.push(id);
  });
  const jobNow = () => {
    const withinMs = until - clock();
    if (withinMs <= 0 || isGone()) throw tooLong();
    return { kind: 'match', dataDir, criteria, ids, withinMs } as const;
  };
  const { positions, damaged, why } = await alone(() => threads.searching.run(jobNow));
  if (positions === null) throw tooLong();
  if (why !== null) {
    const uids = damaged.flatMap((at) => stored[at]?.uid ?? []);
    throw damagedSources(folder.path, uids, rethrown(why));
  }
  return positions.flatMap((at) => stored[at] ?? []);
}

/** Whether they match is unknown: a page without them would be a part of one. */
function damagedSources(folder: string, uids: readonly number[], cause: Error): Refusal {
  return new Refusal(
    502,
    'ERR_DAMAGED',
    'Messages that the search has to read are damaged. A set of uids without these can be searched',
    { folder, damaged: uids.length, uids: uids.slice(0, MOST_NAMED) },
    {},
    { cause },
  );
}

function tooLong(): Refusal {
  return new Refusal(502, 'ERR_SEARCH_TOO_LONG', 'The search took longer than a minute');
}

/** @param entries ascending by uid; sorted in place */
async function sorted(
  { uids }: InFolder,
  entries: MirrorEntry[],
  page: Page,
  { field, descending }: Sort,
): Promise<FoundPage<MirrorEntry>> {
  if (field !== 'uid') await inSlices(entries, (entry) => uids.facts(entry));
  return pageOfSorted(entries, keyOf(uids, field), page, descending);
}

function keyOf(uids: InFolder['uids'], field: SortField): ((entry: MirrorEntry) => number) | null {
  return field === 'uid' ? null : (entry) => uids.facts(entry)[field];
}

/** Those that are gone since their uids were read are left out: a page may be short, and `total` tells how many there were. */
function listed(
  { view }: MirrorCall,
  { mailbox, folder }: InFolder,
  page: Page,
  { entries, total }: FoundPage<MirrorEntry>,
): ReadyReply {
  return pageReply(
    entries.flatMap((entry) => view.json(mailbox, folder, entry) ?? []),
    page,
    total,
  );
}
