import { deliver } from '../../../src/sandbox/faults.ts';
import type { SandboxOptions } from '../../../src/sandbox/sandbox.ts';
import { mail, type Served, serveEmpty } from '../client.ts';
import { type Clock, standingClock } from './clock.ts';
import { type Receiver, receive } from './receiver.ts';

export interface Hook {
  readonly id: string;
  readonly secret: string;
}

export interface LogEntry {
  readonly created_at: string;
  readonly mailbox_address: string;
  readonly webhook_url: string;
  readonly is_successful: boolean;
  readonly duration: number;
  readonly retry_count: number;
  readonly max_retry_count: number;
}

/** A service without mail, on a clock that stands, and receivers for its webhooks. */
export interface Hooked {
  readonly served: Served;
  readonly clock: Clock;
  receiver(...answer: Parameters<typeof receive>): Promise<Receiver>;
  /** Over the mailbox surface. */
  createHook(url: string, fields?: object): Promise<Hook>;
  patchHook(hook: Hook, fields: object): Promise<void>;
  /** Mail from outside into INBOX of a mailbox; resolves once no delivery is being sent. */
  arrive(mailbox?: number, subject?: string): Promise<void>;
  settled(): Promise<void>;
  /** The delivery log as the platform surface shows it. */
  log(query?: string): Promise<{ data: LogEntry[]; meta: unknown }>;
  orderId: string;
  close(): Promise<void>;
}

export async function hooked(options: SandboxOptions = {}): Promise<Hooked> {
  const clock = standingClock();
  const served = await serveEmpty({ now: clock.now, timer: clock.timer, ...options });
  const receivers: Receiver[] = [];
  const { service, mailboxes, tokens } = served.sandbox;
  const mailboxAt = (index: number) => {
    const mailbox = service.store.mailboxes.get(mailboxes[index]?.resourceId ?? '');
    if (mailbox === undefined) throw new Error(`no mailbox ${index}`);
    return mailbox;
  };
  const { orderId } = mailboxAt(0);
  return {
    served,
    clock,
    orderId,
    receiver: async (...answer) => {
      const receiver = await receive(...answer);
      receivers.push(receiver);
      return receiver;
    },
    createHook: async (url, fields = {}) => {
      const { json } = await served.call(`POST ${served.m}/webhooks`, {
        body: { name: 'n', url, events: ['message.received'], ...fields },
      });
      return hookOf(json);
    },
    patchHook: async (hook, fields) => {
      const { status } = await served.call(`PATCH ${served.m}/webhooks/${hook.id}`, {
        body: fields,
      });
      if (status !== 200) throw new Error(`status ${status}`);
    },
    arrive: async (index = 0, subject = 'news') => {
      const mailbox = mailboxAt(index);
      const folder = service.store.folderFor(mailbox, 'INBOX');
      deliver(service, mailbox, folder, Buffer.from(mail(subject)));
      await service.deliveries.idle();
    },
    settled: () => service.deliveries.idle(),
    log: async (query = '') => {
      const { json } = await served.call(
        `GET /api/mail/v1/orders/${orderId}/webhooks/delivery-logs${query}`,
        { token: tokens.platform },
      );
      return logOf(json);
    },
    close: async () => {
      for (const receiver of receivers) await receiver.close();
      await served.close();
    },
  };
}

function hookOf(json: unknown): Hook {
  if (!isRecord(json) || !isRecord(json.data)) throw new Error('no webhook');
  const { id, secret } = json.data;
  if (typeof id !== 'string' || typeof secret !== 'string') throw new Error('no webhook');
  return { id, secret };
}

function logOf(json: unknown): { data: LogEntry[]; meta: unknown } {
  if (!isRecord(json) || !Array.isArray(json.data)) throw new Error('no log');
  return { data: json.data.filter(isEntry), meta: json.meta };
}

function isEntry(value: unknown): value is LogEntry {
  return isRecord(value) && typeof value.webhook_url === 'string';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
