import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { readState } from '../../src/core/state.ts';
import { Metrics } from '../../src/daemon/metrics.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';

let sandbox: Sandbox;
let original: Workplace;
beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, mail: { messages: 40 } });
  original = await synced();
});
afterAll(() => sandbox.close());

const shown = z.object({
  verification: z
    .object({
      mode: z.string(),
      checked: z.number(),
      of: z.number(),
      fullAt: z.string().nullable(),
      ok: z.boolean(),
      damagedSince: z.string().nullable(),
      found: z.number(),
      findings: z.array(
        z.object({ what: z.string(), id: z.string().nullable(), text: z.string() }),
      ),
    })
    .nullable(),
});
const doctored = z.object({ checks: z.array(z.object({ name: z.string(), state: z.string() })) });

/** An archive whose mail is in a sealed segment: damage in the one that is written to stops every pass by itself. */
async function synced(): Promise<Workplace> {
  const place = workplace(sandbox);
  const sync = () => mailkeep(['sync', '--config', place.config]);
  expect((await sync()).code).toBe(0);
  const writer = await openLogWriter({ dir: place.data, now: Date.now });
  await writer.rollIfLarger(0);
  await writer.close();
  expect((await sync()).code).toBe(0);
  return place;
}

/** A copy of an archive that is in order. */
function sound(): Workplace {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-damage-'));
  cpSync(original.folder, folder, { recursive: true });
  return { folder, config: path.join(folder, 'config.json'), data: path.join(folder, 'data') };
}

/** What each of those says that show the archive's health: all of them have to agree. */
async function everywhere({ config, data }: Workplace) {
  const [json, text, doctor] = await Promise.all([
    mailkeep(['status', '--json', '--data', data]),
    mailkeep(['status', '--data', data]),
    mailkeep(['doctor', '--json', '--config', config]),
  ]);
  const sync = await mailkeep(['sync', '--config', config]);
  const catalog = openCatalogReader(data);
  const state = readState(data);
  const metrics = new Metrics({
    version: '0',
    now: Date.now,
    status: () => archiveStatus({ catalog, dataDir: data }, state, 0),
    copies: () => [],
  });
  const scraped = await metrics.text(false);
  state?.close();
  catalog.close();
  const { checks } = doctored.parse(JSON.parse(doctor.stdout));
  return {
    codes: [json.code, text.code, doctor.code, sync.code],
    check: checks.find(({ name }) => name === 'verification')?.state,
    ok: /^mailkeep_last_verification_ok (.*)$/m.exec(scraped)?.[1],
    damage: Number(/^mailkeep_damage_findings (.*)$/m.exec(scraped)?.[1]),
    verification: shown.parse(JSON.parse(json.stdout)).verification,
    text: text.stdout,
    sync,
  };
}

const UNKNOWN = { codes: [0, 0, 0, 0], check: 'skipped', ok: undefined, verification: null };
const SOUND = { codes: [0, 0, 0, 0], check: 'ok', ok: '1', damage: 0 };
const DAMAGED = { codes: [3, 3, 3, 3], check: 'failed', ok: '0' };

/** The largest segment, and a flip of one bit in its middle. */
function flipOf({ data }: Workplace) {
  const folder = path.join(data, 'log');
  const files = readdirSync(folder).map((name) => path.join(folder, name));
  const [file = ''] = files.sort((a, b) => statSync(b).size - statSync(a).size);
  return () => {
    const bytes = readFileSync(file);
    const at = Math.floor(bytes.length / 3);
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(file, bytes);
  };
}

test('one flipped bit that verify found is reported everywhere until a repair clears it', async () => {
  const place = sound();
  const { data } = place;
  expect(await everywhere(place)).toMatchObject(UNKNOWN);
  expect((await mailkeep(['verify', '--data', data])).code).toBe(0);
  expect(await everywhere(place)).toMatchObject({ ...SOUND, verification: { mode: 'full' } });
  flipOf(place)();
  const verified = await mailkeep(['verify', '--json', '--data', data]);
  expect(verified.code).toBe(3);
  const { found } = z.object({ found: z.number() }).parse(JSON.parse(verified.stdout));
  const damaged = await everywhere(place);
  expect(damaged).toMatchObject({ ...DAMAGED, damage: found, verification: { ok: false, found } });
  expect(damaged.text).toContain('DAMAGED');
  // The pass is finished, and the damage named.
  expect(damaged.sync.stdout).toContain('Total: ');
  expect(damaged.sync.stderr).toContain(damaged.verification?.findings[0]?.text);
  // What is remembered has no name in it that may have to be forgotten.
  expect(JSON.stringify(damaged.verification)).not.toContain('@');

  // Nothing that reads other bytes, or fewer, clears it.
  expect((await mailkeep(['verify', '--quick', '--data', data])).code).not.toBe(2);
  expect((await everywhere(place)).codes).toEqual(DAMAGED.codes);
  const repaired = await mailkeep(['verify', '--repair', '--data', data]);
  expect(repaired.code).toBe(0);
  expect(await everywhere(place)).toMatchObject({ ...SOUND, verification: { mode: 'repair' } });
});

test('a sample or a quick run that did not read the damaged bytes clears nothing; a complete one does', async () => {
  const place = sound();
  const { data } = place;
  const flip = flipOf(place);
  flip();
  expect((await mailkeep(['verify', '--data', data])).code).toBe(3);
  flip();
  // The bytes are right again, and nobody has looked yet.
  expect((await everywhere(place)).codes).toEqual(DAMAGED.codes);
  for (const less of [['--sample', '1'], ['--quick'], ['--drill', '2']]) {
    expect((await mailkeep(['verify', ...less, '--data', data])).code, less[0]).toBe(0);
    expect(await everywhere(place)).toMatchObject(DAMAGED);
  }
  expect((await mailkeep(['verify', '--data', data])).code).toBe(0);
  expect(await everywhere(place)).toMatchObject(SOUND);
});

test('a message that a sample found damaged is clear once a sample has read it again', async () => {
  const place = sound();
  const { data } = place;
  const flip = flipOf(place);
  flip();
  expect((await mailkeep(['verify', '--sample', '100%', '--data', data])).code).toBe(3);
  const damaged = await everywhere(place);
  expect(damaged).toMatchObject({ ...DAMAGED, verification: { mode: 'sample', fullAt: null } });
  flip();
  const one = await mailkeep(['verify', '--sample', '1', '--json', '--data', data]);
  expect(one.code).toBe(0);
  expect((await everywhere(place)).codes).toEqual(DAMAGED.codes);
  expect((await mailkeep(['verify', '--sample', '100%', '--data', data])).code).toBe(0);
  expect(await everywhere(place)).toMatchObject({ ...SOUND, verification: { mode: 'sample' } });
});

test('what a checkpoint found is cleared by none that is older, and by no repair', async () => {
  const { folder, data } = sound();
  const at = (name: string) => path.join(folder, name);
  const run = (...args: string[]) => mailkeep([...args, '--data', at('back')]);
  const status = async () => (await run('status')).code;
  const checkpoint = (name: string) => mailkeep(['checkpoint', '--to', at(name), '--data', data]);
  expect((await checkpoint('old.json')).code).toBe(0);
  cpSync(data, at('back'), { recursive: true });
  writeFileSync(at('one.eml'), 'Subject: later\r\n\r\nmail\r\n');
  expect((await mailkeep(['import', at('one.eml'), '--data', data])).code).toBe(0);
  expect((await checkpoint('new.json')).code).toBe(0);

  expect((await run('verify', '--checkpoint', at('new.json'))).code).toBe(3);
  expect(await status()).toBe(3);
  for (const less of [['--checkpoint', at('old.json')], ['--repair'], []]) {
    expect([less, (await run('verify', ...less)).code]).toEqual([less, 0]);
    expect([less, await status()]).toEqual([less, 3]);
  }
  rmSync(path.join(at('back'), 'log'), { recursive: true });
  cpSync(path.join(data, 'log'), path.join(at('back'), 'log'), { recursive: true });
  expect((await run('verify', '--checkpoint', at('new.json'))).code).toBe(0);
  expect(await status()).toBe(0);
});

test('a FORMAT file that cannot be read hides no damage, and is no complete verification', async () => {
  const place = sound();
  const { data } = place;
  const status = async () =>
    shown.parse(JSON.parse((await mailkeep(['status', '--json', '--data', data])).stdout))
      .verification;
  flipOf(place)();
  expect((await mailkeep(['verify', '--data', data])).code).toBe(3);
  const before = await status();
  const file = path.join(data, 'FORMAT');
  const format = readFileSync(file);
  writeFileSync(file, 'something else\n');
  expect((await mailkeep(['verify', '--data', data])).code).toBe(3);
  writeFileSync(file, format);
  expect(await status()).toMatchObject({
    ...{ fullAt: before?.fullAt, checked: before?.checked, of: before?.of },
    found: (before?.found ?? 0) + 1,
    findings: expect.arrayContaining([
      before?.findings[0],
      expect.objectContaining({ what: 'format' }),
    ]),
  });
  expect((await mailkeep(['verify', '--repair', '--data', data])).code).toBe(0);
  expect(await status()).toMatchObject({ ok: true, found: 0 });
});

test('a drill after a complete verification is shown below it', async () => {
  const { data } = sound();
  expect((await mailkeep(['verify', '--data', data])).code).toBe(0);
  expect((await mailkeep(['verify', '--drill', '7', '--data', data])).code).toBe(0);
  const { stdout } = await mailkeep(['status', '--data', data]);
  expect(stdout).toMatch(
    /verified .* ago \(every byte\), no damage\nlast drill .* \(7 of \d+ messages\)/,
  );
});

/** A state whose file can be opened, and whose rows cannot be read. */
function damageState({ data }: Workplace): void {
  const file = path.join(data, 'state.sqlite');
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, 4_096));
}

test('a damaged state is a failed check and a finding of verify, and the next sync begins a new one', async () => {
  const place = sound();
  const { config, data } = place;
  const run = (...args: string[]) => mailkeep([...args, '--data', data]);
  flipOf(place)();
  expect((await run('verify')).code).toBe(3);
  damageState(place);
  const doctor = await mailkeep(['doctor', '--json', '--config', config]);
  const { checks } = doctored.parse(JSON.parse(doctor.stdout));
  expect(doctor.code).toBe(3);
  expect(checks).toContainEqual(expect.objectContaining({ name: 'lock', state: 'ok' }));
  expect(checks).toContainEqual(expect.objectContaining({ name: 'verification', state: 'failed' }));
  const status = await run('status');
  expect(status.code).toBe(3);
  expect(status.stderr).toMatch(/^mailkeep: The state .*state\.sqlite is damaged/);
  expect(status.stderr).not.toContain('rebuild');
  const verified = await run('verify');
  expect(verified.code).toBe(3);
  expect(verified.stdout).toContain('DAMAGED the state: ');
  expect(verified.stderr).not.toContain('moved to');
  expect(verified.stderr).toContain('could not be remembered');
  const sync = await mailkeep(['sync', '--config', config]);
  expect(sync.stderr).toContain('"mailkeep verify" finds the damage again');
  expect((await run('verify')).code).toBe(3);
  expect((await everywhere(place)).codes).toEqual(DAMAGED.codes);
});

test('a sync learns again what a damaged state held, and ends with 0', async () => {
  const place = sound();
  const run = (...args: string[]) => mailkeep([...args, '--config', place.config]);
  const known = z.object({
    mailboxes: z.array(z.looseObject({ provenAt: z.string().nullable(), complete: z.boolean() })),
  });
  const proofs = async () => {
    const { code, stdout } = await run('status', '--json');
    const { mailboxes } = known.parse(JSON.parse(stdout));
    return { code, mailboxes: mailboxes.map((it) => [it.provenAt !== null, it.complete]) };
  };
  const before = await proofs();
  expect(before.code).toBe(0);
  damageState(place);
  expect((await run('status')).code).toBe(3);
  const text = await run('sync');
  expect([text.code, text.stderr]).toEqual([
    0,
    expect.stringMatching(
      /the state could not be read and was moved to .*state\.sqlite\.damaged-1\. A new one was created; the archive is not affected\. .*saved searches: .*\n/,
    ),
  ]);
  expect(await proofs()).toEqual(before);
  damageState(place);
  const json = await run('sync', '--json');
  expect(json.code).toBe(0);
  expect(JSON.parse(json.stderr)).toEqual({
    warning: expect.objectContaining({ code: 'state-put-aside' }),
  });
  expect(JSON.parse(json.stdout)).toMatchObject({ damage: null, failures: [] });
  expect(await proofs()).toEqual(before);
  expect(await run('sync')).toMatchObject({ code: 0, stderr: '' });
});

test('a copy without a state remembers what verify found in it', async () => {
  const place = sound();
  const to = path.join(place.folder, 'copy');
  expect((await mailkeep(['copy', '--to', to, '--rebuild', '--data', place.data])).code).toBe(0);
  const copy = { ...place, data: to };
  flipOf(copy)();
  expect((await mailkeep(['verify', '--data', to])).code).toBe(3);
  expect((await mailkeep(['status', '--data', to])).code).toBe(3);
});

test('a catalog that differs is known until it is rebuilt', async () => {
  const place = sound();
  const { data } = place;
  execFileSync(process.execPath, [
    '-e',
    `const D = require('better-sqlite3'); const d = new D(process.argv[1]);
     d.exec("UPDATE messages SET subject = 'other' WHERE docid = (SELECT min(docid) FROM messages)"); d.close();`,
    path.join(data, 'catalog.sqlite'),
  ]);
  const verified = await mailkeep(['verify', '--data', data]);
  expect([verified.code, verified.stderr]).toEqual([3, '']);
  expect((await mailkeep(['status', '--data', data])).code).toBe(3);
  expect((await mailkeep(['rebuild', '--data', data])).code).toBe(0);
  expect((await mailkeep(['status', '--data', data])).code).toBe(0);
});
