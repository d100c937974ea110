import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { startOwnRadosgw } from '../objects/servers/radosgw.ts';
import type { S3Server } from '../objects/servers/s3-server.ts';
import { importArchive } from './archive-speed.ts';
import { flush } from './measure-peers.ts';
import type { MessageSet } from './message-set.ts';
import { type Invocation, Peak, type ProcessCost } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

/** Off-site copies of an archive to RadosGW and back, and what restic does with the same folder. */
export interface CopySpeed {
  /** What each copies: the log, and the folder of the archive with its catalog. */
  readonly logBytes: number;
  readonly folderBytes: number;
  readonly copyMs: readonly number[];
  /** The same command again, which finds everything there. */
  readonly againMs: readonly number[];
  /** Until the log was back; until everything can be searched. */
  readonly fetchMs: readonly number[];
  readonly backMs: readonly number[];
  readonly backupMs: readonly number[];
  readonly restoreMs: readonly number[];
  readonly copyPeakBytes: number | undefined;
  readonly backPeakBytes: number | undefined;
  readonly backupPeakBytes: number | undefined;
  readonly restorePeakBytes: number | undefined;
}

const copiedSchema = z.looseObject({ uploaded: z.number(), stored: z.number() });
const backSchema = z.looseObject({
  messages: z.number(),
  lost: z.array(z.unknown()).max(0),
  timings: z.looseObject({ fetchMs: z.number() }),
});
const BUCKET = 'bench';

/** Both take turns, `runs` times, each round with a server that has nothing. Fails unless all messages come back. */
export async function measureCopies(
  work: Workplace,
  program: string,
  { maildir, count }: Pick<MessageSet, 'maildir' | 'count'>,
  runs: number,
): Promise<CopySpeed> {
  const data = await importArchive(work, program, { maildir });
  const log = join(data, 'log');
  const times = {
    ...{ copyMs: [] as number[], againMs: [] as number[], fetchMs: [] as number[] },
    ...{ backMs: [] as number[], backupMs: [] as number[], restoreMs: [] as number[] },
  };
  const peaks = { copy: new Peak(), back: new Peak(), backup: new Peak(), restore: new Peak() };
  const timed = async (invocation: Invocation, to: number[], peak?: Peak): Promise<ProcessCost> => {
    flush();
    const cost = await work.run(invocation);
    to.push(cost.wallMs);
    peak?.note(cost.peakBytes);
    return cost;
  };
  for (let round = 0; round < runs; round++) {
    const server = await startOwnRadosgw();
    try {
      const own = mailkeepAt(work, program, server, `${round}`);
      const { copyMs, againMs, fetchMs, backMs, backupMs, restoreMs } = times;
      await work.run(
        own(
          'copy',
          'init',
          '--data',
          data,
          ...['--recovery-key-file', keyOf(work, round)],
          '--create-bucket',
          '--to',
        ),
      );
      await timed(own('copy', '--data', data, '--to'), copyMs, peaks.copy);
      const again = await timed(own('copy', '--data', data, '--to'), againMs);
      if (copiedSchema.parse(JSON.parse(again.stdout)).uploaded !== 0)
        throw new Error('the second copy uploaded something');
      const back = join(work.fresh('back'), 'archive');
      const from = own('copy', '--to', back, '--recovery-key-file', keyOf(work, round), '--from');
      const brought = backSchema.parse(JSON.parse((await timed(from, backMs, peaks.back)).stdout));
      if (brought.messages !== count) throw new Error(`${brought.messages} messages came back`);
      fetchMs.push(brought.timings.fetchMs);

      const restic = resticAt(work, server);
      await work.run(restic('init'));
      await timed(restic('backup', data), backupMs, peaks.backup);
      const restored = work.fresh('restored');
      await timed(restic('restore', 'latest', '--target', restored), restoreMs, peaks.restore);
    } finally {
      await server.stop();
    }
  }
  return {
    logBytes: bytesBelow(log),
    folderBytes: bytesBelow(data),
    ...times,
    copyPeakBytes: peaks.copy.bytes,
    backPeakBytes: peaks.back.bytes,
    backupPeakBytes: peaks.backup.bytes,
    restorePeakBytes: peaks.restore.bytes,
  };
}

function keyOf(work: Workplace, round: number): string {
  return join(work.folder, `recovery-key-${round}.txt`);
}

/** Returns what runs mailkeep with the place of the copy as its last argument. */
function mailkeepAt(work: Workplace, program: string, server: S3Server, round: string) {
  const env = {
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    AWS_REGION: 'us-east-1',
    AWS_ENDPOINT_URL: `http://127.0.0.1:${server.port}`,
    HOME: work.folder,
  };
  return (...args: readonly string[]): Invocation => ({
    command: process.execPath,
    args: [program, ...args, `s3://${BUCKET}/${round}`, '--json'],
    env,
  });
}

function resticAt(work: Workplace, server: S3Server) {
  const env = {
    AWS_ACCESS_KEY_ID: server.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.secretAccessKey,
    RESTIC_PASSWORD: 'of the bench',
    RESTIC_CACHE_DIR: work.fresh('restic-cache'),
  };
  const repository = `s3:http://127.0.0.1:${server.port}/restic`;
  return (...args: readonly string[]): Invocation => ({
    command: 'restic',
    args: ['--quiet', '-r', repository, ...args],
    env,
  });
}

function bytesBelow(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => statSync(join(entry.parentPath, entry.name)).size)
    .reduce((sum, size) => sum + size, 0);
}
