import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** What one run of a program cost. */
export interface ProcessCost {
  readonly wallMs: number;
  /** Highest resident memory of the process, its threads included; undefined where /proc does not show it. */
  readonly peakBytes: number | undefined;
  /** Processor time of all its threads, to 10 ms: says what a wall time on a busy machine does not. */
  readonly cpuMs: number | undefined;
  /** The same by the names of its threads, to 10 ms; those of one name together. Empty where /proc does not show it. */
  readonly threadMs: Readonly<Record<string, number>>;
  readonly stdout: string;
}

/** The highest of several figures, some of which may be missing. */
export class Peak {
  bytes: number | undefined;

  note(bytes: number | undefined): void {
    if (bytes !== undefined) this.bytes = Math.max(this.bytes ?? 0, bytes);
  }
}

export interface Invocation {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Exit codes that count as done; 0 alone by default. */
  readonly accepted?: readonly number[];
}

const SAMPLE_MS = 10;
/** Threads are many: looking at each costs the machine more than looking at the process. */
const THREADS_EVERY = 10;

/** A program ended otherwise than it should; the report shows the end of what it said. */
export class ProgramFailed extends Error {
  constructor(invocation: Invocation, ending: string, stderr: string) {
    const said = stderr.trim().split('\n').slice(-3).join(' | ');
    super(`${invocation.command} ${invocation.args.join(' ')}: ${ending}; ${said}`);
    this.name = 'ProgramFailed';
  }
}

/**
 * Runs a program to its end. The kernel keeps the high-water mark of memory (VmHWM), so looking every 10 ms
 * misses only what is new in the last moment.
 *
 * @param adopt is given the process, to end it should this one be ended
 */
export async function runProgram(
  invocation: Invocation,
  adopt: (child: ChildProcess) => void,
): Promise<ProcessCost> {
  const started = process.hrtime.bigint();
  const child = spawn(invocation.command, invocation.args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...invocation.env },
  });
  adopt(child);
  let peakBytes: number | undefined;
  let cpuMs: number | undefined;
  const threads = new ThreadTimes();
  let looks = 0;
  const look = (): void => {
    if (child.pid === undefined) return;
    peakBytes = peakOf(child.pid) ?? peakBytes;
    cpuMs = cpuOf(`${child.pid}`) ?? cpuMs;
    if (looks++ % THREADS_EVERY === 0) threads.look(child.pid);
  };
  const timer = setInterval(look, SAMPLE_MS);
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  try {
    const ending = await new Promise<string | undefined>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, signal) => {
        const fine = code !== null && (invocation.accepted ?? [0]).includes(code);
        resolve(fine ? undefined : `ended with ${code ?? signal}`);
      });
    });
    const wallMs = Number(process.hrtime.bigint() - started) / 1e6;
    if (ending !== undefined)
      throw new ProgramFailed(invocation, ending, Buffer.concat(stderr).toString());
    return {
      wallMs,
      peakBytes,
      cpuMs,
      threadMs: threads.byName(),
      stdout: Buffer.concat(stdout).toString(),
    };
  } finally {
    clearInterval(timer);
  }
}

/** Wall time of a short program, milliseconds. Synchronous, so that nothing of this process is in the figure. */
export function timeProgram(invocation: Invocation): { wallMs: number; stdout: string } {
  const started = process.hrtime.bigint();
  const result = spawnSync(invocation.command, invocation.args, {
    env: { ...process.env, ...invocation.env },
    maxBuffer: 1 << 30,
  });
  const wallMs = Number(process.hrtime.bigint() - started) / 1e6;
  if (result.error !== undefined) throw result.error;
  if (!(invocation.accepted ?? [0]).includes(result.status ?? -1))
    throw new ProgramFailed(invocation, `ended with ${result.status}`, result.stderr.toString());
  return { wallMs, stdout: result.stdout.toString() };
}

/** VmHWM of a process in bytes; undefined once it is gone, and where there is no /proc. */
function peakOf(pid: number): number | undefined {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readOf(`${pid}/status`) ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

/** Processor times of the threads of a process; what a thread did since it was last looked at is lost when it ends. */
class ThreadTimes {
  readonly #threads = new Map<string, { readonly name: string; readonly ms: number }>();

  look(pid: number): void {
    for (const id of threadsOf(pid)) {
      const thread = `${pid}/task/${id}`;
      const name = id === `${pid}` ? 'main' : readOf(`${thread}/comm`)?.trim();
      const ms = cpuOf(thread);
      if (name !== undefined && ms !== undefined) this.#threads.set(id, { name, ms });
    }
  }

  byName(): Record<string, number> {
    const times: Record<string, number> = {};
    for (const { name, ms } of this.#threads.values()) times[name] = (times[name] ?? 0) + ms;
    return times;
  }
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause) return [];
    throw cause;
  }
}

/**
 * Fields 14 and 15 of the `stat` of a process or a thread (proc(5)), in ticks of 10 ms; the name in field 2 may hold
 * anything.
 */
function cpuOf(processOrThread: string): number | undefined {
  const fields = readOf(`${processOrThread}/stat`)
    ?.replace(/^.*\) /s, '')
    .split(' ');
  const ticks = fields === undefined ? Number.NaN : Number(fields[11]) + Number(fields[12]);
  return Number.isNaN(ticks) || ticks === 0 ? undefined : ticks * 10;
}

function readOf(path: string): string | undefined {
  try {
    return readFileSync(`/proc/${path}`, 'latin1');
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause) return undefined;
    throw cause;
  }
}
