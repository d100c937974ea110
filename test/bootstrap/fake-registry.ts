import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';

interface Published {
  readonly version: string;
  readonly integrity: string;
  readonly tarball: Buffer;
}

/** The name of the one package that the registry has. */
export const PACKAGE = 'node-of-tests';

/** An npm registry on loopback with one package of "Node.js", whose binary is a script that starts our own Node.js. */
export class FakeRegistry {
  readonly #server: Server;
  readonly url: string;
  readonly #published = new Map<string, Published>();
  #requests = 0;
  /** Given instead of an answer, where a test holds back tarballs. */
  onTarball: ((response: ServerResponse) => void) | undefined;

  private constructor(server: Server) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  }

  static async start(): Promise<FakeRegistry> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const registry = new FakeRegistry(server);
    server.on('request', ({ url = '' }, response) => registry.#answer(url, response));
    return registry;
  }

  /** Number of requests so far. */
  get requests(): number {
    return this.#requests;
  }

  /**
   * Adds a version; its binary reports `reported`, or runs the shell commands `instead`. Returns the entry of a lockfile.
   */
  publish(
    version: string,
    reported = version,
    instead = `echo v${reported}; exit`,
  ): { version: string; integrity: string } {
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-package-'));
    mkdirSync(path.join(folder, 'bin'));
    mkdirSync(path.join(folder, 'include'));
    writeFileSync(path.join(folder, 'include', 'node.h'), '// not needed\n');
    writeFileSync(path.join(folder, 'LICENSE'), 'licence of tests\n');
    writeFileSync(
      path.join(folder, 'bin', 'node'),
      `#!/bin/sh\n[ "$1" = --version ] && { ${instead}; }\nRUNTIME=${version} exec '${process.execPath}' "$@"\n`,
      { mode: 0o755 },
    );
    const manifest = { name: PACKAGE, version, bin: { node: 'bin/node' } };
    writeFileSync(path.join(folder, 'package.json'), JSON.stringify(manifest));
    const name = execFileSync('npm', ['pack', '--silent'], { cwd: folder, encoding: 'utf8' });
    const tarball = readFileSync(path.join(folder, name.trim()));
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
    this.#published.set(version, { version, integrity, tarball });
    return { version, integrity };
  }

  tarball(version: string): Buffer | undefined {
    return this.#published.get(version)?.tarball;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(url: string, response: ServerResponse): void {
    this.#requests += 1;
    const version = /-([\d.]+)\.tgz$/.exec(url)?.[1];
    if (version !== undefined) {
      if (this.onTarball === undefined) response.end(this.tarball(version));
      else this.onTarball(response);
      return;
    }
    const versions = [...this.#published.values()].map(({ version, integrity }) => [
      version,
      {
        name: PACKAGE,
        version,
        dist: { integrity, tarball: `${this.url}${PACKAGE}/-/${PACKAGE}-${version}.tgz` },
      },
    ]);
    response.setHeader('content-type', 'application/json');
    const latest = versions.at(-1)?.[0];
    const packument = { name: PACKAGE, versions: Object.fromEntries(versions) };
    response.end(JSON.stringify({ ...packument, 'dist-tags': { latest } }));
  }
}
