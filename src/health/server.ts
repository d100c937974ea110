import { Hono } from 'hono';
import { parseDuration } from '../config/duration.ts';
import { type ListenerLimits, listenOn } from '../listener/listener.ts';
import { type DaemonState, type Known, liveness, readiness } from './condition.ts';
import type { ArchiveFacts } from './facts.ts';
import type { Metrics } from './metrics.ts';
import type { RunMetrics } from './run-metrics.ts';

export interface HealthServerOptions {
  readonly listen: { readonly host: string; readonly port: number };
  /** Host names that monitoring asks under; addresses and localhost always work. */
  readonly hosts: readonly string[];
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
 * is never the webhook's, and it refuses what pages ask.
 *
 * @throws cannot-listen
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const { state, facts, known, now, ...rest } = options;
  return serveHealth({
    ...rest,
    liveness: () => liveness(state, known(), now()),
    readiness: (maxAge) => readiness(state, () => facts().mailboxes, known(), maxAge, now()),
  });
}

/** What a health server answers from. */
export interface HealthAnswers {
  readonly listen: { readonly host: string; readonly port: number };
  readonly hosts: readonly string[];
  readonly liveness: () => HealthAnswer;
  /** Null where it cannot say whether mailboxes are as fresh as that. */
  readonly readiness: (maxAgeMs: number | null) => HealthAnswer | null;
  readonly metrics: Pick<RunMetrics, 'text' | 'contentType'>;
  readonly onError: (error: unknown) => void;
  readonly limits?: Partial<ListenerLimits>;
}

export interface HealthAnswer {
  readonly ok: boolean;
}

/**
 * Answers monitoring by the same addresses, whatever the answers are made of.
 *
 * @throws cannot-listen
 */
export async function serveHealth(options: HealthAnswers): Promise<HealthServer> {
  const { listen, hosts, metrics, onError, limits = {} } = options;
  const clients = { kind: 'programs', names: hosts } as const;
  const app = new Hono()
    .get('/healthz', () => answer(options.liveness()))
    .get('/readyz', (context) => {
      const asked = context.req.query('max-age');
      const maxAge = asked === undefined ? null : parseDuration(asked);
      if (maxAge === undefined) {
        return context.json({ error: 'max-age takes a duration such as 90s, 15m, 26h or 7d' }, 400);
      }
      const condition = options.readiness(maxAge);
      const unknown = 'max-age cannot be asked of a node: use "mailkeep fleet status --max-age"';
      return condition === null ? context.json({ error: unknown }, 400) : answer(condition);
    })
    .get('/metrics', async (context) => {
      const text = await metrics.text(context.req.query('addresses') === '1');
      return context.body(text, 200, { 'content-type': metrics.contentType });
    })
    .onError((error, context) => {
      onError(error);
      return context.json({ error: 'this could not be answered; the log says why' }, 500);
    });
  const fetch = (request: Request): Response | Promise<Response> => app.fetch(request);
  return listenOn({ section: 'health', listen, clients, fetch, onError, limits });
}

function answer(condition: HealthAnswer): Response {
  return Response.json(condition, {
    status: condition.ok ? 200 : 503,
    headers: { 'cache-control': 'no-store' },
  });
}
