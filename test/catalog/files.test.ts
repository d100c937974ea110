import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import type {
  FilePosition,
  FilesCount,
  FilesRequest,
  ListedFile,
} from '../../src/catalog/files.ts';
import { fileGroup } from '../../src/catalog/files.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { FILE_GROUPS, type FileGroup } from '../../src/core/types.ts';
import type { HashedAttachment } from '../../src/mail/extraction.ts';
import {
  appeared,
  attachment,
  entry,
  type History,
  INBOX,
  openRoom,
  place,
  type Room,
  START,
  sha256,
} from './history.ts';

const ALWAYS = () => true;
const WORDS = ['alpha', 'beta', 'gamma'];

/** What a message attaches, in a word: its content, whether it stands in the text, and what it is called. */
interface Attached {
  readonly content: number;
  readonly inline: boolean;
  readonly kind: keyof typeof KINDS;
}
const KINDS = {
  pdf: { contentType: 'application/pdf', filename: 'paper.pdf', form: 'pdf' },
  picture: { contentType: 'image/PNG', filename: 'logo.png', form: null },
  zip: { contentType: 'application/zip', filename: 'all.zip', form: null },
  untold: { contentType: 'application/octet-stream', filename: 'table.XLSX', form: 'office' },
  nameless: { contentType: 'application/octet-stream', filename: null, form: null },
} as const;

interface Written {
  readonly word: number;
  readonly attached: readonly Attached[];
}

function attachmentsOf({ attached }: Written): HashedAttachment[] {
  return attached.map(({ content, inline, kind }, i) =>
    attachment(i + 1, { ...KINDS[kind], inline, hash: sha256(`content ${content}`) }),
  );
}

describe('attachments of what a query finds', () => {
  let room: Room;
  let catalog: WritableCatalog;
  let history: History;

  beforeEach(async () => {
    room = await openRoom();
    ({ catalog, history } = room);
  });
  afterEach(() => room.close());

  /** Stores messages, the oldest first; each has one word of text. */
  const store = (from: number, messages: readonly Written[]): void => {
    if (messages.length === 0) return;
    catalog.foldBatch(
      history.commit(
        messages.map((_, i) => appeared(place(INBOX, from + i), `message ${from + i}`)),
      ),
    );
    const byId = new Map(
      messages.map((message, i) => [sha256(`message ${from + i}`), message] as const),
    );
    const pending = catalog.index.pending({ limit: 10_000 });
    catalog.index.index(
      pending
        .map(({ docid, id }) => {
          const message = byId.get(id) ?? { word: 0, attached: [] };
          const body = WORDS[message.word] ?? '';
          return { docid, entry: entry({ body, attachments: attachmentsOf(message) }) };
        })
        .toSorted((a, b) => a.docid - b.docid),
    );
  };

  const asked = (text: string, more: Omit<FilesRequest, 'node'> = {}): FilesRequest => {
    const node = parseQuery(text === '' ? '*' : text, { now: START }).node;
    return { node: text === '' ? { kind: 'all', span: node.span } : node, ...more };
  };

  /** All pages behind each other. */
  const listed = (request: FilesRequest, limit: number, mayContinue = ALWAYS): ListedFile[] => {
    const files: ListedFile[] = [];
    let after: FilePosition | undefined;
    for (let pages = 0; pages < 10_000; pages += 1) {
      const page = catalog.files.page({ ...request, limit, after }, mayContinue);
      expect(page.files.length).toBeLessThanOrEqual(limit);
      files.push(...page.files);
      if (page.next === null) return files;
      expect(page.next).not.toEqual(after);
      after = page.next;
    }
    throw new Error('the list has no end');
  };

  const briefly = ({ hash, docid, number, group }: ListedFile) => ({ hash, docid, number, group });

  /** The same by its definition: of each content the newest message that the query finds. */
  const expected = (request: FilesRequest, messages: ReadonlyMap<number, Written>) => {
    const seen = new Set<string>();
    const files: ReturnType<typeof briefly>[] = [];
    for (const docid of catalog.prepare(request).docids()) {
      const message = messages.get(docid);
      if (message === undefined) continue;
      for (const { hash, number, contentType, filename, inline } of attachmentsOf(message)) {
        const group = fileGroup(contentType.toLowerCase(), filename);
        const isLeftOut = inline && group === 'pictures' && request.inlinePictures !== true;
        if (hash === null || isLeftOut || seen.has(hash)) continue;
        seen.add(hash);
        if (request.group === undefined || request.group === group)
          files.push({ hash, docid, number, group });
      }
    }
    return files;
  };

  const docidOf = (uid: number): number => catalog.messages.docidOf(sha256(`message ${uid}`)) ?? -1;

  test('are those of the newest message each, on pages of any size, now and then', async () => {
    const attached = fc.record({
      content: fc.nat(5),
      inline: fc.boolean(),
      kind: fc.constantFrom(...(Object.keys(KINDS) as (keyof typeof KINDS)[])),
    });
    const message = fc.record({
      word: fc.nat(2),
      attached: fc.array(attached, { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(message, { minLength: 1, maxLength: 14 }),
        fc.array(message, { maxLength: 6 }),
        fc.integer({ min: 1, max: 4 }),
        async (earlier, later, limit) => {
          room.close();
          room = await openRoom();
          ({ catalog, history } = room);
          // Some of what came later was received before.
          store(100, earlier);
          store(90, later.slice(0, 2));
          store(300, later.slice(2));
          const then = history.batches[1]?.commit.time ?? 0;
          const messages = new Map([
            ...earlier.map((one, i) => [docidOf(100 + i), one] as const),
            ...later.map((one, i) => [docidOf(i < 2 ? 90 + i : 298 + i), one] as const),
          ]);
          for (const text of ['', 'alpha', '-alpha', 'alpha OR beta', 'in:INBOX', 'gamma'])
            for (const asOf of [undefined, then])
              for (const inlinePictures of [false, true]) {
                const request = asked(text, { asOf, inlinePictures });
                const all = expected(request, messages);
                expect(listed(request, limit).map(briefly), text).toEqual(all);
                const sums = catalog.files.sums({ ...request, timeZone: 'UTC' }, ALWAYS);
                expectToAddUp(sums, all);
                for (const group of ['pdf', 'pictures', 'other'] as const) {
                  const some = expected({ ...request, group }, messages);
                  expect(listed({ ...request, group }, limit).map(briefly)).toEqual(some);
                  expect(sums.groups[group]).toBe(some.length);
                }
                for (const { hash, docid } of all) {
                  const content = catalog.files.content(request, hash, 9, ALWAYS);
                  expect(content).toMatchObject({ hash, docid, isFound: true });
                  const everywhere = new Set(
                    [...catalog.prepare(asked('', { asOf })).docids()].filter((one) =>
                      attachmentsOf(messages.get(one) ?? { word: 0, attached: [] }).some(
                        (known) => known.hash === hash,
                      ),
                    ),
                  );
                  expect(content?.messages).toEqual({ count: everywhere.size, complete: true });
                  expect(content?.newest).toHaveLength(Math.min(9, everywhere.size));
                }
              }
        },
      ),
      { numRuns: 12 },
    );
  });

  const expectToAddUp = (
    sums: FilesCount,
    files: readonly { readonly group: FileGroup }[],
  ): void => {
    expect(sums.complete).toBe(true);
    expect(FILE_GROUPS.reduce((sum, group) => sum + sums.groups[group], 0)).toBe(files.length);
    expect(sums.months.reduce((sum, { count }) => sum + count, 0)).toBe(files.length);
  };

  test('of thousands, pages add up to the numbers, and each month begins where its link leads', () => {
    // Uids are minutes: 44,640 of them are 31 days.
    for (let month = 0; month < 5; month += 1)
      store(
        1 + month * 44_640,
        Array.from({ length: 700 }, (_, i) => ({
          word: i % 3,
          attached: [
            { content: month * 500 + i, inline: false, kind: 'pdf' as const },
            { content: 100_000 + (i % 40), inline: i % 2 === 0, kind: 'picture' as const },
          ],
        })),
      );
    const request = asked('');
    const files = listed(request, 60);
    // 700 and four times the 500 that are new, and 40 pictures.
    expect(files).toHaveLength(700 + 4 * 500 + 20);
    const sums = catalog.files.sums({ ...request, timeZone: 'UTC' }, ALWAYS);
    expectToAddUp(sums, files);
    expect(sums.groups).toMatchObject({ pdf: 2700, pictures: 20, other: 0 });
    expect(sums.months.map(({ key }) => key)).toEqual([
      '2024-05',
      '2024-04',
      '2024-03',
      '2024-02',
      '2024-01',
    ]);
    let at = 0;
    for (const { from, count } of sums.months) {
      const [first] = catalog.files.page({ ...request, limit: 1, after: from }, ALWAYS).files;
      expect(first?.hash).toBe(files[at]?.hash);
      at += count;
    }
  });

  test('a content that thousands have is listed where the query finds it, however many newer ones there are', () => {
    const logo = { content: 1, inline: false, kind: 'picture' as const };
    store(1, [{ word: 1, attached: [logo] }]);
    store(2, [{ word: 2, attached: [logo] }]);
    store(
      10,
      Array.from({ length: 1_500 }, () => ({ word: 0, attached: [logo] })),
    );
    store(2_000, [{ word: 1, attached: [{ ...logo, content: 2 }] }]);
    const beta = listed(asked('beta'), 1);
    expect(beta.map(({ docid }) => docid)).toEqual([docidOf(2_000), docidOf(1)]);
    expect(beta[1]?.messages).toEqual({ count: 1_000, complete: false });
    let steps = 0;
    const counted = () => {
      steps += 1;
      return true;
    };
    expect(catalog.files.content(asked('gamma'), sha256('content 1'), 5, counted)).toMatchObject({
      docid: docidOf(2),
      isFound: true,
    });
    // The groups of messages that have it, 32 searches among them, and one walk for the rest.
    expect(steps).toBeLessThan(140);
    // Found by the newest 1,500 and not again behind them.
    expect(listed(asked('alpha OR gamma'), 1).map(({ docid }) => docid)).toEqual([docidOf(1_509)]);
    expect(listed(asked('beta OR gamma'), 1).map(({ docid }) => docid)).toEqual([
      docidOf(2_000),
      docidOf(2),
    ]);
  });

  test('where there is no time, a page is short and the next one continues', () => {
    store(
      1,
      Array.from({ length: 900 }, (_, i) => ({
        word: 0,
        attached: [{ content: i, inline: false, kind: i % 300 === 0 ? 'zip' : 'pdf' } as const],
      })),
    );
    const request = asked('', { group: 'archives' });
    const never = () => false;
    expect(listed(request, 60, never).map(briefly)).toEqual(listed(request, 60).map(briefly));
    expect(listed(request, 60)).toHaveLength(3);
    const sums = catalog.files.sums(request, never);
    expect(sums.complete).toBe(false);
    expect(sums.groups.pdf).toBeGreaterThan(0);
    expect(sums.groups.pdf).toBeLessThan(897);
  });

  test('where there is no time, messages that have a content are counted as far as that', () => {
    const logo = { content: 1, inline: false, kind: 'picture' as const };
    store(
      1,
      Array.from({ length: 900 }, () => ({ word: 0, attached: [logo] })),
    );
    const then = history.batches.at(-1)?.commit.time ?? 0;
    let questions = 0;
    const never = () => {
      questions += 1;
      return false;
    };
    const of = (text: string) =>
      catalog.files.content(asked(text, { asOf: then }), sha256('content 1'), 5, never);
    expect(of('')).toMatchObject({ messages: { count: 256, complete: false } });
    expect(of('')?.newest.map(({ id }) => id)[0]).toBe(sha256('message 900'));
    // What no message of it has is not looked for in all of them.
    expect(of('gamma')).toMatchObject({ isFound: false });
    const [shared] = catalog.files.ofMessage({ asOf: then }, docidOf(900), never);
    expect(shared?.messages).toEqual({ count: 256, complete: false });
    expect(questions).toBeLessThan(60);
    expect(
      catalog.files.content(asked('', { asOf: then }), sha256('content 1'), 5, ALWAYS),
    ).toMatchObject({
      messages: { count: 900, complete: true },
      first: catalog.messages.find(sha256('message 1')) === undefined ? null : expect.any(Number),
    });
  });

  test('a content that comes as many types is found with each of them', () => {
    const kinds = Object.keys(KINDS) as (keyof typeof KINDS)[];
    store(
      1,
      Array.from({ length: 20 }, (_, i) => ({
        word: i % 3,
        attached: [{ content: 1, inline: false, kind: kinds[i % kinds.length] ?? 'pdf' }],
      })),
    );
    const content = catalog.files.content(asked('alpha'), sha256('content 1'), 99, ALWAYS);
    expect(content?.messages).toEqual({ count: 20, complete: true });
    expect(content?.newest).toHaveLength(20);
    expect(content?.docid).toBe(docidOf(19));
  });

  test('one that is cut off with its message is like no other, and says so', () => {
    const cut = attachment(1, { hash: null });
    catalog.foldBatch(history.commit([1, 2].map((uid) => appeared(place(INBOX, uid), `m${uid}`))));
    catalog.index.index(
      catalog.index
        .pending({ limit: 9 })
        .map(({ docid }) => ({ docid, entry: entry({ attachments: [cut] }) }))
        .toSorted((a, b) => a.docid - b.docid),
    );
    expect(listed(asked(''), 9).map(({ isCutOff }) => isCutOff)).toEqual([true, true]);
  });

  test('a message knows in how many others its attachments are', () => {
    const paper = { content: 1, inline: false, kind: 'pdf' as const };
    store(1, [
      { word: 0, attached: [paper, { ...paper, content: 2 }] },
      { word: 0, attached: [{ ...paper, content: 3 }, paper] },
    ]);
    const shared = catalog.files.ofMessage({}, docidOf(1), ALWAYS);
    expect(shared.map(({ number, messages }) => [number, messages.count])).toEqual([
      [1, 2],
      [2, 1],
    ]);
    const [first] = shared;
    expect(catalog.files.text(first?.textId ?? 0)).toMatchObject({ status: 'pending', text: '' });
  });
});

test.each([
  ['application/pdf', 'a.exe', 'pdf'],
  ['application/x-pdf', null, 'pdf'],
  ['application/octet-stream', 'Scan.PDF', 'pdf'],
  ['image/svg+xml', null, 'pictures'],
  ['text/plain', 'rows.csv', 'tables'],
  ['text/plain', 'notes', 'documents'],
  ['application/vnd.ms-excel', 'x', 'tables'],
  ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'x', 'tables'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'x', 'documents'],
  ['message/rfc822', null, 'documents'],
  ['application/x-zip-compressed', 'x', 'archives'],
  ['application/octet-stream', 'x.tar.gz', 'archives'],
  ['application/octet-stream', 'x.tar.gz.', 'archives'],
  ['application/octet-stream', null, 'other'],
  ['', null, 'other'],
  ['video/mp4', 'film.pdf', 'other'],
])('%s called %s is one of %s', (type, name, group) => {
  expect(fileGroup(type, name)).toBe(group);
});
