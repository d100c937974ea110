import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, linkSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dovecotProcesses, type MailOwner, mailOwner } from './mail-owner.ts';
import { freePort, listening } from './ports.ts';
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

/** The same files, theirs and their folders' owner another. */
function linkTree(from: string, to: string, owner: MailOwner): void {
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

function dovecotConfig(facts: {
  readonly base: string;
  readonly mail: string;
  readonly log: string;
  readonly port: number;
  readonly owner: MailOwner;
}): string {
  const { uid, gid } = facts.owner;
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
${dovecotProcesses(facts.owner)}
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
