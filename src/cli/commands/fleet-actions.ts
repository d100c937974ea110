import { randomUUID } from 'node:crypto';
import { homedir } from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import packageJson from '../../../package.json' with { type: 'json' };
import { RETRY_POLICY } from '../../copies/s3-client.ts';
import { resolveS3 } from '../../copies/s3-settings.ts';
import { ensureBucket, S3Store, s3Store } from '../../copies/s3-store.ts';
import { Semaphore, systemClock } from '../../core/concurrency.ts';
import type { FleetConfig } from '../../core/config.ts';
import { jsonValue, readConfigFile } from '../../core/config-file.ts';
import type { Settings } from '../../core/config-schema.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode, hasCode } from '../../core/errors.ts';
import { readRegularFile } from '../../core/files.ts';
import { nearest, PLAIN_NAME, PLAIN_NAME_TEXT } from '../../core/names.ts';
import type { S3Target } from '../../core/s3-target.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, span } from '../../core/text.ts';
import { type DaemonLog, openDaemonLog } from '../../daemon/daemon-log.ts';
import { type HealthServer, serveHealth } from '../../daemon/metrics.ts';
import { openSecrets, sealSecrets, splitAccount } from '../../fleet/account-settings.ts';
import {
  type AccountState,
  addAccounts,
  changeAccount,
  type NewAccount,
  putSecret,
  secretSamples,
  secretsOfOtherKeys,
  updateAccount,
} from '../../fleet/accounts.ts';
import { moveShard } from '../../fleet/claims.ts';
import { fleetError } from '../../fleet/errors.ts';
import { startGateway } from '../../fleet/gateway.ts';
import type { FleetKeys } from '../../fleet/keys.ts';
import { addKey, makeKeyFile, readFleetKeys } from '../../fleet/keys.ts';
import {
  changesSince,
  type FleetStatus,
  fleetStatus,
  knownNodes,
  type ListedAccount,
  listAccounts,
  MOST_PURGES,
} from '../../fleet/overview.ts';
import { placeEvenly, rebalance } from '../../fleet/planner.ts';
import { openRegistry, type Registry } from '../../fleet/postgres.ts';
import { removeNode } from '../../fleet/purges.ts';
import { RECOVER_SETTLE_MS, recoverFleet } from '../../fleet/recover.ts';
import { importRegistry } from '../../fleet/registry-export.ts';
import { createFleet } from '../../fleet/schema.ts';
import { markDead, setDraining } from '../../fleet/sessions.ts';
import { SHARD_TIMES } from '../../fleet/shard.ts';
import { probeStore } from '../../fleet/uploads.ts';
import { runWorker, WORKER_TIMES } from '../../fleet/worker.ts';
import { WorkerHealth } from '../../fleet/worker-health.ts';
import { threadedProver } from '../../verify/check-segment.ts';
import { readStdinText } from '../ask.ts';
import type { CommandContext } from '../context.ts';
import {
  accountNamed,
  fleetConfigOf,
  type OpenFleet,
  refuseOtherStore,
  registryOf,
  withFleet,
  withRegistry,
} from '../open-fleet.ts';
import { joinReport, tableText } from '../output.ts';
import { waitsFor } from './fleet-forget.ts';

/** The tenant of an account that names none. */
export const DEFAULT_TENANT = 'default';
const PAGE = 500;
/** Accounts of one transaction, which others wait for. */
const BULK_PAGE = 100;
const MAX_BULK_BYTES = 256 * 1024 * 1024;
const FREE_MS = 300_000;
const FORGET_MS = 86_400_000;
/** Unfinished forgets of a list. */
const MOST_SHOWN = 10;

export interface InitLine {
  readonly allowVersioning?: boolean;
  readonly createBucket?: boolean;
}

export interface AccountLine {
  readonly tenant?: string;
}

export interface AddLine extends AccountLine {
  readonly settings?: string;
  readonly bulk?: string;
  readonly tokenFile?: string;
  readonly tokenEnv?: string;
}

export interface DrainLine {
  readonly node?: string;
  readonly wait?: boolean;
  readonly undo?: boolean;
}

export interface RebalanceLine {
  readonly dryRun?: boolean;
}

export interface RotateLine {
  readonly new?: string;
}

export interface NodeRemoveLine {
  readonly diskDestroyed?: boolean;
}

/** What the configuration leaves out is taken from the environment and from the files of Amazon's tools. */
export async function storeTarget(
  { environment: { env } }: CommandContext,
  { fleet }: FleetConfig,
): Promise<S3Target> {
  const { bucket, prefix, endpoint, region, profile } = fleet.store;
  const home = env.HOME ?? homedir();
  return resolveS3({ kind: 's3', bucket, prefix }, { env, home, endpoint, region, profile });
}

export async function initFleet(
  context: CommandContext,
  { allowVersioning = false, createBucket = false }: InitLine,
): Promise<ExitCode> {
  const { signal, output } = context;
  const config = fleetConfigOf(context);
  const { keyFile } = config.fleet;
  const target = await storeTarget(context, config);
  return withRegistry(context, config, async (registry) => {
    const given = keysIn(keyFile);
    const isBucketNew = createBucket && (await ensureBucket(target, signal));
    // A person waits.
    const store = s3Store(target, { retries: { ...RETRY_POLICY, attempts: 3 } });
    try {
      const { keepsVersions, locks } = await probeStore(store, allowVersioning, signal);
      const { isNew, ...fleet } = await createFleet(registry, {
        id: randomUUID(),
        bucket: store.label,
      });
      refuseOtherStore(registry, fleet, store.label);
      const samples = await secretSamples(registry);
      const unknown = samples.map(({ keyId }) => keyId).filter((id) => !given?.names.includes(id));
      if (unknown.length > 0) {
        const facts = { file: keyFile, found: given !== undefined, keyIds: unknown };
        throw fleetError('fleet-keys-elsewhere', facts);
      }
      const keys = given ?? makeKeyFile(keyFile);
      const facts = {
        ...{ fleet: fleet.id, created: isNew, registry: registry.label, store: store.label },
        ...{ bucketCreated: isBucketNew, versioned: keepsVersions, locked: locks, keyFile },
        ...{ key: keys.current, keyCreated: given === undefined },
      };
      await output.object(facts, () =>
        joinReport([
          `${store.label}: ${isBucketNew ? 'was created; ' : ''}an object was written in parts, read back and ${locks ? 'locked' : 'deleted'}; an upload was cancelled.`,
          keepsVersions &&
            'The bucket keeps versions: mailkeep deletes all versions of what it deletes.',
          locks &&
            'The bucket locks what is written to it: a forget ends only after its locks have ended.',
          `Fleet ${fleet.id} ${isNew ? `was created in ${registry.label}` : 'exists; it was left as it is'}.`,
          given === undefined
            ? `${terminalLine(keyFile)} was created with the key ${keys.current}. Copy it to every node, and keep a copy elsewhere: without it, nobody can read the mail in the bucket.`
            : `${terminalLine(keyFile)}: the key ${keys.current} encrypts.`,
        ]).join('\n'),
      );
      return EXIT.done;
    } finally {
      await store.close();
    }
  });
}

/** Returns the keys in a file; undefined if there is no file. */
function keysIn(file: string): FleetKeys | undefined {
  try {
    return readFleetKeys(file);
  } catch (error) {
    const isMissing =
      hasCode(error, 'fleet-key-file-unreadable') && error.facts.reason === 'ENOENT';
    if (isMissing) return undefined;
    throw error;
  }
}

export async function runFleetWorker(context: CommandContext): Promise<ExitCode> {
  const { environment, now, words, signal, output } = context;
  return withFleet(context, async ({ config, registry, fleet }) => {
    const { fleet: place, settings } = config;
    const { node, address = '', capacity: room, cache, keyFile } = place;
    const keys = () => readFleetKeys(keyFile);
    // Now, so that a file that cannot be read is found before anything starts.
    keys();
    const plainLog = await openDaemonLog(settings.log.level, output.interactive);
    const health = new WorkerHealth({ version: packageJson.version, registry, log: plainLog, now });
    const log = health.counting(plainLog);
    if (settings.webhook !== null) {
      log.say('warn', 'webhooks are not received in a fleet: its accounts are polled');
    }
    if (settings.copies.length > 0) {
      log.say('warn', 'copies are not made in a fleet: its shards are shipped to the bucket');
    }
    const store = new S3Store(await storeTarget(context, config));
    const prover = threadedProver();
    // Readers wait for each other rather than ships and claims for them.
    const forReaders = await openRegistry(await registryOf(context, place.registry));
    let server: HealthServer | null = null;
    try {
      server = settings.health && (await listenForHealth(settings.health, health, log));
      await runWorker(
        {
          ...{ registry, fleet, node, address, room, cache, keys, store, prover, settings, log },
          ...{ environment, now, words },
          target: await registryOf(context, place.directRegistry),
          program: [process.execPath, ...process.execArgv, process.argv[1] ?? ''],
          clock: {
            now,
            monotonic: () => performance.now(),
            after: (ms, act) => systemClock.after(ms, act),
          },
          times: { ...SHARD_TIMES, ...WORKER_TIMES },
          heavy: new Semaphore(2),
          serve: async (session) => {
            const { listen } = place;
            if (listen === undefined) {
              health.show(session);
              return async () => health.show(undefined);
            }
            const gateway = await startGateway({
              ...{ registry: forReaders, fleet: fleet.id, keys: keys(), session: session.id },
              ...{ listen, now },
              web: settings.web,
              held: (shard) => session.held(shard),
              onError: (error) => log.fail('error', 'a request could not be passed on', error),
            });
            const { url } = gateway;
            log.say('info', 'readers are let in', { address: gateway.address, url });
            health.show(session);
            return once(() => {
              health.show(undefined);
              return gateway.close();
            });
          },
        },
        signal,
      );
      return EXIT.done;
    } finally {
      await server?.close();
      await forReaders.close();
      await prover.close();
      await store.close();
    }
  });
}

async function listenForHealth(
  { listen, hosts }: NonNullable<Settings['health']>,
  { answers }: WorkerHealth,
  log: DaemonLog,
): Promise<HealthServer> {
  const onError = (error: unknown) => log.fail('error', 'health could not be answered', error);
  const server = await serveHealth({ listen, hosts, onError }, answers);
  log.say('info', 'health listens', { port: server.address.port });
  return server;
}

/** Calls `act` once, and returns the same result again. */
function once(act: () => Promise<void>): () => Promise<void> {
  let called: Promise<void> | undefined;
  return () => {
    called ??= act();
    return called;
  };
}

interface Attention {
  readonly code: string;
  readonly message: string;
}

export async function showStatus(context: CommandContext): Promise<ExitCode> {
  const { output, globals } = context;
  return withFleet(context, async ({ registry, fleet }) => {
    const status = await fleetStatus(registry);
    const attention = attentionOf(status);
    // Under cron every line becomes a mail: a check that finds nothing wrong prints none.
    if (!globals.quiet || output.json || attention.length > 0) {
      const facts = { fleet: fleet.id, registry: registry.label, store: fleet.bucket };
      await output.object({ ...facts, attention, ...status }, () => {
        const lines = attention.map(({ message }) => output.colours.red(`ATTENTION: ${message}`));
        if (globals.quiet) return lines.join('\n');
        return joinReport([
          `Fleet ${fleet.id}: ${registry.label}, ${fleet.bucket}`,
          '',
          statusText(context, status),
          lines.length > 0 && ['', ...lines],
        ]).join('\n');
      });
    }
    return attention.length === 0 ? EXIT.done : EXIT.failures;
  });
}

function attentionOf({ nodes, shards, accounts, purges }: FleetStatus): readonly Attention[] {
  const found: Attention[] = [];
  const living = nodes.filter(({ isDead }) => !isDead);
  const room = living.reduce((sum, node) => sum + node.room, 0);
  const wanted = accounts.active + accounts.paused;
  if (wanted > 0 && living.length === 0) {
    found.push({ code: 'no-worker', message: 'No worker is running.' });
  } else if (room < wanted) {
    const message = `The workers take ${counted(room, 'account')}, and there are ${count(wanted)}.`;
    found.push({ code: 'no-room', message });
  }
  for (const { shard, accounts: of, node, freeMs, failing, isCurrent } of shards) {
    if (!isCurrent) {
      const message = `Shard ${shard} must be recovered: run "mailkeep fleet recover".`;
      found.push({ code: 'not-recovered', message });
    } else if (failing !== null) {
      const message = `Shard ${shard} (${counted(of, 'account')}) fails on ${failing.node}: ${failing.code}, since ${failing.since}.`;
      found.push({ code: 'failing', message });
    } else if (node === null && (freeMs ?? 0) > FREE_MS) {
      const message = `Nobody has taken shard ${shard} (${counted(of, 'account')}) for ${span(freeMs ?? 0)}.`;
      found.push({ code: 'not-held', message });
    }
  }
  for (const purge of purges) {
    const { shard, number, ageMs } = purge;
    if (ageMs < FORGET_MS) continue;
    const message = `Forget ${number} of shard ${shard} has not ended for ${span(ageMs)}: it waits for ${waitsFor(purge)}.`;
    found.push({ code: 'forget-unfinished', message });
  }
  return found;
}

function statusText({ output }: CommandContext, status: FleetStatus): string[] {
  const { nodes, shards, accounts, purges } = status;
  const shardRows = shards.map((one) => [
    String(one.shard),
    one.node ?? '-',
    count(one.accounts),
    count(one.messages),
    bytes(one.catalogBytes),
    one.shippedMs === null ? '-' : `${span(Math.max(0, one.shippedMs))} ago`,
    one.failing?.code ?? '',
  ]);
  const nodeRows = nodes.map((node) => [
    node.node,
    node.isDead ? 'dead' : node.isDraining ? 'draining' : 'at work',
    count(node.shards),
    `${count(node.accounts)} of ${count(node.room)}`,
    node.address,
  ]);
  const { active, paused, removed, withErrors } = accounts;
  return joinReport([
    nodes.length === 0
      ? 'No worker is running.'
      : tableText(['node', 'state', 'shards', 'accounts', 'address'], nodeRows, 4, output),
    '',
    shards.length > 0 &&
      tableText(
        ['shard', 'node', 'accounts', 'messages', 'index', 'shipped', 'failing'],
        shardRows,
        6,
        output,
      ),
    shards.length > 0 && '',
    `Accounts: ${count(active)} active, ${count(paused)} paused, ${count(removed)} removed; ${count(withErrors)} with errors`,
    `Forgets and prunes under way: ${count(purges.length)}${purges.length === MOST_PURGES ? ' or more' : ''}`,
    ...purges
      .slice(0, MOST_SHOWN)
      .map((purge) => `  ${purge.number} of shard ${purge.shard} waits for ${waitsFor(purge)}`),
  ]);
}

export async function addFleetAccounts(
  context: CommandContext,
  name: string | undefined,
  line: AddLine,
): Promise<ExitCode> {
  const { settings, bulk } = line;
  const command = 'fleet account add';
  const isOne = name !== undefined && settings !== undefined;
  if (bulk === undefined ? !isOne : name !== undefined) {
    const problem = 'it takes a name with --settings, or --bulk.';
    throw usageError('usage-invalid', { command, problem });
  }
  return withFleet(context, async (open) => {
    // Before anything is read from standard input: it would be gone.
    const keys = readFleetKeys(open.config.fleet.keyFile);
    return name === undefined
      ? addMany(context, open, keys, bulk ?? '', line)
      : addOne(context, open, keys, name, line);
  });
}

async function addOne(
  context: CommandContext,
  { registry, fleet }: OpenFleet,
  keys: FleetKeys,
  name: string,
  line: AddLine,
): Promise<ExitCode> {
  const { tenant = DEFAULT_TENANT } = line;
  const parts = await readParts(context, name, line);
  const account: NewAccount = {
    ...{ tenant, name, settings: parts.settings },
    seal: (id) => sealSecrets(keys, fleet.id, id, parts.secrets),
  };
  const outcome = await addAccounts(registry, [account], await placement(registry), 'operator');
  if (outcome.outcome === 'refused') {
    throw fleetError('fleet-account-exists', { account: name, tenant });
  }
  const [added = { account: 0, shard: 0 }] = outcome.added;
  const facts = { name, tenant, ...added, secrets: [...parts.secrets.keys()], key: keys.current };
  await context.output.object(
    facts,
    () => `Added the account ${name} of the tenant ${tenant}, in shard ${added.shard}.`,
  );
  return EXIT.done;
}

async function readParts(context: CommandContext, name: string, line: AddLine) {
  if (line.settings === '-' && line.tokenFile === '-') {
    const problem = 'only one of the files can be - (standard input).';
    throw usageError('usage-invalid', { command: 'fleet account', problem });
  }
  const { raw, source } = await readSettings(context, line.settings ?? '');
  const token = await tokenOf(context, line);
  return splitAccount(token === undefined ? raw : withToken(raw, token), name, source);
}

/** @throws fleet-account-unknown, fleet-account-ambiguous, fleet-account-removed, config-invalid */
export async function updateFleetAccount(
  context: CommandContext,
  name: string,
  line: AddLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ config, registry, fleet }) => {
    const keys = readFleetKeys(config.fleet.keyFile);
    const { account, tenant } = await accountNamed(
      registry,
      { account: name, tenant: line.tenant },
      true,
    );
    const { settings, secrets } = await readParts(context, name, line);
    const sealed = sealSecrets(keys, fleet.id, account, secrets);
    const { outcome } = await updateAccount(registry, account, settings, sealed, 'operator');
    if (outcome === 'refused') throw fleetError('fleet-account-removed', { account: name, tenant });
    const facts = { account: name, tenant, secrets: [...secrets.keys()], key: keys.current };
    await context.output.object(facts, () => `${name} (tenant ${tenant}) has the new settings.`);
    return EXIT.done;
  });
}

/** Adds accounts to a fleet that is about to have so many nodes. */
export async function addAccountsEvenly(
  { config, registry, fleet }: OpenFleet,
  accounts: readonly (Omit<NewAccount, 'seal'> & {
    readonly secrets: ReadonlyMap<string, string>;
  })[],
  nodes: number,
): Promise<void> {
  const keys = readFleetKeys(config.fleet.keyFile);
  const added = accounts.map(({ secrets, ...account }) => ({
    ...account,
    seal: (id: number) => sealSecrets(keys, fleet.id, id, secrets),
  }));
  const { outcome } = await addAccounts(registry, added, placeEvenly(nodes), 'operator');
  if (outcome === 'refused') throw new Error('the fleet has accounts of these names');
}

/** New accounts are spread over the nodes that there are. */
async function placement(registry: Registry) {
  const { nodes } = await fleetStatus(registry);
  return placeEvenly(Math.max(1, nodes.filter(({ isDead }) => !isDead).length));
}

/** A token takes the place of an IMAP account's password, or is its refresh token. */
function withToken(raw: unknown, token: string): unknown {
  const { imap, ...others } = Object(raw);
  if (imap === undefined) return { ...others, token };
  const { oauth, ...server } = Object(imap);
  const secret =
    oauth === undefined
      ? { password: token }
      : { oauth: { ...Object(oauth), refreshToken: token } };
  return { ...others, imap: { ...server, ...secret } };
}

async function readSettings(
  { environment: { cwd }, stdin }: CommandContext,
  file: string,
): Promise<{ raw: unknown; source: string }> {
  if (file === '-') {
    const source = 'Standard input';
    return { raw: jsonValue(await readStdinText(stdin()), source), source };
  }
  const source = path.resolve(cwd, file);
  return { raw: readConfigFile(source), source };
}

async function tokenOf(
  { environment: { cwd, env }, stdin }: CommandContext,
  { tokenFile, tokenEnv }: AddLine,
): Promise<string | undefined> {
  if (tokenFile === '-') return (await readStdinText(stdin())).trim();
  if (tokenFile !== undefined) {
    return readRegularFile(path.resolve(cwd, tokenFile), MAX_TOKEN_BYTES).toString('utf8').trim();
  }
  if (tokenEnv === undefined) return undefined;
  const token = env[tokenEnv];
  if (token !== undefined && token !== '') return token;
  const problem = `the environment variable ${tokenEnv} is not set.`;
  throw usageError('usage-invalid', { command: 'fleet account add', problem });
}

const MAX_TOKEN_BYTES = 64 * 1024;

async function addMany(
  context: CommandContext,
  { registry, fleet }: OpenFleet,
  keys: FleetKeys,
  file: string,
  { tenant: fallback = DEFAULT_TENANT }: AddLine,
): Promise<ExitCode> {
  const { signal, output } = context;
  const accounts = await readAccounts(context, fleet, keys, file, fallback);
  const known = await knownNames(registry);
  const fresh = [...new Map(accounts.map((one) => [nameKey(one), one])).values()].filter(
    (one) => !known.has(nameKey(one)),
  );
  const place = await placement(registry);
  for (let at = 0; at < fresh.length; at += BULK_PAGE) {
    signal.throwIfAborted();
    const page = fresh.slice(at, at + BULK_PAGE);
    const { outcome } = await addAccounts(registry, page, place, 'operator');
    const [{ name: account = '', tenant = '' } = {}] = page;
    // Somebody else has added one of them meanwhile.
    if (outcome === 'refused') throw fleetError('fleet-account-exists', { account, tenant });
  }
  const facts = { added: fresh.length, existing: accounts.length - fresh.length };
  await output.object(
    facts,
    () =>
      `Added ${counted(facts.added, 'account')}; ${counted(facts.existing, 'account')} existed and stayed as they are.`,
  );
  return EXIT.done;
}

/** Reads accounts from a file, one a line. @throws config-invalid */
export async function readAccounts(
  { environment, stdin }: CommandContext,
  fleet: OpenFleet['fleet'],
  keys: FleetKeys,
  file: string,
  fallback: string,
): Promise<readonly NewAccount[]> {
  const source = file === '-' ? 'Standard input' : path.resolve(environment.cwd, file);
  const text =
    file === '-'
      ? await readStdinText(stdin())
      : readRegularFile(source, MAX_BULK_BYTES).toString('utf8');
  return text.split('\n').flatMap((line, at): NewAccount[] => {
    if (line.trim() === '') return [];
    const where = `${source}, line ${at + 1}`;
    const { tenant = fallback, ...entry } = Object(jsonValue(line, where));
    if (!PLAIN_NAME.test(String(tenant))) {
      const problem = `${where}: "tenant" is not a plain name: ${PLAIN_NAME_TEXT}`;
      throw usageError('usage-invalid', { command: 'fleet', problem });
    }
    const name = String(entry.name);
    const { settings, secrets } = splitAccount(entry, name, where);
    const seal = (id: number) => sealSecrets(keys, fleet.id, id, secrets);
    return [{ tenant: String(tenant), name, settings, seal }];
  });
}

/** What distinguishes accounts. */
export function nameKey({ tenant, name }: Pick<NewAccount, 'tenant' | 'name'>): string {
  return `${tenant}\0${name}`;
}

export async function knownNames(registry: Registry): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const account of everyAccount(registry, {})) names.add(nameKey(account));
  return names;
}

async function* everyAccount(
  registry: Registry,
  filter: AccountLine,
): AsyncGenerator<ListedAccount> {
  let last: ListedAccount | undefined;
  for (;;) {
    const page = await listAccounts(registry, filter, PAGE, last);
    yield* page;
    last = page.at(-1);
    if (page.length < PAGE) return;
  }
}

const ACCOUNT_HEADINGS = ['account', 'tenant', 'state', 'shard', 'node', 'shipped', 'last error'];

export async function listFleetAccounts(
  context: CommandContext,
  { tenant }: AccountLine,
): Promise<ExitCode> {
  const { output, notices } = context;
  return withFleet(context, async ({ registry }) => {
    let last: ListedAccount | undefined;
    for (;;) {
      const page = await listAccounts(registry, { tenant }, PAGE, last);
      if (output.json) for (const account of page) await output.line(account, () => '');
      else if (page.length > 0) {
        await output.text(tableText(ACCOUNT_HEADINGS, page.map(accountRow), 6, output));
      }
      if (page.length === 0 && last === undefined) notices.say('There are no accounts.');
      last = page.at(-1);
      if (page.length < PAGE) return EXIT.done;
    }
  });
}

function accountRow(account: ListedAccount): string[] {
  const { name, tenant, state, shard, node, shippedMs, lastError } = account;
  const shipped = shippedMs === null ? '-' : `${span(Math.max(0, shippedMs))} ago`;
  return [name, tenant, state, String(shard), node ?? '-', shipped, lastError ?? ''];
}

const CHANGES: Readonly<
  Record<'pause' | 'resume' | 'remove', { from: readonly AccountState[]; to: AccountState }>
> = {
  pause: { from: ['active'], to: 'paused' },
  resume: { from: ['paused', 'removed'], to: 'active' },
  remove: { from: ['active', 'paused'], to: 'removed' },
};

const IS: Readonly<Record<AccountState, string>> = {
  active: 'active: the node that holds its shard mirrors it',
  paused: 'paused: nobody mirrors it',
  removed: 'removed: nobody mirrors it. Its mail stays in its shard',
};

/** @throws fleet-account-unknown, fleet-account-ambiguous, fleet-account-removed */
export async function changeFleetAccount(
  context: CommandContext,
  act: keyof typeof CHANGES,
  name: string,
  { tenant }: AccountLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    const account = await accountNamed(registry, { account: name, tenant }, true);
    const { from, to } = CHANGES[act];
    if (act === 'pause' && account.state === 'removed') {
      throw fleetError('fleet-account-removed', { account: name, tenant: account.tenant });
    }
    const { outcome } = await changeAccount(registry, account.account, from, to, 'operator');
    const isChanged = outcome === 'committed';
    const facts = { account: name, tenant: account.tenant, state: to, changed: isChanged };
    await context.output.object(
      facts,
      () => `${name} (tenant ${account.tenant}) is ${isChanged ? '' : 'already '}${IS[to]}.`,
    );
    return EXIT.done;
  });
}

const LOOK_MS = 1_000;

/** @throws fleet-node-unknown */
export async function drain(
  context: CommandContext,
  { node, wait = false, undo = false }: DrainLine,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  return withFleet(context, async ({ registry }) => {
    if (node !== undefined) await requireNode(registry, node);
    const sessions = await setDraining(registry, node, !undo);
    const heldBy = async () =>
      (await fleetStatus(registry)).nodes.filter(
        ({ session, isDead }) => !isDead && sessions.includes(session),
      );
    const before = await heldBy();
    for (const { node: of, session, shards, accounts } of before) {
      const text = undo
        ? `${of} claims shards again.`
        : `${of} claims nothing more and releases ${counted(shards, 'shard')} with ${counted(accounts, 'account')}.`;
      await output.line({ node: of, session, shards, accounts, draining: !undo }, () => text);
    }
    if (sessions.length === 0) {
      notices.say(`No worker is running${node === undefined ? '' : ` on ${node}`}.`);
    }
    for (let held = before; wait && !undo; held = await heldBy()) {
      const left = held.reduce((sum, { shards }) => sum + shards, 0);
      if (left === 0) break;
      await delay(LOOK_MS, undefined, { signal });
    }
    if (wait && !undo) notices.say('They hold nothing.');
    return EXIT.done;
  });
}

async function requireNode(registry: Registry, node: string) {
  const nodes = await knownNodes(registry);
  const known = nodes.find((one) => one.node === node);
  if (known !== undefined) return known;
  const names = nodes.map((one) => one.node);
  throw fleetError('fleet-node-unknown', { node, suggestion: nearest(node, names) });
}

export async function rebalanceFleet(
  context: CommandContext,
  { dryRun = false }: RebalanceLine,
): Promise<ExitCode> {
  const { output, notices } = context;
  return withFleet(context, async ({ registry }) => {
    const moves = rebalance(await changesSince(registry, -1));
    for (const { shard, node } of moves) {
      if (!dryRun) await moveShard(registry, shard, node);
      const text = `Shard ${shard} ${dryRun ? 'would move' : 'moves'} to ${node}.`;
      await output.line({ shard, node, dryRun }, () => text);
    }
    if (moves.length === 0) notices.say('The fleet is balanced: nothing moves.');
    return EXIT.done;
  });
}

export interface RecoverLine {
  readonly all?: boolean;
  readonly fromBucket?: boolean;
}

export async function recoverShards(
  context: CommandContext,
  { all = false, fromBucket = false }: RecoverLine,
): Promise<ExitCode> {
  const { output, notices, signal } = context;
  const config = fleetConfigOf(context);
  const keys = readFleetKeys(config.fleet.keyFile);
  const store = new S3Store(await storeTarget(context, config));
  try {
    if (fromBucket) {
      const imported = await withRegistry(context, config, (registry) =>
        importRegistry(registry, keys, store, signal),
      );
      const text = `The registry has ${counted(imported.accounts, 'account')} again, of the last export in ${imported.bucket}.`;
      await output.line({ fleet: imported.id, accounts: imported.accounts }, () => text);
    }
    return await withFleet(context, async ({ registry, fleet }) => {
      // A registry that was reset to a snapshot has sessions that lived then.
      if (all) await markDead(registry);
      const { recovered, failures } = await recoverFleet({
        ...{ registry, fleet, keys, store, signal, all },
        ...{ clock: systemClock, settleMs: RECOVER_SETTLE_MS },
      });
      for (const one of recovered) {
        const text =
          one.commit === null
            ? `Shard ${one.shard}: the bucket has nothing of it.`
            : `Shard ${one.shard}: recovered at commit ${one.commit}.`;
        await output.line(one, () => text);
      }
      const [failure] = failures;
      if (failure !== undefined) throw failure.error;
      const done = new Set(recovered.map(({ shard }) => shard));
      const { shards } = await fleetStatus(registry);
      const kept = shards.filter(({ shard, node }) => node !== null && !done.has(shard)).length;
      if (all && kept > 0) {
        notices.say(`${counted(kept, 'shard')} stayed as before: stop the workers first.`);
      } else if (recovered.length === 0) notices.say('No shard has to be recovered.');
      return EXIT.done;
    });
  } finally {
    await store.close();
  }
}

/** @throws fleet-node-unknown, fleet-node-alive, fleet-disk-not-destroyed */
export async function removeFleetNode(
  context: CommandContext,
  node: string,
  { diskDestroyed = false }: NodeRemoveLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    const { folders: copies, purges } = await requireNode(registry, node);
    if (!diskDestroyed) throw fleetError('fleet-disk-not-destroyed', { node, copies, purges });
    const outcome = await removeNode(registry, node);
    if (outcome.outcome === 'refused') throw fleetError('fleet-node-alive', { node });
    const { folders } = outcome;
    await context.output.object({ node, folders, unfinishedForgets: purges }, () =>
      joinReport([
        `Node ${node} was removed. Its disk may have had ${counted(folders, 'shard')}.`,
        purges > 0 &&
          `${counted(purges, 'forget')} no longer ${purges === 1 ? 'waits' : 'wait'} for it.`,
      ]).join('\n'),
    );
    return EXIT.done;
  });
}

export async function rotateKey(
  context: CommandContext,
  { new: name }: RotateLine,
): Promise<ExitCode> {
  const { output, signal, notices } = context;
  return withFleet(context, async ({ config, registry, fleet }) => {
    const { keyFile } = config.fleet;
    const isNew = name !== undefined && addKey(keyFile, name);
    // As the file has it: what is not in it could never be decrypted.
    const keys = readFleetKeys(keyFile);
    const key = keys.current;
    if (isNew) {
      notices.say(
        `${terminalLine(keyFile)} has the new key ${key}. Copy the file to every node now: without it, they cannot read what this key encrypts.`,
      );
    }
    let sealed = 0;
    for (;;) {
      const page = await secretsOfOtherKeys(registry, key, PAGE);
      if (page.length === 0) break;
      for (const secret of page) {
        signal.throwIfAborted();
        const { account, nonce } = secret;
        const [again] = sealSecrets(
          keys,
          fleet.id,
          account,
          openSecrets(keys, fleet.id, account, [secret]),
        );
        if (again === undefined) continue;
        const { outcome } = await putSecret(registry, account, again, nonce);
        if (outcome === 'committed') sealed += 1;
      }
    }
    await output.object({ keyFile, key, keyCreated: isNew, sealed }, () =>
      joinReport([
        `${counted(sealed, 'secret was', 'secrets were')} encrypted again by the key ${key}.`,
        'Keep the lines of older keys: the copies in the bucket need them.',
      ]).join('\n'),
    );
    return EXIT.done;
  });
}
