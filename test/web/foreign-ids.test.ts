import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { mailboxKey, openState } from '../../src/core/state.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
import type { StoredArchive } from '../export/stored-archive.ts';
import { archiveWith, OTHERS, OURS } from './equal-archives.ts';
import { type Call, chosenCalls, HOST, plainAnswer, surface } from './foreign-calls.ts';
import { Served, withoutHaste } from './served.ts';

const SEED = Number(process.env.MAILKEEP_SEED ?? Date.now() % 1_000_000);
/** Calls of each operation with each kind of id. */
const OF_EACH = Number(process.env.MAILKEEP_FOREIGN_IDS ?? 2);

interface Side {
  readonly archive: StoredArchive;
  readonly served: Served;
  readonly cookie: string;
  readonly secret: string;
  readonly close: () => Promise<void>;
}

const sides: Side[] = [];

beforeAll(async () => {
  // Nothing of others, and most.
  for (const other of [OTHERS[0] ?? null, OTHERS[2] ?? null]) {
    const archive = await archiveWith(other);
    const state = openState(archive.dir);
    const accounts = () => new Map([['anna-account', HOST]]);
    const served = await new Served().start(archive.dir, { accounts, state });
    const key = mailboxKey({ host: HOST, mailbox: `AC-${OURS}` });
    const token = { name: 'one', mailboxes: [key], expiresAt: null };
    const { secret } = new ApiTokens(state).create(token, served.now);
    const close = async () => {
      await served.close();
      state.close();
      archive.remove();
    };
    sides.push({ archive, served, cookie: await served.signIn([key]), secret, close });
  }
});
beforeEach(withoutHaste);
afterAll(async () => {
  for (const { close } of sides) await close();
});

async function answerOf({ archive, served, cookie, secret }: Side, call: Call): Promise<string> {
  const own = call.by === 'cookie' ? served.own(cookie) : { authorization: `Bearer ${secret}` };
  const { target, by: _, ...asked } = call;
  const answer = await served.ask(target, { ...asked, headers: { ...asked.headers, ...own } });
  return plainAnswer(answer, { [archive.dir]: 'DIR', [served.host]: 'HOST' });
}

test(`ids of other mailboxes change no answer, seed ${SEED}`, async () => {
  // Pages count as long as there is time: here there always is.
  const { now } = performance;
  performance.now = () => 0;
  onTestFinished(() => {
    performance.now = now;
  });
  expect(surface.routes.length).toBeGreaterThan(30);
  expect(surface.parameters.length).toBeGreaterThan(15);
  const calls = chosenCalls(SEED, OF_EACH);
  expect(calls.length).toBeGreaterThan(1_000);
  const statuses: Record<string, number> = {};
  for (const call of calls) {
    const [alone, together] = await Promise.all(sides.map((side) => answerOf(side, call)));
    expect(together, JSON.stringify(call)).toBe(alone);
    const status = alone?.slice(1, 4) ?? '';
    statuses[status] = (statuses[status] ?? 0) + 1;
  }
  console.info(`${calls.length} calls`, statuses);
  for (const { served } of sides) expect(served.errors).toEqual([]);
}, 300_000);
