import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';

/** Whose files a mail server of a test reads and writes. */
export interface MailOwner {
  readonly uid: number;
  readonly gid: number;
  /** Who the rest of Dovecot runs as, for a server that was not started by root: user and group, by name. */
  readonly self?: { readonly user: string; readonly group: string };
}

/** Dovecot gives no mail to root: there it is `nobody`, who owns nothing else. */
export function mailOwner(): MailOwner {
  const { uid, gid, username } = userInfo();
  if (uid !== 0) {
    const [group = String(gid)] = rows('/etc/group').find(([, , id]) => id === String(gid)) ?? [];
    return { uid, gid, self: { user: username, group } };
  }
  return userNamed('nobody') ?? { uid: 65534, gid: 65534 };
}

/** Returns a user of this machine, or undefined. */
export function userNamed(name: string): MailOwner | undefined {
  const found = rows('/etc/passwd').find(([user]) => user === name);
  return found === undefined ? undefined : { uid: Number(found[2]), gid: Number(found[3]) };
}

/** What Dovecot's configuration needs for its processes to run as this owner; nothing where root starts it. */
export function dovecotProcesses({ self }: MailOwner): string {
  if (self === undefined) return '';
  return `default_internal_user=${self.user}
default_login_user=${self.user}
default_internal_group=${self.group}
service anvil {
  chroot=
}
service stats {
  chroot=
}`;
}

/** The lines of a file of users or groups, as fields. */
function rows(file: string): string[][] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
}
