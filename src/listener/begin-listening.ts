import type { Server } from 'node:net';
import type { ListenAddress } from '../config/address.ts';

/** Lets a server listen, and returns where, with the port it got. @throws the system's error */
export async function beginListening(
  server: Server,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const address = server.address();
  return { host, port: typeof address === 'object' && address !== null ? address.port : 0 };
}
