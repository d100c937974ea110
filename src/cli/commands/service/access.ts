import { readFileSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { errnoOf } from '../../../errors/mailkeep-error.ts';

/** A path that the unit's user needs, and cannot use. */
export interface NoAccess {
  readonly path: string;
  readonly need: Need;
  /** What is in the way: the path itself, or a folder above it. */
  readonly at: string;
  /** Commands that give access; empty where only another place helps. */
  readonly commands: readonly string[];
}

export type Need = 'read' | 'write';

/** A service reaches nothing in these folders: the home of root is closed, and a unit has its own /tmp. */
const PRIVATE = ['/root', '/tmp', '/var/tmp'];
/** systemd-tmpfiles and the unit open these to the user. */
const MANAGED = [
  '/etc/mailkeep',
  '/etc/mailkeep/config.json',
  '/var/lib/mailkeep',
  '/var/cache/mailkeep',
];

interface Account {
  readonly uid: number | null;
  readonly gids: readonly number[];
}

/**
 * Returns which of these paths a user cannot use, by the permissions along each whole path. A path that does not exist
 * counts by the folder where it would be made.
 */
export function withoutAccess(
  user: string,
  paths: readonly { readonly path: string; readonly need: Need }[],
): NoAccess[] {
  const account = accountOf(user);
  return paths.flatMap(({ path: file, need }) => {
    const isPrivate = PRIVATE.some((folder) => file.startsWith(`${folder}/`));
    if (isPrivate) return [{ path: file, need, at: file, commands: [] }];
    const at = obstacle(file, need, account);
    if (at === null) return [];
    return [{ path: file, need, at, commands: remedies(file, need, at, user) }];
  });
}

function obstacle(file: string, need: Need, account: Account): string | null {
  const parts = file.split('/').filter((part) => part !== '');
  let folder = '/';
  for (const part of parts) {
    if (MANAGED.includes(file)) return null;
    if (!MANAGED.includes(folder) && !may(statOf(folder), 1, account)) return folder;
    const next = path.join(folder, part);
    if (statOf(next) === undefined)
      return need === 'write' && may(statOf(folder), 2, account) ? null : folder;
    folder = next;
  }
  const stat = statOf(file);
  return may(stat, need === 'write' ? 2 : 4, account) ? null : file;
}

/** @param bit 4 to read, 2 to write, 1 to pass through */
function may(stat: Stats | undefined, bit: number, { uid, gids }: Account): boolean {
  if (stat === undefined) return false;
  if (stat.uid === uid) return (stat.mode & (bit << 6)) !== 0;
  if (gids.includes(stat.gid)) return (stat.mode & (bit << 3)) !== 0;
  return (stat.mode & bit) !== 0;
}

function statOf(file: string): Stats | undefined {
  try {
    return statSync(file);
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === 'ENOENT' || reason === 'ENOTDIR') return undefined;
    throw error;
  }
}

function remedies(file: string, need: Need, at: string, user: string): string[] {
  if (at !== file && statOf(file) !== undefined) return [`chmod o+x ${at}`];
  if (need === 'write')
    return [`install -d -o ${user} -g ${user} -m 700 ${file}`, `chown -R ${user}: ${file}`];
  return [`chgrp ${user} ${file}`, `chmod 640 ${file}`];
}

/** A user as the system knows it; without ids until sysusers has made it. */
function accountOf(user: string): Account {
  const line = linesOf('/etc/passwd').find((one) => one.startsWith(`${user}:`));
  const [, , uid, gid] = line?.split(':') ?? [];
  const groups = linesOf('/etc/group').flatMap((one) => {
    const [, , id, members = ''] = one.split(':');
    return members.split(',').includes(user) ? [Number(id)] : [];
  });
  return {
    uid: uid === undefined ? null : Number(uid),
    gids: gid === undefined ? groups : [Number(gid), ...groups],
  };
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}
