import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import path from 'node:path';
import { userNamed } from '../peers/mail-owner.ts';
import { lastingPort } from '../peers/ports.ts';
import { absent, extendPath, notCompared } from '../peers/programs.ts';
import { makeCertificate } from './certificate.ts';
import { RawClient } from './raw-client.ts';
import { type MailServer, type MailServerOptions, PASSWORD, serverFolder } from './server.ts';
import { ServerProcess } from './server-process.ts';

export interface CyrusOptions extends MailServerOptions {
  /** Folders are next to INBOX and not below it; false by default. */
  readonly altNamespace?: boolean;
}

const SPECIAL = ['Drafts', 'Sent', 'Trash', 'Junk', 'Archive'];
/** Debian's package cyrus-imapd conflicts with Dovecot's: .ci/run takes imapd out of it. */
const PLACES_OF_IMAPD = ['/usr/local/lib/cyrus/bin/imapd', '/usr/lib/cyrus/bin/imapd'];
const CONFIG_FOLDERS = ['db', 'socket', 'proc', 'log', 'msg', 'quota', 'user', 'lock', 'sync'];

/**
 * True where Cyrus is not installed, or only root could start it.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutCyrus(): boolean {
  extendPath();
  if (absent('cyrmaster', 'saslpasswd2', 'openssl', 'python3')) return true;
  if (imapd() === undefined) return notCompared('imapd of Cyrus is not installed (see .ci/run)');
  if (process.getuid?.() !== 0) return notCompared('only root can start Cyrus');
  return false;
}

function imapd(): string | undefined {
  return PLACES_OF_IMAPD.find((file) => existsSync(file));
}

/** Starts Cyrus with a configuration of its own, on free ports, in a folder of its own. */
export async function startCyrus(options: CyrusOptions = {}): Promise<MailServer> {
  const home = serverFolder();
  const users = options.users ?? ['anna'];
  for (const folder of ['spool', ...CONFIG_FOLDERS.map((name) => `conf/${name}`)])
    mkdirSync(path.join(home, folder), { recursive: true });
  const certificate = makeCertificate(home, options.certificateNames);
  const [port, tlsPort] = [await lastingPort(), await lastingPort()];
  const config = path.join(home, 'imapd.conf');
  const services = path.join(home, 'cyrus.conf');
  writeFileSync(config, imapdConfiguration(home, options));
  writeFileSync(services, masterConfiguration(config, port, tlsPort));
  for (const user of users) setPassword(path.join(home, 'conf/sasldb2'), user);
  giveToCyrus(home);
  const log = path.join(home, 'log');
  const server = new ServerProcess({
    program: 'cyrmaster',
    args: ['-C', config, '-M', services, '-p', path.join(home, 'master.pid'), '-D', '-L', log],
    port,
    log,
  });
  await server.start();
  const started: MailServer = {
    host: '127.0.0.1',
    port,
    tlsPort,
    user: users[0] ?? '',
    users,
    password: PASSWORD,
    home,
    certificate,
    kill: () => server.kill(),
    async restart() {
      await server.stop();
      await server.start();
    },
    async stop() {
      await server.end();
      rmSync(home, { recursive: true, force: true });
    },
  };
  try {
    await makeReadOnly(started, options.readOnly ?? []);
  } catch (error) {
    await started.stop();
    throw error;
  }
  return started;
}

/** The owner of a folder has to keep the right to manage it. */
async function makeReadOnly(server: MailServer, folders: readonly string[]): Promise<void> {
  if (folders.length === 0) return;
  const client = await RawClient.login(server);
  for (const folder of folders) {
    for (const command of [`CREATE "${folder}"`, `SETACL "${folder}" ${server.user} lra`]) {
      const answer = await client.command(command);
      if (!answer.status.startsWith('OK')) throw new Error(`${command}: ${answer.status}`);
    }
  }
  client.close();
}

function setPassword(file: string, user: string): void {
  execFileSync('saslpasswd2', ['-p', '-c', '-f', file, '-u', hostname(), user], {
    input: PASSWORD,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

function giveToCyrus(folder: string): void {
  const owner = userNamed('cyrus');
  if (owner === undefined) throw new Error('there is no user "cyrus"');
  chownSync(folder, owner.uid, owner.gid);
  for (const entry of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    chownSync(path.join(folder, entry), owner.uid, owner.gid);
}

function imapdConfiguration(home: string, options: CyrusOptions): string {
  const { quota, separator = '.', altNamespace = false, maxMessageBytes = 0 } = options;
  return `configdirectory: ${home}/conf
proc_path: ${home}/conf/proc
mboxname_lockpath: ${home}/conf/lock
defaultpartition: default
partition-default: ${home}/spool
syslog_prefix: mailkeep-imap
cyrus_user: cyrus
admins: cyrus
virtdomains: off
unixhierarchysep: ${separator === '/' ? 'yes' : 'no'}
altnamespace: ${altNamespace ? 'yes' : 'no'}
allowplaintext: yes
sasl_mech_list: PLAIN LOGIN
sasl_pwcheck_method: auxprop
sasl_auxprop_plugin: sasldb
sasl_sasldb_path: ${home}/conf/sasldb2
tls_server_cert: ${home}/certificate.pem
tls_server_key: ${home}/key.pem
tls_client_certs: off
failedloginpause: 0
autocreate_quota: ${quota?.bytes === undefined ? 0 : Math.ceil(quota.bytes / 1024)}
autocreate_quota_messages: ${quota?.messages ?? -1}
autocreate_inbox_folders: ${SPECIAL.join('|')}
autocreate_subscribe_folders: ${SPECIAL.join('|')}
${SPECIAL.map((name) => `xlist-${name.toLowerCase()}: ${name}\n`).join('')}maxmessagesize: ${maxMessageBytes}
maxlogins_per_user: ${options.maxConnections ?? 0}
conversations: no
`;
}

function masterConfiguration(config: string, port: number, tlsPort: number): string {
  const program = `${imapd()} -C ${config} -U 30`;
  return `START {
  recover cmd="/usr/lib/cyrus/bin/ctl_cyrusdb -C ${config} -r"
}
SERVICES {
  imap cmd="${program}" listen="127.0.0.1:${port}" prefork=1 maxchild=50
  imaps cmd="${program} -s" listen="127.0.0.1:${tlsPort}" prefork=0 maxchild=50
}
EVENTS {
}
DAEMON {
}
`;
}
