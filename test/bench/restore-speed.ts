import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { type ImapServer, serveImap } from '../peers/dovecot.ts';
import { importArchive } from './archive-speed.ts';
import { flush } from './measure-peers.ts';
import type { MessageSet } from './message-set.ts';
import { Peak } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

/** Restores of all messages to an empty Dovecot, and mbsync's push of the same Maildir to another one. */
export interface RestoreSpeed {
  readonly messages: number;
  readonly rawBytes: number;
  readonly restoreMs: readonly number[];
  /** The same command again, which finds everything there. */
  readonly againMs: readonly number[];
  readonly pushMs: readonly number[];
  readonly peakBytes: number | undefined;
  /** Of the second run. */
  readonly againPeakBytes: number | undefined;
  readonly mbsyncPeakBytes: number | undefined;
}

const restoredSchema = z.looseObject({
  planned: z.number(),
  appended: z.number(),
  present: z.number(),
  refused: z.literal(0),
  lost: z.array(z.unknown()).max(0),
});

/** Both take turns, `runs` times, each with a server that has nothing. Fails unless all messages arrive. */
export async function measureRestore(
  work: Workplace,
  program: string,
  { maildir, count, rawBytes }: Pick<MessageSet, 'maildir' | 'count' | 'rawBytes'>,
  runs: number,
): Promise<RestoreSpeed> {
  const data = await importArchive(work, program, { maildir });
  const [restoreMs, againMs, pushMs]: [number[], number[], number[]] = [[], [], []];
  const [peak, againPeak, mbsyncPeak] = [new Peak(), new Peak(), new Peak()];
  const onEmptyServer = async (act: (server: ImapServer) => Promise<void>): Promise<void> => {
    const empty = work.fresh('empty');
    for (const part of ['cur', 'new', 'tmp']) mkdirSync(join(empty, part));
    const server = await serveImap(work.fresh('dovecot'), empty, (child) => work.adopt(child));
    flush();
    await act(server);
    await server.stop();
  };
  for (let round = 0; round < runs; round++) {
    await onEmptyServer(async (server) => {
      const { wallMs, peakBytes } = await work.run(push(work, server, maildir));
      pushMs.push(wallMs);
      mbsyncPeak.note(peakBytes);
    });
    await onEmptyServer(async (server) => {
      for (const times of [restoreMs, againMs]) {
        const run = await work.run(restore(work, program, server, data));
        const told = restoredSchema.parse(JSON.parse(run.stdout));
        const arrived = times === restoreMs ? told.appended : told.present;
        if (arrived !== count) throw new Error(`restored ${arrived} of ${count} messages`);
        times.push(run.wallMs);
        (times === restoreMs ? peak : againPeak).note(run.peakBytes);
      }
    });
  }
  const memory = {
    peakBytes: peak.bytes,
    againPeakBytes: againPeak.bytes,
    mbsyncPeakBytes: mbsyncPeak.bytes,
  };
  return { messages: count, rawBytes, restoreMs, againMs, pushMs, ...memory };
}

function restore(work: Workplace, program: string, server: ImapServer, data: string) {
  const passwordFile = join(work.folder, 'password');
  writeFileSync(passwordFile, server.password, { mode: 0o600 });
  const to = `imap://${server.user}@127.0.0.1:${server.port}`;
  const args = ['restore', '--data', data, '--to', to, '--in-place', '--json'];
  return {
    command: process.execPath,
    args: [program, ...args, '--password-file', passwordFile],
  };
}

/** mbsync renames the files that it has pushed: it gets links to them. */
function push(work: Workplace, server: ImapServer, maildir: string) {
  const copy = join(work.fresh('pushed'), 'mail');
  execFileSync('cp', ['-al', maildir, copy]);
  const config = join(work.folder, 'pushrc');
  writeFileSync(
    config,
    `FSync yes

IMAPAccount bench
Host 127.0.0.1
Port ${server.port}
User ${server.user}
Pass ${server.password}
SSLType None
AuthMechs LOGIN

IMAPStore far
Account bench

MaildirStore near
Inbox ${copy}
SubFolders Maildir++

Channel ch
Far :far:
Near :near:
Patterns *
Create Far
Sync Push
SyncState *
`,
    { mode: 0o600 },
  );
  return { command: 'mbsync', args: ['-q', '-c', config, 'ch'] };
}
