import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';

/**
 * Servers that are started once for all test files of a run, by the first file that needs them: starting PostgreSQL or
 * RadosGW takes seconds. Each file has a database or an S3 tenant of its own. This process owns them, so that they
 * outlive the file that asked first.
 */
const START: Readonly<Record<string, () => Promise<SharedServer>>> = {
  postgres: async () => (await import('../fleet/servers/postgres.ts')).Postgres.share(),
  radosgw: async () => (await import('../objects/servers/radosgw.ts')).shareRadosgw(),
};

export interface SharedServer<Facts = unknown> {
  /** Returns what one test file needs to use the server, as JSON. */
  readonly admit: () => Promise<Facts>;
  readonly stop: () => Promise<void>;
}

const socketPath = () => path.join(tmpdir(), 'servers.sock');

/** Vitest calls this once for each run, and the returned function at its end. */
export function setup(): () => Promise<void> {
  const started = new Map<string, Promise<SharedServer>>();
  const server = createServer(({ url = '' }, response) => {
    const name = url.slice(1);
    const shared = started.get(name) ?? START[name]?.();
    if (shared !== undefined) started.set(name, shared);
    Promise.resolve(shared)
      .then((found) => found?.admit())
      .then(
        (facts) => response.end(JSON.stringify(facts)),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
  });
  server.listen(socketPath());
  return async () => {
    server.close();
    for (const shared of started.values()) await (await shared.catch(() => undefined))?.stop();
  };
}

/** Returns how this test file uses the server of that name. Starts it if it is the first. */
export function admittedTo<Facts>(name: 'postgres' | 'radosgw'): Promise<Facts> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: socketPath(), path: `/${name}` }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () =>
        response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(text)),
      );
    });
    asked.on('error', reject).end();
  });
}
