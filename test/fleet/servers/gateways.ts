import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import { openState } from '../../../src/core/state.ts';
import { accountKey } from '../../../src/core/types.ts';
import { addAccounts } from '../../../src/fleet/accounts.ts';
import { claim, release } from '../../../src/fleet/claims.ts';
import { type Gateway, startGateway } from '../../../src/fleet/gateway.ts';
import { addGrant, type NewGrant } from '../../../src/fleet/grants.ts';
import { FleetKeys } from '../../../src/fleet/keys.ts';
import type { Lease } from '../../../src/fleet/outcomes.ts';
import type { Registry } from '../../../src/fleet/postgres.ts';
import type { HeldShard } from '../../../src/fleet/relay.ts';
import { createFleet } from '../../../src/fleet/schema.ts';
import { beginSession } from '../../../src/fleet/sessions.ts';
import { type Answer, type Asked, askAt, cookiesOf, NOW, tokenIn } from '../../web/served.ts';
import type { Postgres } from './postgres.ts';
import { accountOf, DISK, done } from './scene.ts';

export const FLEET = '6c0f51f1-6ffb-4f0e-8f0c-0f0e0d0c0b0a';
export const KEYS = FleetKeys.parse(`key-1 ${'5a'.repeat(32)}\n`, 'test');
export const OTHER_KEYS = FleetKeys.parse(`key-2 ${'5b'.repeat(32)}\n`, 'test');
const LONG_MS = 3_600_000;

/** The name of an account in the configuration of its shard. */
export function nameOf({ tenant, name }: { readonly tenant: string; readonly name: string }) {
  return `${tenant}-${name}`;
}

/** Records which mailbox an account lists, as a sync does. */
export function listMailbox(
  dataDir: string,
  account: string,
  { host, mailbox, address }: Readonly<Record<'host' | 'mailbox' | 'address', string>>,
  unreachableSince: number | null = null,
): void {
  const state = openState(dataDir);
  const listed = [{ resourceId: mailbox, address, unreachableSince }];
  state.set('account-mailboxes', accountKey(account, host), listed);
  state.close();
}

/** A fleet of gateways without workers: what a node holds is said by the test. */
export class GatewayFleet {
  readonly work = mkdtempSync(path.join(tmpdir(), 'gw-'));
  readonly #nodes: GatewayNode[] = [];
  readonly #closing: (() => Promise<unknown>)[] = [];

  private constructor(
    readonly registry: Registry,
    readonly database: string,
  ) {}

  static async create(postgres: Postgres): Promise<GatewayFleet> {
    const database = await postgres.create();
    const registry = await postgres.open(database);
    await createFleet(registry, { id: FLEET, bucket: 's3://fleet/mail' });
    return new GatewayFleet(registry, database);
  }

  /** Adds accounts in one new shard. */
  async shard(...names: readonly (readonly [tenant: string, name: string])[]) {
    const accounts = names.map(([tenant, name]) => accountOf(name, tenant));
    const { added } = done(
      await addAccounts(this.registry, accounts, () => accounts.map(() => ({ added: 0 })), 'x'),
    );
    return { shard: added[0]?.shard ?? 0, accounts: added.map(({ account }) => account) };
  }

  /** @param silentMs how long a holder may be silent for this node */
  async node(name: string, silentMs?: number): Promise<GatewayNode> {
    const node = await GatewayNode.start(this, name, silentMs);
    this.#nodes.push(node);
    return node;
  }

  /** Adds a token, or the code of a sign-in link. */
  async grant(grant: Partial<NewGrant> & Pick<NewGrant, 'rights'>) {
    const defaults = { use: 'token', tenant: 'acme', name: 'test', expiresAt: null } as const;
    return addGrant(this.registry, KEYS, { ...defaults, ...grant });
  }

  /** Serves requests on a Unix socket as a shard's web interface does, and returns its path. */
  async child(listener: RequestListener): Promise<string> {
    const socket = path.join(this.work, `${randomUUID().slice(0, 8)}.sock`);
    const server = createServer({ maxHeaderSize: 100_000 }, listener);
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    this.later(async () => {
      server.close();
      server.closeAllConnections();
    });
    return socket;
  }

  /** Called when the fleet ends. */
  later(close: () => Promise<unknown>): void {
    this.#closing.push(close);
  }

  async end(): Promise<void> {
    for (const node of this.#nodes) await node.close();
    for (const close of this.#closing) await close();
    rmSync(this.work, { recursive: true, force: true });
  }
}

export class GatewayNode {
  readonly errors: unknown[] = [];
  readonly held = new Map<number, HeldShard>();
  readonly leases = new Map<number, Lease>();
  gateway!: Gateway;

  private constructor(
    readonly fleet: GatewayFleet,
    readonly name: string,
    readonly session: string,
  ) {}

  static async start(
    fleet: GatewayFleet,
    name: string,
    silentMs: number | undefined,
  ): Promise<GatewayNode> {
    const node = new GatewayNode(fleet, name, randomUUID());
    const { registry } = fleet;
    node.gateway = await startGateway({
      ...(silentMs === undefined ? {} : { silentMs }),
      ...{ registry, keys: KEYS, fleet: FLEET, session: node.session, now: () => NOW },
      listen: { host: '127.0.0.1', port: 0 },
      web: { listen: { host: '127.0.0.1', port: 0 }, publicUrl: null },
      held: (shard) => node.held.get(shard),
      onError: (error) => node.errors.push(error),
    });
    const { host, port } = node.gateway.address;
    const facts = { session: node.session, node: name, disk: DISK, room: 1000 };
    done(await beginSession(registry, { ...facts, address: `${host}:${port}` }, LONG_MS));
    return node;
  }

  /** Claims a shard, whose web interface is at a socket. */
  async hold(shard: number, socket: string): Promise<Lease> {
    const [claimed] = done(await claim(this.fleet.registry, this.session, [shard])).claimed;
    if (claimed === undefined) throw new Error('the shard is not free');
    const { lease } = claimed;
    this.held.set(shard, { epoch: lease.epoch, socket: async () => socket, nameOf });
    this.leases.set(shard, lease);
    return lease;
  }

  async release(shard: number): Promise<void> {
    this.held.delete(shard);
    const lease = this.leases.get(shard);
    if (lease !== undefined) done(await release(this.fleet.registry, lease));
  }

  /** Lets other nodes reach this one at another address. */
  async moveTo(address: string): Promise<void> {
    await this.fleet.registry.statement(
      'test',
      sql`UPDATE worker SET address = ${address} WHERE session = ${this.session}`,
    );
  }

  /** The lease runs out for everybody else. */
  async expire(): Promise<void> {
    await this.fleet.registry.statement(
      'test',
      sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s'
        WHERE session = ${this.session}`,
    );
  }

  get web() {
    const url = new URL(this.gateway.url ?? '');
    return { host: url.hostname, port: Number(url.port) };
  }

  get host(): string {
    return `127.0.0.1:${this.web.port}`;
  }

  ask(target: string, asked: Asked = {}): Promise<Answer> {
    return askAt(this.web, target, asked);
  }

  /** Asks with a token. */
  api(target: string, secret: string, { headers = {}, ...asked }: Asked = {}): Promise<Answer> {
    return this.ask(target, {
      ...asked,
      headers: { ...headers, authorization: `Bearer ${secret}` },
    });
  }

  /** The headers of a request that a page of this server makes. */
  own(cookie: string): Record<string, string> {
    return { cookie, 'sec-fetch-site': 'same-origin' };
  }

  /** Types a code on the sign-in page. */
  async enter(code: string): Promise<Answer> {
    const opened = await this.ask('/enter');
    const cookie = cookiesOf(opened)[0] ?? '';
    const body = new URLSearchParams({ code, token: tokenIn(opened.text) }).toString();
    const headers = { cookie, 'content-type': 'application/x-www-form-urlencoded' };
    return this.ask('/enter', { method: 'POST', headers, body });
  }

  /** Signs in with a new link, and returns the value of the cookie: its name has the port. */
  async signIn(rights: NewGrant['rights'], tenant: string | null = 'acme'): Promise<string> {
    const expiresAt = new Date(Date.now() + 600_000);
    const { secret } = await this.fleet.grant({ use: 'link', tenant, rights, expiresAt });
    const answer = await this.enter(secret);
    if (answer.status !== 303) throw new Error(`signing in gave ${answer.status}`);
    return cookiesOf(answer)[0]?.split('=')[1] ?? '';
  }

  cookie(value: string): string {
    return `mailkeep-${this.web.port}=${value}`;
  }

  async close(): Promise<void> {
    await this.gateway.close();
  }
}
