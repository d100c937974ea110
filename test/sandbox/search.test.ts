import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inUidSet, parseUidSet } from '../../src/service/wire.ts';
import { fill, mail, type Served, serveEmpty } from './client.ts';

let served: Served;
let search: string;

beforeAll(async () => {
  served = await serveEmpty();
  search = `POST ${served.m}/folders/INBOX/messages/search`;
  fill(served, [
    mail('Alpha report', 'To: Jane <jane@example.org>', 'X-Spam: no, never'),
    mail('=?iso-8859-1?Q?Gr=FC=DFe?=', 'Cc: boss@example.com', 'Message-ID: <two@example.net>'),
    [
      'Subject: third',
      'From: =?utf-8?B?SsO8cmdlbg==?= <j@example.net>',
      'Content-Type: text/plain; charset=koi8-r',
      'Content-Transfer-Encoding: base64',
      '',
      Buffer.from([0xf0, 0xd2, 0xc9, 0xd7, 0xc5, 0xd4]).toString('base64'),
      '',
    ].join('\r\n'),
    mail('Fourth', 'To: ada@example.org').padEnd(600, 'x'),
    mail('removed'),
    mail('Sixth alpha'),
  ]);
  await served.call(`DELETE ${served.m}/folders/INBOX/messages/5`);
  await served.call(`PATCH ${served.m}/folders/INBOX/messages/4`, {
    body: { addFlags: ['\\Seen', 'Work'] },
  });
  await served.call(`PATCH ${served.m}/folders/INBOX/messages/6`, {
    body: { addFlags: ['\\Seen'] },
  });
});
afterAll(() => served.close());

async function found(body: unknown, query = '?sort=uid'): Promise<number[]> {
  const { status, json } = await served.call(search + query, { body });
  expect(status).toBe(200);
  if (typeof json !== 'object' || json === null || !('data' in json) || !Array.isArray(json.data)) {
    throw new Error('no list');
  }
  return json.data.map((item: { uid: number }) => item.uid);
}

describe('criteria', () => {
  test.each([
    [{}, [1, 2, 3, 4, 6]],
    // Received on 2026-01-01, one a day.
    [{ since: '2026-01-03' }, [3, 4, 6]],
    [{ before: '2026-01-03' }, [1, 2]],
    [{ since: '2026-01-02', before: '2026-01-03' }, [2]],
    [{ flags: ['\\Seen'] }, [4, 6]],
    [{ flags: ['\\seen', 'work'] }, [4]],
    [{ flags: [] }, [1, 2, 3, 4, 6]],
    [{ uid: '2:4' }, [2, 3, 4]],
    [{ uid: '4:2,6,6,99' }, [2, 3, 4, 6]],
    [{ uid: '*' }, [6]],
    [{ uid: '5:*' }, [6]],
    [{ uid: '7:*' }, [6]],
    [{ uid: '5' }, []],
    [{ uid: '100,200' }, []],
    [{ header: 'X-Spam:NEVER' }, [1]],
    [{ header: 'x-spam:' }, [1]],
    [{ header: 'Message-ID:<two@example.net>' }, [2]],
    [{ header: 'Subject:grüße' }, [2]],
    [{ larger: 599 }, [4]],
    [{ larger: 600 }, []],
    [{ smaller: 600 }, [1, 2, 3, 6]],
    [{ subject: 'ALPHA' }, [1, 6]],
    [{ subject: 'grüß' }, [2]],
    [{ from: 'Jürgen' }, [3]],
    [{ from: 'somebody@' }, [1, 2, 4, 6]],
    [{ to: 'jane' }, [1]],
    [{ cc: 'BOSS@' }, [2]],
    [{ body: 'привет' }, [3]],
    [{ body: 'about alpha' }, [1]],
    // Alternatives of each other, and all the rest besides.
    [{ subject: 'third', to: 'ada@', cc: 'boss' }, [2, 3, 4]],
    [{ subject: 'third', to: 'ada@', flags: ['\\Seen'] }, [4]],
    [{ subject: 'alpha', uid: '1:3' }, [1]],
    [{ text: 'grüße' }, [2]],
    [{ text: 'привет' }, [3]],
    [{ text: 'boss@example.com' }, [2]],
    [{ text: 'alpha', subject: 'sixth' }, [6]],
    [{ somethingNew: 1 }, [1, 2, 3, 4, 6]],
  ])('%j', async (criteria, expected) => {
    expect(await found(criteria)).toEqual(expected);
  });

  test.each([
    [{ since: '2026-13-01' }, 'since'],
    [{ before: 'yesterday' }, 'before'],
    [{ uid: '1:' }, 'uid'],
    [{ uid: '0' }, 'uid'],
    [{ uid: '' }, 'uid'],
    [{ uid: 7 }, 'uid'],
    [{ header: 'no colon' }, 'header'],
    [{ larger: -1 }, 'larger'],
    [{ smaller: '9' }, 'smaller'],
    [{ flags: 'Work' }, 'flags'],
    [{ subject: 'x'.repeat(1025) }, 'subject'],
    [{ body: 'x'.repeat(1025) }, 'body'],
    [{ text: 'x'.repeat(1025) }, 'text'],
    [{ from: 'x'.repeat(321) }, 'from'],
    [{ to: 'x'.repeat(321) }, 'to'],
    [{ cc: 'x'.repeat(321) }, 'cc'],
  ])('%j is 422', async (body, field) => {
    const { status, json } = await served.call(search, { body });
    expect(status).toBe(422);
    expect(json).toMatchObject({
      code: 'ERR_VALIDATION_FAILED',
      params: { fields: { [field]: [expect.any(String)] } },
    });
  });

  test('an unknown folder is 422', async () => {
    const { status, json } = await served.call(`POST ${served.m}/folders/None/messages/search`, {
      body: {},
    });
    expect([status, json]).toMatchObject([422, { code: 'ERR_FOLDER_NOT_FOUND' }]);
  });

  test('an empty folder has no last message', async () => {
    const path = `POST ${served.m}/folders/INBOX.Trash/messages/search`;
    const { json } = await served.call(path, { body: { uid: '1:*' } });
    expect(json).toMatchObject({ data: [], pagination: { total: 0 } });
  });
});

describe('paging', () => {
  test('25 a page by default, newest uid first, and sorted as asked', async () => {
    const { json } = await served.call(search, { body: {} });
    expect(json).toMatchObject({ pagination: { page: 1, perPage: 25, total: 5, totalPages: 1 } });
    expect(await found({}, '')).toEqual([6, 4, 3, 2, 1]);
    expect(await found({}, '?sort=-size&perPage=1')).toEqual([4]);
    expect(await found({ uid: '1:3' }, '?sort=-date')).toEqual([3, 2, 1]);
  });

  test('the pages of a uid set are the set, in order, whatever the set and the page', async () => {
    const uids = [1, 2, 3, 4, 6];
    const end = fc.oneof(fc.integer({ min: 1, max: 9 }).map(String), fc.constant('*'));
    const set = fc
      .array(
        fc.oneof(
          end,
          fc.tuple(end, end).map((ends) => ends.join(':')),
        ),
        {
          minLength: 1,
          maxLength: 4,
        },
      )
      .map((parts) => parts.join(','));
    await fc.assert(
      fc.asyncProperty(
        set,
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom('uid', '-uid', 'date', '-date'),
        fc.boolean(),
        async (uid, perPage, sort, alsoFiltered) => {
          const ranges = parseUidSet(uid) ?? [];
          const expected = uids.filter((one) => inUidSet(ranges, one, 6));
          if (sort.startsWith('-')) expected.reverse();
          const walked: number[] = [];
          for (let page = 1; page <= 5; page += 1) {
            const criteria = alsoFiltered ? { uid, larger: 1 } : { uid };
            walked.push(
              ...(await found(criteria, `?sort=${sort}&perPage=${perPage}&page=${page}`)),
            );
          }
          expect(walked).toEqual(expected);
        },
      ),
      { numRuns: 60 },
    );
  });
});
