import { linkSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { z } from 'zod';
import { MALLOC_SETTINGS } from '../../src/cli/commands/daemon-install.ts';
import { type ImapServer, serveImap } from '../peers/dovecot.ts';
import { mbsyncStored, prepareMbsync } from './mbsync.ts';
import { AGAIN_RUNS, flush } from './measure-peers.ts';
import type { MessageSet } from './message-set.ts';
import { Peak } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

/** Both programs, one after the other, `runs` times. Times are those of whole processes, unless said otherwise. */
interface Pair {
  readonly mbsyncMs: readonly number[];
  readonly mbsyncPeakBytes: number | undefined;
  readonly wallMs: readonly number[];
  /** Until everything was durable; indexing comes after. */
  readonly fetchMs: readonly number[];
  readonly peakBytes: number | undefined;
}

/** Syncs from Dovecot. */
export interface ImapSpeed {
  readonly messages: number;
  readonly rawBytes: number;
  readonly near: Pair;
  /** Behind a proxy that delays by `FAR_MS`. */
  readonly far: Pair;
  readonly quiet: {
    readonly folders: number;
    readonly mbsyncMs: readonly number[];
    readonly wallMs: readonly number[];
    /** Of `wallMs`, before and after the sync run: the start of the process. */
    readonly startMs: readonly number[];
  };
}

/** Round-trip time of a server far away, in milliseconds. */
export const FAR_MS = 50;
const QUIET_FOLDERS = 50;

const syncSchema = z.looseObject({
  durationMs: z.number(),
  timings: z.looseObject({ fetchMs: z.number() }),
  failures: z.array(z.unknown()).max(0),
  certificates: z.array(z.looseObject({ stored: z.number(), complete: z.literal(true) })),
});

/** Fails unless both store all messages. */
export async function measureImap(
  work: Workplace,
  program: string,
  { maildir, count, rawBytes }: Pick<MessageSet, 'maildir' | 'count' | 'rawBytes'>,
  runs: number,
): Promise<ImapSpeed> {
  const server = await serve(work, maildir);
  const near = await measurePair(work, program, server, count, runs);
  const proxy = await startDelay(server.port, FAR_MS / 2);
  const far = await measurePair(work, program, { ...server, port: proxy.port }, count, runs);
  proxy.stop();
  await server.stop();
  return {
    messages: count,
    rawBytes,
    near,
    far,
    quiet: await measureQuiet(work, program, maildir),
  };
}

/** Dovecot over a Maildir, whose index is built before anything is measured. */
async function serve(work: Workplace, maildir: string): Promise<ImapServer> {
  const server = await serveImap(work.fresh('dovecot'), maildir, (child) => work.adopt(child));
  await work.run({
    command: 'doveadm',
    args: ['-c', server.config, 'fetch', '-u', server.user, 'uid flags size.virtual', 'all'],
  });
  return server;
}

async function measurePair(
  work: Workplace,
  program: string,
  server: ImapServer,
  count: number,
  runs: number,
): Promise<Pair> {
  const [mbsyncMs, wallMs, fetchMs]: [number[], number[], number[]] = [[], [], []];
  const [peak, mbsyncPeak] = [new Peak(), new Peak()];
  const mbsync = prepareMbsync(work, server);
  const mailkeep = prepareSync(work, program, server);
  for (let round = 0; round < runs; round++) {
    flush();
    const theirs = await mbsync.firstSync();
    mbsyncMs.push(theirs.wallMs);
    mbsyncPeak.note(theirs.peakBytes);
    const there = mbsyncStored(work);
    if (there !== count) throw new Error(`mbsync stored ${there} of ${count} messages`);
    work.fresh('mailkeep');
    flush();
    const ours = await mailkeep();
    if (ours.stored !== count) throw new Error(`mailkeep stored ${ours.stored} of ${count}`);
    wallMs.push(ours.wallMs);
    fetchMs.push(ours.fetchMs);
    peak.note(ours.peakBytes);
  }
  return {
    ...{ mbsyncMs, wallMs, fetchMs },
    ...{ peakBytes: peak.bytes, mbsyncPeakBytes: mbsyncPeak.bytes },
  };
}

/** Nothing new in many folders, each with a few of the messages. */
async function measureQuiet(
  work: Workplace,
  program: string,
  maildir: string,
): Promise<ImapSpeed['quiet']> {
  const [mbsyncMs, wallMs, startMs]: [number[], number[], number[]] = [[], [], []];
  const server = await serve(work, manyFolders(work, maildir));
  const mbsync = prepareMbsync(work, server);
  const mailkeep = prepareSync(work, program, server);
  work.fresh('mailkeep');
  // The second run proves what the first one has stored.
  for (let before = 0; before < 2; before++) await mailkeep();
  await mbsync.firstSync();
  for (let run = 0; run < AGAIN_RUNS; run++) {
    mbsyncMs.push((await mbsync.again()).wallMs);
    const ours = await mailkeep();
    wallMs.push(ours.wallMs);
    startMs.push(ours.wallMs - ours.durationMs);
  }
  await server.stop();
  return { folders: QUIET_FOLDERS, mbsyncMs, wallMs, startMs };
}

/** A Maildir++ with INBOX and 49 folders, each with 20 of the first messages. */
function manyFolders(work: Workplace, maildir: string): string {
  const root = join(work.fresh('many'), 'mail');
  const sources = readdirSync(join(maildir, 'cur')).slice(0, 20);
  for (let folder = 0; folder < QUIET_FOLDERS; folder++) {
    const at = folder === 0 ? root : join(root, `.Folder ${folder}`);
    for (const part of ['cur', 'new', 'tmp']) mkdirSync(join(at, part), { recursive: true });
    for (const name of sources) linkSync(join(maildir, 'cur', name), join(at, 'cur', name));
  }
  return root;
}

function prepareSync(work: Workplace, program: string, server: ImapServer) {
  const config = join(work.folder, 'mailkeep.json');
  const { port, user, password } = server;
  const imap = { host: '127.0.0.1', port, tls: 'none', user, address: 'peer@example.org' };
  writeFileSync(
    config,
    JSON.stringify({
      dataDir: join(work.folder, 'mailkeep'),
      accounts: [{ name: 'bench', imap: { ...imap, password } }],
      minFreeBytes: 100_000_000,
    }),
    { mode: 0o600 },
  );
  const args = [program, 'sync', '--config', config, '--json'];
  return async () => {
    const cost = await work.run({ command: process.execPath, args, env: MALLOC_SETTINGS });
    const { durationMs, timings, certificates } = syncSchema.parse(JSON.parse(cost.stdout));
    const stored = certificates.reduce((sum, one) => sum + one.stored, 0);
    return { ...cost, durationMs, fetchMs: timings.fetchMs, stored };
  };
}

/** A proxy that passes everything on after `delayMs` in each direction, whatever its amount. */
async function startDelay(
  port: number,
  delayMs: number,
): Promise<{ readonly port: number; stop(): void }> {
  const sockets = new Set<Socket>();
  const pass = (from: Socket, to: Socket): void => {
    sockets.add(from);
    from.setNoDelay(true);
    from.on('data', (bytes) => setTimeout(() => to.write(bytes), delayMs));
    from.on('close', () => setTimeout(() => to.end(), delayMs));
    from.on('error', () => {});
  };
  const listener: Server = createServer((client) => {
    const server = connect(port, '127.0.0.1');
    pass(client, server);
    pass(server, client);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const address = listener.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  return {
    port: address.port,
    stop() {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
