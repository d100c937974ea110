import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { ReliableArchive } from './reliable-archive.ts';
import { abnormalEnd, digest, type Ended } from './run-command.ts';

/** One command line of the program, and what its answer must be. */
export interface Command {
  readonly name: string;
  /** The arguments of a run; the first run has number 0. */
  args(run: number): readonly string[];
  /** Returns what is wrong with an answer that ended normally, or undefined. */
  wrong(ended: Ended, args: readonly string[]): string | undefined;
  /** Removes what a run wrote. */
  clean(): void;
}

const syncSchema = z.looseObject({
  mailboxes: z.array(z.looseObject({ added: z.number(), ended: z.number() })).min(1),
  certificates: z.array(z.looseObject({ stored: z.number(), complete: z.boolean() })).min(1),
  failures: z.array(z.unknown()),
});
const verifySchema = z.looseObject({ ok: z.boolean(), findings: z.array(z.unknown()) });
const exportSchema = z.looseObject({
  places: z.number(),
  exported: z.number(),
  failures: z.array(z.unknown()),
  damaged: z.number(),
});

/** Five commands that run often. Answers that are read from the archive alone must not differ between runs. */
export function shortCommands(archive: ReliableArchive): readonly Command[] {
  const { facts, data } = archive;
  const same = unchangedAnswers();
  const nothing = (): void => {};
  const pick = (of: readonly string[], run: number): string => of[run % of.length] ?? '';
  return [
    {
      name: 'search',
      args: (run) => ['search', '--data', data, pick(facts.searches, run)],
      wrong: same,
      clean: nothing,
    },
    {
      name: 'list --limit 1000',
      args: () => ['list', '--data', data, '--limit', '1000'],
      wrong: same,
      clean: nothing,
    },
    {
      name: 'show',
      // Neighbours in the list resemble each other.
      args: (run) => ['show', '--data', data, pick(facts.ids, run * 37)],
      wrong: same,
      clean: nothing,
    },
    {
      name: 'sync, quiet',
      args: () => ['sync', '--config', archive.config, '--json', '--quiet'],
      wrong: ({ stdout }) => wrongSync(stdout, facts.messages),
      clean: nothing,
    },
    {
      name: 'verify --sample 1%',
      args: () => ['verify', '--data', data, '--sample', '1%', '--json', '--quiet'],
      wrong: ({ stdout }) => wrongVerification(stdout),
      clean: nothing,
    },
  ];
}

/** An export of about 500 messages, as single files. */
export function smallExport({ facts, data }: ReliableArchive, folder: string): Command {
  const query = ['--query', facts.exportQuery];
  return exportOf('export of a query', 'eml', facts.exported, join(folder, 'export'), data, query);
}

/** The two commands that read every byte. */
export function longCommands(archive: ReliableArchive, folder: string): readonly Command[] {
  const { facts, data } = archive;
  return [
    {
      name: 'verify, complete',
      args: () => ['verify', '--data', data, '--json', '--quiet'],
      wrong: ({ stdout }) => wrongVerification(stdout),
      clean: () => {},
    },
    exportOf('export, complete', 'mbox', facts.messages, join(folder, 'complete'), data, []),
  ];
}

/** Returns what is wrong with a run, or undefined: an abnormal end before a wrong answer. */
export function problemOf(
  command: Command,
  ended: Ended,
  args: readonly string[],
): string | undefined {
  return abnormalEnd(ended) ?? command.wrong(ended, args);
}

function exportOf(
  name: string,
  format: string,
  expected: number,
  to: string,
  data: string,
  query: readonly string[],
): Command {
  const base = ['export', '--data', data, '--to', to, '--format', format];
  return {
    name,
    args: () => [...base, ...query, '--json', '--quiet'],
    wrong({ stdout }) {
      const answer = exportSchema.safeParse(parsed(stdout));
      if (!answer.success) return `an unexpected answer: ${excerpt(stdout)}`;
      const { exported, places, damaged, failures } = answer.data;
      if (!existsSync(join(to, 'mailkeep-export.json'))) return 'there is no manifest';
      const complete = exported === expected && places === expected;
      return complete && damaged === 0 && failures.length === 0
        ? undefined
        : `exported ${exported} of ${places}, expected ${expected}: ${excerpt(stdout)}`;
    },
    clean: () => rmSync(to, { recursive: true, force: true }),
  };
}

function wrongSync(stdout: Buffer, messages: number): string | undefined {
  const answer = syncSchema.safeParse(parsed(stdout));
  if (!answer.success) return `an unexpected answer: ${excerpt(stdout)}`;
  const { mailboxes, certificates, failures } = answer.data;
  const quiet = mailboxes.every(({ added, ended }) => added === 0 && ended === 0);
  const stored = certificates.reduce((sum, certificate) => sum + certificate.stored, 0);
  const complete = certificates.every((certificate) => certificate.complete);
  return quiet && complete && failures.length === 0 && stored === messages
    ? undefined
    : `not quiet, or not ${messages} messages: ${excerpt(stdout)}`;
}

function wrongVerification(stdout: Buffer): string | undefined {
  const answer = verifySchema.safeParse(parsed(stdout));
  if (!answer.success) return `an unexpected answer: ${excerpt(stdout)}`;
  const { ok, findings } = answer.data;
  return ok && findings.length === 0 ? undefined : `damage: ${excerpt(stdout)}`;
}

/** Returns a check that compares an answer with the first one to the same arguments, whichever Node.js gave it. */
function unchangedAnswers(): Command['wrong'] {
  const first = new Map<string, string>();
  return ({ stdout }, args) => {
    if (stdout.length === 0) return 'no answer';
    const key = args.join('\0');
    const found = digest(stdout);
    const expected = first.get(key) ?? found;
    first.set(key, expected);
    return found === expected ? undefined : 'another answer than the first run gave';
  };
}

/** Returns undefined for text that is not JSON; the schema that reads it then fails. */
function parsed(stdout: Buffer): unknown {
  try {
    return JSON.parse(stdout.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function excerpt(stdout: Buffer): string {
  return stdout.toString('utf8').slice(0, 300);
}
