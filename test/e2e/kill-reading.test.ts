import { once } from 'node:events';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { dropOldGenerations, sealClosedSegments } from '../../src/archive/seal.ts';
import { randomFrom } from '../../src/sandbox/generated-mail.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, start, workplace } from '../cli/child.ts';
import { tree } from '../export/stored-archive.ts';

/** Kills of each run; by hand, hundreds: MAILKEEP_KILLS=300 MAILKEEP_SEED=5 npx vitest run test/e2e/kill-reading */
const KILLS = Number(process.env.MAILKEEP_KILLS ?? 12);
const SEED = Number(process.env.MAILKEEP_SEED ?? 1);
const SEALED = path.join('log', '0000000001.2.seg');

let top: string;
/** An archive that is whole, with a sealed and a hot segment; killed commands work on copies of it. */
let whole: string;
beforeAll(async () => {
  const sandbox = await startSandbox({ seed: 31, mail: { messages: 300 } });
  const place = workplace(sandbox);
  top = place.folder;
  whole = place.data;
  try {
    expect((await mailkeep(['sync', '--config', place.config, '--quiet'])).code).toBe(0);
    const writer = await openLogWriter({ dir: whole, now: Date.now });
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir: whole, before: writer.segment });
    await dropOldGenerations({ dir: whole, now: Date.now() + 1e9, keepMs: 0 });
    await writer.close();
  } finally {
    await sandbox.close();
  }
}, 120_000);
afterAll(() => rmSync(top, { recursive: true, force: true }));

interface Trial {
  readonly name: string;
  /** Makes what the command needs, and gives its arguments. */
  prepare(work: string): string[];
  /** What has to hold at any moment the process ends, and once it has ended by itself. */
  afterKill(work: string): Promise<void>;
  afterEnd(work: string): Promise<void>;
}

const archiveIn = (work: string): string => {
  const data = path.join(work, 'data');
  cpSync(whole, data, { recursive: true });
  return data;
};

async function sound(data: string): Promise<void> {
  const { code, stdout, stderr } = await mailkeep(['verify', '--json', '--data', data]);
  expect(`${code} ${stderr}`).toBe('0 ');
  expect(JSON.parse(stdout)).toMatchObject({ ok: true, catalog: 'equal' });
}

async function commits(dir: string): Promise<number> {
  let last = 0;
  for await (const event of scanLog({ dir })) {
    if (event.what === 'damage') throw new Error(JSON.stringify(event));
    if (event.what === 'batch') last = event.batch.commit.number;
  }
  return last;
}

async function soundExport(to: string): Promise<void> {
  const { code, stdout } = await mailkeep(['verify', '--export', to, '--json']);
  expect(JSON.parse(stdout)).toMatchObject({ sound: true, found: 0 });
  expect(code).toBe(0);
}

const TRIALS: readonly Trial[] = [
  ...(['zip', 'eml', 'maildir', 'mbox'] as const).map((format): Trial => {
    const to = (work: string) => path.join(work, format === 'zip' ? 'mail.zip' : 'out');
    return {
      name: `export ${format}`,
      prepare: (work) => ['export', '--format', format, '--to', to(work), '--data', whole],
      async afterKill(work) {
        if (format === 'zip' && existsSync(to(work))) await soundExport(to(work));
      },
      async afterEnd(work) {
        await soundExport(to(work));
        const left = [...tree(work).keys()].filter((name) => /\.tmp$|unfinished/.test(name));
        expect(left).toEqual([]);
      },
    };
  }),
  {
    name: 'copy',
    prepare: (work) => ['copy', '--to', path.join(work, 'copy'), '--data', whole],
    async afterKill(work) {
      // Before that is written, it is no archive yet.
      if (existsSync(path.join(work, 'copy', 'FORMAT'))) await commits(path.join(work, 'copy'));
    },
    async afterEnd(work) {
      expect(await commits(path.join(work, 'copy'))).toBe(await commits(whole));
    },
  },
  {
    name: 'rebuild',
    prepare: (work) => ['rebuild', '--data', archiveIn(work)],
    async afterKill(work) {
      // The old catalog or the new one, whole: this archive's was closed in an orderly way.
      await sound(path.join(work, 'data'));
    },
    afterEnd: (work) => sound(path.join(work, 'data')),
  },
  {
    name: 'verify --repair',
    prepare(work) {
      const data = archiveIn(work);
      const file = path.join(data, SEALED);
      const bytes = readFileSync(file);
      bytes.fill(0x55, bytes.length >> 1, (bytes.length >> 1) + 40);
      writeFileSync(file, bytes);
      return ['verify', '--repair', '--from', whole, '--data', data];
    },
    async afterKill(work) {
      const data = path.join(work, 'data', 'log');
      // The damaged bytes are never lost: under their name, or put aside.
      expect([...tree(data).keys()].some((name) => name.startsWith(path.basename(SEALED)))).toBe(
        true,
      );
    },
    afterEnd: (work) => sound(path.join(work, 'data')),
  },
];

test(
  `killed at ${KILLS} moments (seed ${SEED}), nothing half-made has a final name, and the same command finishes`,
  async () => {
    const random = randomFrom(SEED, 'kills');
    const took = new Map<string, number>();
    let killed = 0;
    for (let turn = 0; turn < KILLS; turn += 1) {
      const trial = TRIALS[turn % TRIALS.length];
      if (trial === undefined) break;
      const work = mkdtempSync(path.join(tmpdir(), 'mailkeep-killed-'));
      const args = trial.prepare(work);
      const begun = performance.now();
      const known = took.get(trial.name);
      const moment = known === undefined ? undefined : known * (0.2 + 0.8 * random.unit());
      const { child, ended } = start(args);
      const timer = setTimeout(() => child.kill('SIGKILL'), moment ?? 150 + 400 * random.unit());
      await ended;
      clearTimeout(timer);
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      if (child.signalCode === 'SIGKILL') killed += 1;
      try {
        await trial.afterKill(work);
        const from = performance.now();
        const again = await mailkeep(args);
        took.set(trial.name, performance.now() - from);
        expect(`${again.code} ${again.stderr}`).toMatch(/^0 /);
        await trial.afterEnd(work);
      } catch (error) {
        throw new Error(
          `${trial.name}, seed ${SEED}, turn ${turn}, after ${Math.round(performance.now() - begun)} ms, in ${work}`,
          { cause: error },
        );
      }
      rmSync(work, { recursive: true, force: true });
    }
    expect(killed).toBeGreaterThan(0);
  },
  60_000 + KILLS * 20_000,
);
