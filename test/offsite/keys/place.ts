import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { openLogWriter } from '../../../src/archive/log-writer.ts';
import { Positions } from '../../archive/positions.ts';
import { writeBatches } from '../../archive/sample-log.ts';
import { jsonLines } from '../../cli/child.ts';
import { ran } from '../../cli/surface.ts';

/** An archive with some mail, and a folder in which it can begin a copy. */
export interface KeysPlace {
  readonly work: string;
  readonly data: string;
  readonly target: string;
  /** Runs a command on the archive and the target with `--json`. */
  readonly run: (
    command: string,
    more?: readonly string[],
    env?: Readonly<Record<string, string>>,
  ) => Promise<{ code: number; lines: Record<string, unknown>[]; stderr: string }>;
  /** The exit code of bringing the copy back with a key. */
  readonly opensWith: (options: readonly string[]) => Promise<number>;
  readonly more: (batches: number) => Promise<void>;
  readonly close: () => void;
}

export async function keysPlace(): Promise<KeysPlace> {
  const work = mkdtempSync(path.join(tmpdir(), 'copy-keys-'));
  const [data, target] = [path.join(work, 'archive'), path.join(work, 'target')];
  mkdirSync(target);
  const known = new Positions();
  const more = async (batches: number) => {
    const writer = await openLogWriter({ dir: data, now: () => 1_770_000_000_000 });
    await writeBatches(writer, known, batches, known.batches.length * 10 + 1);
    await writer.close();
  };
  await more(2);
  return {
    ...{ work, data, target, more },
    run: async (command, options = [], env = {}) => {
      const line = [...command.split(' '), '--to', target, '--data', data, ...options, '--json'];
      const { code, stdout, stderr } = await ran(line, { cwd: work, env, now: Date.now });
      return { code, stderr, lines: jsonLines(stdout) as Record<string, unknown>[] };
    },
    opensWith: async (options) => {
      const to = path.join(work, 'back');
      const line = ['copy', '--from', target, '--to', to, ...options, '--json'];
      const { code } = await ran(line, { cwd: work, env: { HOME: work } });
      rmSync(to, { recursive: true, force: true });
      return code;
    },
    close: () => rmSync(work, { recursive: true }),
  };
}
