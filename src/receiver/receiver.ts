import { Hono } from 'hono';
import { type ListenerLimits, listenOn } from '../listener/listener.ts';
import type { DeliveryHint } from '../wire/delivery.ts';
import { KnownSecrets, type KnownWebhook } from './known-secrets.ts';
import { Reception, type ReceptionLimits, type ReceptionPorts, type Secrets } from './reception.ts';

/** What a webhook's delivery comes to: something may have arrived. Never data to store. */
export interface Hint {
  /** The webhook whose secret the delivery carried, and the mailbox that it is for. */
  readonly webhookId: string;
  readonly account: string;
  readonly host: string;
  readonly resourceId: string;
  readonly address: string;
  /** Where the delivery says the message is; null when it does not, or speaks of another mailbox. */
  readonly folder: string | null;
  readonly uid: number | null;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
}

interface Listening {
  readonly listen: { readonly host: string; readonly port: number };
  readonly limits?: Partial<ReceptionLimits & ListenerLimits>;
}

export interface ReceiverOptions
  extends Omit<ReceptionPorts<KnownWebhook>, 'onDelivery'>,
    Listening {
  /** Must only take note: the answer waits for it. */
  readonly onHint: (hint: Hint) => void;
  /**
   * The webhooks to believe (`storedWebhooks` of the archive). Asked at the start, and when a delivery comes that
   * none of them explains.
   */
  readonly secrets: () => Promise<readonly KnownWebhook[]>;
  /** Address under which the service reaches this receiver, if configured. */
  readonly publicUrl?: string | null;
}

export interface Receiver {
  readonly address: { readonly host: string; readonly port: number };
  close(): Promise<void>;
}

const LIMITS: ReceptionLimits = {
  bodyBytes: 262_144,
  deliveries: { burst: 300, perSecond: 20 },
  strangers: { burst: 60, perSecond: 1 },
};

/**
 * Receives the deliveries of webhooks. Whoever carries a stored secret in `Authorization: Bearer` is believed that
 * something may have arrived in the mailbox of that webhook; what the body says beyond that is a mere hint, and no
 * body is wrong. Everybody else gets a status and nothing more.
 *
 * Deliveries are taken on `/`, `/webhook`, the path of `publicUrl` and the paths that webhooks were created with.
 *
 * @throws cannot-listen
 */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { secrets, publicUrl, onHint, ...rest } = options;
  const known = new KnownSecrets(secrets, typeof publicUrl === 'string' ? [publicUrl] : []);
  const onDelivery = (webhook: KnownWebhook, delivery: DeliveryHint): void =>
    onHint(hintOf(webhook, delivery, rest.now()));
  return receiveFor(known, { ...rest, onDelivery });
}

/**
 * Receives deliveries for whoever the secrets are of, by the same rules.
 *
 * @throws cannot-listen
 */
export async function receiveFor<Sender extends { readonly id: string }>(
  secrets: Secrets<Sender>,
  options: ReceptionPorts<Sender> & Listening,
): Promise<Receiver> {
  const { listen, limits = {}, ...ports } = options;
  const reception = new Reception(secrets, { ...LIMITS, ...limits }, ports);
  await reception.learn(null);
  const app = new Hono()
    .all('*', (context) => reception.answer(context.req.raw))
    .onError((error, context) => {
      ports.log({ event: 'failed', error });
      return context.body(null, 500);
    });
  const onError = (error: Error): void => ports.log({ event: 'failed', error });
  const fetch = (request: Request): Response | Promise<Response> => app.fetch(request);
  // Behind a proxy it may have any name: the secret decides.
  const clients = { kind: 'programs', names: null } as const;
  return listenOn({ section: 'webhook', listen, clients, fetch, onError, limits });
}

function hintOf(
  { id, account, host, mailboxId, mailbox: address }: KnownWebhook,
  delivery: DeliveryHint,
  receivedAt: number,
): Hint {
  const own = isOfMailbox(delivery, { id: mailboxId, address });
  return {
    webhookId: id,
    account,
    host,
    resourceId: mailboxId,
    address,
    folder: own ? delivery.folder : null,
    uid: own ? delivery.uid : null,
    receivedAt,
  };
}

/** Whether a delivery may be about this mailbox: a secret speaks for its own mailbox only. */
export function isOfMailbox(
  { mailbox }: DeliveryHint,
  { id, address }: { readonly id: string; readonly address: string },
): boolean {
  return mailbox === null || mailbox === id || mailbox.toLowerCase() === address.toLowerCase();
}
