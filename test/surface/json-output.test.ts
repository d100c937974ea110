import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import * as archive from './archive-scenario.ts';
import { allCommands } from './command-walk.ts';
import { Exercised } from './exercised.ts';
import { openPlace, type Place, scopesOf } from './place.ts';
import { expectRecorded, recordingFile } from './recorded.ts';
import * as service from './service-scenario.ts';

const OF_FLEET = [
  ...['init', 'drain', 'rebalance', 'recover', 'status', 'key rotate', 'node remove', 'demo'],
  ...['import', 'verify', 'forget'],
  ...['add', 'list', 'pause', 'resume', 'remove', 'update'].map((act) => `account ${act}`),
  ...['link', 'token', 'list', 'revoke'].map((act) => `access ${act}`),
];
const NEEDS_SERVERS = 'needs servers';

/** Commands without JSON of their own, with the reason. */
const WITHOUT_JSON: Readonly<Record<string, string>> = {
  account: 'needs one of its subcommands',
  'account login': 'needs servers: test/imap/account-login.test.ts runs it',
  'account move': 'needs servers: test/imap/account-move.test.ts runs it',
  completion: 'prints a script for a shell',
  config: 'needs one of its subcommands',
  'copy key': 'needs one of its subcommands',
  fleet: 'needs one of its subcommands',
  ...Object.fromEntries(
    ['account', 'access', 'key', 'node'].map((words) => [
      `fleet ${words}`,
      'needs one of its subcommands',
    ]),
  ),
  ...Object.fromEntries(OF_FLEET.map((words) => [`fleet ${words}`, NEEDS_SERVERS])),
  'fleet worker': 'writes a log until it is stopped',
  mcp: 'speaks its own protocol',
  notify: 'needs one of its subcommands',
  restore: 'needs an IMAP server: test/restore/command.test.ts records its JSON',
  token: 'needs one of its subcommands',
  webhooks: 'needs one of its subcommands',
};

const done = new Exercised();
let place: Place;

beforeAll(async () => {
  place = await openPlace();
  await archive.synced(done, place);
  await archive.imported(done, place);
  await archive.read(done, place);
  await archive.opened(done, place);
  await archive.verified(done, place);
  await archive.damaged(done, place);
  await service.hooked(done, place);
  await service.called(done, place);
  await service.gone(done, place);
  await service.served(done, place);
  await service.others(done, place);
  // A watchdog: some ninety commands, on a machine that may be busy.
}, 300_000);
afterAll(() => place.close());

test('every command that has --json was run, or is listed with a reason', async () => {
  const all = (await allCommands()).map(({ words }) => words);
  const missing = all.filter((words) => !done.commands.has(words) && !(words in WITHOUT_JSON));
  expect(missing).toEqual([]);
  expect(Object.keys(WITHOUT_JSON).filter((words) => done.commands.has(words))).toEqual([]);
  expect(Object.keys(WITHOUT_JSON).filter((words) => !all.includes(words))).toEqual([]);
});

test('the state of the archive has no scope that is not recorded', () => {
  const recorded = z
    .object({ scopes: z.record(z.string(), z.string()) })
    .parse(JSON.parse(readFileSync(recordingFile('state-scopes'), 'utf8')));
  const found = scopesOf(place.data);
  expect(found.length).toBeGreaterThan(8);
  expect(found.filter((scope) => !(scope in recorded.scopes))).toEqual([]);
});

test('JSON has the key paths and types that are recorded', () => {
  expectRecorded('json-output', done.entries());
});
