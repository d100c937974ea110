import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { s3Store } from '../../../src/copies/s3-store.ts';
import { collectRound } from '../../../src/fleet/collector.ts';
import { waitingForgets } from '../../../src/registry/forget-reading.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { targetAt } from '../../objects/servers/s3-server.ts';
import { signal } from '../../objects/store-contract.ts';
import { everything } from '../../retention/everything.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
import { AT_ONCE } from '../servers/secret-nodes.ts';
import { buildHurriedProgram } from '../../shards/worker-histories/hurried-program.ts';
import type { Place } from './place.ts';
import { accountsOf, addAccounts, freeAddress, nodeOf, RunningWorker } from './running-worker.ts';

const skipped = withoutServers();
const ACCOUNT = ['--account', 'account-0'];

let servers: Servers;
let sandbox: Sandbox;
let one: Place;
let two: Place;
let names: readonly string[];
const running: RunningWorker[] = [];

beforeAll(async () => {
  if (skipped) return;
  servers = await startServers();
  sandbox = await startSandbox({ seed: 1 });
  one = await nodeOf(servers, 'one', { fleet: { address: await freeAddress() } });
  two = await nodeOf(servers, 'two', { first: one, fleet: { address: await freeAddress() } });
  names = [...(await addAccounts(one, sandbox)).keys()];
}, 120_000);
afterEach(async () => {
  for (const worker of running.splice(0)) await worker.end('SIGKILL');
});
afterAll(async () => {
  for (const place of [one, two]) place?.remove();
  await sandbox?.close();
  await servers?.stop();
});

async function worker(place: Place, file?: string): Promise<RunningWorker> {
  const started = new RunningWorker(place, file);
  running.push(started);
  await started.said('run finished', names.length);
  return started;
}

/** Runs the program at a node. */
const at = (place: Place, ...args: readonly string[]) =>
  mailkeep(args, { cwd: place.folder, env: place.env });

const errorCode = ({ stderr }: { readonly stderr: string }): unknown =>
  jsonLines(stderr).map((line) => (line as { error: { code: string } }).error.code)[0];

/** What collectors do within a quarter of an hour. */
async function collectAll(): Promise<void> {
  const objects = s3Store(targetAt(servers.gateway, 'fleet', { prefix: one.prefix }));
  for (let round = 0; round < 3; round += 1) {
    await collectRound(one.registry, objects, signal, AT_ONCE);
  }
  await objects.close();
}

interface Listed {
  readonly id: string;
  readonly subject: string;
}

describe.skipIf(skipped)('forgetting at any node', () => {
  test('is asked for at one, carried out by another, and ends once nothing has it', async () => {
    const first = await worker(one);
    const { archive = 0 } =
      (await accountsOf(two)).find(({ account }) => account === 'account-0') ?? {};
    const data = path.join(one.folder, 'cache', String(archive));
    const list = async () =>
      jsonLines((await at(two, 'list', ...ACCOUNT, '--json')).stdout) as Listed[];
    const before = await list();
    // One whose subject no other message has.
    const chosen = before.find(
      ({ id, subject }) =>
        before.every((other) => other.id === id || other.subject !== subject) &&
        /^[\w ]{12,}$/.test(subject),
    );
    const { id = '', subject = '' } = chosen ?? {};
    // The worker may still be opening it, and renames files then.
    await expect.poll(() => everything(data)).toContain(subject.toLowerCase());

    // What would be forgotten is what the same command says at the holder; nothing is asked for by that.
    const dry = await at(two, 'forget', ...ACCOUNT, id.slice(0, 12), '--dry-run', '--json');
    const there = await at(one, 'forget', '--data', data, id, '--dry-run', '--json');
    expect([dry.code, dry.stderr]).toEqual([0, '']);
    expect(jsonLines(dry.stdout)).toEqual(jsonLines(there.stdout));
    expect(jsonLines(dry.stdout)).toMatchObject([{ wouldForget: [{ message: id, subject }] }]);
    const shown = await at(two, 'forget', ...ACCOUNT, id, '--dry-run');
    expect(shown.stdout).toMatch(new RegExp(`^Forget ${id.slice(0, 12)} .* ${subject}\n$`));
    const unconfirmed = await at(two, 'forget', ...ACCOUNT, id, '--json');
    expect([unconfirmed.code, errorCode(unconfirmed)]).toEqual([2, 'operation-needs-yes']);
    const unknown = await at(two, 'forget', ...ACCOUNT, 'ffffffffffff', '--yes', '--json');
    expect([unknown.code, errorCode(unknown)]).toEqual([2, 'usage-unknown-message']);
    expect(await waitingForgets(one.registry, archive)).toEqual([]);
    expect((await at(two, 'forget', ...ACCOUNT, '--list')).stderr).toContain('Nothing was asked');

    const forgetting = at(two, 'forget', ...ACCOUNT, id, '--yes', '--json');
    while ((await waitingForgets(one.registry, archive)).length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    const [waiting] = jsonLines((await at(two, 'forget', ...ACCOUNT, '--list', '--json')).stdout);
    expect(waiting).toMatchObject({ node: 'two', messages: 1, state: 'waiting', waitsFor: null });
    expect((await at(two, 'fleet', 'status')).stdout).toMatch(
      /Forgets that have not ended: 1\n {2}account-0, .*: asked for .* ago; it waits for its holder/,
    );

    // Whoever opens it next carries it out. Then it waits for the object that had the message.
    await first.end('SIGTERM');
    const second = await worker(one);
    const [decided] = jsonLines((await at(two, 'forget', ...ACCOUNT, '--list', '--json')).stdout);
    expect(decided).toMatchObject({ state: 'decided', waitsFor: { tail: 0, nodes: [] } });
    expect(everything(data)).not.toContain(subject.toLowerCase());
    await collectAll();
    await second.end('SIGTERM');
    await worker(one);
    const gone = await forgetting;
    expect([gone.code, gone.stderr]).toEqual([0, '']);
    expect(jsonLines(gone.stdout)).toMatchObject([
      { account: 'account-0', forgotten: [id], state: 'ended' },
    ]);
    const listed = await at(two, 'forget', ...ACCOUNT, '--list', '--json');
    expect(jsonLines(listed.stdout)).toMatchObject([{ state: 'ended', waitsFor: null }]);
    const show = await at(two, 'show', ...ACCOUNT, id, '--json');
    expect(errorCode(show)).toBe('message-purged');
    // The mail service still has it: it was asked since, and did not give it back.
    expect((await list()).map((one) => one.id)).toEqual(
      before.map((one) => one.id).filter((one) => one !== id),
    );

    // Once more, it is known, and nothing is left to do.
    const again = await at(two, 'forget', ...ACCOUNT, id, '--yes', '--no-wait', '--json');
    expect(jsonLines(again.stdout)).toMatchObject([{ forgotten: [id], state: 'recorded' }]);
  }, 240_000);

  test('is carried out by a holder that keeps running, without anybody else', async () => {
    // A minute takes it 400 ms, and a quarter of an hour 300 ms.
    const hurried = await worker(one, await buildHurriedProgram());
    const listed = await at(two, 'list', '--account', 'account-1', '--json');
    const [{ id } = { id: '' }] = jsonLines(listed.stdout) as Listed[];
    const gone = await at(two, 'forget', '--account', 'account-1', id, '--yes');
    expect([gone.code, gone.stderr]).toEqual([
      0,
      expect.stringMatching(/^Request [0-9a-f-]{36} is recorded\..*\nIt waits for /),
    ]);
    expect(gone.stdout).toMatch(
      new RegExp(
        `^Forgotten: 1 message \\(${id.slice(0, 12)}\\)\\. No node, .*\n.*Backups of`,
        's',
      ),
    );
    const opened = await hurried.saidOf('archive opened', { account: 'account-1' }, 2);
    expect(opened.length).toBeGreaterThanOrEqual(2);
    const shown = await at(two, 'show', '--account', 'account-1', id, '--json');
    expect(errorCode(shown)).toBe('message-purged');
  }, 240_000);

  test('needs an account of the fleet, and options that belong together', async () => {
    const wrong = [
      ['--list'],
      ['ffffffffffff', '--no-wait'],
      ['ffffffffffff', '--tenant', 'default'],
      [...ACCOUNT, '--list', 'ffffffffffff'],
      [...ACCOUNT, '--mailbox', 'anna@example.org'],
      [...ACCOUNT, '--quarantine', '--uid', '1'],
      [...ACCOUNT, '--list', '--data', '.'],
      [...ACCOUNT, 'ffffffffffff', '--data', '.'],
    ];
    for (const words of wrong) {
      const ended = await at(two, 'forget', ...words, '--json');
      expect([words, ended.code, errorCode(ended)]).toEqual([words, 2, 'usage-invalid']);
    }
    await one.json(['account', 'remove', 'account-1']);
    const removed = await at(two, 'forget', '--account', 'account-1', 'ffffffffffff', '--json');
    expect(errorCode(removed)).toBe('fleet-account-removed');
  }, 60_000);
});
