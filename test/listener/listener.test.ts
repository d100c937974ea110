import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Server } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { listenOn } from '../../src/listener/listener.ts';

test('goes on listening when the system has no connection to give', async () => {
  const errors: Error[] = [];
  const listener = await listenOn({
    section: 'health',
    listen: { host: '127.0.0.1', port: 0 },
    fetch: () => new Response('here'),
    onError: (error) => errors.push(error),
  });
  onTestFinished(() => listener.close());
  const servers: Server[] = [];
  const watch = (message: unknown): void => {
    if (typeof message !== 'object' || message === null || !('server' in message)) return;
    if (message.server instanceof Server) servers.push(message.server);
  };
  subscribe('http.server.request.start', watch);
  onTestFinished(() => {
    unsubscribe('http.server.request.start', watch);
  });
  const answer = async (): Promise<string> =>
    await (await fetch(`http://127.0.0.1:${listener.address.port}/`)).text();
  expect(await answer()).toBe('here');
  // What node does with an accept that fails: https://github.com/nodejs/node, lib/net.js, onconnection.
  const error = Object.assign(new Error('accept EMFILE'), { code: 'EMFILE' });
  servers[0]?.emit('error', error);
  expect(errors).toEqual([error]);
  expect(await answer()).toBe('here');
});
