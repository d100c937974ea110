import { expect, test } from 'vitest';
import { catalogError } from '../../src/core/error-tables.ts';
import type { StateFile, WebSession } from '../../src/core/state.ts';
import { SessionStore } from '../../src/web/sessions.ts';
import { archiveOf, letter, Served } from './served.ts';

/** A store on a disk that may be full. */
function onDisk() {
  const written = new Map<string, WebSession>();
  const disk = { isFull: false };
  const state = {
    get: (_: string, key: string) => written.get(key),
    entries: () => [...written].map(([key, value]) => ({ key, value })),
    set(_: string, key: string, session: WebSession | undefined) {
      if (disk.isFull) throw catalogError('catalog-io', { file: 'state.sqlite', reason: 'ENOSPC' });
      if (session === undefined) written.delete(key);
      else written.set(key, session);
    },
  };
  return { disk, written, store: new SessionStore(state as Pick<StateFile, keyof typeof state>) };
}

const session = { createdAt: 1, usedAt: 1, mailboxes: null, agent: 'a browser' };

test('what cannot be written is kept until it can be', () => {
  const { disk, written, store } = onDisk();
  store.set('before', session);
  disk.isFull = true;
  store.set('during', session);
  store.set('before', undefined);
  expect(store.get('during')).toEqual(session);
  expect(store.get('before')).toBeUndefined();
  expect(store.list().map(({ key }) => key)).toEqual(['during']);
  expect([...written.keys()]).toEqual(['before']);
  disk.isFull = false;
  store.set('after', session);
  expect([...written.keys()].sort()).toEqual(['after', 'during']);
  expect(
    store
      .list()
      .map(({ key }) => key)
      .sort(),
  ).toEqual(['after', 'during']);
});

test('a use that cannot be recorded does not bring back a session that another process ends', () => {
  const { disk, written, store } = onDisk();
  store.set('known', session);
  disk.isFull = true;
  store.set('known', { ...session, usedAt: 9 });
  written.delete('known');
  disk.isFull = false;
  store.set('after', session);
  expect([store.get('known'), [...written.keys()]]).toEqual([undefined, ['after']]);
});

test('on a full disk a browser signs in, stays signed in, and is ended', async () => {
  const { disk, store } = onDisk();
  const served = new Served();
  served.store = store;
  await served.start(await archiveOf({ ferry: letter('Ferry', 'When does it leave?') }));
  disk.isFull = true;
  const cookie = await served.signIn();
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(200);
  const headers = { ...served.own(cookie), 'x-mailkeep': '1' };
  expect((await served.ask('/api/sign-out', { method: 'POST', headers })).status).toBe(200);
  expect((await served.ask('/you', { headers: { cookie } })).status).toBe(303);
  expect(served.errors).toEqual([]);
  await served.close();
});
