import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { WritableCatalog } from '../../src/catalog/catalog.ts';
import { catalogFile } from '../../src/catalog/database.ts';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { HashedAttachment } from '../../src/mail/extraction.ts';
import {
  appeared,
  attachment,
  type History,
  INBOX,
  openRoom,
  place,
  type Room,
  sha256,
} from './history.ts';

describe('texts of attachments in the catalog', () => {
  let room: Room;
  let catalog: WritableCatalog;
  let history: History;

  beforeEach(async () => {
    room = await openRoom();
    ({ catalog, history } = room);
  });
  afterEach(() => room.close());

  const document = (number: number, hash: string | null): HashedAttachment =>
    attachment(number, { hash: hash === null ? null : sha256(hash) });
  const store = (documents: readonly (readonly HashedAttachment[])[]) => {
    catalog.foldBatch(
      history.commit(documents.map((_, i) => appeared(place(INBOX, i + 1), `m${i + 1}`))),
    );
    index(documents);
  };
  const index = (documents: readonly (readonly HashedAttachment[])[]) =>
    room.index(({ id }) => {
      const at = documents.findIndex((_, i) => sha256(`m${i + 1}`) === id);
      return { attachments: documents[at] ?? [] };
    });
  const settle = (text: string) => {
    for (const { textId } of catalog.attachments.pending({ limit: 99 })) {
      catalog.attachments.settle(textId, { status: 'done', text, truncated: false });
    }
  };
  const uids = (text: string) =>
    catalog
      .prepare({ node: parseQuery(text, { now: 0 }).node })
      .page({ limit: 20, sort: 'newest' })
      .hits.map(({ line }) => line.uid);
  const rows = (table: string): number => {
    const db = new Database(catalogFile(room.dir), { readonly: true });
    const row = db.prepare<[], { n: number }>(`SELECT count(*) AS n FROM ${table}`).get();
    db.close();
    return row?.n ?? -1;
  };

  test('a message is indexed again once, when the last of its attachments was read', () => {
    store([[document(1, 'a'), document(2, 'b')]]);
    const [first, second] = catalog.attachments.pending({ limit: 9 });
    catalog.attachments.settle(first?.textId ?? 0, {
      status: 'done',
      text: 'needle',
      truncated: false,
    });
    expect(catalog.index.pendingCount()).toBe(0);
    catalog.attachments.settle(second?.textId ?? 0, { status: 'failed', reason: 'malformed' });
    expect(catalog.index.pendingCount()).toBe(1);
    index([[document(1, 'a'), document(2, 'b')]]);
    expect(uids('needle')).toEqual([1]);
    expect(catalog.attachments.counts()).toEqual({ pending: 0, done: 1, failed: 1 });
  });

  test('one without any text is not indexed again', () => {
    store([[document(1, 'a')]]);
    settle('');
    expect(catalog.index.pendingCount()).toBe(0);
    expect(catalog.attachments.counts()).toEqual({ pending: 0, done: 1, failed: 0 });
  });

  test('the same bytes read in another way are another text; unseen bytes are like no other', () => {
    store([
      [document(1, 'a'), { ...document(2, 'a'), form: 'text:' }],
      [document(1, 'a'), document(2, null)],
      [document(1, null)],
    ]);
    expect(catalog.attachments.counts().pending).toBe(4);
    expect(new Set(catalog.attachments.pending({ limit: 9 }).map(({ hash }) => hash)).size).toBe(3);
  });

  test('a purge takes what no other message has', () => {
    store([[document(1, 'a')], [document(1, 'a'), document(2, 'b')]]);
    settle('needle');
    const purge = (id: string) =>
      catalog.foldBatch(
        history.commit([{ fact: 'purged', message: sha256(id), reason: 'forgotten', places: [] }]),
      );
    purge('m2');
    expect([rows('attachments'), rows('attachment_texts')]).toEqual([1, 1]);
    index([[document(1, 'a')]]);
    expect(uids('needle')).toEqual([1]);
    purge('m1');
    expect([rows('attachments'), rows('attachment_texts')]).toEqual([0, 0]);
    expect(uids('needle')).toEqual([]);
  });

  test('every attachment has a row, with text or without', () => {
    const picture = attachment(1, { contentType: 'image/png', filename: null, form: null });
    const cut = attachment(2, { inline: true, form: null, hash: null });
    store([[picture, cut, document(3, 'a')], [picture]]);
    const db = new Database(catalogFile(room.dir), { readonly: true });
    const listed = db
      .prepare(
        `SELECT docid, number, filename, type, size, lower(hex(hash)) AS hash, inline, text_id
         FROM attachments ORDER BY docid DESC, number`,
      )
      .all();
    const docids = db.prepare<[], number>('SELECT docid FROM messages ORDER BY 1').pluck().all();
    db.close();
    const row = (
      at: number,
      { number, filename, contentType, size, inline }: HashedAttachment,
    ) => ({
      docid: docids.at(at),
      ...{ number, filename, type: contentType, size, inline: inline ? 1 : 0 },
    });
    expect(listed).toEqual([
      { ...row(-1, picture), hash: picture.hash, text_id: null },
      { ...row(-2, picture), hash: picture.hash, text_id: null },
      { ...row(-2, cut), hash: expect.stringMatching(/^[0-9a-f]{64}$/), text_id: null },
      { ...row(-2, document(3, 'a')), hash: sha256('a'), text_id: 1 },
    ]);
  });

  test('the index takes so much of one message and no more', () => {
    const many = Array.from({ length: 4 }, (_, i) => document(i + 1, `x${i}`));
    store([many]);
    for (const [i, { textId }] of catalog.attachments.pending({ limit: 9 }).entries()) {
      const text = `needle${i} ${'w '.repeat(100_000)}`;
      catalog.attachments.settle(textId, { status: 'done', text, truncated: false });
    }
    index([many]);
    expect([0, 1, 2, 3].map((i) => uids(`needle${i}`).length)).toEqual([1, 1, 1, 0]);
  });
});
