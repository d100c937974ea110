import type { Settings } from '../core/config-schema.ts';
import type { DaemonLog } from '../daemon/daemon-log.ts';
import type { FleetMetrics } from '../daemon/fleet-metrics.ts';
import { serveHealth } from '../daemon/metrics.ts';
import { openNotifier } from '../daemon/notifying.ts';
import type { DaemonClock, DaemonEvent } from '../daemon/ports.ts';
import { syncRunReport } from '../daemon/runs.ts';
import { channelOf, sendHints } from '../registry/hints.ts';
import { listen } from '../registry/listening.ts';
import { fleetNumbers } from '../registry/numbers.ts';
import { replicationOf } from '../registry/reading.ts';
import type { Registry } from '../registry/registry.ts';
import type { RegistryTarget } from '../registry/target.ts';
import type { RequestReport } from '../service/transport.ts';
import { FleetWatch } from './fleet-watch.ts';
import { HintListening } from './hint-listening.ts';
import type { FleetHint } from './hint-notes.ts';
import { type CountHints, HintSending } from './hint-sending.ts';
import type { Random } from './object-names.ts';
import type { FleetKeys } from './secrets.ts';
import type { WorkerSession } from './session.ts';
import { receiveWebhooks } from './webhook-receiving.ts';
import type { Worker } from './worker.ts';

type Joined = Pick<Worker, 'hint' | 'facts'>;
type JoinedSession = Pick<WorkerSession, 'id' | 'isPolite' | 'isDraining'>;

/** Those who listen to a worker, and those it listens to: webhooks, the hints of other nodes, monitoring, notifications. */
export interface FleetNeighbours {
  readonly onEvent: (event: DaemonEvent) => void;
  readonly onRequest: (report: RequestReport) => void;
  readonly onReady: (ms: number) => void;
  /** Brings hints to a worker, and shows how it is, until the returned function is called. */
  join(worker: Joined, session: JoinedSession): () => Promise<void>;
  close(): Promise<void>;
}

export interface NeighboursOptions {
  /** The UUID of the fleet. */
  readonly fleet: string;
  readonly keys: () => FleetKeys;
  readonly settings: Pick<Settings, 'webhook' | 'health' | 'notify'>;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly registry: Registry;
  /** Past any pooler. */
  readonly direct: RegistryTarget;
  readonly clock: DaemonClock;
  readonly log: DaemonLog;
  readonly metrics: FleetMetrics;
  readonly random: Random;
}

const SENDER_BYTES = 9;

/**
 * Opens what the configuration of a node asks for.
 *
 * @throws cannot-listen
 */
export async function openFleetNeighbours(options: NeighboursOptions): Promise<FleetNeighbours> {
  const { registry, direct, clock, log, metrics, random } = options;
  let joined: { readonly worker: Joined; readonly session: JoinedSession } | undefined;
  const count: CountHints = (outcome, hints) => metrics.hints(outcome, hints);
  /** Null if this node does not hold the account. */
  const give = (hint: FleetHint): boolean | null => joined?.worker.hint(hint) ?? null;
  const sending = new HintSending({
    sender: random(SENDER_BYTES).toString('base64url'),
    send: (archives, notes) => sendHints(registry, archives, notes),
    own(hint) {
      const taken = give(hint);
      if (taken === false) count('unknown', 1);
      return taken !== null;
    },
    ...{ clock, count },
    onFailure: (error) => log.fail('error', 'hints could not be sent', error),
  });
  const watch = openWatch(options, () => joined?.session.id);
  const closers: (() => Promise<void>)[] = [() => watch.close(), () => sending.close()];
  const none = { held: 0, open: 0, budgets: [] };
  metrics.show({ node: () => joined?.worker.facts() ?? none, fleet: () => watch.facts });
  const close = async (): Promise<void> => {
    for (const one of closers.splice(0).reverse()) await one();
  };
  try {
    const serving = await listenAsConfigured(options, sending, () => conditionOf(joined, watch));
    closers.push(...serving);
  } catch (error) {
    await close();
    throw error;
  }
  watch.look();
  return {
    onRequest: (report) => metrics.request({ account: '', ...report }),
    onReady: (ms) => metrics.claimToReady(ms),
    onEvent(event) {
      if (event.event !== 'run-finished') return;
      const { kind, startedAt } = event.run;
      const run = { kind, accounts: [], startedAt, endedAt: clock.now() };
      const report = syncRunReport(event.result, run);
      // A series for each account would be too many.
      metrics.onRun({
        ...report,
        failures: report.failures.map((one) => ({ ...one, account: null })),
      });
    },
    join(worker, session) {
      joined = { worker, session };
      const over = new AbortController();
      const listening = new HintListening({
        open: (ports) => listen(direct, channelOf(session.id), ports),
        onHint(hint) {
          const taken = give(hint);
          if (taken !== true) count(taken === null ? 'late' : 'unknown', 1);
        },
        ...{ clock, count, log },
      });
      const running = listening.run(over.signal).catch((error: unknown) => {
        log.fail('error', 'nobody listens for hints any more', error);
      });
      return async () => {
        joined = undefined;
        over.abort();
        await running;
      };
    },
    close,
  };
}

/** Returns what closes the listeners that the configuration asks for. @throws cannot-listen */
async function listenAsConfigured(
  options: NeighboursOptions,
  sending: HintSending,
  condition: () => ReturnType<typeof conditionOf>,
): Promise<(() => Promise<void>)[]> {
  const { settings, clock, log, metrics } = options;
  const closers: (() => Promise<void>)[] = [];
  if (settings.health !== null) {
    const server = await serveHealth({
      listen: settings.health.listen,
      hosts: settings.health.hosts,
      metrics,
      onError: (error) => log.fail('error', 'health could not be answered', error),
      // It answers, and a restart helps nothing that is wrong with a fleet.
      liveness: () => ({ ...condition(), ok: true }),
      readiness: (maxAge) => (maxAge === null ? condition() : null),
    });
    closers.push(() => server.close());
    log.say('info', 'health listens', { port: server.address.port });
  }
  if (settings.webhook !== null) {
    const { fleet, keys, registry } = options;
    try {
      const receiver = await receiveWebhooks(settings.webhook, {
        ...{ fleet, keys, registry, clock, log },
        onHint: (hint) => sending.add(hint),
        onRequests: (outcome, times) => metrics.webhookRequest(outcome, times),
      });
      closers.push(() => receiver.close());
    } catch (error) {
      for (const close of closers) await close();
      throw error;
    }
  }
  return closers;
}

/** How a node is, for monitoring: it does its work while its session is renewed. */
function conditionOf(
  joined: { readonly worker: Joined; readonly session: JoinedSession } | undefined,
  watch: FleetWatch,
) {
  const { held, open } = joined?.worker.facts() ?? { held: 0, open: 0 };
  const attention = [...(watch.facts?.attention ?? [])].flatMap(([code, isSo]) =>
    isSo ? code : [],
  );
  return {
    ok: joined?.session.isPolite ?? false,
    session: joined?.session.id ?? null,
    draining: joined?.session.isDraining ?? false,
    ...{ held, open },
    /** Of the whole fleet: null while it is not known. */
    attention: watch.facts === null ? null : attention,
  };
}

function openWatch(
  { settings, env, registry, clock, log, metrics }: NeighboursOptions,
  session: () => string | undefined,
): FleetWatch {
  const remembered = new Map<string, unknown>();
  const notifier = openNotifier(settings.notify, {
    // After a restart, what still needs a person is reported again.
    memory: {
      get: (_, channel) => remembered.get(channel),
      set: (_, channel, value) => void remembered.set(channel, value),
    },
    ...{ env, now: clock.now, log, metrics },
  });
  return new FleetWatch({
    ...{ session, log, notifier },
    ask: async () => ({
      numbers: await fleetNumbers(registry),
      replication: await replicationOf(registry),
    }),
    after: clock.after,
    monotonic: clock.monotonic,
  });
}
