import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stopServer } from './stop-server.ts';

export interface ImapServer {
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** Its configuration file, for doveadm. */
  readonly config: string;
  stop(): Promise<void>;
}

const USER = 'peer';
const PASSWORD = 'peer';
const STARTUP_MS = 20_000;

/**
 * Serves a Maildir++ over IMAP on a free loopback port: Dovecot with a configuration of its own, the same files (hard
 * links) in a Maildir of its own. It is to be found in PATH.
 *
 * @param base a folder that is empty and stays until the server is stopped; those above it can be entered by anybody
 * @param adopt is given the process, to end it should this one be ended
 */
export async function serveImap(
  base: string,
  maildir: string,
  adopt: (server: ChildProcess) => void,
): Promise<ImapServer> {
  const mail = join(base, 'mail');
  const owner = mailOwner();
  chownSync(base, owner.uid, owner.gid);
  linkTree(maildir, mail, owner);
  const port = await freePort();
  const config = join(base, 'dovecot.conf');
  const log = join(base, 'dovecot.log');
  writeFileSync(config, dovecotConfig({ base, mail, log, port, owner }));
  const server = spawn('dovecot', ['-F', '-c', config], { stdio: 'ignore' });
  adopt(server);
  try {
    await listening(server, port, log);
  } catch (error) {
    await stopServer(server);
    throw error;
  }
  return { port, user: USER, password: PASSWORD, config, stop: () => stopServer(server) };
}

interface Owner {
  readonly uid: number;
  readonly gid: number;
  /** Who the rest of Dovecot runs as, for a server that was not started by root: user and group, by name. */
  readonly self?: { readonly user: string; readonly group: string };
}

/** The same files, theirs and their folders' owner another. */
function linkTree(from: string, to: string, owner: Owner): void {
  mkdirSync(to);
  chownSync(to, owner.uid, owner.gid);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkTree(source, target, owner);
    else {
      linkSync(source, target);
      chownSync(target, owner.uid, owner.gid);
    }
  }
}

/** Dovecot gives no mail to root: there it is `nobody`, who owns nothing else. */
function mailOwner(): Owner {
  const { uid, gid, username } = userInfo();
  if (uid !== 0) {
    const [group = String(gid)] = rows('/etc/group').find(([, , id]) => id === String(gid)) ?? [];
    return { uid, gid, self: { user: username, group } };
  }
  const nobody = rows('/etc/passwd').find(([name]) => name === 'nobody');
  return { uid: Number(nobody?.[2] ?? 65534), gid: Number(nobody?.[3] ?? 65534) };
}

/** The lines of a file of users or groups, as fields. */
function rows(file: string): string[][] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
}

function dovecotConfig(facts: {
  readonly base: string;
  readonly mail: string;
  readonly log: string;
  readonly port: number;
  readonly owner: Owner;
}): string {
  const { uid, gid, self } = facts.owner;
  const unprivileged = `default_internal_user=${self?.user}
default_login_user=${self?.user}
default_internal_group=${self?.group}
service anvil {
  chroot=
}
service stats {
  chroot=
}`;
  return `base_dir=${facts.base}/run
state_dir=${facts.base}/state
instance_name=mailkeep-peer
log_path=${facts.log}
protocols=imap
listen=127.0.0.1
ssl=no
disable_plaintext_auth=no
first_valid_uid=1
mail_fsync=optimized
mail_location=maildir:${facts.mail}
${self === undefined ? '' : unprivileged}
service imap-login {
  chroot=
  inet_listener imap {
    port=${facts.port}
  }
}
service stats {
  unix_listener stats-writer {
    mode=0666
  }
}
passdb {
  driver=static
  args=password=${PASSWORD}
}
userdb {
  driver=static
  args=uid=${uid} gid=${gid} home=${facts.base}
}
namespace inbox {
  inbox=yes
}
`;
}

/** A loopback port nobody listens on just now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

async function listening(server: ChildProcess, port: number, log: string): Promise<void> {
  let failed: Error | undefined;
  server.once('error', (error) => {
    failed = error;
  });
  for (let waited = 0; waited < STARTUP_MS; waited += 100) {
    if (failed !== undefined) throw failed;
    if (server.exitCode !== null) break;
    if (await answers(port)) return;
    await delay(100);
  }
  throw new Error(`dovecot does not listen; see ${log}`);
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('data', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
