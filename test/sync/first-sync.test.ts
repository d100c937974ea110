import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import type { SyncProgress } from '../../src/sync/result.ts';
import { Archive, memoryOf, WANTED } from './harness.ts';
import { ModelFolder, ModelOrigin, mail, status } from './model-origin.ts';

let archive: Archive;
beforeEach(() => {
  archive = new Archive();
});
afterEach(() => {
  archive.remove();
});

function originWith(counts: Record<string, number>): ModelOrigin {
  const origin = new ModelOrigin();
  const folders = Object.entries(counts).map(([path, count]) => {
    const folder = new ModelFolder(path);
    for (let i = 1; i <= count; i += 1) {
      folder.deliver(mail(`${path} ${i}`), { flags: ['\\Seen'] });
    }
    return folder;
  });
  origin.mailbox('AC1', 'ada@example.org', folders);
  return origin;
}

function inbox(origin: ModelOrigin): ModelFolder {
  const folder = origin.boxes.get('AC1')?.folders.get('INBOX');
  if (folder === undefined) throw new Error('the model has no INBOX');
  return folder;
}

describe('the first sync', () => {
  it('stores every message of every folder for the floor of requests', async () => {
    const origin = originWith({ INBOX: 530, 'INBOX.Sent': 101, 'INBOX.Trash': 0 });
    const result = await archive.sync(origin);
    expect((await archive.places()).size).toBe(631);
    expect(origin.count('source')).toBe(631);
    expect(origin.count('list') + origin.count('search')).toBe(6 + 2);
    expect(origin.count('mailboxes') + origin.count('folders')).toBe(2);
    expect(result.failures).toEqual([]);
    expect(result.mailboxes).toMatchObject([
      { address: 'ada@example.org', folders: 3, added: 631 },
    ]);
    expect(result.certificates.every(({ complete }) => complete)).toBe(true);
    expect(result.certificates.map(({ originTotal, stored }) => [originTotal, stored])).toEqual([
      [530, 530],
      [101, 101],
      [0, 0],
    ]);
  });

  it('says what is ahead before it fetches anything', async () => {
    const origin = originWith({ INBOX: 530 });
    const events: SyncProgress[] = [];
    let sourcesWhenTold = -1;
    await archive.sync(origin, {
      progress: (event) => {
        events.push(event);
        if (event.event === 'forecast') sourcesWhenTold = origin.count('source');
      },
    });
    const [forecast] = events.filter(({ event }) => event === 'forecast');
    expect(forecast).toMatchObject({ forecast: { messages: 530, requests: 530 + 6 + 2 } });
    expect(sourcesWhenTold).toBe(0);
    expect(origin.count('list') + origin.count('search')).toBe(6);
  });

  it.each([true, false])(
    'reports how large it is, exactly or not at all, as the origin reports its quota (%s), without another request',
    async (reportsQuota) => {
      const origin = originWith({ INBOX: 130 });
      origin.reportsQuota = reportsQuota;
      const folder = new ModelFolder('INBOX.Large');
      // Listings show the newest first: those are small.
      for (let i = 1; i <= 150; i += 1)
        folder.deliver(mail(`large ${i} ${'x'.repeat(i <= 50 ? 9_000 : 10)}`));
      origin.boxes.get('AC1')?.folders.set(folder.path, folder);
      const all = [...inbox(origin).messages.values(), ...folder.messages.values()];
      const bytes = all.reduce((sum, { raw }) => sum + raw.length, 0);
      const events: SyncProgress[] = [];
      await archive.sync(origin, { progress: (event) => events.push(event) });
      const ahead = events.flatMap((event) => (event.event === 'forecast' ? [event.forecast] : []));
      expect(ahead).toHaveLength(1);
      if (reportsQuota) expect(ahead).toMatchObject([{ messages: 280, bytes }]);
      // A guess from the newest would be less than half of it.
      else expect(ahead[0]?.bytes).toBe(0);
      expect(origin.count('quota')).toBe(1);
      expect(origin.count('list') + origin.count('search')).toBe(5);
    },
  );

  it('costs only the listings and one page a folder when nothing is new', async () => {
    const origin = originWith({ INBOX: 530, 'INBOX.Sent': 20 });
    await archive.sync(origin);
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.requests.length).toBe(4);
    expect(result.mailboxes).toMatchObject([{ added: 0, flagsChanged: 0, bytes: 0 }]);
    expect(result.certificates.every(({ complete }) => complete)).toBe(true);
  });

  it('writes nothing into the log when nothing is new', async () => {
    const origin = originWith({ INBOX: 30 });
    await archive.sync(origin);
    const before = await archive.reading((catalog) => catalog.reached());
    await archive.sync(origin);
    expect(await archive.reading((catalog) => catalog.reached())).toEqual(before);
  });

  it('fetches newest first, and oldest first on request', async () => {
    for (const order of ['newest', 'oldest'] as const) {
      const origin = originWith({ INBOX: 350 });
      const other = new Archive();
      const result = await other.sync(origin, { order, concurrency: 1 });
      const uids = origin.requests.flatMap((r) => (r.operation === 'source' ? [r.uid] : []));
      const sorted = [...uids].sort((a, b) => (order === 'newest' ? b - a : a - b));
      expect(uids).toEqual(sorted);
      expect(uids.length).toBe(350);
      expect(origin.count('list') + origin.count('search')).toBeLessThanOrEqual(5);
      expect(result.certificates).toMatchObject([{ complete: true, stored: 350 }]);
      other.remove();
    }
  });

  it('continues after an interruption at any request, and fetches nothing again that was committed', async () => {
    for (let stopAt = 3; stopAt < 225; stopAt += 13) {
      const origin = originWith({ INBOX: 210, 'INBOX.Sent': 15 });
      const other = new Archive();
      const stop = new AbortController();
      origin.before = () => {
        if (origin.requests.length === stopAt) stop.abort();
      };
      await expect(other.sync(origin, { signal: stop.signal })).rejects.toMatchObject({
        family: 'interrupted',
      });
      const committed = new Set((await other.places()).keys());
      origin.before = () => {};
      origin.requests.length = 0;
      const result = await other.sync(origin);
      const fetched = origin.requests.flatMap((r) =>
        r.operation === 'source' ? [`${r.folder}/${r.uid}`] : [],
      );
      expect(fetched.filter((place) => committed.has(place))).toEqual([]);
      expect((await other.places()).size).toBe(225);
      expect(result.certificates.every(({ complete }) => complete)).toBe(true);
      other.remove();
    }
  });

  it('forgets its memory without losing or fetching anything twice', async () => {
    const origin = originWith({ INBOX: 210 });
    await archive.sync(origin);
    archive.memory = { ...memoryOf(), get: () => undefined, set: () => {} };
    origin.requests.length = 0;
    const result = await archive.sync(origin);
    expect(origin.count('source')).toBe(0);
    expect(result.certificates).toMatchObject([{ complete: true, stored: 210 }]);
  });

  it('finds mail that arrives while it walks', async () => {
    const origin = originWith({ INBOX: 310 });
    let arrivals = 0;
    origin.after = (request) => {
      if (request.operation !== 'source' || request.uid % 50 !== 0) return;
      arrivals += 1;
      archive.clock.advance(30_000);
      inbox(origin).deliver(mail(`late ${arrivals}`), { flags: ['\\Seen'] });
    };
    const result = await archive.sync(origin);
    expect(arrivals).toBeGreaterThan(3);
    expect((await archive.places()).size).toBe(310 + arrivals);
    expect(result.certificates).toMatchObject([{ complete: true }]);
  });

  it('stores the same bytes once, whatever the number of places', async () => {
    const origin = originWith({ INBOX: 3, 'INBOX.Copies': 0 });
    const copies = origin.boxes.get('AC1')?.folders.get('INBOX.Copies');
    for (let i = 1; i <= 3; i += 1) copies?.deliver(mail(`INBOX ${i}`), { flags: ['\\Seen'] });
    await archive.sync(origin);
    const places = await archive.places();
    expect(places.size).toBe(6);
    expect(new Set([...places.values()].map(({ docid }) => docid)).size).toBe(3);
  });

  it('records flags that changed on the newest page', async () => {
    const origin = originWith({ INBOX: 5 });
    await archive.sync(origin);
    const message = inbox(origin).messages.get(4);
    if (message !== undefined) message.flags = ['\\Seen', '\\Flagged', '$label1'];
    const result = await archive.sync(origin);
    expect(result.mailboxes).toMatchObject([{ flagsChanged: 1 }]);
    expect((await archive.places()).get('INBOX/4')?.flags).toEqual([
      '$label1',
      '\\Flagged',
      '\\Seen',
    ]);
  });

  it('leaves excluded folders alone and names them', async () => {
    const origin = originWith({ INBOX: 5, 'INBOX.Junk': 7 });
    const result = await archive.sync(origin, {
      accounts: [
        {
          name: 'main',
          origin,
          wanted: { ...WANTED, folders: { include: ['*'], exclude: ['*.Junk'] } },
        },
      ],
    });
    expect((await archive.places()).size).toBe(5);
    expect(result.excluded).toEqual([{ mailbox: 'ada@example.org', folder: 'INBOX.Junk' }]);
  });
});

describe('a message that will not come whole', () => {
  it('is quarantined as short after three fetches, and accepted when another run gets the same', async () => {
    const origin = originWith({ INBOX: 4 });
    origin.source$ = (message) =>
      message.uid === 2 ? message.raw.subarray(0, message.raw.length - 9) : message.raw;
    const first = await archive.sync(origin);
    const fetches = () =>
      origin.requests.filter((r) => r.operation === 'source' && r.uid === 2).length;
    expect(fetches()).toBe(3);
    expect(first.mailboxes).toMatchObject([{ added: 3, quarantined: 1 }]);
    expect(first.certificates).toMatchObject([
      { originTotal: 4, stored: 3, quarantined: 1, complete: true },
    ]);
    archive.clock.advance(60_000);
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(3);
    archive.clock.advance(600_000);
    const last = await archive.sync(origin);
    expect((await archive.places()).size).toBe(4);
    expect(last.certificates).toMatchObject([{ stored: 4, quarantined: 0, complete: true }]);
  });

  it('is stored by the next run when its source comes whole then', async () => {
    const origin = originWith({ INBOX: 4 });
    origin.source$ = (message) =>
      message.uid === 2 ? Buffer.from('<html>down</html>') : message.raw;
    const first = await archive.sync(origin);
    expect(first.mailboxes).toMatchObject([{ added: 3, quarantined: 1 }]);
    origin.source$ = (message) => message.raw;
    const second = await archive.sync(origin);
    expect(second.mailboxes).toMatchObject([{ added: 1 }]);
    expect((await archive.places()).size).toBe(4);
  });

  it('does not stop the rest when the origin refuses it, and is named', async () => {
    const origin = originWith({ INBOX: 40 });
    origin.before = (request) => {
      if (request.operation === 'source' && request.uid === 17) throw status(500);
    };
    const result = await archive.sync(origin);
    expect((await archive.places()).size).toBe(39);
    expect(result.failures).toMatchObject([
      { mailbox: 'ada@example.org', folder: 'INBOX', uid: 17, code: 'origin.status' },
    ]);
    expect(result.certificates).toMatchObject([{ stored: 39, quarantined: 1, complete: true }]);
  });

  it('and others that fail again and again do not stop the rest for good', async () => {
    const origin = originWith({ INBOX: 60 });
    origin.before = (request) => {
      const { operation, uid = 0 } = request as { operation: string; uid?: number };
      if (operation === 'source' && uid >= 20 && uid <= 45) throw status(500);
    };
    // So many in a row end the first run.
    await archive.sync(origin);
    archive.clock.advance(86_400_000);
    const second = await archive.sync(origin);
    expect((await archive.places()).size).toBe(34);
    expect(second.certificates).toMatchObject([{ stored: 34, quarantined: 26, complete: true }]);
    inbox(origin).messages.delete(1);
    archive.clock.advance(86_400_000);
    const third = await archive.sync(origin);
    expect(third.mailboxes).toMatchObject([{ ended: 1 }]);
  });

  it('is nothing at all when it vanished between listing and fetching', async () => {
    const origin = originWith({ INBOX: 40 });
    origin.before = (request) => {
      if (request.operation === 'source' && request.uid === 17) inbox(origin).messages.delete(17);
    };
    const result = await archive.sync(origin);
    expect((await archive.places()).size).toBe(39);
    expect(result.failures).toEqual([]);
    expect(result.certificates).toMatchObject([
      { originTotal: 39, stored: 39, quarantined: 0, complete: true },
    ]);
  });
});

describe('a host whose sizes are always off', () => {
  it('is learned after 20 messages, and costs no second fetch from then on', async () => {
    const origin = originWith({ INBOX: 60 });
    // The listing counts CRLF; the source is sent with bare LF and carries its Message-ID.
    origin.source$ = ({ raw }) => Buffer.from(raw.toString('latin1').replaceAll('\r\n', '\n'));
    const first = await archive.sync(origin, { concurrency: 1 });
    expect(first.mailboxes).toMatchObject([{ added: 40, quarantined: 20 }]);
    expect(origin.count('source')).toBe(20 * 3 + 40);
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(60);
  });
});

describe('a pass that cannot go on', () => {
  it('ends one account on a refused token and lets the others go on', async () => {
    const good = originWith({ INBOX: 12 });
    const bad = originWith({ INBOX: 12 });
    bad.before = () => {
      throw new MailkeepError('auth', 'origin.unauthorized', {});
    };
    const result = await archive.sync(good, {
      accounts: [
        { name: 'bad', origin: bad, wanted: WANTED },
        { name: 'good', origin: good, wanted: WANTED },
      ],
    });
    expect(result.failures).toMatchObject([{ account: 'bad', family: 'auth' }]);
    expect((await archive.places()).size).toBe(12);
  });

  it('stops before the disk is full, and keeps what it has', async () => {
    const origin = originWith({ INBOX: 600 });
    let asked = 0;
    const minFreeBytes = () => {
      asked += 1;
      return asked < 3 ? 0 : Number.MAX_SAFE_INTEGER;
    };
    await expect(archive.sync(origin, { minFreeBytes })).rejects.toMatchObject({
      family: 'disk',
      code: 'disk.low',
    });
    const kept = (await archive.places()).size;
    expect(kept).toBeGreaterThan(0);
    expect(kept).toBeLessThan(600);
    await archive.sync(origin);
    expect((await archive.places()).size).toBe(600);
  });

  it('stops when reading marks mail as seen, after two witnesses', async () => {
    const origin = originWith({ INBOX: 0 });
    for (let i = 1; i <= 50; i += 1) inbox(origin).deliver(mail(`unseen ${i}`));
    origin.after = (request) => {
      if (request.operation !== 'source') return;
      inbox(origin).messages.get(request.uid)?.flags.push('\\Seen');
    };
    const result = await archive.sync(origin, { concurrency: 1 });
    expect(result.failures).toMatchObject([{ code: 'sync.marks-seen' }]);
    expect(origin.count('source')).toBe(2);
  });

  it('asks the canary once a day while reading leaves mail unseen', async () => {
    const origin = originWith({ INBOX: 0 });
    for (let i = 1; i <= 50; i += 1) inbox(origin).deliver(mail(`unseen ${i}`));
    await archive.sync(origin, { concurrency: 1 });
    expect(origin.count('search')).toBe(1);
    inbox(origin).deliver(mail('one more'));
    await archive.sync(origin);
    expect(origin.count('search')).toBe(1);
  });
});
