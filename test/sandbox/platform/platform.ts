import type { ServiceSettings } from '../../../src/sandbox/sandbox.ts';
import { type Answer, type Request, type Served, serveEmpty } from '../client.ts';

export const P = '/api/mail/v1';
export const HOOK = { name: 'n', url: 'https://example.net/hook', events: ['message.received'] };

/** A service without mail, on a clock that stands, and calls with the token of its user. */
export interface Platform {
  readonly served: Served;
  readonly orderId: string;
  /** What the service reported as its own failures. */
  readonly reports: readonly unknown[];
  idOf(mailbox: number): string;
  call(route: string, request?: Request): Promise<Answer>;
  /** Creates a webhook. @returns its id */
  created(mailbox?: string, fields?: object): Promise<string>;
  pass(ms: number): void;
  close(): Promise<void>;
}

export async function platform(settings: Partial<ServiceSettings> = {}): Promise<Platform> {
  let now = Date.UTC(2026, 0, 1);
  const reports: unknown[] = [];
  const served = await serveEmpty({
    now: () => now,
    addresses: ['ada@example.org', 'office@example.org', 'Info@example.com'],
    settings,
    report: (error) => reports.push(error),
  });
  const idOf = (mailbox: number) => served.sandbox.mailboxes[mailbox]?.resourceId ?? '';
  const call = (route: string, request: Request = {}) =>
    served.call(route, { token: served.sandbox.tokens.platform, ...request });
  return {
    served,
    orderId: served.sandbox.service.store.mailboxes.get(idOf(0))?.orderId ?? '',
    reports,
    idOf,
    call,
    created: async (mailbox = idOf(0), fields = {}) => {
      const body = { ...HOOK, ...fields };
      const answer = await call(`POST ${P}/mailboxes/${mailbox}/webhooks`, { body });
      if (answer.status !== 201) throw new Error(`status ${answer.status}`);
      return field(answer, 'id');
    },
    pass: (ms) => {
      now += ms;
    },
    close: () => served.close(),
  };
}

/** A text of an answer's JSON object. */
export function field({ json }: Answer, name: string): string {
  const value: unknown = Object.entries(json ?? {}).find(([key]) => key === name)?.[1];
  if (typeof value !== 'string') throw new Error(`no ${name}`);
  return value;
}
