import { spawn } from 'node:child_process';
import { isDeepStrictEqual } from 'node:util';
import packageJson from '../../package.json' with { type: 'json' };
import type { Writer } from '../catalog/open-writer.ts';
import { systemClock } from '../core/concurrency.ts';
import type { Settings } from '../core/config-schema.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { selects } from '../core/names.ts';
import { type StoredWebhook, storedWebhooks } from '../core/secrets.ts';
import type { MailboxKey } from '../core/types.ts';
import type { RequestReport } from '../service/transport.ts';
import {
  type AccountOrigin,
  type ApiAccountOrigin,
  hasApi,
  orderOf,
} from '../sync/account-origins.ts';
import { orderUsages } from '../sync/api-origin.ts';
import { catalogMirror } from '../sync/mirror.ts';
import {
  hasChanged,
  listingIntervalMs,
  MAILBOXES_PER_REQUEST,
  type MailboxTotals,
} from '../sync/plan/plan-folder.ts';
import type { ListedUsage, Memory, OriginMailbox } from '../sync/ports.ts';
import { type LastComparison, lastComparison } from '../sync/sync-memory.ts';
import { failedRecently, recallListing, rememberFailure, rememberUsages } from '../sync/usage.ts';
import { archivePolicy, archiveStatus } from '../verify/archive-status.ts';
import { copyStatuses } from '../verify/copy-facts.ts';
import { DaemonState, type RunReport, ShortCache } from '../verify/facts.ts';
import type { PlanningContext } from '../verify/purge.ts';
import { recallVerification, verificationStatus } from '../verify/verification.ts';
import { SessionStore } from '../web/sessions.ts';
import type { WebServer } from '../web/web-server.ts';
import type { Daemon } from './daemon.ts';
import { type DaemonLog, logReceiverEvent } from './daemon-log.ts';
import type { OnStop } from './daemon-process.ts';
import {
  type LoggedDelivery,
  type LogMemory,
  type WebhookFinding,
  WebhookListing,
  watchDeliveries,
} from './delivery-watch.ts';
import { MailboxWatches } from './mailbox-watches.ts';
import { Metrics, startHealthServer } from './metrics.ts';
import { COPY_PROBLEMS, copySubject } from './notifier.ts';
import { Notifying, storedQuotas, webhookObservations } from './notifying.ts';
import type { ChangeNotice, DaemonEvent } from './ports.ts';
import { type ReceiverEvent, startReceiver } from './receiver.ts';
import { syncRunReport } from './runs.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Longer waits are pointless, because systemd responds within milliseconds. */
const TIMEOUT_MS = 10_000;

/**
 * Sends messages to systemd (sd_notify(3)), one after another. Does nothing outside a unit with Type=notify. Uses
 * `systemd-notify`, because Node.js has no Unix datagram sockets. Messages therefore come from a child process, so the
 * unit needs NotifyAccess=all.
 *
 * @param onError receives a code if a message could not be sent
 */
export function serviceManager(env: Environment, onError: (reason: string) => void) {
  const socket = env.NOTIFY_SOCKET ?? '';
  let timer: NodeJS.Timeout | undefined;
  let last: Promise<void> = Promise.resolve();
  /** True while a watchdog message is waiting to be sent, so that no second one is queued. */
  let isPingWaiting = false;
  const send = (args: readonly string[], before: () => void = () => {}): void => {
    if (socket === '') return;
    last = last.then(async () => {
      before();
      const reason = await notify(args, socket, env.PATH);
      if (reason !== null) onError(reason);
    });
  };
  const ping = (): void => {
    if (isPingWaiting) return;
    isPingWaiting = true;
    send(['WATCHDOG=1'], () => {
      isPingWaiting = false;
    });
  };
  return {
    /** Reports that the archive is open and the schedules are running. `systemctl status` shows the `status` line. */
    ready: (status: string) => send(['--ready', `--status=${oneLine(status)}`]),
    status: (status: string) => send([`--status=${oneLine(status)}`]),
    stopping: () => send(['STOPPING=1']),
    startWatchdog() {
      const everyMs = watchdogMs(env);
      if (everyMs === null || timer !== undefined) return;
      ping();
      timer = setInterval(ping, everyMs);
    },
    async close() {
      clearInterval(timer);
      await last;
    },
  };
}

function notify(
  args: readonly string[],
  socket: string,
  path = '/usr/bin:/bin',
): Promise<string | null> {
  // The child receives nothing else from our environment.
  const env = { NOTIFY_SOCKET: socket, PATH: path };
  const limits = { timeout: TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
  const child = spawn('systemd-notify', [...args], { env, stdio: 'ignore', ...limits });
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(errnoOf(error) ?? 'not started'));
    child.once('exit', (code, signal) =>
      resolve(code === 0 ? null : code === null ? String(signal) : `exit code ${code}`),
    );
  });
}

/** Returns the watchdog interval in milliseconds, half of the timeout; null if this process has no watchdog. */
export function watchdogMs(env: Environment, pid = process.pid): number | null {
  const microseconds = Number(env.WATCHDOG_USEC ?? '');
  const isOwn = env.WATCHDOG_PID === undefined || Number(env.WATCHDOG_PID) === pid;
  return isOwn && Number.isSafeInteger(microseconds) && microseconds > 0
    ? Math.max(1, Math.floor(microseconds / 2_000))
    : null;
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}]+/gu, ' ');
}

interface WatchTiming {
  readonly after: (ms: number, act: () => void) => () => void;
  readonly log: DaemonLog;
}

/** A check that repeats, one round at a time, until it is closed. */
abstract class PeriodicWatch {
  /** Aborts running requests when the watch is closed. */
  protected readonly stopping: AbortSignal;
  readonly #controller = new AbortController();
  #rounds: Promise<void> = Promise.resolve();
  #cancel: () => void = () => {};

  /** @param failed log text for a round that fails unexpectedly */
  constructor(
    private readonly timing: WatchTiming,
    private readonly everyMs: number,
    private readonly failed: string,
  ) {
    this.stopping = this.#controller.signal;
  }

  protected abstract round(): Promise<void>;

  look(): void {
    if (this.stopping.aborted) return;
    const { after, log } = this.timing;
    this.#cancel();
    this.#cancel = after(this.everyMs, () => this.look());
    this.#rounds = this.#rounds
      .then(() => this.round())
      .catch((error: unknown) => log.fail('error', this.failed, error));
  }

  async idle(): Promise<void> {
    await this.#rounds;
  }

  async close(): Promise<void> {
    this.#cancel();
    this.#controller.abort();
    await this.#rounds;
  }
}

interface UsageWatchOptions extends WatchTiming {
  readonly accounts: () => readonly AccountOrigin[];
  readonly memory: Memory;
  readonly lastCompared: (mailbox: MailboxKey) => LastComparison;
  readonly checkSooner: (account: string, resourceIds: readonly string[]) => void;
  readonly now: () => number;
}

/** Interval for checking whether a listing is due. The check makes no request. */
const CHECK_MS = 60_000;
/** Minimum interval between early listings, which unreachable mailboxes cause. */
const OUT_OF_TURN_MS = 1_800_000;
/** Maximum number of early syncs per listing, so that a consistently wrong listing cannot exhaust the budget. */
const MAX_SOONER = 100;

const REFUSED: ReadonlySet<string> = new Set([
  'origin.forbidden',
  'origin.mailbox-not-found',
  'sync.mailbox-unreachable',
  'sync.mailbox-suspended',
]);

/**
 * Lists each order's mailboxes over the Platform API if that is cheaper than requesting every quota. A listing reveals
 * quotas, suspended mailboxes and changed usage. Mailboxes with changed usage are synced sooner, but syncing does not
 * depend on it.
 */
export class UsageWatch extends PeriodicWatch {
  readonly #amounts = new Map<string, MailboxTotals>();
  /** Accounts with a mailbox that has become unreachable since the last listing. */
  readonly #refused = new Set<string>();
  readonly #suspended = new Set<string>();

  constructor(private readonly options: UsageWatchOptions) {
    super(options, CHECK_MS, 'mailboxes could not be listed');
  }

  onEvent(event: DaemonEvent): void {
    // The account's mailboxes are now known, so one listing saves a request per sync.
    if (event.event === 'run-started' && event.run.kind === 'sync') this.look();
    if (event.event !== 'pass-finished' && event.event !== 'run-finished') return;
    for (const { account, code } of event.result.failures) {
      if (REFUSED.has(code)) this.#refused.add(account);
    }
  }

  protected override async round(): Promise<void> {
    for (const account of this.options.accounts()) {
      if (this.stopping.aborted) return;
      if (!hasApi(account)) continue;
      const { mailboxes: selection } = account.settings;
      const watched = (account.listing?.mailboxes ?? []).filter(({ address }) =>
        selects(selection, address),
      );
      if (watched.length > 0) await this.#account(account, watched);
    }
  }

  async #account(account: ApiAccountOrigin, mailboxes: readonly OriginMailbox[]): Promise<void> {
    const { memory, now, log } = this.options;
    const { platform, host } = account;
    const { name } = account.settings;
    if (platform === null) return;
    const last = recallListing(memory, name, host);
    const pages = last?.pages ?? Math.ceil(mailboxes.length / MAILBOXES_PER_REQUEST);
    const regular = listingIntervalMs(pages, mailboxes.length) ?? Number.POSITIVE_INFINITY;
    const every = this.#refused.has(name) ? Math.min(regular, OUT_OF_TURN_MS) : regular;
    // A failed listing is retried as soon as the Platform API permits requests again.
    const age = last === undefined || last.failed ? Number.POSITIVE_INFINITY : now() - last.at;
    const isDue = age < 0 || (age >= every && every < Number.POSITIVE_INFINITY);
    if (!isDue || failedRecently(last, now())) return;
    const signal = this.stopping;
    const target = { memory, account: name, host };
    try {
      const limit = Math.max(1, Math.floor(mailboxes.length / 2));
      const listing = await orderUsages(platform, await orderOf(account, signal), limit, signal);
      const usages = rememberUsages({ ...target, now: now() }, mailboxes, listing);
      this.#refused.delete(name);
      this.#noteSuspended(name, usages);
      this.#noteMoved(account, mailboxes, usages);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      if (last?.failed !== true) {
        const { code } = error;
        const text =
          'the platform surface does not list the mailboxes; each is asked for its quota';
        log.say('warn', text, { account: name, code });
      }
      rememberFailure({ ...target, now: now() }, pages);
    }
  }

  #noteSuspended(account: string, usages: ReadonlyMap<string, ListedUsage>): void {
    const { log } = this.options;
    for (const [mailbox, { suspended }] of usages) {
      const key = keyOf(account, mailbox);
      if (suspended === this.#suspended.has(key)) continue;
      if (suspended) {
        this.#suspended.add(key);
        log.say('warn', 'the service lists a mailbox as suspended', { account, mailbox });
      } else {
        this.#suspended.delete(key);
        log.say('info', 'a mailbox is no longer suspended', { account, mailbox });
      }
    }
  }

  /** Syncs the least recently compared mailboxes first. */
  #noteMoved(
    { settings, host }: AccountOrigin,
    mailboxes: readonly OriginMailbox[],
    usages: ReadonlyMap<string, ListedUsage>,
  ): void {
    const { lastCompared, checkSooner, log } = this.options;
    const { name } = settings;
    const compared = (resourceId: string) => lastCompared({ host, mailbox: resourceId });
    const moved: { readonly resourceId: string; readonly at: number }[] = [];
    for (const { resourceId } of mailboxes) {
      const usage = usages.get(resourceId);
      if (usage === undefined) continue;
      const key = keyOf(name, resourceId);
      const amounts = amountsOf(usage);
      if (hasChanged(this.#amounts.get(key), amounts, () => compared(resourceId).messages)) {
        moved.push({ resourceId, at: compared(resourceId).at });
      }
      this.#amounts.set(key, amounts);
    }
    if (moved.length === 0) return;
    moved.sort((a, b) => a.at - b.at);
    const ids = moved.slice(0, MAX_SOONER).map(({ resourceId }) => resourceId);
    log.say('debug', 'usage moved: mailboxes are checked sooner', {
      account: name,
      moved: moved.length,
      sooner: ids.length,
    });
    checkSooner(name, ids);
  }
}

function amountsOf({ resources }: ListedUsage): MailboxTotals {
  const usage = (wanted: string): number | null =>
    resources.find(({ name }) => name === wanted)?.usage ?? null;
  return { bytes: usage('STORAGE'), messages: usage('MESSAGE') };
}

function keyOf(account: string, mailbox: string): string {
  return `${account} ${mailbox}`;
}

interface WebhookWatchOptions extends Omit<UsageWatchOptions, 'memory'> {
  readonly stored: () => Promise<readonly StoredWebhook[]>;
  readonly memory: LogMemory;
  readonly observe: (observations: ReturnType<typeof webhookObservations>) => void;
}

/** Interval between checks. The service's delivery log covers a longer period. */
const EVERY_MS = 15 * 60_000;
const FAILED = 'webhooks could not be looked at';
const MAX_PENDING = 1_000;

/**
 * Checks periodically, over the Platform API, whether webhooks exist, are active and deliver, and reports changes.
 * Mailboxes with deliveries but no later sync are synced sooner, because the receiver may have been down. Nothing
 * depends on this, because scheduled syncs find unannounced mail.
 */
export class WebhookWatch extends PeriodicWatch {
  /** Last report for each webhook, or for each account whose check failed. */
  readonly #reports = new Map<string, string>();
  readonly #listings = new Map<string, WebhookListing>();
  readonly #pending = new Map<string, readonly LoggedDelivery[]>();

  constructor(private readonly options: WebhookWatchOptions) {
    super(options, EVERY_MS, FAILED);
  }

  onEvent(event: DaemonEvent): void {
    if (event.event !== 'run-started' || this.#pending.size === 0) return;
    // The run queues its syncs first, so early ones are moved instead of queued twice.
    const { accounts, after, log } = this.options;
    after(0, () => {
      if (this.stopping.aborted) return;
      try {
        for (const account of accounts()) this.#catchUp(account, []);
      } catch (error) {
        log.fail('error', FAILED, error);
      }
    });
  }

  protected override async round(): Promise<void> {
    const { accounts, stored } = this.options;
    const all = await stored();
    for (const account of accounts().filter(hasApi)) {
      const { name } = account.settings;
      const own = all.filter((hook) => hook.account === name && hook.host === account.mailbox.host);
      if (own.length > 0 && !this.stopping.aborted) await this.#account(account, own);
    }
  }

  async #account(account: ApiAccountOrigin, own: readonly StoredWebhook[]): Promise<void> {
    const { memory, now, log, observe } = this.options;
    const signal = this.stopping;
    const { name } = account.settings;
    const { platform } = account;
    if (platform === null) {
      this.#change(name, 'no platform', () =>
        log.say('info', 'only the platform surface reports whether webhooks deliver', {
          account: name,
        }),
      );
      return;
    }
    try {
      const orderId = await orderOf(account, signal);
      const onNew = (deliveries: readonly LoggedDelivery[]): void =>
        this.#catchUp(account, deliveries);
      const key = keyOf(name, account.host);
      const listing = this.#listings.get(key) ?? new WebhookListing();
      this.#listings.set(key, listing);
      const watch = { account: name, orderId, platform, own, listing, memory, onNew, now, signal };
      const findings = await watchDeliveries(watch);
      this.#change(name, 'asked', () => {});
      for (const finding of findings) this.#report(name, finding);
      observe(webhookObservations(findings));
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MailkeepError)) throw error;
      const { code } = error;
      this.#change(name, code, () =>
        log.say('warn', 'the platform surface does not report whether webhooks deliver', {
          account: name,
          code,
        }),
      );
    }
  }

  /** Syncs mailboxes that have not been compared since a delivery was made or attempted. */
  #catchUp(account: AccountOrigin, deliveries: readonly LoggedDelivery[]): void {
    const { lastCompared, checkSooner, log } = this.options;
    const { settings, host, listing } = account;
    const { name } = settings;
    const all = [...(this.#pending.get(name) ?? []), ...deliveries];
    if (listing === undefined) {
      this.#pending.set(name, all.slice(0, MAX_PENDING));
      return;
    }
    this.#pending.delete(name);
    const latest = new Map<string, number>();
    for (const { mailbox, at } of all) {
      const address = mailbox.toLowerCase();
      latest.set(address, Math.max(at, latest.get(address) ?? 0));
    }
    // Least recently compared first, so that a consistently wrong log does not delay the rest.
    const unsynced = listing.mailboxes
      .filter(({ address }) => latest.has(address.toLowerCase()))
      .filter(({ address }) => selects(settings.mailboxes, address))
      .map(({ resourceId, address }) => ({
        resourceId,
        deliveredAt: latest.get(address.toLowerCase()) ?? 0,
        comparedAt: lastCompared({ host, mailbox: resourceId }).at,
      }))
      .filter(({ deliveredAt, comparedAt }) => deliveredAt > comparedAt)
      .sort((a, b) => a.comparedAt - b.comparedAt)
      .map(({ resourceId }) => resourceId);
    if (unsynced.length === 0) return;
    const text = 'mail was delivered that no pass has followed: its mailboxes are checked sooner';
    log.say('info', text, { account: name, mailboxes: unsynced.length });
    checkSooner(name, unsynced);
  }

  #report(account: string, { webhook, state, status, failures }: WebhookFinding): void {
    const { log } = this.options;
    const line = { account, webhook: webhook.id, mailbox: webhook.mailboxId, state };
    const before = this.#reports.get(webhook.id);
    this.#change(webhook.id, state, () => {
      if (state !== 'well') {
        const text =
          'a webhook does not deliver; the schedule finds mail that it does not announce';
        log.say('warn', text, { ...line, status, failures });
      } else if (before !== undefined) log.say('info', 'a webhook delivers again', line);
    });
  }

  #change(subject: string, state: string, say: () => void): void {
    if (this.#reports.get(subject) === state) return;
    say();
    this.#reports.set(subject, state);
  }
}

const EVERYTHING = {
  account: undefined,
  mailboxes: [],
  folders: [],
  full: false,
  acceptEndings: false,
};

/** Milliseconds to cache the archive's status, which costs several queries per folder and is read by every metric. */
const STATUS_MS = 5_000;

export type Integrations = Awaited<ReturnType<typeof openIntegrations>>;

/**
 * Opens the configured integrations: health and metrics, webhooks, the web interface and the service manager. `onStop`
 * receives a function to stop each one.
 *
 * @throws cannot-listen
 */
export async function openIntegrations(options: {
  readonly context: PlanningContext;
  readonly settings: Settings;
  readonly writer: Writer;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  readonly log: DaemonLog;
  readonly onStop: OnStop;
}) {
  const { writer, env, now, log, onStop } = options;
  let { settings } = options;
  const state = new DaemonState(now());
  const cache = new ShortCache(STATUS_MS, now, () => archiveStatus(writer, writer.state, now()));
  const status = () => cache.get();
  const copies = () => copyStatuses(writer.state, writer.catalog.reached().number, now());
  const metrics = new Metrics({ version: packageJson.version, now, status, copies });
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
    quotas: () => storedQuotas(writer.catalog, writer.state),
    copies,
    warnPercent: () => settings.quota.warnPercent,
  });
  onStop(() => notifying.close());
  let webhooks: WebhookWatch | undefined;
  let usages: UsageWatch | undefined;
  let watches: MailboxWatches | undefined;
  if (settings.health !== null) {
    const { listen, hosts } = settings.health;
    const onError = (error: unknown): void =>
      log.fail('error', 'health could not be answered', error);
    const known = () => ({
      verification: verificationStatus(recallVerification(writer.state)),
      copies: copies(),
    });
    const answers = { listen, hosts, state, metrics, status, known, now, onError };
    const server = await startHealthServer(answers);
    onStop(() => server.close());
    log.say('info', 'health listens', { port: server.address.port });
  }
  let look: () => void = () => {};
  const inForce = () => settings;
  const web = await openWeb(options, inForce, () => look());
  if (web !== null) {
    onStop(() => web.close());
    log.say('info', 'the web interface listens', { port: web.address.port });
  }
  const received = (event: ReceiverEvent): void =>
    logReceiverEvent(event, log, (outcome, times) => metrics.webhookRequest(outcome, times));
  const onRun = (report: RunReport): void => {
    state.onRun(report);
    metrics.onRun(report);
    notifying.onRun(report);
  };
  return {
    onRun,
    onCopiesDropped: (to: readonly string[]) =>
      notifying.observe(
        to.flatMap((one) =>
          COPY_PROBLEMS.map((trouble) => ({ subject: copySubject(one, trouble), failure: null })),
        ),
      ),
    onEvent(event: DaemonEvent) {
      notifying.onEvent(event);
      usages?.onEvent(event);
      webhooks?.onEvent(event);
      watches?.onEvent(event);
      if (event.event !== 'run-finished') return;
      const { run, result } = event;
      const accounts =
        run.account === null ? settings.accounts.map(({ name }) => name) : [run.account];
      const { kind, startedAt } = run;
      onRun(syncRunReport(result, { kind, accounts, startedAt, endedAt: now() }));
    },
    onRequest: (account: string, report: RequestReport) => metrics.request({ account, ...report }),
    /** Starts receiving webhooks. Called once the schedules are running. @throws cannot-listen */
    async ready(
      daemon: Pick<Daemon, 'hint' | 'checkSooner' | 'sync'>,
      accounts: () => readonly AccountOrigin[],
    ) {
      // The result is logged and recorded like any other run's.
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
            // Only INBOX supports lookup by UID. The mailbox is synced in any case.
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
      const ports = {
        accounts,
        memory: writer.state,
        lastCompared: (mailbox: MailboxKey) => lastComparison(mirror, writer.state, mailbox),
        checkSooner: (account: string, ids: readonly string[]) => daemon.checkSooner(account, ids),
        now,
        after: (ms: number, act: () => void) => systemClock.after(ms, act),
        log,
      };
      const usage = new UsageWatch(ports);
      onStop(() => usage.close());
      usages = usage;
      usage.look();
      const watch = new WebhookWatch({
        ...ports,
        stored: () => storedWebhooks(writer.dataDir),
        observe: (observations) => notifying.observe(observations),
      });
      onStop(() => watch.close());
      webhooks = watch;
      watch.look();
      const hint = (notice: ChangeNotice): void => daemon.hint(notice);
      const mailboxes = new MailboxWatches({ accounts, hint, clock: { now }, log });
      onStop(() => mailboxes.close());
      watches = mailboxes;
    },
    /** Applies a new configuration, and logs changes that need a restart. */
    async configure(changed: Settings) {
      const previous = settings;
      settings = changed;
      for (const listener of ['webhook', 'health', 'web'] as const) {
        if (!isDeepStrictEqual(previous[listener], changed[listener])) {
          log.say('warn', `another ${listener} takes effect only after a restart`);
        }
      }
      await notifying.configure(changed.notify);
      webhooks?.look();
      usages?.look();
    },
    /** Returns a sign-in link to the web interface, or null if it is not served. */
    link: (mailboxes: readonly string[] | null) => web?.link(mailboxes) ?? null,
    /** Returns the metrics as JSON. */
    metrics: () => metrics.json(),
    failed(error: unknown) {
      state.enter('failed');
      if (error instanceof MailkeepError) notifying.archiveFailed(error);
    },
    stopping() {
      state.enter('stopping');
      manager.stopping();
    },
  };
}

/** Starts the web interface if it is configured. Its code is loaded only then. */
async function openWeb(
  { context, writer, now, log }: Parameters<typeof openIntegrations>[0],
  settings: () => Settings,
  look: () => void,
): Promise<WebServer | null> {
  const { web } = settings();
  if (web === null) return null;
  const { startWebServer } = await import('../web/web-server.ts');
  return startWebServer({
    ...web,
    dataDir: writer.dataDir,
    sessions: new SessionStore(writer.state),
    state: writer.state,
    accounts: () =>
      new Map(
        settings().accounts.flatMap((account) =>
          account.kind === 'api'
            ? [[account.name.toLowerCase(), new URL(account.baseUrl).hostname.toLowerCase()]]
            : [],
        ),
      ),
    async look() {
      look();
      return true;
    },
    hasDaemon: async () => true,
    policy: () => archivePolicy(settings(), context),
    now,
    onError: (error) => log.fail('error', 'a request of the web interface failed', error),
  });
}
