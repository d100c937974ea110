import { chmodSync, mkdtempSync, statSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasCode } from '../../src/core/errors.ts';
import { openState } from '../../src/core/state.ts';
import { accountKey } from '../../src/core/types.ts';
import { CALLER_HEADER, type Caller, callerText, serveRelayed } from '../../src/web/relayed.ts';
import type { StoredArchive } from '../export/stored-archive.ts';
import { archiveWith, OTHERS, OURS, THEIRS } from './equal-archives.ts';
import { NOW } from './served.ts';

const HOST = 'mail.example.net';
const folder = mkdtempSync(path.join(tmpdir(), 'relayed-'));
const socket = path.join(folder, 'web.sock');
let archive: StoredArchive;
let close = async () => {};
const errors: unknown[] = [];

const options = () => ({
  ...{ dataDir: archive.dir, socket, accounts: () => new Map(), now: () => NOW },
  onError: (error: unknown) => void errors.push(error),
});

beforeAll(async () => {
  archive = await archiveWith(OTHERS[2] ?? null);
  ({ close } = await serveRelayed(options()));
});
afterAll(async () => {
  await close();
  archive?.remove();
});

/** Records what an account lists. @param since when the mailbox was missing first; null if it is listed */
function list(account: string, address: string, since: number | null = null): void {
  const state = openState(archive.dir);
  const listed = [{ resourceId: `AC-${address}`, address, unreachableSince: since }];
  state.set('account-mailboxes', accountKey(account, HOST), listed);
  state.close();
}

function named(name: string, include = ['*'], exclude: string[] = []) {
  return { name, include, exclude };
}

const CALLER: Caller = {
  ...{ id: 'x', name: 'x', createdAt: NOW, usedAt: null, expiresAt: null },
  ...{ accounts: [named('anna')], mailboxes: null },
  reached: { host: 'mail.example.org', origin: 'https://mail.example.org', secure: true },
};

function ask(target: string, caller: Partial<Caller> | null) {
  const headers = caller === null ? {} : { [CALLER_HEADER]: callerText({ ...CALLER, ...caller }) };
  return new Promise<{ status: number; body: unknown }>((resolve, reject) => {
    const asked = httpRequest({ socketPath: socket, path: target, headers, agent: false });
    asked.on('error', reject);
    asked.on('response', (response) => {
      const status = response.statusCode ?? 0;
      json(response).then(
        (body) => resolve({ status, body }),
        () => resolve({ status, body: null }),
      );
    });
    asked.end();
  });
}

/** Addresses of the mailboxes with messages that a caller sees. */
async function seen(caller: Partial<Caller>): Promise<readonly string[]> {
  const { status, body } = await ask('/api/rows?limit=100', caller);
  expect(status).toBe(200);
  const found = [...JSON.stringify(body).matchAll(/"mailbox":"([^"]*)"/g)];
  return [...new Set(found.map(([, mailbox = '']) => mailbox))].toSorted();
}

test('only this user reaches the socket, which has to be in a folder of its own', async () => {
  expect(statSync(socket).mode & 0o777).toBe(0o600);
  const open = mkdtempSync(path.join(tmpdir(), 'open-'));
  chmodSync(open, 0o755);
  const refused = await serveRelayed({ ...options(), socket: path.join(open, 'web.sock') }).catch(
    (error: unknown) => error,
  );
  expect(hasCode(refused, 'daemon-socket-folder')).toBe(true);
});

test('a request without a caller is not answered', async () => {
  for (const target of ['/mail', '/mcp', '/api/v1/account', '/assets/x'])
    expect((await ask(target, null)).status).toBe(400);
});

test('a caller sees the mailboxes of its accounts, and no more than it may', async () => {
  expect(await seen({})).toEqual([]);
  list('anna', OURS);
  list('zebra', THEIRS);
  expect(await seen({})).toEqual([OURS]);
  expect(await seen({ accounts: [named('zebra')] })).toEqual([THEIRS]);
  expect(await seen({ accounts: [named('anna'), named('zebra')] })).toEqual([OURS, THEIRS]);
  expect(await seen({ accounts: [named('nobody')] })).toEqual([]);
  const theirs = [JSON.stringify([HOST, `AC-${THEIRS}`])];
  expect(await seen({ mailboxes: theirs })).toEqual([]);
  expect(await seen({ accounts: [named('anna'), named('zebra')], mailboxes: theirs })).toEqual([
    THEIRS,
  ]);
  // Its credentials reach more than it mirrors.
  for (const account of [named('anna', ['other@*']), named('anna', ['*'], ['anna@*'])])
    expect(await seen({ accounts: [account] })).toEqual([]);
  expect(await seen({ accounts: [named('anna', ['anna@*'])] })).toEqual([OURS]);
  for (const target of ['/api/saved', '/api/look', '/health/runs'])
    expect((await ask(target, {})).status).toBe(403);
  expect(errors).toEqual([]);
});

test('a mailbox that is not listed any more stays readable, unless it is someone else’s now', async () => {
  list('anna', OURS, NOW);
  expect(await seen({})).toEqual([OURS]);
  list('zebra', OURS);
  expect(await seen({})).toEqual([]);
  expect(await seen({ accounts: [named('zebra')] })).toEqual([OURS]);
});
