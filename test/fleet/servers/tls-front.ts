import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Certificate } from '../../imap/certificate.ts';

/** Length and code of the request for TLS that a client of PostgreSQL begins with. */
const REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/** Speaks TLS on a loopback port, as a server of PostgreSQL would, and passes on what it reads to a socket. */
export async function tlsFront(
  socket: string,
  { pem, key }: Certificate,
): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const open = new Set<Socket>();
  const server: Server = createServer((client) => {
    open.add(client);
    client.on('error', () => undefined);
    client.once('data', (first) => {
      if (!first.equals(REQUEST)) return client.destroy();
      client.write('S');
      const secure = new TLSSocket(client, { isServer: true, cert: pem, key });
      const behind = connect(socket);
      open.add(behind);
      for (const end of [secure, behind]) {
        end.on('error', () => undefined);
        end.on('close', () => {
          secure.destroy();
          behind.destroy();
        });
      }
      secure.pipe(behind).pipe(secure);
      return undefined;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return {
    port: address.port,
    async stop() {
      for (const one of open) one.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
