import { type Answer, fill, mail, type Request, type Served, serveEmpty } from '../client.ts';
import { type Receiver, receive } from '../webhooks/receiver.ts';
import type { Row } from './table.ts';

export type Values = Readonly<Record<string, string | number>>;

/** Everything an operation can be called on: mail, folders, a webhook, and an order of somebody else. */
export interface World {
  readonly served: Served;
  /** A value for every path parameter of the interface. */
  readonly values: Values;
  /** A mailbox of an order that belongs to another user. */
  readonly foreign: Values;
  readonly receiver: Receiver;
  /** Moves the service's clock. */
  pass(ms: number): void;
  close(): Promise<void>;
}

/** Tokens that no surface takes, and one that is too narrow for the first mailbox. */
export const TOKENS = {
  expired: 'expired-token',
  revoked: 'revoked-token',
  narrow: 'narrow-token',
} as const;

const ATTACHMENT = [
  'Subject: with a file',
  'From: Somebody <somebody@example.net>',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary=b',
  '',
  '--b',
  'Content-Type: text/plain',
  '',
  'See the file.',
  '--b',
  'Content-Type: application/pdf; name="a.pdf"',
  'Content-Disposition: attachment; filename="a.pdf"',
  'Content-Transfer-Encoding: base64',
  '',
  'JVBERi0=',
  '--b--',
  '',
].join('\r\n');

export async function world(): Promise<World> {
  let now = Date.UTC(2026, 0, 1);
  const served = await serveEmpty({ now: () => now });
  const receiver = await receive();
  fill(served, [mail('one'), ATTACHMENT, mail('three')]);
  fill(served, [mail('four')], 'INBOX.Work');
  fill(served, [mail('five')], 'INBOX.Work.Deep');
  const { service, tokens, mailboxes } = served.sandbox;
  const first = mailboxes[0]?.resourceId ?? '';
  const orderId = service.store.mailboxes.get(first)?.orderId ?? '';
  const foreignMailbox = service.store.addMailbox('else@example.com', 'OR_ELSE', 1);
  service.orders.put({ id: 'OR_ELSE', userId: 'US_ELSE' });
  const common = { surface: 'mailbox', orderId, revokedAt: null, expiresAt: null } as const;
  service.tokens.put(TOKENS.expired, { ...common, mailboxes: null, expiresAt: now });
  service.tokens.put(TOKENS.revoked, { ...common, mailboxes: null, revokedAt: now });
  service.tokens.put(TOKENS.narrow, { ...common, mailboxes: [mailboxes[1]?.resourceId ?? ''] });
  const hook = (mailbox: string, fields: object = {}) =>
    service.webhooks.create(mailboxOf(mailbox), {
      name: 'n',
      description: null,
      events: ['message.received'],
      status: 'active',
      url: receiver.url,
      ...fields,
    }).id;
  function mailboxOf(resourceId: string) {
    const mailbox = service.store.mailboxes.get(resourceId);
    if (mailbox === undefined) throw new Error(`no mailbox ${resourceId}`);
    return mailbox;
  }
  const withFile = await served.call(`GET ${served.m}/folders/INBOX/messages/2`, {
    token: tokens.mailbox,
  });
  const attachmentId = /"attachments":\[\{"id":"([^"]+)"/.exec(withFile.bytes.toString())?.[1];
  return {
    served,
    values: {
      mailboxResourceId: first,
      mailboxId: first,
      orderId,
      folder: 'INBOX',
      uid: 2,
      attachmentId: attachmentId ?? '',
      webhookId: hook(first),
    },
    foreign: {
      orderId: 'OR_ELSE',
      mailboxId: foreignMailbox.resourceId,
      webhookId: hook(foreignMailbox.resourceId),
    },
    receiver,
    pass: (ms) => {
      now += ms;
    },
    close: async () => {
      await served.close();
      await receiver.close();
    },
  };
}

export interface Change extends Request {
  /** Path parameters other than those of the world. */
  readonly values?: Values;
  /** With the `?`. */
  readonly query?: string;
}

/** Calls an operation of the table, with the token of its surface unless another one is given. */
export function callRow(
  { served, values }: World,
  row: Row,
  { values: other = {}, query = '', ...request }: Change,
): Promise<Answer> {
  const path = row.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(other[name] ?? values[name])),
  );
  const token = served.sandbox.tokens[row.surface];
  return served.call(`${row.method} ${path}${query}`, { token, ...request });
}
