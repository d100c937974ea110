import type { IncomingMessage, ServerResponse } from 'node:http';
import { envelope, Refusal, unauthorized } from '../service/surface.ts';
import { MailboxStatuses, Orders, Tokens } from './accounts.ts';
import { type FaultInput, Faults, RateWindow, RequestLog } from './faults.ts';
import { ControlSurface, listen, MailboxSurface, type Surface, sendReady } from './http.ts';
import { PlatformSurface } from './platform.ts';
import { type GeneratedMail, loadGenerated, loadPath } from './seed.ts';
import { resourceIdOf, Store } from './store.ts';
import { Deliveries, realTimer, type Timer, Webhooks } from './webhooks.ts';

/** Number of consecutive refusals that block an address, and the duration of the block. */
export interface RateBlock {
  readonly refusals: number;
  readonly forMs: number;
}

const BLOCK: RateBlock = { refusals: 100, forMs: 60_000 };

const defaultSettings = {
  /** Mailbox API requests per minute and token; null for no limit. */
  requestsPerMinute: null as number | null,
  block: BLOCK as RateBlock | null,
  latencyMs: 0,
  maxBodyBytes: 35 * 1024 * 1024,
  /** Addresses (`a@example.org`) and domains (`@example.org`) that can receive mail; null allows all. */
  outgoingAllowList: null as readonly string[] | null,
  storageQuotaBytes: 10 * 1024 ** 3,
  messageQuota: 2_000_000,
  /** Minimum interval between a customer's submissions. */
  feedbackIntervalMs: 10_000,
  /** Allows http and local addresses in webhook URLs. */
  localWebhooks: true,
  webhookTimeoutMs: 10_000,
  webhookAttempts: 6,
  /** Delay before the second attempt. Doubles with each attempt, up to `webhookLongestRetryMs`. */
  webhookFirstRetryMs: 1000,
  webhookLongestRetryMs: 300_000,
  /** Test deliveries per minute and webhook in the Platform API. The Mailbox API has no limit. */
  webhookTestsPerMinute: 10,
  /** Platform API requests per minute and IP address; null for no limit. */
  platformRequestsPerMinute: 90 as number | null,
  platformBlock: BLOCK as RateBlock | null,
};
export type ServiceSettings = Readonly<typeof defaultSettings>;

export interface SandboxOptions {
  /** Port on 127.0.0.1. Default: 0, for any free port. */
  readonly port?: number;
  /** Paths to the first mailbox's mail. Default: generated mail. */
  readonly from?: readonly string[];
  /** Determines ids, tokens, generated mail and faults. */
  readonly seed?: number;
  readonly mail?: GeneratedMail;
  /** SQLite file. An existing file is served unchanged. */
  readonly stateFile?: string;
  readonly addresses?: readonly string[];
  readonly settings?: Partial<ServiceSettings>;
  readonly now?: () => number;
  readonly timer?: Timer;
  /** Receives failures of the sandbox itself. Default: prints to stderr. */
  readonly report?: (error: unknown) => void;
}

export type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

const DEFAULT_SEED = 1;
const DEFAULT_ADDRESSES = ['ada@example.org', 'office@example.org'];

/**
 * Starts the service on the loopback address.
 *
 * @throws MailkeepError `sandbox-seed-unreadable`, `sandbox-state-unusable`, `sandbox-cannot-listen`
 */
export async function startSandbox(options: SandboxOptions = {}) {
  const seed = options.seed ?? DEFAULT_SEED;
  const now = options.now ?? Date.now;
  const secrets = secretsOf(seed);
  const settings = { ...defaultSettings, ...options.settings };
  const service = openService(options, seed, now, secrets, settings);
  const closeState = async () => {
    await service.deliveries.close();
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
      control: { url: `${listener.url}/control`, token: secrets.control },
      requests: () => log.counts(),
      fault: (rule: FaultInput) => faults.add(rule),
      clearFaults: () => faults.clear(),
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

/** Derives tokens from the seed, so that existing configurations keep working after a restart. */
function secretsOf(seed: number) {
  return {
    mailbox: resourceIdOf('mbx_', `${seed}/mailbox token`).toLowerCase(),
    platform: resourceIdOf('plt_', `${seed}/platform token`).toLowerCase(),
    control: resourceIdOf('ctl_', `${seed}/control token`).toLowerCase(),
  };
}

export type ServiceState = Readonly<ReturnType<typeof openService>>;

function openService(
  options: SandboxOptions,
  seed: number,
  now: () => number,
  secrets: ReturnType<typeof secretsOf>,
  settings: ServiceSettings,
) {
  const store = new Store(options.stateFile);
  try {
    const tokens = new Tokens(store);
    const orders = new Orders(store);
    const orderId = resourceIdOf('OR', `${seed}/order`);
    if (store.mailboxes.size === 0) {
      // A state file with only part of the seed would be served as if complete, so it is all or nothing.
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
    const standings = new MailboxStatuses(store, now);
    for (const mailbox of store.mailboxes.values()) standings.of(mailbox);
    const webhooks = new Webhooks(store, now);
    const deliveries = new Deliveries({
      store,
      webhooks,
      settings,
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
      /** Limits test deliveries per webhook in the Platform API. */
      webhookTests: new RateWindow(settings.webhookTestsPerMinute),
      settings,
      /** Milliseconds since the epoch. */
      now,
      report,
    };
  } catch (error) {
    store.close();
    throw error;
  }
}

function fill(store: Store, options: SandboxOptions, orderId: string, seed: number): void {
  const [first, ...addresses] = options.addresses ?? DEFAULT_ADDRESSES;
  if (first === undefined) return;
  const mailbox = store.addMailbox(first, orderId, seed);
  const mailboxes = addresses.map((address) => store.addMailbox(address, orderId, seed));
  const paths = options.from ?? [];
  if (paths.length === 0) loadGenerated(store, [mailbox, ...mailboxes], seed, options.mail ?? {});
  for (const path of paths) loadPath(store, mailbox, path);
}

/** Offers the Mailbox API as MCP tools, at `/mcp`. Loads the MCP library on the first authorized request. */
class McpEndpoint implements Surface {
  readonly prefix = '/mcp';
  readonly refusal = envelope;
  #server: ReturnType<typeof openMcp> | null = null;

  /** @param baseUrl returns the URL of the Mailbox API, which is known once the service listens */
  constructor(
    private readonly service: ServiceState,
    private readonly baseUrl: () => string,
  ) {}

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request, response).catch((error: unknown) => {
      if (!(error instanceof Refusal)) this.service.report(error);
      if (response.headersSent) response.destroy();
      else sendReady(response, envelope(error));
    });
  }

  async close(): Promise<void> {
    if (this.#server !== null) await (await this.#server).close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const service = this.service;
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    if (path !== '/mcp' && path !== '/mcp/') {
      throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
    }
    const { origin } = request.headers;
    if (origin !== undefined && !isOwnPage(origin, this.baseUrl())) {
      throw new Refusal(
        403,
        'ERR_FORBIDDEN_ORIGIN',
        'A web page of another origin may not call these tools',
      );
    }
    if (
      service.tokens.authorize(request.headers.authorization, 'mailbox', service.now()) === null
    ) {
      throw unauthorized('The token is missing, malformed, expired or revoked');
    }
    this.#server ??= openMcp(this.baseUrl(), service);
    await (await this.#server).handle(request, response);
  }
}

/**
 * Returns true for the service's own pages, under either loopback name. Other pages can use DNS rebinding (MCP,
 * "Streamable HTTP", security warning).
 */
function isOwnPage(origin: string, baseUrl: string): boolean {
  const { port } = new URL(baseUrl);
  return origin === baseUrl || origin === `http://localhost:${port}`;
}

async function openMcp(baseUrl: string, service: ServiceState) {
  const [{ getRequestListener }, { openMcpService }] = await Promise.all([
    import('@hono/node-server'),
    import('./mcp.ts'),
  ]);
  const mcp = openMcpService(baseUrl, service.settings.maxBodyBytes);
  const handle = getRequestListener((request) => mcp.fetch(request), {
    overrideGlobalObjects: false,
  });
  return { handle, close: () => mcp.close() };
}
