import type { SoakRequest } from 'autocannon';
import type { Hello } from './child.ts';
import { STOCK_FOLDER, STOCK_MESSAGES } from './stock.ts';

interface Place {
  /** `/api/v1/mailboxes/{first mailbox}` */
  readonly m: string;
  readonly headers: Record<string, string>;
}

export function placeOf({ mailboxes, tokens }: Hello): Place {
  return {
    m: `/api/v1/mailboxes/${mailboxes[0]?.resourceId ?? ''}`,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${tokens.mailbox}` },
  };
}

const PAGES = 5;
const SORTS = ['-uid', 'uid', '-date', 'size'];

/** What clients ask: pages, searches, messages, sources, texts, counts, both other surfaces now and then. */
export function reads(hello: Hello): SoakRequest[] {
  const { m, headers } = placeOf(hello);
  const stock = `${m}/folders/${STOCK_FOLDER}/messages`;
  let turn = 0;
  const varied = (path: () => string, more: SoakRequest = {}): SoakRequest => ({
    method: 'GET',
    headers,
    ...more,
    setupRequest: (request) => {
      turn += 1;
      return { ...request, path: path() };
    },
  });
  const uid = () => 1 + (turn % STOCK_MESSAGES);
  const page = (perPage: number) =>
    `page=${1 + (turn % PAGES)}&perPage=${perPage}&sort=${SORTS[turn % SORTS.length]}`;
  return [
    varied(() => `${m}/folders/INBOX/messages?${page(100)}`),
    varied(() => `${stock}/${uid()}`),
    varied(() => `${stock}/${uid()}/source`),
    { method: 'GET', path: `${m}/folders?perPage=100`, headers },
    varied(() => `${m}/folders/INBOX/messages/search?${page(25)}`, {
      method: 'POST',
      body: JSON.stringify({ uid: '100:*', flags: ['\\Seen'], since: '2025-01-01' }),
    }),
    // Words are looked for in the sources, so a range keeps this from being all that is measured.
    varied(() => `${stock}/search?${page(25)}`, {
      method: 'POST',
      body: JSON.stringify({ uid: '1:20', subject: 'stock 1', text: 'stock' }),
    }),
    varied(() => `${stock}/${uid()}/source`),
    varied(() => `${m}/folders/INBOX/messages?perPage=1`),
    { method: 'GET', path: '/api/v1/me', headers },
    varied(() => `${stock}/${uid()}/text`),
    { method: 'GET', path: `${m}/quota`, headers },
    ...otherSurfaces(hello),
  ];
}

function otherSurfaces({ tokens, orderId, mailboxes }: Hello): SoakRequest[] {
  const platform = { authorization: `Bearer ${tokens.platform}` };
  const order = `/api/mail/v1/orders/${orderId}`;
  return [
    { method: 'GET', path: `${order}/webhooks/delivery-logs?per_page=100`, headers: platform },
    { method: 'GET', path: `${order}/mailboxes`, headers: platform },
    {
      method: 'POST',
      path: '/mcp',
      headers: {
        authorization: `Bearer ${tokens.mailbox}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'listFolders',
          arguments: { mailboxResourceId: mailboxes[0]?.resourceId ?? '' },
        },
      }),
    },
  ];
}
