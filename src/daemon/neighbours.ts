import { isDeepStrictEqual } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import type { RequestReport } from '../api/exchange.ts';
import type { Settings } from '../config/settings.ts';
import { storedWebhooks } from '../config/webhook-secrets.ts';
import type { Writer } from '../engine/archive/writer.ts';
import type { AccountOrigin } from '../engine/origins/account-origins.ts';
import type { PlanningContext } from '../engine/purge.ts';
import { archiveFacts } from '../engine/status/archive-facts.ts';
import { policyOf } from '../engine/status/archive-policy.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { DaemonState } from '../health/condition.ts';
import { copyStatuses, recalledCopies } from '../health/copies.ts';
import { type ArchiveFacts, Remembered } from '../health/facts.ts';
import { Metrics } from '../health/metrics.ts';
import type { RunReport } from '../health/run-report.ts';
import { startHealthServer } from '../health/server.ts';
import { recalledVerification } from '../health/verification.ts';
import { systemClock } from '../limiter/clock.ts';
import type { MailboxKey } from '../mail/words.ts';
import { COPY_TROUBLES, copySubject } from '../notify/observation.ts';
import { startReceiver } from '../receiver/receiver.ts';
import type { ReceiverEvent } from '../receiver/reception.ts';
import { serviceManager } from '../service-manager/service-manager.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { lastCompared } from '../sync/apply/memory/proof.ts';
import { storedSessions } from '../web/access/sessions.ts';
import type { WebServer } from '../web/server/web-server.ts';
import type { Daemon } from './daemon.ts';
import type { DaemonLog } from './daemon-log.ts';
import { Notifying } from './notifying.ts';
import { rememberedQuotas } from './observations.ts';
import type { DaemonEvent } from './ports.ts';
import { noteReceiverEvent } from './receiver-events.ts';
import { syncRunReport } from './run-reports.ts';
import { UsageWatch } from './usage-watch.ts';
import { WebhookWatch } from './webhook-watch.ts';
import type { OnStop } from './with-stops.ts';

/** A pass over all accounts, as by hand. */
const EVERYTHING = {
  account: undefined,
  mailboxes: [],
  folders: [],
  full: false,
  acceptEndings: false,
};

/** Facts of the archive cost some queries a folder, and a scrape asks for them once a metric. */
const FACTS_MS = 5_000;

/**
 * Those who listen to the daemon, and those it listens to: health and metrics, webhooks, the web interface, the service
 * manager.
 */
export interface Neighbours {
  readonly onEvent: (event: DaemonEvent) => void;
  readonly onRequest: (account: string, report: RequestReport) => void;
  /** What a run came to that is no pass. */
  readonly onRun: (report: RunReport) => void;
  /** The configuration has these copies no longer: what was wrong with them is over. */
  readonly onCopiesDropped: (to: readonly string[]) => void;
  /** Applies another configuration, and returns which of its changes need a restart to take effect. */
  configure(settings: Settings): Promise<void>;
  /** The schedules run. Starts to receive webhooks. @throws cannot-listen */
  ready(
    daemon: Pick<Daemon, 'hint' | 'checkSooner' | 'sync'>,
    accounts: () => readonly AccountOrigin[],
  ): Promise<void>;
  /** Returns a sign-in link of the web interface; null where none is served. */
  link(mailboxes: readonly string[] | null): string | null;
  /** Only a restart can help from now on. */
  failed(error: unknown): void;
  /** The process is about to stop everything. */
  stopping(): void;
}

/** Opens what the configuration asks for; `onStop` gets how to stop each. @throws cannot-listen */
export async function openNeighbours(options: {
  readonly context: PlanningContext;
  readonly settings: Settings;
  readonly writer: Writer;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly onStop: OnStop;
}): Promise<Neighbours> {
  const { writer, env, now, log, onStop } = options;
  let { settings } = options;
  const state = new DaemonState(now());
  const remembered = new Remembered(FACTS_MS, now, () => archiveFacts(writer, writer.state));
  const facts = (): ArchiveFacts => remembered.get();
  const metrics = new Metrics({ version: packageJson.version, now, facts });
  const manager = serviceManager(env, (reason) =>
    log.say('warn', 'the service manager could not be notified', { reason }),
  );
  onStop(() => manager.close());
  const notifying = new Notifying(settings.notify, {
    memory: writer.state,
    env,
    clock: { now, after: systemClock.after },
    accounts: () => settings.accounts.map(({ name }) => name),
    log,
    metrics,
    quotas: () => rememberedQuotas(writer.catalog, writer.state),
    copies: () => recalledCopies(writer.state, writer.catalog.reached().number),
    warnPercent: () => settings.quota.warnPercent,
  });
  onStop(() => notifying.close());
  let webhooks: WebhookWatch | undefined;
  let usages: UsageWatch | undefined;
  if (settings.health !== null) {
    const { listen, hosts } = settings.health;
    const onError = (error: unknown): void =>
      log.fail('error', 'health could not be answered', error);
    const known = () => ({
      damage: recalledVerification(writer.state)?.damage ?? null,
      copies: copyStatuses(writer.state, writer.catalog.reached().number, now()),
    });
    const server = await startHealthServer({
      listen,
      hosts,
      state,
      metrics,
      facts,
      known,
      now,
      onError,
    });
    onStop(() => server.close());
    log.say('info', 'health listens', { port: server.address.port });
  }
  let look: () => void = () => {};
  const web = await webOf(
    options,
    () => settings,
    () => look(),
  );
  if (web !== null) {
    onStop(() => web.close());
    log.say('info', 'the web interface listens', { port: web.address.port });
  }
  const received = (event: ReceiverEvent): void =>
    noteReceiverEvent(event, log, (outcome, times) => metrics.webhookRequest(outcome, times));
  const onRun = (report: RunReport): void => {
    state.onRun(report);
    metrics.onRun(report);
    notifying.onRun(report);
  };
  return {
    onRun,
    onCopiesDropped: (to) =>
      notifying.observe(
        to.flatMap((one) =>
          COPY_TROUBLES.map((trouble) => ({ subject: copySubject(one, trouble), failure: null })),
        ),
      ),
    onEvent(event) {
      notifying.onEvent(event);
      usages?.onEvent(event);
      webhooks?.onEvent(event);
      if (event.event !== 'run-finished') return;
      const { run, result } = event;
      const accounts =
        run.account === null ? settings.accounts.map(({ name }) => name) : [run.account];
      const { kind, startedAt } = run;
      onRun(syncRunReport(result, { kind, accounts, startedAt, endedAt: now() }));
    },
    onRequest: (account, report) => metrics.request({ account, ...report }),
    async ready(daemon, accounts) {
      // Its result is a run like any other, in the log and in the state.
      look = () => void daemon.sync(EVERYTHING, () => {});
      if (settings.webhook !== null) {
        const { listen, publicUrl } = settings.webhook;
        const receiver = await startReceiver({
          listen,
          publicUrl,
          now,
          log: received,
          secrets: () => storedWebhooks(writer.dataDir),
          onHint: ({ resourceId, folder, uid }) => {
            // Only INBOX is looked up by uid; whatever it says, the mailbox is looked at.
            const known = uid !== null && (folder ?? 'INBOX') === 'INBOX';
            daemon.hint({ resourceId, ...(known ? { uid } : {}) });
          },
        });
        onStop(() => receiver.close());
        log.say('info', 'webhooks are received', { port: receiver.address.port });
      }
      state.enter('ready');
      manager.ready(`${settings.accounts.length} accounts`);
      manager.startWatchdog();
      const mirror = catalogMirror(writer.catalog);
      const watching = {
        accounts,
        memory: writer.state,
        lastCompared: (mailbox: MailboxKey) => lastCompared(mirror, writer.state, mailbox),
        checkSooner: (account: string, ids: readonly string[]) => daemon.checkSooner(account, ids),
        now,
        after: (ms: number, act: () => void) => systemClock.after(ms, act),
        log,
      };
      const usage = new UsageWatch(watching);
      onStop(() => usage.close());
      usages = usage;
      usage.look();
      const watch = new WebhookWatch({
        ...watching,
        stored: () => storedWebhooks(writer.dataDir),
        observe: (observations) => notifying.observe(observations),
      });
      onStop(() => watch.close());
      webhooks = watch;
      watch.look();
    },
    async configure(changed) {
      const old = settings;
      settings = changed;
      for (const listener of ['webhook', 'health', 'web'] as const) {
        if (!isDeepStrictEqual(old[listener], changed[listener])) {
          log.say('warn', `another ${listener} takes effect only after a restart`);
        }
      }
      await notifying.configure(changed.notify);
      webhooks?.look();
      usages?.look();
    },
    link: (mailboxes) => web?.link(mailboxes) ?? null,
    failed(error) {
      state.enter('failed');
      if (error instanceof MailkeepError) notifying.archiveFailed(error);
    },
    stopping() {
      state.enter('stopping');
      manager.stopping();
    },
  };
}

/** Starts the web interface where the configuration asks for it; its code is loaded only then. */
async function webOf(
  { context, writer, now, log }: Parameters<typeof openNeighbours>[0],
  settings: () => Settings,
  look: () => void,
): Promise<WebServer | null> {
  const { web } = settings();
  if (web === null) return null;
  const { startWebServer } = await import('../web/server/web-server.ts');
  return startWebServer({
    ...web,
    dataDir: writer.dataDir,
    sessions: storedSessions(writer.state),
    state: writer.state,
    accounts: () =>
      new Map(
        settings().accounts.map(({ name, baseUrl }) => [
          name.toLowerCase(),
          new URL(baseUrl).hostname.toLowerCase(),
        ]),
      ),
    async look() {
      look();
      return true;
    },
    hasDaemon: async () => true,
    policy: () => policyOf(settings(), context),
    now,
    onError: (error) => log.fail('error', 'a request of the web interface failed', error),
  });
}
