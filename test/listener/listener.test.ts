import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { Server } from 'node:http';
import { connect, Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { listenOn } from '../../src/core/listener.ts';

test('keeps listening when the system has no connection to give', async () => {
  const errors: Error[] = [];
  const listener = await listenOn({
    section: 'health',
    listen: { host: '127.0.0.1', port: 0 },
    clients: { kind: 'programs', names: null },
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

test('an address keeps only so many connections that send nothing, the newest ones', async () => {
  const listener = await listenOn({
    section: 'health',
    listen: { host: '127.0.0.1', port: 0 },
    clients: { kind: 'programs', names: null },
    fetch: () => new Response('here'),
    onError: () => {},
    limits: { idlePerAddress: 2 },
  });
  onTestFinished(() => listener.close());
  const closed: number[] = [];
  const sockets: Socket[] = [];
  for (let n = 0; n < 5; n += 1) {
    const socket = connect(listener.address.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.on('close', () => closed.push(n));
    await once(socket, 'connect');
    sockets.push(socket);
  }
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  await expect.poll(() => closed.length).toBe(3);
  expect(closed.sort()).toEqual([0, 1, 2]);
  const [last] = sockets.slice(-1);
  last?.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const [answer] = await once(last ?? sockets[0] ?? new Socket(), 'data');
  expect(String(answer)).toMatch(/^HTTP\/1.1 200 /);
});
