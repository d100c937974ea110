import { parseArgs } from 'node:util';

/** What a run of the reliability script does. */
export interface ReliabilityOptions {
  readonly messages: number;
  /** How often each command runs on each Node.js. */
  readonly runs: number;
  /** How often the small export runs on each Node.js; it syncs hundreds of files, and takes longest on a busy disk. */
  readonly exports: number;
  /** How often the complete verification and the complete export run on each Node.js. */
  readonly full: number;
  /** The Node.js binaries to run the program with. */
  readonly nodes: readonly string[];
  /** The built command line. */
  readonly program: string | undefined;
  /** A folder to keep, so that an interrupted run can continue; undefined for a temporary one. */
  readonly work: string | undefined;
}

export const USAGE = `node --import tsx test/nodes/reliability.ts [options]
  --messages N    messages in the archive (50000)
  --runs N        runs of each command on each Node.js (200)
  --exports N     runs of the small export (as many as --runs)
  --full N        runs of a complete verification and a complete export on each Node.js (5)
  --node PATH     a Node.js binary to run the program with; may be given several times (this one)
  --program FILE  the built command line (dist/mailkeep.cjs of this clone)
  --work DIR      keep archive and results here; the same command later continues an interrupted run
With MAILKEEP_CORPUS=DIR the messages are made from the real mail in DIR.`;

/**
 * Reads the command line of the reliability script.
 *
 * @throws TypeError for an unknown option, RangeError for a number that is none
 */
export function parseOptions(args: readonly string[]): ReliabilityOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      messages: { type: 'string', default: '50000' },
      runs: { type: 'string', default: '200' },
      exports: { type: 'string' },
      full: { type: 'string', default: '5' },
      node: { type: 'string', multiple: true, default: [process.execPath] },
      program: { type: 'string' },
      work: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  return {
    messages: wholeNumber('messages', values.messages, 100),
    runs: wholeNumber('runs', values.runs, 0),
    exports: wholeNumber('exports', values.exports ?? values.runs, 0),
    full: wholeNumber('full', values.full, 0),
    nodes: values.node,
    program: values.program,
    work: values.work,
  };
}

function wholeNumber(name: string, text: string, least: number): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < least)
    throw new RangeError(`--${name} must be a whole number of at least ${least}, not "${text}"`);
  return value;
}
