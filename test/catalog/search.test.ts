import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { quotedTerm } from '../../src/catalog/sums.ts';
import type { Extraction } from '../../src/mail/extraction.ts';
import { filterText } from '../../src/web/query-text.ts';
import {
  appeared,
  entry,
  folder,
  type History,
  INBOX,
  listing,
  mailbox,
  openRoom,
  place,
  type Room,
  sha256,
} from './history.ts';
import { mergeIndex } from './merge-index.ts';

const SENT = { ...INBOX, folder: 'INBOX.Sent' };
const OTHER = { ...INBOX, mailbox: 'AC2' };

describe('searching', () => {
  let room: Room;
  let catalog: WritableCatalog;
  let history: History;

  beforeEach(async () => {
    room = await openRoom(
      folder(SENT, 1, '\\Sent'),
      mailbox(OTHER, 'you@example.net'),
      folder(OTHER),
    );
    ({ catalog, history } = room);
  });
  afterEach(() => room.close());

  /** One message for each text, uids from 1. */
  const store = (texts: readonly Partial<Extraction>[]) => {
    catalog.foldBatch(
      history.commit(texts.map((_, i) => appeared(place(INBOX, i + 1), `m${i + 1}`))),
    );
    const byId = new Map(texts.map((text, i) => [sha256(`m${i + 1}`), text]));
    // Subject and sender of the listing would stand in for empty ones.
    room.index(({ id }) => ({ subject: 'none', from: 'nobody', ...byId.get(id) }));
  };
  const run = (
    text: string,
    { asOf, limit = 20 }: { readonly asOf?: number; readonly limit?: number } = {},
  ) => {
    const { node } = parseQuery(text, { now: Date.UTC(2024, 0, 2), timeZone: 'UTC' });
    const query = catalog.prepare({ node, asOf });
    return { ...query.page({ limit, sort: 'newest' }), unknown: query.unknownNames() };
  };
  const uids = (text: string, options = {}) => run(text, options).hits.map(({ line }) => line.uid);

  test('angle brackets make an address exact, and a domain', () => {
    const words = 'Ada <ada@example.org>, x.ada@example.org, ada@example.org.example';
    store([
      { from: words, senders: ['ada@example.org'] },
      { from: words, senders: ['x.ada@example.org'] },
      { from: words, senders: ['ada@example.org.example'], recipients: ['ada@example.org'] },
    ]);
    const count = (query: string) =>
      catalog.prepare({ node: parseQuery(query, { now: 0 }).node }).count();
    expect(count('from:ada@example.org')).toBe(3);
    expect(count('from:<Ada@example.ORG>')).toBe(1);
    expect(count('from:<@example.org>')).toBe(2);
    expect(count('recip:<ada@example.org>')).toBe(1);
    expect(count('contact:<ada@example.org>')).toBe(2);
    expect(count('-from:<ada@example.org>')).toBe(2);
    expect(count('from:<bo@example.org>')).toBe(0);
  });

  test('a line has the fields of the contract', () => {
    store([{ subject: 'Rent', body: 'The rent is due', from: 'Ada ada@example.org' }]);
    expect(run('rent').hits[0]?.line).toEqual({
      id: sha256('m1'),
      mailbox: 'me@example.net',
      folder: 'INBOX',
      uid: 1,
      flags: [],
      size: 1001,
      date: listing(1).date,
      subject: 'Subject 1',
      from: { name: 'Ada', address: 'ada@example.org' },
      messageId: '<1@example.org>',
      firstSeen: '2024-01-01T00:02:00.000Z',
      endedAt: null,
      places: [
        {
          mailbox: 'me@example.net',
          folder: 'INBOX',
          uid: 1,
          flags: [],
          date: listing(1).date,
          firstSeen: '2024-01-01T00:02:00.000Z',
          endedAt: null,
        },
      ],
      snippet: 'The rent is due',
      attachments: [],
      matchedAttachments: [],
    });
  });

  test.each([
    // Latin letters with marks and without, in either direction.
    ['cafe', 'Le Café est fermé'],
    ['café', 'le CAFE est ferme'],
    ['strasse', 'Hauptstraße in der Straße'],
    ['STRAẞE', 'in der strasse'],
    ['aero', 'Ærø'],
    ['lodz', 'Łódź'],
    ['istanbul', 'İSTANBUL'],
    ['ho', 'Hộ chiếu'],
    ['finance', 'ﬁnance'],
    ['ΕΛΛΑΔΑ', 'Ελλάδα'],
    ['ΟΔΟΣ', 'η οδός'],
    ['ёлка', 'елка'],
    ['ПРИВЕТ', 'привет'],
    // Scripts without spaces: any piece of a run.
    ['東京', '東京都庁に行く'],
    ['京都庁', '東京都庁に行く'],
    ['庁', '東京都庁'],
    ['都', '東京都庁'],
    ['カタカナ', 'これはカタカナです'],
    ['ｶﾀｶﾅ', 'カタカナ'],
    ['회의', '오늘 회의실에서'],
    ['สวัสดี', 'สวัสดีครับ'],
    ['ครับ', 'สวัสดีครับ'],
    ['東京tower', 'near 東京Tower today'],
    // Scripts whose vowels are marks.
    ['हिन्दी', 'यह हिन्दी है'],
    ['שלום', 'שלום עולם'],
    ['مرحبا', 'مرحبا بالعالم'],
    // Parts of addresses and hosts.
    ['anna@example.org', 'write to anna@example.org now'],
    ['example.org', 'write to anna@example.org now'],
    ['anna', 'write to anna@example.org now'],
    ['foo-bar', 'a foo-bar thing'],
    ['"foo bar"', 'a foo-bar thing'],
    ['e-mail*', 'the e-mails'],
  ])('%s finds «%s»', (query, body) => {
    store([{ body }, { body: 'nothing to see' }]);
    expect(uids(query)).toEqual([1]);
  });

  test.each([
    ['京東', '東京都庁'],
    ['हिन्द', 'हिन्दी'],
    ['straß', 'straße'],
    ['"bar foo"', 'foo bar'],
    ['zall', 'every document has this word in its meta column'],
    ['za*', 'every document has such words in its meta column'],
  ])('%s does not find «%s»', (query, body) => {
    store([{ body }]);
    expect(uids(query)).toEqual([]);
  });

  test('fields are apart', () => {
    store([
      { subject: 'alpha', body: 'beta' },
      { from: 'alpha@example.org', to: 'beta@example.org', cc: 'gamma', bcc: 'delta' },
      {
        deliveredTo: 'epsilon@example.org',
        listId: 'rust-users.lists.example.org',
        messageId: 'very.unique@example.org',
        attachments: [
          {
            number: 1,
            filename: 'Angebot 2024.pdf',
            contentType: 'application/pdf',
            size: 1,
            inline: false,
            contentId: null,
            form: null,
            hash: null,
          },
          {
            number: 2,
            filename: 'logo.png',
            contentType: 'image/png',
            size: 1,
            inline: true,
            contentId: 'x',
            form: null,
            hash: null,
          },
        ],
      },
    ]);
    expect(uids('subject:alpha')).toEqual([1]);
    expect(uids('from:alpha')).toEqual([2]);
    expect(uids('from:@example.org')).toEqual([2]);
    expect(uids('alpha')).toEqual([2, 1]);
    expect(uids('to:beta')).toEqual([2]);
    expect(uids('to:gamma')).toEqual([]);
    expect(uids('recip:(gamma delta)')).toEqual([2]);
    expect(uids('contact:alpha')).toEqual([2]);
    expect(uids('body:beta')).toEqual([1]);
    expect(uids('deliveredto:epsilon')).toEqual([3]);
    expect(uids('filename:pdf')).toEqual([3]);
    expect(uids('filename:"angebot 2024"')).toEqual([3]);
    expect(uids('has:attachment')).toEqual([3]);
    expect(uids('has:inline')).toEqual([3]);
    expect(uids('-has:attachment')).toEqual([2, 1]);
    expect(uids('mime:application/pdf')).toEqual([3]);
    expect(uids('mime:image/*')).toEqual([3]);
    expect(uids('mime:text/html')).toEqual([]);
    expect(uids('list:rust-users')).toEqual([3]);
    expect(uids('list:users-rust')).toEqual([]);
    expect(uids('id:<very.unique@example.org>')).toEqual([3]);
    expect(uids('id:very.unique@example.org')).toEqual([3]);
    expect(uids(`id:${sha256('m2').slice(0, 12)}`)).toEqual([2]);
    expect(uids('alpha NEAR/2 beta')).toEqual([]);
  });

  test('what cannot be parsed is found by what the origin listed, and counted', () => {
    store([{ status: 'unparsed', reason: 'malformed', subject: '', from: '' }]);
    expect(uids('subject:"subject 1" from:ada')).toEqual([1]);
    expect(catalog.totals()).toMatchObject({ unparsed: 1, pending: 0 });
  });

  test('near, in any order and not too far', () => {
    store([{ body: 'one two three four five six' }]);
    expect(uids('one NEAR/3 five')).toEqual([1]);
    expect(uids('five NEAR/3 one')).toEqual([1]);
    expect(uids('one NEAR/2 five')).toEqual([]);
    expect(uids('"one two" NEAR six')).toEqual([1]);
  });

  test('ended messages are found, carry their end, and can be hidden', () => {
    store([{ body: 'common' }, { body: 'common' }]);
    catalog.foldBatch(
      history.commit([
        { fact: 'flags', ...place(INBOX, 1), flags: ['\\Flagged'] },
        { fact: 'ended', ...place(INBOX, 1), reason: 'deleted' },
      ]),
    );
    const [second, first] = run('common').hits.map(({ line }) => line);
    expect([first?.uid, first?.endedAt]).toEqual([1, '2024-01-01T00:03:00.000Z']);
    expect(second?.endedAt).toBeNull();
    expect(uids('common -is:deleted')).toEqual([2]);
    expect(uids('is:deleted')).toEqual([1]);
    expect(uids('is:starred is:deleted in:INBOX')).toEqual([1]);
    // As of the commit before, nothing had ended.
    const then = Date.UTC(2024, 0, 1, 0, 2, 30);
    expect(uids('is:deleted', { asOf: then })).toEqual([]);
    expect(uids('common -is:deleted', { asOf: then })).toEqual([2, 1]);
    expect(uids('is:starred', { asOf: then })).toEqual([]);
    expect(uids('common', { asOf: Date.UTC(2024, 0, 1) })).toEqual([]);
    expect(run('common', { asOf: then }).hits.map(({ line }) => line.endedAt)).toEqual([
      null,
      null,
    ]);
  });

  test('a message moved and copied shows its first current place and all of them', () => {
    store([{ body: 'common' }]);
    catalog.foldBatch(
      history.commit([
        { fact: 'ended', ...place(INBOX, 1), reason: 'moved' },
        appeared(place(SENT, 5), 'm1', { assumedFrom: place(INBOX, 1) }),
        appeared(place(OTHER, 9), 'm1', { listing: { flags: ['\\Seen'] } }),
      ]),
    );
    const { line } = run('common').hits[0] ?? {};
    expect([line?.folder, line?.uid, line?.endedAt]).toEqual(['INBOX.Sent', 5, null]);
    expect(line?.places.map((at) => [at.mailbox, at.folder, at.uid])).toEqual([
      ['me@example.net', 'INBOX.Sent', 5],
      ['you@example.net', 'INBOX', 9],
      ['me@example.net', 'INBOX', 1],
    ]);
    expect(uids('in:Sent')).toEqual([5]);
    expect(uids('in:inbox mailbox:you')).toEqual([]);
    // Another mailbox holds it now: its row in the index is due again, and then shows that.
    room.index(() => ({ body: 'common' }));
    expect(uids('in:inbox mailbox:you')).toEqual([5]);
    expect(uids('in:INBOX is:read')).toEqual([5]);
    expect(uids('in:INBOX is:unread')).toEqual([]);
    expect(uids('in:"INBOX.Sent" in:INBOX')).toEqual([5]);
    expect(uids('in:INBOX*')).toEqual([5]);
  });

  test('a name the archive has not is said, with the nearest one it has', () => {
    store([{ body: 'common' }]);
    expect(run('common in:INBOX.Snet')).toEqual({
      hits: [],
      stoppedAt: null,
      unknown: [
        {
          kind: 'folder',
          found: 'INBOX.Snet',
          suggestion: 'INBOX.Sent',
          candidates: [],
          never: true,
        },
      ],
    });
    for (const [typed, suggestion] of [
      ['in:Snet', 'INBOX.Sent'],
      ['in:Nope', null],
      ['mailbox:mex', 'me@example.net'],
      ['mailbox:nobody', null],
      ['mailbox:us@example.net', null],
      ['mailbox:me@exmaple.net', 'me@example.net'],
      ['mailbox:me@example.', 'me@example.net'],
    ]) {
      expect(run(`${typed}`).unknown, `${typed}`).toMatchObject([{ suggestion }]);
    }
    expect(run('mailbox:mee@example.net OR common')).toMatchObject({
      hits: [{ line: { uid: 1 } }],
      unknown: [{ kind: 'mailbox', suggestion: 'me@example.net', never: true }],
    });
  });

  test('a query prepared before a change finds what came since', () => {
    store([{ body: 'common' }]);
    const query = catalog.prepare({ node: parseQuery('common', { now: 0 }).node });
    expect([query.count(), [...query.docids()].length]).toEqual([1, 1]);
    catalog.foldBatch(history.commit([appeared(place(INBOX, 9), 'm9')]));
    expect(query.count()).toBe(1);
    room.index(() => ({ subject: 'none', from: 'nobody', body: 'common' }));
    expect([query.count(), [...query.docids()].length]).toEqual([2, 2]);
    expect(query.page({ limit: 9, sort: 'newest' }).hits).toHaveLength(2);
  });

  test('a name that a folder had once is known, and finds nothing', () => {
    store([{ body: 'common' }]);
    const [before] = catalog.folders.all().filter(({ folder: path }) => path === 'INBOX.Sent');
    if (before === undefined) throw new Error('INBOX.Sent is not there');
    catalog.foldBatch(
      history.commit([{ fact: 'folder-renamed', ...INBOX, folder: 'INBOX.Sent', to: 'INBOX.Out' }]),
    );
    expect(run('in:INBOX.Sent')).toMatchObject({ hits: [], unknown: [{ never: false }] });
    expect(run('in:INBOX.Out').unknown).toEqual([]);
    expect(run('in:INBOX.Snet').unknown).toMatchObject([{ never: true }]);
  });

  test('names with quotation marks and double spaces are found as they are', () => {
    store([{ body: 'common' }]);
    const names = [
      '5" disks',
      'Two  spaces',
      'a""b',
      '"',
      'say “so”',
      ' led',
      '-minus',
      'x*',
      'ת"א',
    ];
    for (const [i, name] of names.entries()) {
      catalog.foldBatch(
        history.commit([
          folder({ ...INBOX, folder: name }),
          appeared(place({ ...INBOX, folder: name }, 100 + i), `named ${i}`),
        ]),
      );
      for (const text of [filterText('in', name), quotedTerm('in', name) ?? ''])
        expect([run(text).unknown, uids(text)], text).toEqual([[], [100 + i]]);
    }
  });

  test('a purge takes terms and cached text away', () => {
    store([{ body: 'secret of one' }, { body: 'other text' }]);
    catalog.foldBatch(
      history.commit([{ fact: 'purged', message: sha256('m1'), reason: 'forgotten', places: [] }]),
    );
    expect(uids('secret')).toEqual([]);
    expect(uids('other')).toEqual([2]);
    expect(run('other').hits[0]?.line.snippet).toBe('other text');
  });

  test('what is indexed again replaces what was', () => {
    store([{ body: 'first version' }, { body: 'stays' }]);
    const found = catalog.messages.find(sha256('m1'));
    const docid = found?.docid ?? 0;
    catalog.index.index([{ docid, entry: entry({ body: 'second version' }) }]);
    expect(uids('first')).toEqual([]);
    expect(uids('second')).toEqual([1]);
    catalog.foldBatch(
      history.commit([appeared(place(OTHER, 1), 'm1'), appeared(place(OTHER, 2), 'm2')]),
    );
    expect(
      catalog.index
        .pending({ limit: 9 })
        .map(({ id }) => id)
        .toSorted(),
    ).toEqual([sha256('m1'), sha256('m2')].toSorted());
    room.index((one) => ({ body: one.docid === docid ? 'third version' : 'stays' }));
    expect(uids('first')).toEqual([]);
    expect(run('third').hits[0]?.line.snippet).toBe('third version');
    expect(run('stays').hits[0]?.line.snippet).toBe('stays');
    expect(catalog.index.pendingCount()).toBe(0);
  });

  test('texts of small batches are all kept, and long ones are cut for snippets only', () => {
    const long = `${'begin '.repeat(20_000)} needle`;
    for (let i = 1; i <= 5; i += 1) {
      catalog.foldBatch(history.commit([appeared(place(INBOX, i), `m${i}`)]));
      room.index(() => ({ body: i === 3 ? long : `text number ${i}` }));
    }
    for (const i of [1, 2, 4, 5])
      expect(run(`"number ${i}"`).hits[0]?.line.snippet).toBe(`text number ${i}`);
    expect(run('needle').hits[0]?.line.snippet).toMatch(/^begin begin/);
  });

  test('merging and compacting change no answer', () => {
    store(Array.from({ length: 300 }, (_, i) => ({ body: i % 3 === 0 ? 'fizz' : 'none' })));
    const before = uids('fizz', { limit: 500 });
    catalog.index.mode('bulk');
    catalog.index.mode('steady');
    mergeIndex(catalogFile(room.dir), 50);
    mergeIndex(catalogFile(room.dir));
    catalog.compact();
    expect(uids('fizz', { limit: 500 })).toEqual(before);
    expect(before).toHaveLength(100);
  });
});
