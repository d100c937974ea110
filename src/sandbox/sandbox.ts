import { Orders, Standings, Tokens } from './accounts.ts';
import { type FaultInput, Faults, RateWindow, RequestLog } from './faults.ts';
import { ControlSurface, listen, MailboxSurface } from './http.ts';
import { McpEndpoint } from './mcp-endpoint.ts';
import { PlatformSurface } from './platform.ts';
import { type GeneratedMail, loadGenerated, loadPath } from './seed.ts';
import { StateFile } from './state-file.ts';
import { resourceIdOf, Store } from './store.ts';
import { Deliveries, realTimer, Sender, type Timer, Webhooks } from './webhooks.ts';

/** Requests refused in a row, with no request allowed in between, and how long they block their address. */
export interface RateBlock {
  readonly refusals: number;
  readonly forMs: number;
}

const BLOCK: RateBlock = { refusals: 100, forMs: 60_000 };

/** How the service behaves where nothing else was asked for. */
const defaultSettings = {
  /** Requests per minute and token on the mailbox surface; null for no limit. */
  requestsPerMinute: null as number | null,
  /** With a limit, so many requests refused in a row block the address for a while; null for never. */
  block: BLOCK as RateBlock | null,
  /** Milliseconds every answer is held back. */
  latencyMs: 0,
  /** Largest request body, in bytes. */
  maxBodyBytes: 35 * 1024 * 1024,
  /** Addresses (`a@example.org`) and domains (`@example.org`) mail may be sent to; null for all. */
  outgoingAllowList: null as readonly string[] | null,
  /** Bytes a mailbox may hold. */
  storageQuotaBytes: 10 * 1024 ** 3,
  /** Messages a mailbox may hold. */
  messageQuota: 2_000_000,
  /** Between two submissions of feedback by a customer. */
  feedbackIntervalMs: 10_000,
  /** Webhook URLs may be http, and may name this machine. */
  localWebhooks: true,
  /** A webhook's receiver that takes longer has failed. */
  webhookTimeoutMs: 10_000,
  /** Attempts at a delivery, the first one included. */
  webhookAttempts: 6,
  /** Before the second attempt; the wait doubles with each further one, up to the longest. */
  webhookFirstRetryMs: 1000,
  webhookLongestRetryMs: 300_000,
  /** Test deliveries a minute and webhook over the platform surface; the other one declares no limit. */
  webhookTestsPerMinute: 10,
  /** Requests per minute and IP address on the platform surface; null for no limit. */
  platformRequestsPerMinute: 90 as number | null,
  /** So many requests refused in a row block the address for a while; null for never. */
  platformBlock: BLOCK as RateBlock | null,
};
export type ServiceSettings = Readonly<typeof defaultSettings>;

export interface SandboxOptions {
  /** 0, the default, for any free port; always on 127.0.0.1. */
  readonly port?: number;
  /** What fills the first mailbox; generated mail where there is nothing. */
  readonly from?: readonly string[];
  /** Decides ids, tokens, generated mail and the draws of faults. */
  readonly seed?: number;
  /** Generated mail; ignored with `from`. */
  readonly mail?: GeneratedMail;
  /** SQLite file to keep everything in; one that is filled already is served as it is. */
  readonly stateFile?: string;
  /** Addresses of the mailboxes, the first one being filled by `from`. */
  readonly addresses?: readonly string[];
  readonly settings?: Partial<ServiceSettings>;
  readonly now?: () => number;
  /** Waits before deliveries to webhooks are tried again. */
  readonly timer?: Timer;
  /** Receives every failure of the sandbox itself; writes to stderr by default. */
  readonly report?: (error: unknown) => void;
}

/** A running service, and the hands to reach into it. */
export type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

const DEFAULT_SEED = 1;
const DEFAULT_ADDRESSES = ['ada@example.org', 'office@example.org'];

/**
 * Starts the service on the loopback interface.
 *
 * @throws MailkeepError `sandbox-seed-unreadable`, `sandbox-state-unusable`, `sandbox-cannot-listen`
 */
export async function startSandbox(options: SandboxOptions = {}) {
  const seed = options.seed ?? DEFAULT_SEED;
  const now = options.now ?? Date.now;
  const secrets = secretsOf(seed);
  const settings = { ...defaultSettings, ...options.settings };
  const sender = new Sender(settings.webhookTimeoutMs);
  const service = openService(options, seed, now, secrets, settings, sender);
  const closeState = async () => {
    await service.deliveries.close();
    await sender.close();
    service.store.close();
  };
  try {
    const faults = new Faults(seed);
    const log = new RequestLog();
    const mcp = new McpEndpoint(service, () => listener.url);
    const listener = await listen(options.port ?? 0, [
      new ControlSurface(service, faults, log, secrets.control),
      new PlatformSurface(service, faults, log),
      mcp,
      new MailboxSurface(service, faults, log),
    ]);
    service.deliveries.start();
    return {
      mailboxUrl: listener.url,
      platformUrl: listener.url,
      mcpUrl: listener.url,
      tokens: { mailbox: secrets.mailbox, platform: secrets.platform },
      mailboxes: [...service.store.mailboxes.values()].map(({ resourceId, address }) => ({
        resourceId,
        address,
      })),
      /** The control endpoint and its token. */
      control: { url: `${listener.url}/control`, token: secrets.control },
      /** Requests answered so far. */
      requests: () => log.counts(),
      /** Adds a fault. @returns its id */
      fault: (rule: FaultInput) => faults.add(rule),
      clearFaults: () => faults.clear(),
      /** The state itself, for tests in the same process. */
      service,
      close: async () => {
        await listener.close();
        await mcp.close();
        await closeState();
      },
    };
  } catch (error) {
    await closeState();
    throw error;
  }
}

/** Tokens that follow from the seed: a sandbox started again takes the ones a config already has. */
function secretsOf(seed: number) {
  return {
    mailbox: resourceIdOf('mbx_', `${seed}/mailbox token`).toLowerCase(),
    platform: resourceIdOf('plt_', `${seed}/platform token`).toLowerCase(),
    control: resourceIdOf('ctl_', `${seed}/control token`).toLowerCase(),
  };
}

/** What the operations of all surfaces work on. */
export type ServiceState = Readonly<ReturnType<typeof openService>>;

function openService(
  options: SandboxOptions,
  seed: number,
  now: () => number,
  secrets: ReturnType<typeof secretsOf>,
  settings: ServiceSettings,
  sender: Sender,
) {
  const { stateFile } = options;
  const store = new Store(stateFile === undefined ? null : new StateFile(stateFile));
  try {
    const tokens = new Tokens(store);
    const orders = new Orders(store);
    const orderId = resourceIdOf('OR', `${seed}/order`);
    if (store.mailboxes.size === 0) {
      // All of the seed or none: a state file half filled would be served as if it were whole.
      store.atomically(() => fill(store, options, orderId, seed));
    }
    const userId = resourceIdOf('US', `${seed}/user`);
    if (orders.get(orderId) === null) orders.put({ id: orderId, userId });
    const lasting = { expiresAt: null, revokedAt: null };
    if (!tokens.has(secrets.mailbox)) {
      tokens.put(secrets.mailbox, { surface: 'mailbox', orderId, mailboxes: null, ...lasting });
    }
    if (!tokens.has(secrets.platform)) {
      tokens.put(secrets.platform, { surface: 'platform', userId, ...lasting });
    }
    const report = options.report ?? ((error) => console.error('mailkeep sandbox:', error));
    const standings = new Standings(store, now);
    for (const mailbox of store.mailboxes.values()) standings.of(mailbox);
    const webhooks = new Webhooks(store, now);
    const deliveries = new Deliveries({
      store,
      webhooks,
      settings,
      send: (...call) => sender.send(...call),
      now,
      timer: options.timer ?? realTimer,
      report,
    });
    return {
      store,
      tokens,
      orders,
      standings,
      webhooks,
      deliveries,
      /** Test deliveries of the platform surface, by webhook. */
      webhookTests: new RateWindow(settings.webhookTestsPerMinute),
      settings,
      /** Milliseconds since the epoch. */
      now,
      /** Receives every unexpected failure; the client only gets a 500. */
      report,
    };
  } catch (error) {
    store.close();
    throw error;
  }
}

function fill(store: Store, options: SandboxOptions, orderId: string, seed: number): void {
  const [first, ...others] = options.addresses ?? DEFAULT_ADDRESSES;
  if (first === undefined) return;
  const mailbox = store.addMailbox(first, orderId, seed);
  const rest = others.map((address) => store.addMailbox(address, orderId, seed));
  const paths = options.from ?? [];
  if (paths.length === 0) loadGenerated(store, [mailbox, ...rest], seed, options.mail ?? {});
  for (const path of paths) loadPath(store, mailbox, path);
}
