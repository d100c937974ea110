import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { initFleet } from '../../../src/registry/fleet.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { jsonLines } from '../../cli/child.ts';
import { type Ran, ran } from '../../cli/surface.ts';
import type { S3Server } from '../../objects/servers/s3-server.ts';
import type { Postgres } from '../../registry/servers/postgres.ts';
import { FLEET } from '../servers/scene.ts';

const KEY = `k1 ${'1'.repeat(64)}\n`;

export interface PlaceOptions {
  /** Without tables, as before `fleet init`. */
  readonly empty?: boolean;
  /** One that another node has made; a new one, if undefined. */
  readonly database?: string;
  readonly bucket?: string;
  readonly prefix?: string;
  /** Anybody listens there, if the commands of the test use no bucket. */
  readonly server?: Pick<S3Server, 'port' | 'accessKeyId' | 'secretAccessKey'>;
}

/** The folder of a node with its configuration, and a registry of its own. */
export class Place {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'fleet-'));
  readonly keyFile = path.join(this.folder, 'keys');
  env: Record<string, string> = {};
  now: () => number = Date.now;

  private constructor(
    private readonly postgres: Postgres,
    readonly database: string,
    readonly registry: Registry,
    private readonly options: PlaceOptions,
  ) {}

  static async make(postgres: Postgres, options: PlaceOptions = {}): Promise<Place> {
    const database = options.database ?? (await postgres.create({ empty: options.empty ?? false }));
    const place = new Place(postgres, database, await postgres.open(database), options);
    const { accessKeyId = 'KEY', secretAccessKey = 'secret' } = options.server ?? {};
    place.env = {
      ...{ HOME: place.folder, AWS_ACCESS_KEY_ID: accessKeyId },
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
    };
    place.configure();
    return place;
  }

  /** A place whose fleet was made, without a bucket. */
  static async ready(postgres: Postgres): Promise<Place> {
    const place = await Place.make(postgres);
    const of = { bucket: 's3://fleet/mail', archiveFormat: 2, catalogVersion: 1 };
    await initFleet(place.registry, { id: FLEET, ...of });
    writeFileSync(place.keyFile, KEY, { mode: 0o600 });
    return place;
  }

  get prefix(): string {
    return this.options.prefix ?? 'mail';
  }

  /** Has the same keys as another node. */
  copyKeys(other: Place): void {
    copyFileSync(other.keyFile, this.keyFile);
  }

  /** The fields of `fleet` that lead through proxies to both servers. */
  reachedThrough({
    sql,
    http,
  }: {
    readonly sql: { readonly folder: string };
    readonly http: { readonly port: number };
  }): object {
    const { bucket = 'fleet', prefix = 'mail' } = this.options;
    return {
      registry: `postgresql:///${this.database}?host=${sql.folder}&user=fleet`,
      store: { bucket, prefix, endpoint: `http://127.0.0.1:${http.port}` },
    };
  }

  /** Writes the configuration, with other fields of `fleet` and others next to it. */
  configure(fleet: object = {}, more: object = {}): void {
    const { bucket = 'fleet', prefix = 'mail', server } = this.options;
    const content = {
      fleet: {
        registry: `postgresql:///${this.database}?host=${this.postgres.socketFolder}&user=fleet`,
        store: { bucket, prefix, endpoint: `http://127.0.0.1:${server?.port ?? 1}` },
        keyFile: 'keys',
        node: 'node-1',
        ...fleet,
      },
      ...more,
    };
    writeFileSync(path.join(this.folder, 'config.json'), JSON.stringify(content), { mode: 0o600 });
  }

  /** Runs `mailkeep fleet …` in the folder. */
  run(args: readonly string[], { stdin = '' } = {}): Promise<Ran> {
    return ran(['fleet', ...args], {
      cwd: this.folder,
      env: this.env,
      stdin: () => Readable.from([stdin]),
      now: this.now,
    });
  }

  /** The values that a command prints with `--json`; it has to end with that code. */
  async json(args: readonly string[], { code = 0, stdin = '' } = {}): Promise<unknown[]> {
    const ended = await this.run([...args, '--json'], { stdin });
    if (ended.code !== code) throw new Error(`ended with ${ended.code}: ${ended.stderr}`);
    return jsonLines(ended.stdout);
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
