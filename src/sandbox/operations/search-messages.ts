import { factsTest, sourceTest, spansOfCriteria } from '../../mailbox-surface/criteria.ts';
import { pageOf, sortOf } from '../../mailbox-surface/parameters.ts';
import { pageReply, type Reply } from '../../mailbox-surface/reply.ts';
import { allWithin, pageOfSorted, pageOfSpans } from '../../mailbox-surface/uid-pages.ts';
import { searchRequest } from '../../wire/mailbox-requests.ts';
import type { Entry } from '../store/folder.ts';
import { bodyOf, type Call, folderOf } from './call.ts';

export function searchMessages(call: Call): Reply {
  const { folder } = folderOf(call);
  const page = pageOf(call.query, 25, 100);
  const { field, descending } = sortOf(call.query);
  const criteria = bodyOf(call, searchRequest);
  const { store } = call.service;
  const spans = spansOfCriteria(criteria, folder.lastUid);
  const facts = factsTest(criteria);
  const source = sourceTest(criteria);
  const matches = (entry: Entry): boolean =>
    (facts === null ||
      facts({
        flags: entry.flags,
        received: () => store.received(entry.source),
        size: () => store.size(entry.source),
      })) &&
    (source === null || source(store.read(entry.source)));
  const keyOf = {
    uid: null,
    date: (entry: Entry) => store.received(entry.source),
    size: (entry: Entry) => store.size(entry.source),
  }[field];
  const found =
    facts === null && source === null && field === 'uid'
      ? pageOfSpans(folder, spans, page, descending)
      : pageOfSorted(allWithin(folder, spans).filter(matches), keyOf, page, descending);
  return pageReply(
    found.entries.map((entry) => store.records.messageJson(folder, entry)),
    page,
    found.total,
  );
}
