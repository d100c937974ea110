import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { dovecotProcesses, type MailOwner, mailOwner } from '../peers/mail-owner.ts';
import { lastingPort } from '../peers/ports.ts';
import { absent, extendPath } from '../peers/programs.ts';
import { makeCertificate } from './certificate.ts';
import { type MailServer, type MailServerOptions, PASSWORD, serverFolder } from './server.ts';
import { ServerProcess } from './server-process.ts';

export interface DovecotOptions extends MailServerOptions {
  /** Of `mail_location`: format and folder below the user's home. */
  readonly mailLocation?: string;
  /** Of all folders, such as `INBOX.`. */
  readonly prefix?: string;
  /** A public namespace, such as `Public/`, in which everybody may do everything. */
  readonly publicPrefix?: string;
  /** Longer keywords are dropped without an answer. */
  readonly maxKeywordLength?: number;
  /** A server that judges access tokens (RFC 7662); without it, only passwords are accepted. */
  readonly introspection?: Introspection;
  /** Drafts, Sent, Trash, Junk and Archive, with their special use; true by default. */
  readonly specialFolders?: boolean;
}

export interface Introspection {
  readonly url: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** What a token must have been issued for. */
  readonly scope: string;
}

export interface Dovecot extends MailServer {
  /** Runs doveadm with this server's configuration, and returns what it printed. */
  doveadm(...args: readonly string[]): Promise<string>;
}

const SPECIAL = ['Drafts', 'Sent', 'Trash', 'Junk', 'Archive'];

/**
 * True where Dovecot is not installed.
 *
 * @throws Error if MAILKEEP_PEERS=required
 */
export function withoutDovecot(): boolean {
  extendPath();
  return absent('dovecot', 'doveadm', 'openssl', 'python3');
}

/** Starts Dovecot with a configuration of its own, on free ports, in a folder of its own. */
export async function startDovecot(options: DovecotOptions = {}): Promise<Dovecot> {
  const home = serverFolder();
  const users = options.users ?? ['anna'];
  const owner = mailOwner();
  const mail = path.join(home, 'mail');
  for (const folder of [mail, path.join(home, 'public')]) {
    mkdirSync(folder);
    chownSync(folder, owner.uid, owner.gid);
  }
  const certificate = makeCertificate(home, options.certificateNames);
  const [port, tlsPort] = [await lastingPort(), await lastingPort()];
  const passwords = users.map((user) => `${user}:{PLAIN}${PASSWORD}\n`);
  // Only the processes that check passwords read it, and they may be another user's.
  writeFileSync(path.join(home, 'passwords'), passwords.join(''), { mode: 0o644 });
  writeFileSync(path.join(home, 'rights'), rights(options));
  const { introspection } = options;
  if (introspection !== undefined) {
    writeFileSync(path.join(home, 'oauth2'), judgedBy(introspection), { mode: 0o644 });
  }
  const config = path.join(home, 'dovecot.conf');
  writeFileSync(config, configuration({ home, port, tlsPort, owner, options }));
  const server = new ServerProcess({
    program: 'dovecot',
    args: ['-F', '-c', config],
    port,
    log: path.join(home, 'log'),
  });
  await server.start();
  return {
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
      // Another process may have the number of the one that was killed.
      rmSync(path.join(home, 'run/master.pid'), { force: true });
      await server.start();
    },
    async stop() {
      await server.end();
      rmSync(home, { recursive: true, force: true });
    },
    async doveadm(...args) {
      const { stdout } = await promisify(execFile)('doveadm', ['-c', config, ...args]);
      return stdout;
    },
  };
}

/** A file of rights for all users: what is not named keeps the rights of an owner. */
function rights({ readOnly = [], publicPrefix }: DovecotOptions): string {
  const all =
    publicPrefix === undefined ? '' : `"${publicPrefix.slice(0, -1)}*" anyone lrwstipekx\n`;
  return all + readOnly.map((folder) => `"${folder}" owner lr\n`).join('');
}

interface Facts {
  readonly home: string;
  readonly port: number;
  readonly tlsPort: number;
  readonly owner: MailOwner;
  readonly options: DovecotOptions;
}

function configuration({ home, port, tlsPort, owner, options }: Facts): string {
  const { separator = '/', prefix = '', readOnly = [], maxConnections = 100 } = options;
  const special = options.specialFolders === false ? [] : SPECIAL;
  const folders = [
    ...special.map((name) => mailbox(name, `auto = subscribe\n    special_use = \\${name}`)),
    ...readOnly.map((name) => mailbox(name, 'auto = create')),
  ];
  return `base_dir = ${home}/run
state_dir = ${home}/state
instance_name = mailkeep-imap
log_path = ${home}/log
protocols = imap
listen = 127.0.0.1
disable_plaintext_auth = no
auth_mechanisms = plain login${options.introspection === undefined ? '' : ' oauthbearer xoauth2'}
auth_failure_delay = 0
ssl = yes
ssl_cert = <${home}/certificate.pem
ssl_key = <${home}/key.pem
first_valid_uid = 1
mail_fsync = never
mail_max_userip_connections = ${maxConnections}
mail_max_keyword_length = ${options.maxKeywordLength ?? 50}
mail_location = ${options.mailLocation ?? 'maildir:~/mail'}
mail_plugins = quota acl
${dovecotProcesses(owner)}
service imap-login {
  chroot =
  inet_listener imap {
    port = ${port}
  }
  inet_listener imaps {
    port = ${tlsPort}
    ssl = yes
  }
}
service stats {
  unix_listener stats-writer {
    mode = 0666
  }
}
# After a wrong password, it would answer everybody at this address seconds later.
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
${options.introspection === undefined ? '' : tokenPasswords(home)}passdb {
  driver = passwd-file
  args = ${home}/passwords
}
userdb {
  driver = static
  args = uid=${owner.uid} gid=${owner.gid} home=${home}/mail/%u
}
namespace inbox {
  inbox = yes
  separator = ${separator}
  prefix = ${prefix}
${folders.join('')}}
${options.publicPrefix === undefined ? '' : publicNamespace(home, separator, options.publicPrefix)}protocol imap {
  mail_plugins = quota acl imap_quota imap_acl
}
plugin {
  acl = vfile:${home}/rights
  quota_max_mail_size = ${options.maxMessageBytes ?? 0}
${quota(options)}}
`;
}

function judgedBy({ url, clientId, clientSecret, scope }: Introspection): string {
  return `introspection_mode = post
introspection_url = ${url}
client_id = ${clientId}
client_secret = ${clientSecret}
scope = ${scope}
username_attribute = email
active_attribute = active
active_value = true
`;
}

function tokenPasswords(home: string): string {
  return `passdb {
  driver = oauth2
  mechanisms = oauthbearer xoauth2
  args = ${home}/oauth2
}
`;
}

function publicNamespace(home: string, separator: string, prefix: string): string {
  return `namespace public {
  type = public
  separator = ${separator}
  prefix = ${prefix}
  location = maildir:${home}/public
  subscriptions = no
}
`;
}

function mailbox(name: string, settings: string): string {
  return `  mailbox "${name}" {\n    ${settings}\n  }\n`;
}

/** A maximum for messages works only where a quota is counted, if without a limit. */
function quota({ quota: limits }: DovecotOptions): string {
  const rules = [
    limits?.bytes === undefined ? 'storage=0' : `bytes=${limits.bytes}`,
    ...(limits?.messages === undefined ? [] : [`messages=${limits.messages}`]),
  ];
  return `  quota = count:User quota
  quota_vsizes = yes
  quota_rule = *:${rules.join(':')}
  quota_grace = 0
`;
}
