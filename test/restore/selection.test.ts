import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { RestorePlan } from '../../src/transfer/plan-restore.ts';
import { addSelection, type RestoreSelection } from '../../src/transfer/restore-selection.ts';
import { type Letter, StoredArchive } from '../export/stored-archive.ts';
import { ALL } from './restoring.ts';

let archive: StoredArchive;
let beforeLoss: number;

const letter = (folder: string, name: string): Letter => ({
  folder,
  subject: name,
  flags: name === 'one' ? ['\\Flagged'] : [],
  source: Buffer.from(`Subject: ${name}\r\n\r\n${name}\r\n`),
});

beforeAll(async () => {
  archive = await StoredArchive.create();
  const anna = [letter('INBOX', 'one'), letter('INBOX', 'two'), letter('Trips', 'three')];
  await archive.store([...anna, letter('Trips', 'one')]);
  beforeLoss = await archive.store([letter('INBOX', 'one'), letter('Sent', 'four')], {
    mailbox: 'bo@example.org',
    quarantined: [{ folder: 'Sent', uid: 9 }],
  });
  const ended = [
    { folder: 'INBOX', uid: 1 },
    { folder: 'INBOX', uid: 2 },
    { folder: 'Trips', uid: 1 },
  ];
  await archive.store([], { ended });
  await archive.store([], { mailbox: 'bo@example.org', ended: [{ folder: 'INBOX', uid: 1 }] });
});
afterAll(() => archive.remove());

/** What is chosen: mailbox, folder and subject of each message, and folders without any. */
function chosen(selection: Partial<RestoreSelection>): string[] {
  const plan = new RestorePlan();
  try {
    addSelection(archive.catalog, { ...ALL, ...selection }, plan);
    return [...plan.folders()]
      .flatMap(([number, { address, path }]) => {
        const name = `${address.split('@')[0]} ${path}`;
        const messages = [...plan.due(number)].map(({ id }) => `${name} ${subjectOf(id)}`);
        return messages.length > 0 ? messages : [name];
      })
      .sort();
  } finally {
    plan.close();
  }
}

function subjectOf(id: string | null): string {
  const docid = id === null ? undefined : archive.catalog.messages.find(id)?.docid;
  for (const { line } of archive.catalog.listPlaces({ deleted: true }))
    if (line.id === id) return line.subject ?? '';
  for (const { line } of archive.catalog.listPlaces({}))
    if (line.id === id) return line.subject ?? '';
  return String(docid);
}

const query = (text: string, now: number) => ({
  text,
  node: parseQuery(text, { now }).node,
  accounts: new Map<string, string>(),
});

test('without a choice, everything that is there now, with empty folders; what was never fetched is counted', () => {
  expect(chosen({})).toEqual(['anna INBOX', 'anna Trips one', 'bo INBOX', 'bo Sent four']);
  const plan = new RestorePlan();
  addSelection(archive.catalog, ALL, plan);
  expect(plan.refused(10)).toMatchObject([{ reason: 'quarantined', uid: 9 }]);
  plan.close();
});

test('as of a moment, what was there then', () => {
  expect(chosen({ asOf: beforeLoss })).toEqual([
    'anna INBOX one',
    'anna INBOX two',
    'anna Trips one',
    'anna Trips three',
    'bo INBOX one',
    'bo Sent four',
  ]);
});

test('deleted messages are those without a place in their mailbox, each once, at its last place', () => {
  // Anna's first letter is still in Trips; Bo has lost it.
  expect(chosen({ deleted: true })).toEqual(['anna INBOX two', 'anna Trips three', 'bo INBOX one']);
});

test('mailboxes, folders and queries narrow it, and are combined', () => {
  const [anna, bo] = ['anna@example.org', 'bo@example.org'];
  expect(chosen({ mailboxes: [bo] })).toEqual(['bo INBOX', 'bo Sent four']);
  expect(chosen({ mailboxes: [anna, bo], folders: ['INBOX', 'Sent'] })).toEqual([
    'anna INBOX',
    'bo INBOX',
    'bo Sent four',
  ]);
  expect(chosen({ folders: ['Trips', 'Trips'] })).toEqual(['anna Trips one']);
  expect(chosen({ query: query('is:starred', beforeLoss), asOf: beforeLoss })).toEqual([
    'anna INBOX one',
    'anna Trips one',
    'bo INBOX one',
  ]);
  expect(chosen({ query: query('is:starred', beforeLoss), deleted: true })).toEqual([
    'bo INBOX one',
  ]);
  expect(chosen({ mailboxes: [anna], folders: ['INBOX'], deleted: true })).toEqual([
    'anna INBOX two',
  ]);
});
