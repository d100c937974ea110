import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { jsonLines } from '../../cli/child.ts';
import { Servers, withoutServers } from '../servers/nodes.ts';
import { buildHurriedProgram } from './hurried-program.ts';
import { playHistory } from './play.ts';

const skipped = withoutServers();
const FIRST = Number(process.env.MAILKEEP_SEED ?? '1');
/** More by hand: see docs/testing.md. */
const HISTORIES = Number(process.env.MAILKEEP_WORKER_HISTORIES ?? '4');
/** Mostly they wait for the next second. */
const AT_ONCE = Number(process.env.MAILKEEP_AT_ONCE ?? '2');
/** Has a line for each history that was played; those are not played again. */
const RESULTS = process.env.MAILKEEP_WORKER_RESULTS;

let servers: Servers;
let program: string;

beforeAll(async () => {
  if (skipped) return;
  servers = await Servers.start();
  program = await buildHurriedProgram();
}, 120_000);
afterAll(() => servers?.stop());

function playedBefore(): ReadonlySet<unknown> {
  if (RESULTS === undefined || !existsSync(RESULTS)) return new Set();
  const lines = jsonLines(readFileSync(RESULTS, 'utf8'));
  return new Set(lines.map((line) => Object(line).seed));
}

describe.skipIf(skipped)(
  'workers that are killed, stopped and ended, with faults at both servers',
  () => {
    test(`leave shards that are what the origin is (MAILKEEP_SEED=${FIRST})`, async () => {
      const before = playedBefore();
      const seeds = Array.from({ length: HISTORIES }, (_, i) => FIRST + i).filter(
        (seed) => !before.has(seed),
      );
      const bad: unknown[] = [];
      const inTurn = async () => {
        for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
          const played = await playHistory(servers, program, seed);
          const { did, problems, ...facts } = played;
          console.log(`${JSON.stringify(facts)} ${did.join(', ')}`);
          if (problems.length > 0) bad.push({ seed, problems });
          if (RESULTS !== undefined) appendFileSync(RESULTS, `${JSON.stringify(played)}\n`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
      expect(bad).toEqual([]);
    }, 86_400_000);
  },
);
