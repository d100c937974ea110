import { Hono } from 'hono';
import { type ListenerLimits, listenOn } from '../listener/listener.ts';
import { KnownSecrets, type KnownWebhook } from './known-secrets.ts';
import { Reception, type ReceptionLimits, type ReceptionPorts } from './reception.ts';

export interface ReceiverOptions extends ReceptionPorts {
  readonly listen: { readonly host: string; readonly port: number };
  /**
   * The webhooks to believe (`storedWebhooks` of the archive). Asked at the start, and when a delivery comes that
   * none of them explains.
   */
  readonly secrets: () => Promise<readonly KnownWebhook[]>;
  /** Address under which the service reaches this receiver, if configured. */
  readonly publicUrl?: string | null;
  readonly limits?: Partial<ReceptionLimits & ListenerLimits>;
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
  const { listen, secrets, publicUrl, limits = {}, ...ports } = options;
  const known = new KnownSecrets(secrets, typeof publicUrl === 'string' ? [publicUrl] : []);
  const reception = new Reception(known, { ...LIMITS, ...limits }, ports);
  await reception.reload();
  const app = new Hono()
    .all('*', (context) => reception.answer(context.req.raw))
    .onError((error, context) => {
      ports.log({ event: 'failed', error });
      return context.body(null, 500);
    });
  const onError = (error: Error): void => ports.log({ event: 'failed', error });
  return listenOn({ section: 'webhook', listen, fetch: app.fetch, onError, limits });
}
