import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Settings } from '../../src/core/config-schema.ts';
import { Archive } from './harness.ts';
import { ModelFolder, ModelOrigin, mail, status } from './model-origin.ts';
import { policy } from './one-mailbox.ts';

const DAY = 86_400_000;
/** Messages of each of the two folders. */
const EACH = 320;
const PAGE = 100;
const LARGE = 'x'.repeat(120_000);
const SENT = 'INBOX.Sent';
const ORDERS: readonly Settings['sync']['first'][] = ['recent', 'small', 'folders'];

let archive: Archive;
beforeEach(() => {
  archive = new Archive();
});
afterEach(() => archive.remove());

/** A message of a mailbox, as the order of fetching knows it. */
interface Fetched {
  readonly name: string;
  readonly ageDays: number;
  readonly large: boolean;
}

/** Two folders of a mailbox; each message is `daysApart` older than the next one, and every fifth is large. */
function mailbox(daysApart = 2.5): ModelOrigin {
  const origin = new ModelOrigin();
  const folders = [new ModelFolder('INBOX'), new ModelFolder(SENT, '\\Sent')].map((folder) => {
    for (let n = 1; n <= EACH; n += 1) {
      const date = new Date(archive.clock.time - (EACH - n) * daysApart * DAY).toISOString();
      folder.deliver(mail(`${folder.path} ${n}`, n % 5 === 0 ? LARGE : undefined), { date });
    }
    return folder;
  });
  origin.mailbox('AC1', 'ada@example.org', folders);
  return origin;
}

/** The sources that were asked for, in their order. */
function fetched(origin: ModelOrigin): Fetched[] {
  const folders = origin.boxes.get('AC1')?.folders;
  return origin.requests.flatMap((request) => {
    if (request.operation !== 'source') return [];
    const message = folders?.get(request.folder)?.messages.get(request.uid);
    if (message === undefined) throw new Error('the model has lost a message');
    const ageDays = (archive.clock.time - Date.parse(message.date)) / DAY;
    const large = message.raw.length > LARGE.length;
    return [{ name: `${request.folder}/${request.uid}`, ageDays, large }];
  });
}

const wholeMailbox = [
  { folder: 'INBOX', originTotal: EACH, stored: EACH, complete: true },
  { folder: SENT, originTotal: EACH, stored: EACH, complete: true },
];

/** The requests of a first sync that fetches one folder after the other. */
async function usualRequests(): Promise<number> {
  const origin = mailbox();
  const other = new Archive();
  try {
    await other.sync(origin, { first: 'folders' });
    return origin.requests.length;
  } finally {
    other.remove();
  }
}

describe('a first sync', () => {
  it('fetches the last year of every folder before older mail, for one request a folder more', async () => {
    const origin = mailbox();
    const result = await archive.sync(origin, { first: 'recent' });
    expect(result.certificates).toMatchObject(wholeMailbox);
    const ages = fetched(origin).map(({ ageDays }) => ageDays);
    const recent = ages.filter((age) => age < 365).length;
    expect(recent).toBeGreaterThan(2 * PAGE);
    expect(recent).toBeLessThan(EACH);
    // Older mail before that is only what is listed on the page on which the year of the first folder begins.
    const older =
      ages.slice(
        0,
        ages.findLastIndex((age) => age < 365),
      ).length +
      1 -
      recent;
    expect(older).toBeLessThan(PAGE);
    expect(new Set(fetched(origin).map(({ name }) => name)).size).toBe(2 * EACH);
    expect(ages).toHaveLength(2 * EACH);
    expect(origin.requests.length - (await usualRequests())).toBeLessThanOrEqual(2);
  });

  it('fetches small messages of every folder before large ones, for no request more', async () => {
    const origin = mailbox();
    const result = await archive.sync(origin, { first: 'small' });
    expect(result.certificates).toMatchObject(wholeMailbox);
    const sources = fetched(origin);
    expect(sources).toHaveLength(2 * EACH);
    expect(new Set(sources.map(({ name }) => name)).size).toBe(2 * EACH);
    // The newest page of each folder comes first, whatever is on it.
    const backlog = sources.slice(2 * PAGE).map(({ large }) => large);
    const large = backlog.filter((is) => is).length;
    expect(large).toBe((2 * (EACH - PAGE)) / 5);
    expect(backlog.slice(-large)).toEqual(Array.from({ length: large }, () => true));
    expect(origin.requests.length).toBe(await usualRequests());
  });

  it('postpones no large message in a daemon, whose passes may never get past their pages', async () => {
    const origin = mailbox();
    const rhythm = { mailboxesMs: DAY, folderMs: DAY };
    await archive.sync(origin, { first: 'small', policy: { ...policy, rhythm } });
    const order = fetched(origin).map(({ name }) => name);
    const other = mailbox();
    const second = new Archive();
    await second.sync(other, { first: 'folders', policy: { ...policy, rhythm } });
    second.remove();
    expect(order).toEqual(fetched(other).map(({ name }) => name));
  });

  it('fetches one folder after the other where that is asked for', async () => {
    const origin = mailbox();
    expect((await archive.sync(origin, { first: 'folders' })).certificates).toMatchObject(
      wholeMailbox,
    );
    const backlog = fetched(origin).slice(2 * PAGE);
    const split = backlog.findIndex(({ name }) => name.startsWith(SENT));
    expect(backlog.slice(0, split).every(({ name }) => name.startsWith('INBOX/'))).toBe(true);
    expect(split).toBe(EACH - PAGE);
  });

  it.each(ORDERS)('is interrupted and resumed, and fetches nothing twice: %s', async (first) => {
    const origin = mailbox();
    for (const enough of [90, 250, 450]) {
      const stop = new AbortController();
      origin.after = () => {
        if (origin.count('source') >= enough) stop.abort();
      };
      await expect(archive.sync(origin, { first, signal: stop.signal })).rejects.toMatchObject({
        code: 'sync.interrupted',
      });
    }
    origin.after = () => {};
    const result = await archive.sync(origin, { first });
    expect(result.failures).toEqual([]);
    expect(result.certificates).toMatchObject(wholeMailbox);
    expect((await archive.places()).size).toBe(2 * EACH);
    const names = fetched(origin).map(({ name }) => name);
    // What was on its way when it was interrupted may have to be fetched again: four at a time, three times.
    expect(names.length - new Set(names).size).toBeLessThanOrEqual(12);
    // A pass after that has nothing left to do.
    origin.requests.length = 0;
    await archive.sync(origin, { first });
    expect(origin.count('source')).toBe(0);
  });

  it.each(ORDERS)('is complete where the host cannot be searched: %s', async (first) => {
    const origin = mailbox();
    origin.searches = false;
    expect((await archive.sync(origin, { first })).certificates).toMatchObject(wholeMailbox);
    expect(fetched(origin)).toHaveLength(2 * EACH);
  });

  it('fetches all of a folder whose uids do not follow the dates', async () => {
    // The oldest message has the highest uid.
    const origin = mailbox(-2.5);
    const result = await archive.sync(origin, { first: 'recent' });
    expect(result.certificates).toMatchObject(wholeMailbox);
    expect(fetched(origin)).toHaveLength(2 * EACH);
  });

  it('survives a service that fails while it is asked where the year begins', async () => {
    const origin = mailbox();
    let searched = 0;
    origin.before = ({ operation }) => {
      if (operation !== 'search') return;
      searched += 1;
      if (searched <= 2) throw status(502);
    };
    const result = await archive.sync(origin, { first: 'recent' });
    expect(result.failures).toEqual([]);
    expect(result.certificates).toMatchObject(wholeMailbox);
  });
});

it('every day: large mail that arrives is fetched in the pass that sees it', async () => {
  const origin = mailbox();
  await archive.sync(origin, { first: 'small' });
  const inbox = origin.boxes.get('AC1')?.folders.get('INBOX');
  for (let n = 0; n < 150; n += 1) inbox?.deliver(mail(`late ${n}`, LARGE));
  const result = await archive.sync(origin, { first: 'small' });
  expect(result.mailboxes).toMatchObject([{ added: 150 }]);
  expect(result.certificates.every(({ complete }) => complete)).toBe(true);
});
