import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { rebuildCatalog } from '../../src/catalog/rebuild.ts';
import { openExtractorPool } from '../../src/mail/mime-threads.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { GrownArchive, verified } from './grown-archive.ts';

let archive: GrownArchive;
beforeEach(async () => {
  archive = new GrownArchive();
  const mail = [1, 2, 4, 5].map((n) => sampleMail(n));
  const reply = Buffer.from(
    'From: b@example.org\r\nMessage-ID: <b@example.org>\r\nReferences: <a@example.org>\r\nSubject: Re: x\r\n\r\nyes\r\n',
  );
  const picture = Buffer.from(
    'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b--\r\n',
  );
  await archive.grow([...mail, reply, picture], false);
  const extractor = openExtractorPool();
  await rebuildCatalog({ dir: archive.dir, extractor, signal: new AbortController().signal });
  await extractor.close();
});
afterEach(() => archive.remove());

test('an index that was made from the log contradicts itself nowhere', async () => {
  expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
});

test('a message that waits to be indexed again may have a part of its attachments only', async () => {
  const db = new Database(`${archive.dir}/catalog.sqlite`);
  // As if the first of them were not listed yet.
  db.exec('UPDATE attachments SET number = number + 1');
  db.exec(
    'UPDATE messages SET extractor = -extractor WHERE docid IN (SELECT docid FROM attachments)',
  );
  db.close();
  expect(await verified(archive.dir)).toMatchObject({ found: 0, catalog: 'equal' });
});

test.each([
  [
    'thread_members',
    'lacking',
    'DELETE FROM thread_members WHERE docid = (SELECT min(docid) FROM messages)',
  ],
  ['texts', 'lacking', 'DELETE FROM texts WHERE docid = (SELECT min(docid) FROM messages)'],
  ['texts', 'surplus', 'INSERT INTO texts (docid, unparsed, text) VALUES (9, NULL, NULL)'],
  [
    'thread_members',
    'different',
    'UPDATE thread_members SET thread = thread + 1 WHERE docid = (SELECT max(docid) FROM messages)',
  ],
  [
    'thread_members',
    'different',
    "UPDATE thread_members SET ancestors = x'0102' WHERE ancestors IS NOT NULL",
  ],
  [
    'attachments',
    'lacking',
    'DELETE FROM attachments WHERE docid IN (SELECT docid FROM attachments)',
  ],
  [
    'attachments',
    'lacking',
    'UPDATE attachments SET number = number + 1 WHERE docid = (SELECT max(docid) FROM attachments)',
  ],
  ['messages', 'different', 'UPDATE messages SET place_set = place_set + 1'],
  ['received_days', 'lacking', 'DELETE FROM received_days'],
  ['received_days', 'surplus', 'INSERT INTO received_days VALUES (1, 1, 1, 1)'],
  ['received_days', 'different', 'UPDATE received_days SET bytes = bytes + 1'],
  ['commit_changes', 'lacking', 'DELETE FROM commit_changes'],
  ['commit_changes', 'surplus', 'UPDATE commit_changes SET came = came + 1'],
  ['message_people', 'lacking', 'DELETE FROM message_people'],
  ['correspondents', 'lacking', 'DELETE FROM correspondents'],
  ['correspondents', 'surplus', 'UPDATE correspondents SET messages = messages + 1'],
  ['correspondents', 'surplus', 'UPDATE correspondents SET last_docid = last_docid - 1'],
  ['addresses', 'surplus', "INSERT INTO addresses VALUES (999, 'x@example.org')"],
  ['attachment_types', 'lacking', 'DELETE FROM attachment_types'],
  ['attachment_types', 'surplus', 'UPDATE attachment_types SET bytes = bytes + 1'],
  ['thread_nodes', 'surplus', 'INSERT INTO thread_nodes (node, thread) VALUES (1, 1)'],
  [
    'attachment_texts',
    'surplus',
    "INSERT INTO attachment_texts (hash, form, version, failure, truncated, text) VALUES (x'00', 'pdf', 0, NULL, 0, NULL)",
  ],
  ['meta', 'different', 'UPDATE meta SET commit_time = commit_time + 1'],
])('%s: %s is found', async (table, difference, sql) => {
  const db = new Database(`${archive.dir}/catalog.sqlite`);
  db.pragma('foreign_keys = OFF');
  expect(db.prepare(sql).run().changes).toBeGreaterThan(0);
  db.close();
  const { catalog, findings } = await verified(archive.dir);
  expect(catalog).toBe('different');
  expect(findings).toContainEqual(expect.objectContaining({ what: 'catalog', table, difference }));
});
