import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { openRegistry, type Registry, type RegistryLimits } from '../../../src/fleet/postgres.ts';
import { type RegistryTarget, registryTarget } from '../../../src/fleet/postgres-target.ts';
import { Children } from '../../../src/sandbox/children.ts';
import { postgresOwner, programPath, startPostgres } from '../../../src/sandbox/demo-servers.ts';
import { absent, notCompared } from '../../peers/programs.ts';
import { admittedTo, type SharedServer } from '../../peers/shared-servers.ts';

const USER = 'fleet';
/** The name of the socket has it; nothing listens on the network. */
const PORT = 5432;
const STARTUP_MS = 60_000;
const BETWEEN_TRIES_MS = 20;
/** PostgreSQL refuses to run as root; its package brings this user. */
const OWNER = 'postgres';

/**
 * True where PostgreSQL is not installed, or where only root is there to start it.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutPostgres(): boolean {
  process.env.PATH = programPath(process.env.PATH);
  if (absent('initdb', 'postgres')) return true;
  if (process.getuid?.() !== 0 || postgresOwner() !== undefined) return false;
  return notCompared(`PostgreSQL does not run as root, and there is no user ${OWNER}`);
}

/** What a test file needs to use the server that all files share. */
interface Admitted {
  readonly folder: string;
  /** Distinguishes the file's databases. */
  readonly file: number;
}

/** A server on a Unix socket, in a folder that ends with it. */
export class Postgres {
  #databases = 0;
  readonly #opened: Registry[] = [];
  readonly #clients: Client[] = [];

  private constructor(
    private readonly folder: string,
    /** Undefined for the server that all files share. */
    private readonly own?: Children,
    private readonly file = 0,
  ) {}

  /** The folder of the socket. */
  get socketFolder(): string {
    return path.join(this.folder, 'socket');
  }

  /** The socket itself. */
  get socket(): string {
    return path.join(this.socketFolder, `.s.PGSQL.${PORT}`);
  }

  /** Uses the server that all test files share. A test that stops it or changes its settings starts its own. */
  static async start(): Promise<Postgres> {
    const { folder, file } = await admittedTo<Admitted>('postgres');
    return new Postgres(folder, undefined, file);
  }

  static async share(): Promise<SharedServer<Admitted>> {
    const server = await Postgres.startOwn();
    let files = 0;
    const admit = async () => ({ folder: server.folder, file: ++files });
    return { admit, stop: () => server.stop() };
  }

  static async startOwn(): Promise<Postgres> {
    const owner = process.getuid?.() === 0 ? postgresOwner() : undefined;
    const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
    const children = new Children(mkdtempSync(path.join(tmpdir(), 'pg-')), { ...owner, env });
    await startPostgres(children, owner);
    const server = new Postgres(children.folder, children);
    // Everybody is let in, but for one user, who needs a password.
    const access = path.join(children.folder, 'data', 'pg_hba.conf');
    writeFileSync(access, 'local all locked scram-sha-256\nlocal all all trust\n');
    await server.admin('postgres', async (client) => {
      await client.query('SELECT pg_reload_conf()');
      await client.query('CREATE DATABASE made');
    });
    return server;
  }

  /** Where a database is, or is reached through another socket's folder. */
  target(database: string, socketFolder = this.socketFolder): RegistryTarget {
    return registryTarget(
      `postgresql:///${database}?host=${socketFolder}&port=${PORT}&user=${USER}`,
      {},
    );
  }

  /** Connects to a database; the connections end with the server at the latest. */
  async open(
    database: string,
    limits: Partial<RegistryLimits> = {},
    socketFolder?: string,
  ): Promise<Registry> {
    const registry = await openRegistry(this.target(database, socketFolder), limits);
    this.#opened.push(registry);
    return registry;
  }

  /** Creates an empty database, and returns its name. */
  async create(): Promise<string> {
    this.#databases += 1;
    const name = `test_${this.file}_${this.#databases}`;
    await this.admin('postgres', async (client) => {
      await client.query(`CREATE DATABASE ${name}`);
    });
    return name;
  }

  /** A connection of the superuser that ends with the server. */
  async connect(database: string): Promise<Client> {
    const client = new Client({ host: this.socketFolder, port: PORT, user: USER, database });
    client.on('error', () => undefined);
    await client.connect();
    this.#clients.push(client);
    return client;
  }

  /** Runs statements of a test as the superuser, on a connection of its own. */
  async admin<Result>(database: string, act: (client: Client) => Promise<Result>): Promise<Result> {
    const client = new Client({ host: this.socketFolder, port: PORT, user: USER, database });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await act(client);
    } finally {
      await client.end();
    }
  }

  /**
   * Waits until that many connections of a database wait for a lock, and returns their process numbers. Asks on a connection
   * of its own: within a transaction, the answer would stay what it was at first.
   */
  async waiting(database: string, count: number, type = 'Lock'): Promise<readonly number[]> {
    return this.admin(database, async (client) => {
      for (let waited = 0; waited < STARTUP_MS; waited += BETWEEN_TRIES_MS) {
        const { rows } = await client.query<{ pid: number }>(
          `SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND $1 IN (wait_event_type, wait_event)`,
          [type],
        );
        if (rows.length >= count) return rows.map(({ pid }) => pid);
        await delay(BETWEEN_TRIES_MS);
      }
      throw new Error(`no ${count} connections wait for ${type}`);
    });
  }

  /** Closes the connections. Ends an own server at once, which removes its shared memory, and the folder. */
  async stop(): Promise<void> {
    await Promise.all(this.#opened.map((registry) => registry.close().catch(() => undefined)));
    await Promise.all(this.#clients.map((client) => client.end().catch(() => undefined)));
    await this.own?.stop();
  }
}
