import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { mailboxKey, openState } from '../../src/core/state.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
import { serveRelayed } from '../../src/web/relayed.ts';
import type { StoredArchive } from '../export/stored-archive.ts';
import { archiveWith, OTHERS, OURS, THEIRS } from '../web/equal-archives.ts';
import { type Call, chosenCalls, HOST, plainAnswer, surface } from '../web/foreign-calls.ts';
import { Served, withoutHaste } from '../web/served.ts';
import { GatewayFleet, type GatewayNode, listMailbox } from './servers/gateways.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';

const SEED = Number(process.env.MAILKEEP_SEED ?? Date.now() % 1_000_000);
/** Calls of each operation with each kind of id. */
const OF_EACH = Number(process.env.MAILKEEP_FOREIGN_IDS ?? 1);

/*
 * Two accounts of two tenants in one shard, which one node holds. The other node answers every request of one of them as
 * the archive itself answers a browser or a token that is limited to that mailbox.
 */
describe.skipIf(withoutPostgres())(
  'every route through a node that does not hold the shard',
  () => {
    let postgres: Postgres;
    let fleet: GatewayFleet;
    let archive: StoredArchive;
    let local: Served;
    let far: GatewayNode;
    let near: GatewayNode;
    const ours = { host: HOST, mailbox: `AC-${OURS}`, address: OURS };
    const theirs = { host: HOST, mailbox: `AC-${THEIRS}`, address: THEIRS };
    let credentials: Record<'localCookie' | 'localSecret' | 'cookie' | 'secret', string>;

    beforeAll(async () => {
      postgres = await Postgres.start();
      fleet = await GatewayFleet.create(postgres);
      archive = await archiveWith(OTHERS[2] ?? null);
      listMailbox(archive.dir, 'acme-anna', ours);
      listMailbox(archive.dir, 'other-zebra', theirs);
      const state = openState(archive.dir);
      local = await new Served().start(archive.dir, { state });
      const socket = path.join(mkdtempSync(path.join(tmpdir(), 'relayed-')), 'web.sock');
      const errors: unknown[] = [];
      const relayed = await serveRelayed({
        ...{ dataDir: archive.dir, socket, accounts: () => new Map(), now: () => local.now },
        onError: (error) => errors.push(error),
      });
      fleet.later(async () => {
        await relayed.close();
        await local.close();
        state.close();
        archive.remove();
        expect(errors).toEqual([]);
      });
      const { shard, accounts } = await fleet.shard(['acme', 'anna'], ['other', 'zebra']);
      near = await fleet.node('near');
      far = await fleet.node('far');
      await near.hold(shard, socket);
      const rights = { accounts: accounts.slice(0, 1), mailboxes: null };
      const token = { name: 'one', mailboxes: [mailboxKey(ours)], expiresAt: null };
      credentials = {
        localCookie: await local.signIn([mailboxKey(ours)]),
        localSecret: new ApiTokens(state).create(token, local.now).secret,
        cookie: await far.signIn(rights),
        secret: (await fleet.grant({ rights })).secret,
      };
    });
    beforeEach(withoutHaste);
    afterAll(async () => {
      await fleet?.end();
      await postgres?.stop();
    });

    const answers = async (call: Call): Promise<readonly string[]> => {
      const { target, by, ...asked } = call;
      const { localCookie, localSecret, cookie, secret } = credentials;
      const isCookie = by === 'cookie';
      const here = isCookie ? local.own(localCookie) : { authorization: `Bearer ${localSecret}` };
      const there = isCookie ? far.own(far.cookie(cookie)) : { authorization: `Bearer ${secret}` };
      const [own, through] = await Promise.all([
        local.ask(target, { ...asked, headers: { ...asked.headers, ...here } }),
        far.ask(target, { ...asked, headers: { ...asked.headers, ...there } }),
      ]);
      expect(
        Object.keys(through.headers).toSorted(),
        target + through.text.slice(0, 200) + JSON.stringify([far.errors, near.errors.map(String)]),
      ).toEqual(Object.keys(own.headers).toSorted());
      return [
        plainAnswer(own, { [archive.dir]: 'DIR', [local.host]: 'HOST' }),
        plainAnswer(through, { [archive.dir]: 'DIR', [far.host]: 'HOST' }),
      ];
    };

    test(`answers as the archive itself does, seed ${SEED}`, async () => {
      const { now } = performance;
      performance.now = () => 0;
      onTestFinished(() => {
        performance.now = now;
      });
      const plain = surface.routes.map(
        (route): Call => ({ target: route.replace(/:\w+(?:\{[^}]*\}+)?/g, '1'), by: 'cookie' }),
      );
      const calls = [...plain, ...chosenCalls(SEED, OF_EACH)];
      expect(calls.length).toBeGreaterThan(500);
      const statuses: Record<string, number> = {};
      for (const call of calls) {
        const [own, through] = await answers(call);
        expect(through, JSON.stringify(call)).toBe(own);
        const status = own?.slice(1, 4) ?? '';
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
      console.info(`${calls.length} calls`, statuses);
      expect(local.errors).toEqual([]);
      expect(far.errors).toEqual([]);
    }, 300_000);
  },
);
