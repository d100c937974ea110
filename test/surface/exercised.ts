import { Readable } from 'node:stream';
import type { ProcessStreams } from '../../src/cli/run.ts';
import { ran } from '../cli/surface.ts';
import { Shapes } from './shapes.ts';

export interface Step {
  /** The command's words: `webhooks list`. */
  readonly of: string;
  /** What sets this JSON apart from that of the same command otherwise, such as `--count`. */
  readonly as?: string;
  readonly args?: readonly string[];
  /** The exit code; 0 if not given. */
  readonly code?: number;
  readonly stdin?: string;
  readonly cwd?: string;
  readonly signal?: AbortSignal;
}

/** Paths whose keys are data, though they look like names: operations, and facts of errors by their codes. */
const MAPS = ['requestsByOperation', 'failures[].facts'];
/** Values of any type, a JSON Schema, and what `control.json` records. */
const OPAQUE = ['fields[].value', 'bodySchema', 'daemon'];

/** Commands that ran with `--json`, and the shapes of what they printed. */
export class Exercised {
  readonly #shapes = new Map<string, Shapes>();
  readonly #commands = new Set<string>();

  /** Commands that printed JSON, by their words. */
  get commands(): ReadonlySet<string> {
    return this.#commands;
  }

  /** Runs a command with `--json` in this process, and returns the values it printed. */
  async run(step: Step): Promise<unknown[]> {
    const { of, as = '', args = [], code = 0, stdin = '', cwd = '/', signal } = step;
    const line = [...of.split(' '), ...as.split(' ').filter((word) => word !== ''), ...args];
    const given: Partial<ProcessStreams> = {
      cwd,
      now: Date.now,
      stdin: () => Readable.from([stdin]),
      ...(signal === undefined ? {} : { signal }),
    };
    const ended = await ran([...line, '--json'], given);
    if (ended.code !== code) {
      throw new Error(`${line.join(' ')} ended with ${ended.code}: ${ended.stdout}${ended.stderr}`);
    }
    const values = jsonOf(ended.stdout);
    this.note(of, as, values);
    return values;
  }

  /** Notes JSON that a command printed otherwise. */
  note(of: string, as: string, values: readonly unknown[]): void {
    if (values.length > 0) this.#commands.add(of);
    this.#add(as === '' ? of : `${of} ${as}`, values);
  }

  /** Notes the objects that a command writes to standard error: an error, warnings or a log. */
  async errors(label: string, args: readonly string[]): Promise<void> {
    const { stderr } = await ran([...args, '--json'], { now: Date.now });
    const values = jsonOf(stderr);
    if (values.length === 0) throw new Error(`${args.join(' ')} wrote nothing to standard error`);
    this.#add(`(standard error) ${label}`, values);
  }

  entries(): Record<string, Record<string, string>> {
    return Object.fromEntries(
      [...this.#shapes].map(([label, shapes]) => [label, shapes.entries()]),
    );
  }

  #add(label: string, values: readonly unknown[]): void {
    const shapes = this.#shapes.get(label) ?? new Shapes(MAPS, OPAQUE);
    this.#shapes.set(label, shapes);
    for (const value of values) shapes.add(value);
  }
}

function jsonOf(text: string): unknown[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line): unknown => JSON.parse(line));
}
