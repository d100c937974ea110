import { Hono } from 'hono';
import { parseDuration } from '../config/duration.ts';
import { type ListenerLimits, listenOn } from '../listener/listener.ts';
import { type Condition, type DaemonState, type Known, liveness, readiness } from './condition.ts';
import type { ArchiveFacts } from './facts.ts';
import type { Metrics } from './metrics.ts';

export interface HealthServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  readonly state: DaemonState;
  readonly metrics: Metrics;
  readonly facts: () => ArchiveFacts;
  /** Known damage, and copies; cheaper to ask than the facts, since supervisors ask every few seconds. */
  readonly known: () => Known;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /**
   * Hears of an answer that could not be made: a mistake of ours, a catalog that cannot be read, a connection that the
   * system did not give us.
   */
  readonly onError: (error: unknown) => void;
  readonly limits?: Partial<ListenerLimits>;
}

export interface HealthServer {
  readonly address: { readonly host: string; readonly port: number };
  close(): Promise<void>;
}

/**
 * Answers monitoring: `/healthz` (alive), `/readyz` (doing its work; `?max-age=26h` also asks for freshness, copies and
 * damage) and `/metrics` (`?addresses=1` names the mailboxes). 200 is well, 503 is not. It has no authentication, and so its port
 * is never the webhook's.
 *
 * @throws cannot-listen
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const { listen, state, metrics, facts, known, now, onError, limits = {} } = options;
  const app = new Hono()
    .get('/healthz', () => answer(liveness(state, known(), now())))
    .get('/readyz', (context) => {
      const asked = context.req.query('max-age');
      const maxAge = asked === undefined ? null : parseDuration(asked);
      if (maxAge === undefined) {
        return context.json({ error: 'max-age takes a duration such as 90s, 15m, 26h or 7d' }, 400);
      }
      return answer(readiness(state, () => facts().mailboxes, known(), maxAge, now()));
    })
    .get('/metrics', async (context) => {
      const text = await metrics.text(context.req.query('addresses') === '1');
      return context.body(text, 200, { 'content-type': metrics.contentType });
    })
    .onError((error, context) => {
      onError(error);
      return context.json({ error: 'this could not be answered; the log says why' }, 500);
    });
  return listenOn({ section: 'health', listen, fetch: app.fetch, onError, limits });
}

function answer(condition: Condition): Response {
  return Response.json(condition, {
    status: condition.ok ? 200 : 503,
    headers: { 'cache-control': 'no-store' },
  });
}
