import { readFileSync } from 'node:fs';
import { errnoName } from '../core/errors.ts';
import { registryError } from './errors.ts';

/** Where the registry is, and how it is reached. */
export interface RegistryTarget {
  /** For people: without a password. */
  readonly label: string;
  /** A name, an address, or the folder of a Unix socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
  /** Undefined where there is none, or where `.pgpass` has it. */
  readonly password: string | undefined;
  /**
   * PEM texts; undefined for the certificates that Node.js trusts, and for no certificate. The server is always verified, by
   * its name. Undefined for connections that do not leave this machine.
   */
  readonly tls: Readonly<Record<'ca' | 'cert' | 'key', string | undefined>> | undefined;
}

const PARAMETERS = ['host', 'port', 'user', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey'];
const SCHEME = /^postgres(?:ql)?:\/\//i;
const NO_ADDRESS =
  'it is no valid address. Check the host and port; in a password, write / as %2F, # as %23, ? as %3F and @ as %40; in a database or a parameter, @ as %40';
const DEFAULT_PORT = 5432;
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/;

/**
 * Reads the address of a registry, `postgresql://user@host:port/database?parameters`, with the variables of PostgreSQL's
 * own programs for missing parts (`PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE`). A password is better
 * kept out of it: in `PGPASSWORD`, or in `.pgpass`, which the connection reads by itself.
 *
 * @throws registry-setting-invalid; its facts never contain the address, because a password may be in it
 */
export function registryTarget(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): RegistryTarget {
  if (!SCHEME.test(text)) throw invalid('it has to begin with postgresql://');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || hasPassword(text, url)) throw invalid(NO_ADDRESS);
  if ([...url.searchParams.keys()].some((name) => !PARAMETERS.includes(name))) {
    throw invalid(`it may have the parameters ${PARAMETERS.join(', ')} only`);
  }
  const parameter = (name: string) => url.searchParams.get(name) ?? '';
  const bare = decoded(url.hostname).replace(/^\[|\]$/g, '');
  const host = bare || parameter('host') || env.PGHOST || 'localhost';
  const user = decoded(url.username) || parameter('user') || env.PGUSER || '';
  if (user === '') throw invalid('it names no user');
  const database = decoded(url.pathname.slice(1)) || env.PGDATABASE || user;
  const port = portOf(url.port || parameter('port') || env.PGPORT || String(DEFAULT_PORT));
  return {
    label: labelOf({ host, port, user, database }),
    host,
    port,
    user,
    database,
    password: decoded(url.password) || env.PGPASSWORD || undefined,
    tls: tlsOf(host, parameter),
  };
}

/**
 * Reports whether part of a password may have become another part of the address: a character that is not escaped ends the
 * host within the password, and leaves the rest, up to the `@`, to the parts that follow.
 */
function hasPassword(text: string, { pathname, search }: URL): boolean {
  const database = pathname.slice(1);
  return text.includes('#') || /[/@]/.test(database) || search.includes('@');
}

/** Mail goes over these connections: one that leaves this machine is encrypted, and the server is verified. */
function tlsOf(host: string, parameter: (name: string) => string): RegistryTarget['tls'] {
  const mode = parameter('sslmode');
  const isLocal = host.startsWith('/') || LOOPBACK.test(host);
  if (mode !== '' && mode !== 'verify-full' && mode !== 'disable') {
    throw invalid('sslmode can be verify-full, or disable for a server on this machine');
  }
  if (mode === 'disable' && !isLocal) {
    throw invalid(`sslmode=disable is for servers on this machine, not for ${host}`);
  }
  if (mode === 'verify-full' && host.startsWith('/')) {
    throw invalid('a Unix socket has no TLS: leave sslmode out');
  }
  if (isLocal && mode !== 'verify-full') return undefined;
  const pem = (name: string): string | undefined => {
    try {
      return parameter(name) === '' ? undefined : readFileSync(parameter(name), 'utf8');
    } catch (error) {
      throw invalid(`the file of ${name} cannot be read (${errnoName(error)})`);
    }
  };
  return { ca: pem('sslrootcert'), cert: pem('sslcert'), key: pem('sslkey') };
}

function portOf(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port > 0 && port < 65_536) return port;
  throw invalid('the port is no number from 1 to 65535');
}

function labelOf(of: Pick<RegistryTarget, 'host' | 'port' | 'user' | 'database'>): string {
  const [user, database] = [encodeURIComponent(of.user), encodeURIComponent(of.database)];
  if (of.host.startsWith('/')) {
    return `postgresql:///${database}?host=${of.host}&port=${of.port}&user=${user}`;
  }
  const host = of.host.includes(':') ? `[${of.host}]` : of.host;
  return `postgresql://${user}@${host}:${of.port}/${database}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('it has a % that is no escape');
  }
}

function invalid(problem: string): Error {
  const source = 'The address of the registry';
  return registryError('registry-setting-invalid', { source, problem });
}
