import { spawnSync } from 'node:child_process';

/** The programs mailkeep is compared with, and how each prints its version. */
const VERSION_ARGS = {
  mbsync: ['--version'],
  dovecot: ['--version'],
  doveadm: [],
  notmuch: ['--version'],
  mu: ['--version'],
  restic: ['version'],
  radosgw: ['--version'],
} as const;

export type Peer = keyof typeof VERSION_ARGS;

/** Those that a report names. */
export const PEERS: readonly Peer[] = ['mbsync', 'dovecot', 'notmuch', 'mu'];

/** What the program says of itself, in one line; undefined when it is not installed. */
export function peerVersion(peer: Peer): string | undefined {
  const result = spawnSync(peer, VERSION_ARGS[peer]);
  if (result.error !== undefined) return undefined;
  const version = /\d+(?:\.\d+)+/.exec(result.stdout.toString())?.[0] ?? '';
  return `${peer} ${version}`.trim();
}
