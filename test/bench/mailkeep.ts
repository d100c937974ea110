import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { MALLOC_SETTINGS } from '../../src/cli/commands/daemon-install.ts';
import type { Invocation, ProcessCost } from './process-cost.ts';
import type { Sandbox } from './sandbox.ts';
import type { Workplace } from './workplace.ts';

/** Requests in flight; the ceiling of the rate is out of reach, so that the program sets the pace. */
const CONCURRENCY = 8;
const REQUESTS_PER_MINUTE = 10_000_000;

const syncSchema = z.looseObject({
  mailboxes: z.array(z.looseObject({ added: z.number(), ended: z.number(), bytes: z.number() })),
  requests: z.number(),
  durationMs: z.number(),
  timings: z.looseObject({ fetchMs: z.number(), indexMs: z.number() }),
  failures: z.array(z.unknown()),
  certificates: z.array(
    z.looseObject({ originTotal: z.number(), stored: z.number(), complete: z.boolean() }),
  ),
});

const rebuiltSchema = z.looseObject({ timings: z.looseObject({ attachmentsMs: z.number() }) });

export interface RebuildRun extends ProcessCost {
  /** Of this, the text of attachments, which a first sync reads after its indexing. */
  readonly attachmentsMs: number;
}

/** Rebuilds the catalog of an archive. */
export async function rebuildOnce(
  work: Workplace,
  program: string,
  data: string,
  nodeArgs: readonly string[] = [],
): Promise<RebuildRun> {
  const args = [...nodeArgs, program, 'rebuild', '--data', data, '--json'];
  const cost = await work.run({ command: process.execPath, args });
  const { timings } = rebuiltSchema.parse(JSON.parse(cost.stdout));
  return { ...cost, attachmentsMs: timings.attachmentsMs };
}

export interface SyncRun extends ProcessCost {
  readonly fetchMs: number;
  readonly indexMs: number;
  /** From the start of the process until everything could be found; sealing the log comes after. */
  readonly searchableMs: number;
  /** Messages that are stored, by the certificates. */
  readonly stored: number;
  /** Places that ended. */
  readonly ended: number;
  /** By the client's own count. */
  readonly requests: number;
}

/** The program under measurement: its built command line, with an archive in the workplace. */
export interface Mailkeep {
  readonly program: string;
  readonly data: string;
  /** Removes the archive. */
  forget(): void;
  /** As its units start it. @param cores the first ones of the machine, and no others; all if not said */
  sync(cores?: number): Promise<SyncRun>;
  /** As a shell starts it, without what the units say of memory. */
  syncFromShell(): Promise<SyncRun>;
  rebuild(): Promise<RebuildRun>;
  newest(query: string): Invocation;
}

export function prepareMailkeep(
  work: Workplace,
  program: string,
  sandbox: Sandbox,
  nodeArgs: readonly string[] = [],
): Mailkeep {
  const data = join(work.folder, 'mailkeep');
  const config = join(work.folder, 'mailkeep.json');
  writeFileSync(
    config,
    JSON.stringify({
      dataDir: data,
      accounts: [
        {
          name: 'bench',
          baseUrl: sandbox.url,
          token: sandbox.token,
          // The sandbox has a second mailbox, which is empty.
          mailboxes: { include: [sandbox.address] },
        },
      ],
      rateLimit: { requestsPerMinute: REQUESTS_PER_MINUTE, concurrency: CONCURRENCY },
      minFreeBytes: 100_000_000,
    }),
    { mode: 0o600 },
  );
  const invoke = (...args: readonly string[]): Invocation => ({
    command: process.execPath,
    args: [...nodeArgs, program, ...args],
  });
  const sync = async (invocation: Invocation): Promise<SyncRun> => {
    const cost = await work.run(invocation);
    const result = syncSchema.parse(JSON.parse(cost.stdout));
    if (result.failures.length > 0)
      throw new Error(`sync names failures: ${JSON.stringify(result.failures).slice(0, 500)}`);
    return {
      ...cost,
      fetchMs: result.timings.fetchMs,
      indexMs: result.timings.indexMs,
      searchableMs:
        cost.wallMs - result.durationMs + result.timings.fetchMs + result.timings.indexMs,
      stored: result.certificates.reduce((sum, { stored }) => sum + stored, 0),
      ended: result.mailboxes.reduce((sum, { ended }) => sum + ended, 0),
      requests: result.requests,
    };
  };
  const plain = invoke('sync', '--config', config, '--json');
  const asUnit = { ...plain, env: MALLOC_SETTINGS };
  return {
    program,
    data,
    forget() {
      work.fresh('mailkeep');
    },
    sync: (cores) => sync(cores === undefined ? asUnit : confined(asUnit, cores)),
    syncFromShell: () => sync(plain),
    rebuild: () => rebuildOnce(work, program, data, nodeArgs),
    newest: (query) => invoke('search', '--data', data, '--json', '--limit', '20', query),
  };
}

/** The same program on the first cores of the machine (taskset(1)). */
function confined({ command, args, ...rest }: Invocation, cores: number): Invocation {
  return { ...rest, command: 'taskset', args: ['--cpu-list', `0-${cores - 1}`, command, ...args] };
}
