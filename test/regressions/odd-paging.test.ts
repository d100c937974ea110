import { expect, test } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import { apiOrigin } from '../../src/sync/api-origin.ts';
import { type Answer, envelope, json, startOrigin } from '../api/local-origin.ts';
import { mailboxClient, platformClient } from '../api/test-clients.ts';
import { Archive } from '../sync/harness.ts';

/** How a service answers a listing of `all`: page number, requested size; and the request count, from 1. */
type Paging = (
  all: readonly object[],
  page: number,
  perPage: number,
  asked: number,
) => { readonly data: readonly object[]; readonly perPage: number; readonly total: number };

const slice = (all: readonly object[], page: number, size: number) =>
  all.slice((page - 1) * size, page * size);

const step = (perPage: number, by: number) => Math.max(by, Math.floor(perPage / by) * by);

/** Services that give every item to a client that keeps asking. */
const LEADING: Readonly<Record<string, Paging>> = {
  'honours perPage': (all, page, perPage) => ({
    data: slice(all, page, perPage),
    perPage,
    total: all.length,
  }),
  'ignores perPage and says so': (all, page) => ({
    data: slice(all, page, 100),
    perPage: 100,
    total: all.length,
  }),
  'clamps perPage to 25 and says so': (all, page, perPage) => ({
    data: slice(all, page, Math.min(25, perPage)),
    perPage: Math.min(25, perPage),
    total: all.length,
  }),
  'clamps perPage to 25 and repeats the request': (all, page, perPage) => ({
    data: slice(all, page, Math.min(25, perPage)),
    perPage,
    total: all.length,
  }),
  'rounds perPage down to tens and says so': (all, page, perPage) => ({
    data: slice(all, page, step(perPage, 10)),
    perPage: step(perPage, 10),
    total: all.length,
  }),
  'rounds perPage down to tens and repeats the request': (all, page, perPage) => ({
    data: slice(all, page, step(perPage, 10)),
    perPage,
    total: all.length,
  }),
  'gives 250 whatever is asked': (all, page) => ({
    data: slice(all, page, 250),
    perPage: 250,
    total: all.length,
  }),
};

/** Services whose pages do not lead to all items. */
const MISLEADING: Readonly<Record<string, Paging>> = {
  'ignores page numbers': (all, _page, perPage) => ({
    data: all.slice(0, perPage),
    perPage,
    total: all.length,
  }),
  'ignores page numbers and gives 25': (all) => ({
    data: all.slice(0, 25),
    perPage: 25,
    total: all.length,
  }),
  'gives 25 of each 100': (all, page, perPage) => ({
    data: slice(all, page, perPage).slice(0, 25),
    perPage,
    total: all.length,
  }),
  'has pages that loop': (all, page, perPage) => ({
    data: slice(all, ((page - 1) % 2) + 1, perPage),
    perPage,
    total: all.length,
  }),
  'gives empty pages after the first': (all, page, perPage) => ({
    data: page === 1 ? all.slice(0, perPage) : [],
    perPage,
    total: all.length,
  }),
  'gives only empty pages': (all, _page, perPage) => ({ data: [], perPage, total: all.length }),
  'counts a thousand millions': (all, page, perPage) => ({
    data: slice(all, page, perPage),
    perPage,
    total: 1_000_000_000,
  }),
  'counts more with each request': (all, page, perPage, asked) => ({
    data: slice(all, page, perPage),
    perPage,
    total: all.length + 100 * asked,
  }),
  'counts up and down': (all, page, perPage, asked) => ({
    data: slice(all, page, perPage),
    perPage,
    total: all.length + ((asked * 7919) % 100_000),
  }),
};

const MESSAGES = 330;
/** Every walk of this folder, and all its sources. */
const MAX_REQUESTS = 2_000;

const sourceOf = (uid: number) =>
  `From: ada@example.org\r\nMessage-ID: <${uid}@example.org>\r\nSubject: ${uid}\r\n\r\nText ${uid}\r\n`;

/** A service with one folder; `searching` is how its search answers. */
function service(paging: Paging, searching: 'refused' | 'paged'): Answer {
  let asked = 0;
  return (request, response) => {
    const url = new URL(request.path, 'http://service');
    const query = (name: string, missing: number) => Number(url.searchParams.get(name) ?? missing);
    const send = (body: object) => json(200, body)(request, response);
    const path = url.pathname;
    if (path.endsWith('/me')) {
      const mailboxes = [{ resourceId: 'AC1', address: 'ada@example.org' }];
      return send({ data: { orderResourceId: 'OR1', mailboxes } });
    }
    if (path.endsWith('/quota')) return send({ data: { quotas: [], supported: false } });
    if (path.endsWith('/folders')) {
      const data = [{ path: 'INBOX', name: 'INBOX', delimiter: '.', messageCount: MESSAGES }];
      return send({ data, pagination: { page: 1, perPage: 100, total: 1 } });
    }
    if (path.endsWith('/source')) {
      response.writeHead(200, { 'content-type': 'message/rfc822' });
      return void response.end(sourceOf(Number(path.split('/').at(-2))));
    }
    if (path.endsWith('/search') && searching === 'refused') {
      return envelope(422, 'ERR_VALIDATION')(request, response);
    }
    asked += 1;
    let uids = Array.from({ length: MESSAGES }, (_, i) => 2 * i + 1);
    if (path.endsWith('/search')) {
      const parts = String(JSON.parse(request.body).uid).split(',');
      const within = parts.map((part) => part.split(':').map((end) => Number(end)));
      uids = uids.filter((uid) =>
        within.some(([lo = 0, hi = lo]) => uid >= lo && (Number.isNaN(hi) || uid <= hi)),
      );
    }
    if (!url.searchParams.get('sort')?.startsWith('uid')) uids.reverse();
    const all = uids.map((uid) => ({
      uid,
      path: 'INBOX',
      date: '2026-01-01T00:00:00Z',
      flags: [],
      size: sourceOf(uid).length,
      messageId: `<${uid}@example.org>`,
    }));
    const page = query('page', 1);
    const { data, perPage, total } = paging(all, page, query('perPage', 25), asked);
    return send({ data, pagination: { page, perPage, total } });
  };
}

async function syncFrom(
  paging: Paging,
  searching: 'refused' | 'paged',
  order: 'newest' | 'oldest',
) {
  const origin = await startOrigin(service(paging, searching));
  const { client } = mailboxClient(origin.url);
  const archive = new Archive();
  try {
    const sync = (full: boolean) =>
      archive.sync(
        { ...apiOrigin(client, archive.dir), requestsPerMinute: () => 60 },
        {
          order,
          policy: {
            rhythm: null,
            sweptSince: null,
            verifyPerHour: 0,
            full,
            acceptEndings: false,
            brake: { maxEndedShare: 0.3, minMessages: 50 },
            confirmAfterMs: 0,
          },
        },
      );
    const results = [await sync(false), await sync(true)];
    return { results, stored: (await archive.places()).size, requests: origin.seen.length };
  } finally {
    archive.remove();
  }
}

const SEARCHES = ['refused', 'paged'] as const;
const ORDERS = ['newest', 'oldest'] as const;

for (const searching of SEARCHES) {
  for (const order of ORDERS) {
    const what = `search ${searching}, ${order} first`;
    test.each(Object.entries(LEADING))(
      `a service that %s is mirrored completely: ${what}`,
      async (_name, paging) => {
        const { results, stored, requests } = await syncFrom(paging, searching, order);
        expect(stored).toBe(MESSAGES);
        for (const { failures, certificates } of results) {
          expect(failures).toEqual([]);
          expect(certificates).toMatchObject([{ complete: true, stored: MESSAGES }]);
        }
        expect(requests).toBeLessThan(MAX_REQUESTS);
      },
    );

    test.each(Object.entries(MISLEADING))(
      `a service that %s ends in a named failure: ${what}`,
      async (_name, paging) => {
        const { results, stored, requests } = await syncFrom(paging, searching, order);
        expect(requests).toBeLessThan(MAX_REQUESTS);
        const complete = results.flatMap(({ certificates }) => certificates.map((c) => c.complete));
        if (stored < MESSAGES || complete.includes(false)) {
          expect(
            results.flatMap(({ failures }) => failures.map(({ code }) => code)),
          ).toContainEqual(expect.stringMatching(/^(origin\.paging|sync\.counts-disagree)$/));
        }
        for (const { mailboxes } of results)
          expect(mailboxes).toMatchObject([{ ended: 0, held: 0 }]);
      },
    );
  }
}

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

const hooks = Array.from({ length: 330 }, (_, i) => ({
  id: `w${i}`,
  url: 'https://x/',
  name: `${i}`,
}));
const logs = hooks.map(({ id }, i) => ({
  created_at: new Date(i * 1000).toISOString(),
  mailbox_address: `${id}@example.org`,
  webhook_url: 'https://x/',
  is_successful: true,
  duration: i,
  retry_count: 1,
  max_retry_count: 3,
}));

/** Every other listing of both surfaces. */
const LISTINGS = {
  listFolders: (url: string) =>
    collected(mailboxClient(url).client.eachFolder('AC1')).then(({ length }) => length),
  listWebhooks: (url: string) =>
    collected(mailboxClient(url).client.eachWebhook('AC1')).then(({ length }) => length),
  listMessages: (url: string) =>
    collected(mailboxClient(url).client.eachMessage({ mailbox: 'AC1', folder: 'INBOX' })).then(
      ({ length }) => length,
    ),
  'platform.listWebhooks': (url: string) =>
    collected(platformClient(url).client.eachWebhook('OR1')).then(({ length }) => length),
  'platform.listDeliveryLogs': (url: string) =>
    collected(platformClient(url).client.eachDeliveryLog('OR1')).then(({ length }) => length),
  'platform.listMailboxes': (url: string) =>
    collected(platformClient(url).client.eachMailbox('OR1')).then(({ length }) => length),
};

function listing(operation: string, paging: Paging): Answer {
  const folders = hooks.map(({ id }) => ({ path: id, name: id, messageCount: 0 }));
  const messages = hooks.map((_, i) => ({ uid: i + 1 }));
  const mailboxes = hooks.map(({ id }) => ({ id, address: `${id}@example.org`, status: 'active' }));
  const all: readonly object[] =
    { listFolders: folders, listMessages: messages, 'platform.listDeliveryLogs': logs }[
      operation
    ] ?? (operation === 'platform.listMailboxes' ? mailboxes : hooks);
  let asked = 0;
  return (request, response) => {
    asked += 1;
    const query = new URL(request.path, 'http://service').searchParams;
    const page = Number(query.get('page'));
    const size = Number(query.get('perPage') ?? query.get('per_page'));
    const { data, perPage, total } = paging(all, page, size, asked);
    const isPlatform = operation.startsWith('platform.');
    const body = isPlatform
      ? { data, meta: { current_page: page, per_page: perPage, total } }
      : { data, pagination: { page, perPage, total } };
    return json(200, body)(request, response);
  };
}

for (const [operation, list] of Object.entries(LISTINGS)) {
  test.each(Object.entries(LEADING))(
    `${operation} of a service that %s is complete`,
    async (_name, paging) => {
      const origin = await startOrigin(listing(operation, paging));
      expect(await list(origin.url)).toBe(330);
      expect(origin.seen.length).toBeLessThan(50);
    },
  );

  test.each(Object.entries(MISLEADING))(
    `${operation} of a service that %s ends in a named failure`,
    async (_name, paging) => {
      const origin = await startOrigin(listing(operation, paging));
      const error = await list(origin.url).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(MailkeepError);
      expect(error).toMatchObject({ code: 'origin.paging', facts: { operation } });
      expect(origin.seen.length).toBeLessThan(50);
    },
  );
}

test('a token that reaches more mailboxes than any order has is refused by name', async () => {
  const mailboxes = Array.from({ length: 100_000 }, (_, i) => ({
    resourceId: `AC${i}`,
    address: `${i}@example.org`,
  }));
  const origin = await startOrigin(json(200, { data: { orderResourceId: 'OR1', mailboxes } }));
  const asked = mailboxClient(origin.url).client.getCurrentAccount();
  await expect(asked).rejects.toMatchObject({
    code: 'origin.too-large',
    facts: { operation: 'getCurrentAccount', what: 'mailboxes', limit: 20_000 },
  });
});

test('folder names without end are cut off, and the folders before them are there', async () => {
  const origin = await startOrigin((request, response) => {
    const page = Number(new URL(request.path, 'http://service').searchParams.get('page'));
    const data = Array.from({ length: 20 }, (_, i) => ({
      path: `f${page}.${i}.${'y'.repeat(100_000)}`,
      name: 'f',
      messageCount: 0,
    }));
    return json(200, { data, pagination: { page, perPage: 20, total: 1e9 } })(request, response);
  });
  const { client } = mailboxClient(origin.url);
  const signal = new AbortController().signal;
  const { folders, complete, problem } = await apiOrigin(client, '/nowhere').folders('AC1', signal);
  expect(folders.length).toBeGreaterThan(100);
  expect(complete).toBe(false);
  expect(problem).toMatchObject({ code: 'origin.too-large', facts: { what: 'folder names' } });
  expect(origin.seen.length).toBeLessThan(12);
});
