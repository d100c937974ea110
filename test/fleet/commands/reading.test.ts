import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { readFleetKeys } from '../../../src/fleet/key-file.ts';
import { FRAME, frame, framesWith, jsonFrame } from '../../../src/fleet/link/frames.ts';
import { listenForNodes } from '../../../src/fleet/link/listen.ts';
import { readFleet } from '../../../src/registry/overview.ts';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import { EXPORT_FORMATS } from '../../../src/transfer/export-manifest.ts';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { tree } from '../../export/stored-archive.ts';
import { newSession } from '../../registry/servers/fleet.ts';
import { type Servers, startServers, withoutServers } from '../servers/scene.ts';
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

function worker(place: Place): RunningWorker {
  const started = new RunningWorker(place);
  running.push(started);
  return started;
}

/** Runs the program at a node. */
const at = (place: Place, args: readonly string[]) =>
  mailkeep(args, { cwd: place.folder, env: place.env });

async function letRunOut(node: string): Promise<void> {
  await one.registry.statement(
    'let a lease run out',
    sql`UPDATE worker SET lease_until = clock_timestamp() - interval '1 s' WHERE node = ${node}`,
  );
}

/** What was exported into `out`, which is removed. */
function takenAway({ folder }: Place): Map<string, Buffer> {
  const out = path.join(folder, 'out');
  const files = tree(out);
  rmSync(out, { recursive: true });
  return files;
}

const errorCode = ({ stderr }: { readonly stderr: string }): unknown =>
  jsonLines(stderr).map((line) => (line as { error: { code: string } }).error.code)[0];

describe.skipIf(skipped)('reading at any node', () => {
  test('is answered by the holder, by whoever takes a free account, and not for a removed one', async () => {
    const first = worker(one);
    await first.said('run finished', names.length);

    // Node two runs no worker and has no copy.
    const archive = (await accountsOf(two)).find(({ account }) => account === 'account-0')?.archive;
    const data = ['--data', path.join(one.folder, 'cache', String(archive))];
    const listed = await at(two, ['list', ...ACCOUNT, '--json']);
    expect([listed.code, listed.stderr]).toEqual([0, '']);
    const [line] = jsonLines(listed.stdout) as { id: string; mailbox: string }[];
    const id = line?.id ?? '';
    const lines = [
      ['list', '--json'],
      ['search', 'the', '-subject:nothing', '--json'],
      ['show', id, '--raw'],
      ['show', id, '--json'],
      ['stats', '--by', 'year', '--format', 'csv'],
      ['show', 'ffffffffffff', '--json'],
    ];
    for (const words of lines) {
      const [name = '', ...rest] = words;
      const local = await at(one, [name, ...data, ...rest]);
      const remote = await at(two, [name, ...ACCOUNT, ...rest]);
      expect([words, remote.code, remote.stdout, remote.stderr]).toEqual([
        ...[words, local.code, local.stdout, local.stderr],
      ]);
    }
    const refused = [
      ['search', '--save', 'x', 'the'],
      ['attachments', id, '--save', '.'],
    ];
    for (const words of refused) {
      const ended = await at(two, [...words, ...ACCOUNT, '--json']);
      expect([ended.code, errorCode(ended)]).toEqual([2, 'fleet-reading-refused']);
    }
    expect(await at(two, ['list', ...ACCOUNT, ...data])).toMatchObject({ code: 2 });

    // The same exports as at the holder, which writes no file.
    const exported = ['export', '--to', 'out/mail', '--json'];
    for (const format of EXPORT_FORMATS) {
      const asked = [...exported, '--folder', 'INBOX.Lists*', '--sidecar', '--format', format];
      const here = await at(one, [...asked, ...data]);
      const expected = takenAway(one);
      const there = await at(two, [...asked, ...ACCOUNT]);
      expect([there.code, there.stderr, here.code]).toEqual([0, '', 0]);
      const moved = there.stdout.replaceAll(two.folder, one.folder);
      expect(jsonLines(moved)).toEqual(jsonLines(here.stdout));
      const again = await at(two, [...asked, ...ACCOUNT, '--incremental']);
      expect(jsonLines(again.stdout)).toMatchObject([{ exported: 0, interrupted: false }]);
      expect(takenAway(two)).toEqual(expected);
      expect(existsSync(path.join(one.folder, 'out'))).toBe(false);
    }
    const narrowed = [...exported, '--format', 'eml', ...ACCOUNT];
    writeFileSync(path.join(two.folder, 'ids'), `${id}\n${id.slice(0, 20)}\n`);
    const named = await at(two, [...narrowed, '--ids', 'ids', '--mailbox', line?.mailbox ?? '']);
    expect(jsonLines(named.stdout)).toMatchObject([{ exported: 1 }]);
    const wrong = {
      'search-bad-date': ['--query', 'before:never'],
      'usage-unknown-name': ['--folder', 'Nowhere'],
      'usage-unknown-message': ['--ids', 'none'],
      'usage-ids-unreadable': ['--ids', 'nothing'],
      'export-target-inside': ['--to', 'cache/mail'],
    };
    writeFileSync(path.join(two.folder, 'none'), 'ffffffffffff\n');
    for (const [code, words] of Object.entries(wrong)) {
      const rest = words.includes('--to')
        ? narrowed.filter((_, i) => i !== 1 && i !== 2)
        : narrowed;
      const refused = await at(two, [...rest, ...words]);
      expect([refused.code, errorCode(refused)]).toEqual([2, code]);
    }
    expect(errorCode(await at(two, ['list', '--account', 'nobody', '--json']))).toBe(
      'fleet-account-unknown',
    );

    // A paused account is taken by the worker that is asked, for as long as somebody reads.
    await one.json(['account', 'pause', 'account-0']);
    await first.end('SIGTERM');
    const nobody = await at(two, ['list', ...ACCOUNT, '--json']);
    expect([nobody.code, errorCode(nobody)]).toEqual([1, 'fleet-no-reader']);
    const second = worker(two);
    await second.said('archive opened', names.length - 1);
    const paused = await at(one, ['list', ...ACCOUNT, '--json']);
    expect([paused.code, paused.stderr, paused.stdout]).toEqual([0, '', listed.stdout]);
    const [held] = await accountsOf(one);
    expect([held?.account, held?.node]).toEqual(['account-0', 'two']);
    expect(
      second.lines.filter(({ msg, account }) => msg === 'run finished' && account === 'account-0'),
    ).toEqual([]);

    // The holder is killed: whoever asks waits for the next one.
    await one.json(['account', 'resume', 'account-0']);
    await second.end('SIGKILL');
    const waiting = at(one, ['list', ...ACCOUNT, '--json']);
    const third = worker(one);
    await third.said('session begun');
    await letRunOut('two');
    expect(await waiting).toMatchObject({ code: 0, stdout: listed.stdout });

    await one.json(['account', 'remove', 'account-0']);
    expect(errorCode(await at(two, ['list', ...ACCOUNT, '--json']))).toBe('fleet-account-removed');
    await one.json(['account', 'resume', 'account-0']);
  }, 240_000);

  test('never passes half an answer for a whole one', async () => {
    const { registry } = one;
    const fleet = (await readFleet(registry))?.id ?? '';
    const address = await freeAddress();
    const session = await newSession(registry, 'fake', undefined, address);
    await registry.statement(
      'hold',
      sql`UPDATE archive SET holder = ${session} WHERE name = 'account-0'`,
    );
    const small = Buffer.from('half of it');
    const large = Buffer.alloc(300_000, 'x');
    /** What is answered to each request in turn; null ends the connection. */
    const answers: (readonly (Buffer | null)[])[] = [];
    const [host = '', port] = address.split(':');
    const listener = await listenForNodes({
      listen: { host, port: Number(port) },
      secrets: { fleet, keys: () => readFleetKeys(one.keyFile) },
      answer: (request, response) => {
        request.resume();
        for (const piece of answers.shift() ?? [null]) {
          if (piece === null) setImmediate(() => response.socket?.end());
          else response.write(piece);
        }
      },
    });
    try {
      const end = [jsonFrame(FRAME.end, { code: 0 })];
      const begun = frame(FRAME.begun);
      const half = frame(FRAME.output, small);
      // A small one is asked for again.
      answers.push([begun, half, null], [half, half, ...end]);
      const again = await at(two, ['list', ...ACCOUNT]);
      expect([again.code, again.stdout]).toEqual([0, 'half of ithalf of it']);
      // Of a large one, a part was printed.
      answers.push([begun, ...framesWith(FRAME.output, large), null]);
      const cut = await at(two, ['list', ...ACCOUNT, '--json']);
      expect([cut.code, errorCode(cut), cut.stdout.length]).toEqual([
        ...[1, 'fleet-answer-cut', 300_000],
      ]);
      // Of a file, nothing stays, not even under another name.
      answers.push([begun, ...framesWith(FRAME.output, large), null]);
      const files = readdirSync(two.folder);
      const zip = ['export', '--format', 'zip', '--to', 'half.zip', '--json'];
      expect(errorCode(await at(two, [...zip, ...ACCOUNT]))).toBe('fleet-export-cut');
      expect(readdirSync(two.folder)).toEqual(files);
      // What is no frame.
      answers.push(...Array.from({ length: 4 }, () => [begun, half, Buffer.from('HTTP'), null]));
      expect(errorCode(await at(two, ['list', ...ACCOUNT, '--json']))).toBe('fleet-answer-cut');
    } finally {
      await listener.close();
    }
  }, 120_000);
});
